"""Seconds of each cause in a training step, before they are scheduled.

Every formula is a roofline: work over the rate of what does it, times the factor of its cause. So
each cause is linear in the factors, and `causes` gives its coefficients. Matrix products take
flops / rate + bytes / memory bandwidth (their sum, since small products overlap little).
"""

from dataclasses import dataclass, fields
from math import ceil

from argosy.core.network import Network
from argosy.planner.cost.cluster import Cluster
from argosy.planner.cost.factors import NAMES, Factors
from argosy.planner.cost.layout import Layout, Recompute, Shard

LAUNCH_S = 10e-6  # one kernel from Python, eager mode
MICRO_S = 2e-3
FIXED_S = 10e-3
NODE_LATENCY_S = 6e-6  # a round of a collective inside a host
NETWORK_LATENCY_S = 15e-6
ADAPTERS = 0.5  # less than this share learns: the layers' own weights have no gradients
OPTIMIZER_BYTES = 34.0  # Adam with master weights reads and writes per parameter


@dataclass(frozen=True, kw_only=True, slots=True)
class Causes:
    """Seconds on one rank: of one layer and micro-batch, unless said otherwise."""

    forward_kernels: float
    backward_kernels: float
    exchange: float  # tensor, expert and context parallelism, each pass
    forward_host: float  # the host starts kernels
    backward_host: float
    weights: float  # fully sharded ones gathered, and their gradients scattered
    head: float  # logits, a micro-batch
    hop: float  # to the next stage and back, a micro-batch
    micro: float  # the host, a micro-batch
    gradients: float  # data-parallel traffic, a step
    update: float  # optimizer and what a step costs at any size
    bubble: float  # the factor itself


CAUSES: tuple[str, ...] = tuple(field.name for field in fields(Causes))


def coefficients(
    network: Network, layout: Layout, cluster: Cluster
) -> tuple[tuple[float, ...], ...]:
    """Seconds of every cause per unit of every factor: causes x factors."""
    units = [
        causes(network, layout, cluster, Factors(**{name: float(name == unit) for name in NAMES}))
        for unit in NAMES
    ]
    return tuple(tuple(getattr(one, cause) for one in units) for cause in CAUSES)


def causes(network: Network, layout: Layout, cluster: Cluster, factors: Factors) -> Causes:
    """All of them, for one setup."""
    kernels = LAUNCH_S * factors.launch * _kernels(network, layout)
    return Causes(
        forward_kernels=_layer_s(network, layout, cluster, factors, backward=False),
        backward_kernels=_layer_s(network, layout, cluster, factors, backward=True),
        exchange=_exchange_s(network, layout, cluster, factors),
        forward_host=kernels,
        backward_host=1.7 * kernels,
        weights=_weights_s(network, layout, cluster, factors),
        head=_head_s(network, layout, cluster, factors),
        hop=_hop_s(network, layout, cluster, factors),
        micro=MICRO_S * factors.micro,
        gradients=_gradients_s(network, layout, cluster, factors),
        update=_update_s(network, layout, cluster, factors),
        bubble=factors.pipeline,
    )


def _product_s(
    m: float, n: float, k: float, layout: Layout, cluster: Cluster, factors: Factors
) -> float:
    """Of (m x k) times (k x n): 2mnk flops, width (mk + kn + mn) bytes."""
    rate = cluster.card.achievable(layout.precision) * 1e12
    moved = layout.width * (m * k + k * n + m * n)
    return factors.matrix * 2 * m * n * k / rate + factors.traffic * moved / (
        cluster.card.memory_gb_s * 1e9
    )


def _layer_s(
    network: Network, layout: Layout, cluster: Cluster, factors: Factors, *, backward: bool
) -> float:
    """The backward pass is two products for each of the forward pass's, hence twice the time;
    one where the weights are frozen. Quantised weights are unpacked first."""
    times = 2 if backward else 1
    products = 1 if backward and layout.trainable < ADAPTERS else times
    again = backward and layout.recompute is Recompute.SELECTIVE
    return (
        products * _products_s(network, layout, cluster, factors)
        + times * _elementwise_s(network, layout, cluster, factors)
        + (times + again) * _attention_s(network, layout, cluster, factors)
        + _unpack_s(network, layout, cluster, factors)
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
    return sum(_product_s(m, n, k, layout, cluster, factors) for m, n, k in shapes) + loads * sum(
        _product_s(m, n, k, layout, cluster, factors) for m, n, k in experts
    )


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
        count += 20 + 2.5 * network.experts / layout.expert
    if layout.context > 1:
        count += 8
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
    """Of a ring among `ranks` that lie `stride` apart: inside a host while they fit there.

    An all-reduce passes every byte twice, a scatter or gather once: passes (n-1)/n payload /
    bandwidth + passes (n-1) latency (Thakur and others, 2005). Beyond a host each ring leaves it
    once, and the `stride` rings of a host share its network.
    """
    if ranks <= 1:
        return 0.0
    rounds = passes * (ranks - 1)
    here = max(1, cluster.per_node // stride)
    if ranks <= here:
        bytes_s = (factors.tensor if inside is None else inside) / cluster.node_gb_s
        latency_s = NODE_LATENCY_S
    else:
        rings = min(stride, cluster.per_node)
        bytes_s = factors.network / min(cluster.network_gb_s / rings, cluster.node_gb_s)
        latency_s = NETWORK_LATENCY_S / here**0.5
    return rounds / ranks * payload * bytes_s / 1e9 + rounds * latency_s * factors.latency


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
    bytes_s = (
        factors.tensor / cluster.node_gb_s
        if inside
        else factors.network
        / min(cluster.network_gb_s / min(stride, cluster.per_node), cluster.node_gb_s)
    )
    latency = (NODE_LATENCY_S if inside else NETWORK_LATENCY_S) * factors.latency
    return 2 * layout.virtual * (vector * bytes_s / 1e9 + latency)


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


def _gradients_s(network: Network, layout: Layout, cluster: Cluster, factors: Factors) -> float:
    """One all-reduce (or scatter and gather) of the gradients of the fullest stage."""
    if layout.shard is Shard.WEIGHTS:
        return 0.0
    return _collective_s(
        layout.width * rank_parameters(network, layout) * layout.trainable,
        layout.data * layout.context,
        layout.tensor,
        cluster,
        factors,
        inside=factors.data,
    )


def _update_s(network: Network, layout: Layout, cluster: Cluster, factors: Factors) -> float:
    mine = rank_parameters(network, layout) * layout.trainable
    if layout.shard is not Shard.NOTHING:
        mine /= layout.data
    seconds = factors.optimizer * OPTIMIZER_BYTES * mine / (cluster.card.memory_gb_s * 1e9)
    return seconds + FIXED_S * factors.fixed
