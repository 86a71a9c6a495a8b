"""Seconds and memory of setups, calibrated by what was measured, with how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import exp, log, log2
from zlib import crc32

import numpy as np

from argosy.catalog.factors import USUAL_FACTORS, UsualFactors
from argosy.core.network import Network
from argosy.planner.cost.calibration import (
    Bound,
    Calibrated,
    Forecast,
    Points,
    Usual,
    Vector,
    calibrate,
)
from argosy.planner.cost.cluster import Cluster
from argosy.planner.cost.factors import Factors
from argosy.planner.cost.layout import Layout, Recompute
from argosy.planner.cost.memory import MemoryFactors, peak_memory
from argosy.planner.cost.schedule import steps

WIDTH = 23  # features
GATE = 2.0  # standard deviations above the forecast that must still fit


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """A network, cut by a layout, over the cards of a cluster."""

    network: Network
    layout: Layout
    cluster: Cluster
    whole_card: bool = True  # memory as the driver counts it, not as the allocator does
    last_stage: bool = False  # memory of the last pipeline stage, not of the fullest
    place: str = ""  # where it runs: what is not explained is more alike at one place


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """A figure with its uncertainty: `middle` times or divided by exp(`doubt`), 2 times in 3."""

    middle: float
    doubt: float

    def upper(self, deviations: float = GATE) -> float:
        return self.middle * exp(deviations * self.doubt)


def usual(figure: str, factors: UsualFactors = USUAL_FACTORS) -> Usual:
    """The prior for "time" or "memory" in these factors, the catalogue's where none are given."""
    known = factors[figure]
    kind = Factors if figure == "time" else MemoryFactors
    names = [field.name for field in fields(kind)]
    return Usual(
        mean=np.array([known[name].mean for name in names]),
        spread=np.array([known[name].spread for name in names]),
        noise=known["noise"].spread,
        residual=known["residual"].spread,
        reach=known["reach"].spread,
        place=known["place"].spread,
    )


def time_factors(logs: Vector) -> Factors:
    names = [field.name for field in fields(Factors)]
    return Factors(**dict(zip(names, np.exp(logs).tolist(), strict=True)))


def memory_factors(logs: Vector) -> MemoryFactors:
    names = [field.name for field in fields(MemoryFactors)]
    return MemoryFactors(**dict(zip(names, np.exp(logs).tolist(), strict=True)))


def seconds_of(setups: Sequence[Setup]) -> Forecast:
    """Log seconds of each setup as a function of the log-factors."""
    prepared = steps([(one.network, one.layout, one.cluster) for one in setups])

    def forecast(logs: Vector) -> Vector:
        found: Vector = np.log(prepared.seconds(np.exp(logs)))
        return found

    return forecast


def memory_of(setups: Sequence[Setup]) -> Forecast:
    """Log GiB of each setup as a function of the log-factors."""

    def forecast(logs: Vector) -> Vector:
        factors = memory_factors(logs)
        return np.array([log(_peak(one, factors)) for one in setups])

    return forecast


def _peak(one: Setup, factors: MemoryFactors) -> float:
    return peak_memory(
        one.network,
        one.layout,
        factors,
        whole_card=one.whole_card,
        last_stage=one.last_stage,
    ).total


def calibrate_time(
    setups: Sequence[Setup], seconds: Sequence[float], prior: Usual | None = None
) -> Calibrated:
    return calibrate(
        prior or usual("time"),
        seconds_of(setups),
        np.array(seconds, dtype=np.float64),
        points(setups),
    )


def calibrate_memory(
    setups: Sequence[Setup],
    gib: Sequence[float],
    bounds: Sequence[Bound] = (),
    prior: Usual | None = None,
) -> Calibrated:
    return calibrate(
        prior or usual("memory"),
        memory_of(setups),
        np.array(gib, dtype=np.float64),
        points(setups),
        tuple(bounds),
    )


def time_ranges(calibrated: Calibrated, setups: Sequence[Setup]) -> list[Range]:
    return _ranges(*calibrated.predict(seconds_of(setups), points(setups)))


def memory_ranges(calibrated: Calibrated, setups: Sequence[Setup]) -> list[Range]:
    return _ranges(*calibrated.predict(memory_of(setups), points(setups)))


def _ranges(middle: Vector, doubt: Vector) -> list[Range]:
    return [
        Range(middle=exp(one), doubt=other)
        for one, other in zip(middle.tolist(), doubt.tolist(), strict=True)
    ]


def points(setups: Sequence[Setup]) -> Points:
    """What makes setups alike: a doubling of a size is 1 apart, another method 2 or 3."""
    rows = [_features(one.network, one.layout) for one in setups]
    return Points(
        features=np.array(rows, dtype=np.float64).reshape(len(rows), WIDTH),
        places=np.array([crc32(one.place.encode()) for one in setups], dtype=np.int64),
    )


def _features(network: Network, layout: Layout) -> list[float]:
    sizes = (
        layout.tensor,
        layout.pipeline,
        layout.data,
        layout.micro_batch,
        layout.accumulation,
        layout.sequence,
        network.hidden,
        network.layers,
        layout.context,
        layout.expert,
        layout.virtual,
    )
    recompute = {Recompute.NONE: 0.0, Recompute.SELECTIVE: 1.5, Recompute.FULL: 3.0}
    return [
        *(log2(size) for size in sizes),
        2.0 * layout.shard,
        recompute[layout.recompute],
        2.0 * layout.flash,
        2.0 * layout.sequence_parallel,
        2.0 * layout.overlap,
        3.0 * (layout.trainable < 0.5),
        3.0 * (layout.base_bits > 0),
        2.0 * (layout.precision == "fp8"),
        3.0 * (network.experts > 0),
        2.0 * network.gated,
        2.0 * network.causal,
        2.0 * (network.cross_layers > 0),
    ]
