"""`argosy catalog`: the accelerators and offers that plans are made from, and one's own among them."""

import json
import os
from dataclasses import asdict
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from argosy.core.errors import DiskError, SpecError

catalog = typer.Typer(no_args_is_help=True, help="Accelerators and offers that plans know of.")

Own = Annotated[
    Path | None, typer.Option("--own", help="Your offers. Else ~/.config/argosy/offers.csv.")
]


class Kind(StrEnum):
    """What there is to show."""

    ACCELERATORS = "accelerators"
    OFFERS = "offers"


@catalog.command()
def show(
    kind: Annotated[
        Kind, typer.Argument(metavar="accelerators|offers", help="Which table.")
    ] = Kind.ACCELERATORS,
    gpu: Annotated[str, typer.Option(help="Only this accelerator.")] = "",
    region: Annotated[str, typer.Option(help="Only regions that begin so.")] = "",
    own: Own = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show what is known of accelerators, or what hosts cost and of which day the price is."""
    rows, said = _cards(gpu) if kind is Kind.ACCELERATORS else _offers(gpu, region, own)
    if as_json:
        print(json.dumps({kind.value: rows, "note": said}, indent=2))
        return
    widths = {name: max(len(name), *(len(_cell(row[name])) for row in rows)) for name in rows[0]}
    print("  ".join(f"{name:{width}}" for name, width in widths.items()).rstrip())
    for row in rows:
        print("  ".join(f"{_cell(row[name]):{widths[name]}}" for name in widths).rstrip())
    if said:
        print(f"\n{said}")


@catalog.command()
def update(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Offers as CSV, with a head line.")],
    own: Own = None,
) -> None:
    """Put your own hosts or a quote into the table, in place of older ones of the same name."""
    from argosy.catalog.offers import as_text, joined, read_offers, staleness

    try:
        new = read_offers(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"cannot be read: {error}", where=str(file)) from error
    table = own or _own()
    everything = joined(_read(table), new)
    part = table.with_name(table.name + ".part")
    try:
        table.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(as_text(everything), encoding="utf-8")
        part.replace(table)
    except OSError as error:
        raise DiskError(f"cannot be written: {error}", where=str(table)) from error
    print(f"{len(new)} offers read, {len(everything)} of your own in {table}.")
    if old := staleness(new, _today()):
        print(old)


def _cards(gpu: str) -> tuple[list[dict[str, Any]], str]:
    from argosy.catalog.accelerators import ACCELERATORS, builds_for

    rows = [
        {
            "name": card.name,
            "architecture": card.architecture,
            "capability": card.capability,
            "memory_gb": card.memory_gb,
            "memory_gb_s": card.memory_gb_s,
            "fp16_tflops": card.peak.get("fp16"),
            "bf16_tflops": card.peak.get("bf16"),
            "fp8_tflops": card.peak.get("fp8"),
            "sustained": card.sustained,
            "link": f"{card.link or 'PCIe'} {card.link_gb_s:g} GB/s",
            "torch": " ".join(build.build for build in builds_for(card)) or "none",
        }
        for card in ACCELERATORS.values()
        if not gpu or card.name == _card(gpu)
    ]
    return rows, "Rates are dense, in TFLOP/s; sustained is the share that large products reach."


def _offers(gpu: str, region: str, own: Path | None) -> tuple[list[dict[str, Any]], str]:
    from argosy.catalog.offers import OFFERS, joined, staleness

    found = [
        offer
        for offer in joined(OFFERS, _read(own or _own()))
        if (not gpu or offer.accelerator == _card(gpu)) and offer.region.startswith(region)
    ]
    if not found:
        raise SpecError(
            "no offer is like that", where="catalog", hint="leave out --gpu or --region"
        )
    rows = [
        asdict(offer) | {"zones": " ".join(offer.zones), "as_of": str(offer.as_of)}
        for offer in found
    ]
    return rows, staleness(found, _today())


def _card(gpu: str) -> str:
    from argosy.catalog.accelerators import accelerator

    try:
        return accelerator(gpu).name
    except ValueError as error:
        raise SpecError(str(error), where="--gpu") from error


def _read(table: Path) -> tuple[Any, ...]:
    from argosy.catalog.offers import read_offers

    if not table.exists():
        return ()
    return read_offers(table.read_text(encoding="utf-8"), str(table))


def _own() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "argosy" / "offers.csv"


def _today() -> date:
    return datetime.now(UTC).date()


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)
