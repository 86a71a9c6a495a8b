"""Accelerators: memory, rates, links, and which builds of torch still know them."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from types import MappingProxyType

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")


@dataclass(frozen=True, kw_only=True, slots=True)
class Accelerator:
    """One kind of card. Rates are dense (no sparsity) and in 1e12 operations per second."""

    name: str
    also: tuple[str, ...]  # other names people write
    architecture: str
    capability: str  # CUDA compute capability
    memory_gb: float  # as sold; the driver leaves about 1 % less
    memory_gb_s: float
    peak: Mapping[str, float]  # by precision; a precision that is missing has no matrix units
    sustained: float  # share of the peak that a large matrix product reaches
    link: str  # "NVLink", or "" where cards meet over PCIe
    link_gb_s: float  # one direction, between two cards of a host
    source: str

    def achievable(self, precision: str) -> float:
        """Large products, in 1e12 operations per second; a missing precision runs as fp32."""
        return self.peak.get(precision, self.peak["fp32"]) * self.sustained


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchBuild:
    """The cards that one flavour of the torch wheels has kernels for."""

    build: str
    lowest: str
    highest: str
    first_torch: str
    last_torch: str  # "" while it is still made
    source: str


def _rows(file: str) -> list[dict[str, str]]:
    text = files("argosy.catalog").joinpath(file).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _accelerator(row: dict[str, str]) -> Accelerator:
    return Accelerator(
        name=row["name"],
        also=tuple(row["also"].split(";")) if row["also"] else (),
        architecture=row["architecture"],
        capability=row["capability"],
        memory_gb=float(row["memory_gb"]),
        memory_gb_s=float(row["memory_gb_s"]),
        peak=MappingProxyType({name: float(row[name]) for name in PRECISIONS if row[name]}),
        sustained=float(row["sustained"]),
        link=row["link"],
        link_gb_s=float(row["link_gb_s"] or row["pcie_gb_s"]),
        source=row["source"],
    )


ACCELERATORS: Mapping[str, Accelerator] = MappingProxyType(
    {row["name"]: _accelerator(row) for row in _rows("accelerators.csv")}
)
TORCH_BUILDS: tuple[TorchBuild, ...] = tuple(TorchBuild(**row) for row in _rows("torch_builds.csv"))


@cache
def accelerator(text: str, memory_gb: float | None = None) -> Accelerator:
    """The card that `text` means; of several sizes the one nearest to `memory_gb`.

    Raises ValueError, worded for the person who wrote it.
    """
    wanted = _plain(text)
    found = [card for card in ACCELERATORS.values() if wanted in _names(card)]
    if not found:
        known = {name: card.name for card in ACCELERATORS.values() for name in _names(card)}
        close = get_close_matches(wanted, known, n=1, cutoff=0.7)
        advice = f"did you mean {known[close[0]]!r}?" if close else "argosy catalog show lists them"
        raise ValueError(f"expected an accelerator, got {text!r}: {advice}")
    if memory_gb is None:
        return found[0]
    return min(
        (card for card in ACCELERATORS.values() if _model(card) == _model(found[0])),
        key=lambda card: abs(card.memory_gb - memory_gb),
    )


def builds_for(card: Accelerator) -> tuple[TorchBuild, ...]:
    """The builds of torch with kernels for this card, the oldest first."""
    return tuple(
        build
        for build in TORCH_BUILDS
        if _version(build.lowest) <= _version(card.capability) <= _version(build.highest)
    )


def _model(card: Accelerator) -> str:
    """The name without the size of the memory."""
    return card.name.removesuffix(f"-{card.memory_gb:.0f}GB")


def _names(card: Accelerator) -> set[str]:
    return {_plain(name) for name in (card.name, *card.also)}


def _plain(name: str) -> str:
    return "".join(letter for letter in name.upper() if letter.isalnum())


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
