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


UsualFactors = Mapping[str, Mapping[str, UsualFactor]]


def read_factors(text: str) -> UsualFactors:
    """A table of factors: figure ("time", "memory") -> factor -> what it usually is."""
    found: dict[str, dict[str, UsualFactor]] = {}
    for row in csv.DictReader(text.splitlines()):
        one = UsualFactor(mean=float(row["mean"]), spread=float(row["spread"]))
        found.setdefault(row["figure"], {})[row["factor"]] = one
    return MappingProxyType(found)


USUAL_FACTORS: UsualFactors = read_factors(
    files("argosy.catalog").joinpath("factors.csv").read_text(encoding="utf-8")
)
