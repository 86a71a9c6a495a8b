"""Memory of the fullest rank at its peak, part by part, in GiB.

Bytes per parameter are those of mixed precision with Adam (Rajbhandari and others, 2020); bytes
per token and layer those of Korthikanti and others, 2022, with the widths of the real layer in
place of 4 hidden.
"""

from dataclasses import dataclass

from argosy.core.network import Network
from argosy.planner.cost.layout import Layout, Recompute, Shard

GIB = 2.0**30
ALLOCATED_GIB = 0.3  # workspaces and buckets, as the allocator counts them
CONTEXT_GIB = 1.2  # what driver and collectives hold beside, where the whole card is looked at


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFactors:
    """Each multiplies one part; 1 is the formula's own guess."""

    states: float = 1.0  # weights and optimizer
    gradients: float = 1.0  # with their buckets and copies
    activations: float = 1.0
    logits: float = 1.0
    fixed: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """GiB on the fullest rank."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    fixed: float  # context, workspaces, communication buffers, fragmentation

    @property
    def total(self) -> float:
        states = self.weights + self.gradients + self.optimizer
        return states + self.activations + self.logits + self.fixed


def peak_memory(
    network: Network,
    layout: Layout,
    factors: MemoryFactors,
    *,
    whole_card: bool = True,
    last_stage: bool = False,
) -> Memory:
    """The stage that needs most, or the last; `whole_card` counts the driver's context too."""
    counts = layout.split(network.layers)
    stages = [
        _stage(network, layout, factors, stage, count, whole_card=whole_card)
        for stage, count in enumerate(counts)
    ]
    return stages[-1] if last_stage else max(stages, key=lambda memory: memory.total)


def _stage(
    network: Network,
    layout: Layout,
    factors: MemoryFactors,
    stage: int,
    count: int,
    *,
    whole_card: bool,
) -> Memory:
    weights, gradients, optimizer = _states(network, layout, stage, count)
    last = stage == layout.pipeline - 1
    scale = factors.states / GIB
    fixed = ALLOCATED_GIB + (CONTEXT_GIB if whole_card else 0.0)
    return Memory(
        weights=weights * scale,
        gradients=factors.gradients * gradients / GIB,
        optimizer=optimizer * scale,
        activations=factors.activations * _activations(network, layout, stage, count) / GIB,
        logits=factors.logits * _logits(network, layout) / GIB if last else 0.0,
        fixed=factors.fixed * fixed,
    )


def _states(network: Network, layout: Layout, stage: int, count: int) -> tuple[float, float, float]:
    """Bytes of weights, gradients and optimizer.

    A fully sharded rank holds its part, and the working weights of two layers at a time.
    """
    layer: float = network.layer_parameters
    if network.experts:
        spread = network.experts * network.mlp_parameters
        layer += spread / layout.expert - spread
    ends: float = network.embedding_parameters if stage == 0 else 0
    if stage == layout.pipeline - 1:
        ends += network.head_parameters if layout.pipeline == 1 else network.vocab * network.hidden
    layer, ends = layer / layout.tensor, ends / layout.tensor
    held, learning = layer * count + ends, layout.trainable * (layer * count + ends)
    ranks = layout.data * layout.context
    by = [ranks if layout.shard >= level else 1 for level in (3, 2, 1)]
    working = 0.0
    if layout.shard is Shard.WEIGHTS:
        working = layout.width * (2 * layer + ends)
    weights = (
        (layer * count * layout.base_bits / 8 + ends * layout.width)
        if layout.base_bits
        else layout.width * held
    )
    master = 4.0 if layout.mixed else 0.0
    gradient = layout.gradient_bytes or layout.width
    optimizer = 0.0 if layout.offload else (layout.optimizer_bytes + master) * learning
    return weights / by[0] + working, gradient * learning / by[1], optimizer / by[2]


def _activations(network: Network, layout: Layout, stage: int, count: int) -> float:
    """Bytes kept for the backward pass: all micro-batches in flight on this stage."""
    pieces = _flying(layout, stage) / layout.virtual
    whole = layer_bytes(network, layout)
    if layout.recompute is not Recompute.FULL:
        return pieces * count * whole
    shared = layout.tensor if layout.sequence_parallel else 1
    inputs = layout.width * layout.tokens * network.hidden / shared
    return pieces * count * inputs + whole


def _flying(layout: Layout, stage: int) -> int:
    """Pieces of the stack whose activations a stage holds at once, in 1F1B order.

    Interleaved, it runs ahead by two pieces for every later stage and by a whole round of the
    pipeline for every further virtual piece of its own (Narayanan and others, 2021).
    """
    later = layout.pipeline - stage - 1
    ahead = later + 1
    if layout.virtual > 1:
        ahead = 2 * later + (layout.virtual - 1) * layout.pipeline + 1
    return min(layout.accumulation * layout.virtual, ahead)


def layer_bytes(network: Network, layout: Layout) -> float:
    """Of one layer and micro-batch: 10 hidden bytes a token that tensor ranks all keep, 8 hidden
    and 4 MLP widths (6 where it is gated) that they share; 5 heads sequence for scores."""
    shared = layout.tensor if layout.sequence_parallel else 1
    mlp = network.ffn * network.active * (6 if network.gated else 4)
    kept = 10 * network.hidden / shared + (8 * network.hidden + mlp) / layout.tensor
    kept *= layout.width / 2
    if not layout.flash and layout.recompute is not Recompute.SELECTIVE:
        kept += 2.5 * layout.width * network.heads * layout.sequence / layout.tensor
    return layout.tokens * kept


def _logits(network: Network, layout: Layout) -> float:
    """In the working precision and once more in fp32; their gradient takes their place."""
    return (layout.width + 4) * layout.tokens * network.vocab / layout.tensor
