"""The causes of a step put in order: what runs under what, over layers, micro-batches and stages.

The host starts kernels while the card computes, and gathers weights while it does, so a layer takes
whichever is longer. "The longer" is their 3-norm: within 26 % of the larger, and smooth where they
are equal. A pipeline in 1F1B order takes accumulation x busiest stage + all other stages once
(divided by the virtual pieces where those interleave).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argosy.core.network import Network
from argosy.planner.cost.calibration import Vector
from argosy.planner.cost.cluster import Cluster
from argosy.planner.cost.factors import NAMES, Factors, values
from argosy.planner.cost.layout import Layout, Recompute
from argosy.planner.cost.step import CAUSES, coefficients

ZERO: Vector = np.zeros(())


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """Seconds of one step; `total` is not their sum where one hides under another."""

    total: float
    compute: float  # the busiest rank's kernels
    exchange: float  # tensor, expert and context parallelism
    waiting: float  # for the host's launches and for sharded weights
    bubble: float  # pipeline ranks that wait for each other
    gradients: float  # data-parallel traffic that nothing hides
    update: float  # optimizer and what a step costs at any size


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """Many setups at once: what their causes cost, and how their layouts order them."""

    costs: Vector  # setups x causes x factors
    layers: Vector  # of the whole network
    longest: Vector  # layers of the fullest stage before the last; 0 where there is none
    last: Vector
    stages: Vector
    virtual: Vector
    accumulation: Vector
    again: Vector  # forward passes that recomputation adds
    overlap: Vector  # 1 where gradients travel under the backward pass

    def seconds(self, factors: Vector) -> Vector:
        """Of one optimizer step of each setup."""
        return self.parts(factors)["total"]

    def parts(self, factors: Vector) -> dict[str, Vector]:
        """The same, taken apart as in StepTime."""
        of = dict(zip(CAUSES, np.moveaxis(self.costs @ factors, 1, 0), strict=True))
        forward = longer(of["forward_kernels"] + of["exchange"], of["forward_host"])
        backward = longer(of["backward_kernels"] + of["exchange"], of["backward_host"])
        layer = longer((1 + self.again) * forward + backward, of["weights"])
        each = of["hop"] + of["micro"]
        first = self.longest * layer + each
        final = self.last * layer + each + of["head"]
        busiest = np.where(np.greater(self.longest, ZERO), np.maximum(first, final), final)
        everything = self.layers * layer + self.stages * each + of["head"]
        steady = self.accumulation * busiest
        bubble = (everything - busiest) / self.virtual * of["bubble"]
        under = self.overlap * np.maximum(self.longest, self.last) * backward
        gradients = longer(of["gradients"], under) - under
        count = self.accumulation * np.maximum(self.longest, self.last)
        kernels = (1 + self.again) * of["forward_kernels"] + of["backward_kernels"]
        compute = count * kernels + self.accumulation * of["head"]
        exchange = count * (2 + self.again) * of["exchange"]
        return {
            "total": steady + bubble + gradients + of["update"],
            "compute": compute,
            "exchange": exchange,
            "waiting": np.maximum(steady - compute - exchange, ZERO),
            "bubble": bubble,
            "gradients": gradients,
            "update": of["update"],
        }


def longer(some: Vector, others: Vector) -> Vector:
    """About the larger of both: their 3-norm."""
    norm: Vector = np.cbrt(some**3 + others**3)
    return norm


def steps(setups: Sequence[tuple[Network, Layout, Cluster]]) -> Steps:
    """Prepares setups, so that factors can be tried on all of them quickly."""
    splits = [layout.split(network.layers) for network, layout, _ in setups]

    def column(numbers: Sequence[float]) -> Vector:
        return np.array(numbers, dtype=np.float64)

    return Steps(
        costs=np.array([coefficients(*one) for one in setups], dtype=np.float64).reshape(
            len(setups), len(CAUSES), len(NAMES)
        ),
        layers=column([sum(split) for split in splits]),
        longest=column([max(split[:-1], default=0) for split in splits]),
        last=column([split[-1] for split in splits]),
        stages=column([len(split) for split in splits]),
        virtual=column([layout.virtual for _, layout, _ in setups]),
        accumulation=column([layout.accumulation for _, layout, _ in setups]),
        again=column([layout.recompute is Recompute.FULL for _, layout, _ in setups]),
        overlap=column([layout.overlap for _, layout, _ in setups]),
    )


def step_time(network: Network, layout: Layout, cluster: Cluster, factors: Factors) -> StepTime:
    """Of one setup, taken apart."""
    parts = steps([(network, layout, cluster)]).parts(np.array(values(factors)))
    return StepTime(**{name: float(found[0]) for name, found in parts.items()})
