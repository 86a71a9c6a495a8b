"""Seconds of one training step, cause by cause.

Every formula is a roofline: work over the rate of what does it. Matrix products take
flops / rate + bytes / memory bandwidth (their sum, since small products overlap little); the
host starts kernels while the card computes, so a layer takes whichever is longer; the two are
joined by a 4-norm, which is within 19 % of the larger and smooth where they are equal.
"""

from dataclasses import dataclass
from math import ceil

from argosy.planner.cost.cluster import Cluster, ring
from argosy.planner.cost.factors import Factors
from argosy.planner.cost.layout import Layout, Recompute, Shard
from argosy.core.network import Network

LAUNCH_S = 10e-6  # one kernel from Python, eager mode
MICRO_S = 2e-3
FIXED_S = 10e-3
NODE_LATENCY_S = 6e-6  # a round of a collective inside a host
NETWORK_LATENCY_S = 15e-6
ADAPTERS = 0.5  # less than this share learns: the layers' own weights have no gradients
OPTIMIZER_BYTES = 34.0  # Adam with master weights reads and writes per parameter


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """Seconds of one step; `total` is not their sum where one hides under another."""

    total: float
    compute: float  # the busiest rank's kernels
    host: float  # that its kernels wait for the host
    exchange: float  # tensor, expert and context parallelism
    bubble: float  # pipeline ranks that wait for each other
    gradients: float  # data-parallel traffic that nothing hides
    update: float  # optimizer and what a step costs at any size


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pass:
    """One layer, forward or backward, on one rank."""

    kernels_s: float
    exchange_s: float
    host_s: float

    @property
    def seconds(self) -> float:
        return longer(self.kernels_s + self.exchange_s, self.host_s)


def longer(*seconds: float) -> float:
    """About the largest: their 4-norm."""
    return sum(value**4 for value in seconds) ** 0.25


def step_time(network: Network, layout: Layout, cluster: Cluster, factors: Factors) -> StepTime:
    """Seconds of one optimizer step of `layout.accumulation` micro-batches."""
    forward = _layer(network, layout, cluster, factors, backward=False)
    backward = _layer(network, layout, cluster, factors, backward=True)
    passes = [forward, backward]
    if layout.recompute is Recompute.FULL:
        passes.append(forward)
    layer_s = sum(one.seconds for one in passes)
    weights_s = _weights_s(network, layout, cluster, factors)
    layer_full_s = longer(layer_s, weights_s)
    ends_s = _head_s(network, layout, cluster, factors)
    hop_s = _hop_s(network, layout, cluster, factors)
    stages = [count * layer_full_s + hop_s for count in layout.split(network.layers)]
    stages[-1] += ends_s
    stages = [stage + MICRO_S * factors.micro for stage in stages]
    busiest = max(stages)
    steady = layout.accumulation * busiest
    bubble = (sum(stages) - busiest) / layout.virtual * factors.pipeline
    count = max(layout.split(network.layers))
    gradients = _gradients_s(
        network, layout, cluster, factors, under=count * backward.seconds if layout.overlap else 0.0
    )
    update = _update_s(network, layout, cluster, factors)
    per_layer = layout.accumulation * count
    exchange = per_layer * sum(one.exchange_s for one in passes)
    kernels = per_layer * sum(one.kernels_s for one in passes) + layout.accumulation * ends_s
    return StepTime(
        total=steady + bubble + gradients + update,
        compute=kernels,
        host=max(0.0, steady - kernels - exchange),
        exchange=exchange,
        bubble=bubble,
        gradients=gradients,
        update=update,
    )


def _product_s(
    m: float, n: float, k: float, layout: Layout, cluster: Cluster, factors: Factors
) -> float:
    """Of (m x k) times (k x n): 2mnk flops, width (mk + kn + mn) bytes."""
    rate = cluster.card.achievable(layout.precision) * 1e12
    moved = layout.width * (m * k + k * n + m * n)
    return (
        factors.matrix * 2 * m * n * k / rate
        + factors.traffic * moved / (cluster.card.memory_gb_s * 1e9)
    )


def _layer(
    network: Network, layout: Layout, cluster: Cluster, factors: Factors, *, backward: bool
) -> _Pass:
    """The backward pass is two products for each of the forward pass's, hence twice the time;
    one where the weights are frozen. Quantised weights are unpacked first."""
    times = 2 if backward else 1
    products = 1 if backward and layout.trainable < ADAPTERS else times
    kernels_s = (
        products * _products_s(network, layout, cluster, factors)
        + times * _elementwise_s(network, layout, cluster, factors)
        + _unpack_s(network, layout, cluster, factors)
    )
    again = backward and layout.recompute is Recompute.SELECTIVE
    kernels_s += (times + again) * _attention_s(network, layout, cluster, factors)
    return _Pass(
        kernels_s=kernels_s,
        exchange_s=_exchange_s(network, layout, cluster, factors),
        host_s=factors.launch * LAUNCH_S * _kernels(network, layout) * (1.7 if backward else 1),
    )


def _products_s(network: Network, layout: Layout, cluster: Cluster, factors: Factors) -> float:
    """Query-key-value, output, and the MLP's (or the active experts') matrices, forward."""
    tokens, hidden, tensor = layout.tokens, network.hidden, layout.tensor
    queries, keys = network.heads * network.head, 2 * network.kv_heads * network.head
    shapes = [(tokens, (queries + keys) / tensor, hidden), (tokens, hidden, queries / tensor)]
    if network.cross_layers:
        shapes += [(tokens * network.cross_layers / network.layers, n, k) for _, n, k in shapes]
    here, loads = tokens, 1.0
    if network.experts:
        loads = network.experts / layout.expert
        here = tokens * network.active * layout.expert / network.experts
    inner = network.ffn / tensor
    experts = [(here, inner * (2 if network.gated else 1), hidden), (here, hidden, inner)]
    return sum(
        _product_s(m, n, k, layout, cluster, factors) for m, n, k in shapes
    ) + loads * sum(_product_s(m, n, k, layout, cluster, factors) for m, n, k in experts)


def _unpack_s(network: Network, layout: Layout, cluster: Cluster, factors: Factors) -> float:
    """Some 20 bytes move per quantised weight, every time it is used."""
    if not layout.base_bits:
        return 0.0
    moved = 20 * network.layer_parameters / layout.tensor
    return factors.memory * moved / (cluster.card.memory_gb_s * 1e9)


def _attention_s(network: Network, layout: Layout, cluster: Cluster, factors: Factors) -> float:
    """Scores and their product with the values: 4 tokens sequence (heads head) flops.

    A causal flash kernel skips half. Without one the scores go through memory: written and read
    by product, softmax with mask, and dropout, some 7 times `width` bytes each.
    """
    pairs = layout.tokens * layout.sequence * network.heads / layout.tensor
    rate = cluster.card.achievable(layout.precision) * 1e12
    flops = 4 * pairs * network.head
    if layout.flash:
        return factors.attention * flops * (0.5 if network.causal else 1.0) / rate * 1.5
    traffic = 7 * layout.width * pairs / (cluster.card.memory_gb_s * 1e9)
    return factors.attention * (flops / rate * 1.5 + traffic)


def _elementwise_s(network: Network, layout: Layout, cluster: Cluster, factors: Factors) -> float:
    """Norms, residuals and dropout touch the hidden vector some 14 times, on every tensor rank
    unless those share the sequence; activation functions touch the MLP's some 3 times.
    Adapters read and add to the inputs and outputs of every matrix once more."""
    shared = layout.tensor if layout.sequence_parallel else 1
    mlp = network.ffn * network.active * (3 if network.gated else 2)
    touched = 14 * network.hidden / shared + (4 * network.hidden + mlp) / layout.tensor
    if network.experts:
        touched += 4 * network.active * network.hidden
    if layout.trainable < ADAPTERS:
        touched += (12 * network.hidden + mlp) / layout.tensor
    moved = layout.width * layout.tokens * touched
    return factors.memory * moved / (cluster.card.memory_gb_s * 1e9)


def _kernels(network: Network, layout: Layout) -> float:
    """That one layer's forward pass starts."""
    count = 26.0
    if layout.tensor > 1:
        count += 4
    if network.experts:
        count += 20 + 4 * network.experts / layout.expert
    if layout.trainable < ADAPTERS:
        count *= 1.5
    return count * (1 + 0.4 * network.cross_layers / network.layers)


def _exchange_s(network: Network, layout: Layout, cluster: Cluster, factors: Factors) -> float:
    """Two all-reduces of the activations per pass, two all-to-alls where experts are spread,
    and the keys and values of a ring over context-parallel ranks."""
    vector = layout.width * layout.tokens * network.hidden
    seconds = 2 * _collective_s(vector, layout.tensor, 1, cluster, factors)
    if layout.expert > 1:
        routed = vector * network.active / layout.expert
        seconds += 2 * _collective_s(
            routed * layout.expert, layout.expert, layout.tensor, cluster, factors, passes=1
        )
    if layout.context > 1:
        keys = layout.width * layout.tokens * 2 * network.kv_heads * network.head / layout.tensor
        seconds += _collective_s(
            keys * layout.context, layout.context, layout.tensor, cluster, factors, passes=1
        )
    return seconds


def _collective_s(  # noqa: PLR0913, PLR0917 - what, among whom, over what
    payload: float,
    ranks: int,
    stride: int,
    cluster: Cluster,
    factors: Factors,
    passes: int = 2,
    inside: float | None = None,
) -> float:
    """Among `ranks` that lie `stride` apart: inside a host while they fit there.

    Beyond it each ring leaves the host once, and the host's `stride` rings share its network.
    """
    if ranks <= 1:
        return 0.0
    here = max(1, cluster.per_node // stride)
    if ranks <= here:
        gb_s, latency_s = cluster.node_gb_s / (inside or factors.tensor), NODE_LATENCY_S
    else:
        rings = min(stride, cluster.per_node)
        gb_s = min(cluster.network_gb_s / rings, cluster.node_gb_s) / factors.network
        latency_s = NETWORK_LATENCY_S / here ** 0.5
    return ring(
        payload, ranks, gb_s=gb_s, latency_s=latency_s * factors.latency, passes=passes
    )


def _head_s(network: Network, layout: Layout, cluster: Cluster, factors: Factors) -> float:
    """Logits forward and backward: three products, and some 20 bytes a logit of softmax."""
    words = network.vocab / layout.tensor
    product = 3 * _product_s(layout.tokens, words, network.hidden, layout, cluster, factors)
    traffic = 20 * layout.tokens * words / (cluster.card.memory_gb_s * 1e9)
    return product + factors.memory * traffic


def _hop_s(network: Network, layout: Layout, cluster: Cluster, factors: Factors) -> float:
    """Activations on to the next stage and their gradients back, once per virtual piece."""
    if layout.pipeline == 1:
        return 0.0
    vector = layout.width * layout.tokens * network.hidden
    stride = layout.tensor * layout.context * layout.data
    inside = stride * layout.pipeline <= cluster.per_node
    gb_s = (
        cluster.node_gb_s / factors.tensor
        if inside
        else min(cluster.network_gb_s / min(stride, cluster.per_node), cluster.node_gb_s)
        / factors.network
    )
    latency = (NODE_LATENCY_S if inside else NETWORK_LATENCY_S) * factors.latency
    return 2 * layout.virtual * (vector / (gb_s * 1e9) + latency)


def _weights_s(network: Network, layout: Layout, cluster: Cluster, factors: Factors) -> float:
    """Fully sharded weights: one layer gathered for each pass, its gradients scattered once."""
    if layout.shard is not Shard.WEIGHTS:
        return 0.0
    payload = layout.width * network.layer_parameters / layout.tensor
    passes = 2 if layout.trainable < ADAPTERS else 3
    return _collective_s(
        payload, layout.data, layout.tensor * layout.context, cluster, factors, passes, factors.data
    )


def rank_parameters(network: Network, layout: Layout) -> float:
    """Of the fullest stage on one tensor rank, before sharding over data-parallel ranks.

    Expert-parallel ranks hold their own experts only.
    """
    layer = network.layer_parameters
    if network.experts:
        spread = network.experts * network.mlp_parameters
        layer = ceil(layer - spread + spread / layout.expert)
    counts = layout.split(network.layers)
    ends = [0] * len(counts)
    ends[0] += network.embedding_parameters
    ends[-1] += network.head_parameters if len(counts) == 1 else network.vocab * network.hidden
    return max(layer * count + end for count, end in zip(counts, ends, strict=True)) / layout.tensor


def _gradients_s(
    network: Network, layout: Layout, cluster: Cluster, factors: Factors, *, under: float
) -> float:
    """One all-reduce (or scatter and gather) of the gradients; `under` seconds may hide it."""
    if layout.shard is Shard.WEIGHTS:
        return 0.0
    payload = layout.width * rank_parameters(network, layout) * layout.trainable
    seconds = _collective_s(
        payload,
        layout.data * layout.context,
        layout.tensor,
        cluster,
        factors,
        inside=factors.data,
    )
    return longer(seconds, under) - under


def _update_s(network: Network, layout: Layout, cluster: Cluster, factors: Factors) -> float:
    mine = rank_parameters(network, layout) * layout.trainable
    if layout.shard is not Shard.NOTHING:
        mine /= layout.data
    seconds = factors.optimizer * OPTIMIZER_BYTES * mine / (cluster.card.memory_gb_s * 1e9)
    return seconds + FIXED_S * factors.fixed
