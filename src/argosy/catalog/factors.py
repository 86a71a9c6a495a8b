"""What machines' factors usually are: the prior of the cost model, in logs."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True, slots=True)
class UsualFactor:
    """The logarithm of a factor over many machines; what scatters has a mean of 0."""

    mean: float
    spread: float


def _read() -> dict[str, dict[str, UsualFactor]]:
    text = files("argosy.catalog").joinpath("factors.csv").read_text(encoding="utf-8")
    found: dict[str, dict[str, UsualFactor]] = {}
    for row in csv.DictReader(text.splitlines()):
        one = UsualFactor(mean=float(row["mean"]), spread=float(row["spread"]))
        found.setdefault(row["figure"], {})[row["factor"]] = one
    return found


# figure ("time", "memory") -> factor -> what it usually is
USUAL_FACTORS: Mapping[str, Mapping[str, UsualFactor]] = MappingProxyType(_read())
