"""Seconds of each cause, one factor at a time, against sums by hand.

The card does 1e14 operations and moves 1e12 bytes a second; hosts have 4 cards at 100 GB/s and
leave at 40 GB/s. The network: 2 layers, hidden 4, 2 heads of 2, MLP 16, 10 words; 8 tokens.
"""

from dataclasses import replace

import pytest
from fakes.cost import CLUSTER, LAYOUT, NETWORK, layout, network, only

from argosy.core.network import Network
from argosy.planner.cost.factors import NAMES, values
from argosy.planner.cost.layout import Layout, Recompute, Shard
from argosy.planner.cost.step import CAUSES, Causes, causes, coefficients, rank_parameters


def _causes(factor: str, layout: Layout = LAYOUT, network: Network = NETWORK) -> Causes:
    return causes(network, layout, CLUSTER, only(factor))


def test_matrix_products_take_two_operations_a_parameter_and_token() -> None:
    found = _causes("matrix")

    assert found.forward_kernels == pytest.approx(2 * 8 * (64 + 128) / 1e14)
    assert found.backward_kernels == pytest.approx(2 * found.forward_kernels)
    assert found.head == pytest.approx(3 * 2 * 8 * 10 * 4 / 1e14)


def test_tensor_ranks_share_the_products() -> None:
    halved = _causes("matrix", layout(tensor=2))

    assert halved.forward_kernels == pytest.approx(8 * (64 + 128) / 1e14)


def test_frozen_weights_have_no_gradients_of_their_own() -> None:
    found = _causes("matrix", layout(trainable=0.01))

    assert found.backward_kernels == pytest.approx(found.forward_kernels)


def test_operands_travel_once_each() -> None:
    # (m k + k n + m n) of 8x4x12, 8x4x4, 8x4x16 and 8x16x4, two bytes each
    elements = (32 + 48 + 96) + (32 + 16 + 32) + (32 + 64 + 128) + (128 + 64 + 32)

    assert _causes("traffic").forward_kernels == pytest.approx(2 * elements / 1e12)


def test_only_active_experts_compute() -> None:
    mixture = network(experts=4, active=2)

    found = _causes("matrix", layout(expert=2), mixture)

    # two experts here; each sees 8 tokens x 2 of 4, twice over because 2 ranks route to it
    assert found.forward_kernels == pytest.approx((2 * 8 * 64 + 2 * 2 * 8 * 128) / 1e14)


def test_a_decoder_projects_for_both_attentions() -> None:
    found = _causes("matrix", network=network(cross_layers=2))

    assert found.forward_kernels == pytest.approx(2 * 8 * (64 + 64 + 128) / 1e14)


def test_fused_attention_skips_what_a_mask_hides() -> None:
    pairs = 8 * 8 * 2

    causal = _causes("attention").forward_kernels
    encoder = _causes("attention", network=network(causal=False)).forward_kernels

    assert causal == pytest.approx(1.5 * 0.5 * 4 * pairs * 2 / 1e14)
    assert encoder == pytest.approx(2 * causal)


def test_stored_scores_go_through_memory() -> None:
    pairs = 8 * 8 * 2

    found = _causes("attention", layout(flash=False))
    again = _causes("attention", layout(flash=False, recompute=Recompute.SELECTIVE))

    assert found.forward_kernels == pytest.approx(1.5 * 4 * pairs * 2 / 1e14 + 14 * pairs / 1e12)
    assert again.backward_kernels == pytest.approx(1.5 * found.backward_kernels)


@pytest.mark.parametrize(
    ("changes", "of", "touched"),
    [
        ({}, {}, 14 * 4 + 4 * 4 + 2 * 16),
        ({}, {"gated": True}, 14 * 4 + 4 * 4 + 3 * 16),
        ({"tensor": 2}, {}, 14 * 4 + (4 * 4 + 2 * 16) / 2),
        ({"tensor": 2, "sequence_parallel": True}, {}, 7 * 4 + (4 * 4 + 2 * 16) / 2),
        ({}, {"experts": 2, "active": 1}, 14 * 4 + 4 * 4 + 2 * 16 + 4 * 4),
        ({"trainable": 0.01}, {}, 14 * 4 + 4 * 4 + 2 * 16 + 12 * 4 + 2 * 16),
    ],
)
def test_elementwise_kernels_touch_each_vector(
    changes: dict[str, object], of: dict[str, object], touched: float
) -> None:
    found = _causes("memory", layout(**changes), network(**of))

    assert found.forward_kernels == pytest.approx(2 * 8 * touched / 1e12)


def test_quantised_weights_are_unpacked_every_time() -> None:
    plain = _causes("memory", layout(trainable=0.01)).forward_kernels

    packed = _causes("memory", layout(trainable=0.01, base_bits=4)).forward_kernels

    assert packed - plain == pytest.approx(20 * 240 / 1e12)


@pytest.mark.parametrize(
    ("changes", "of", "kernels"),
    [
        ({}, {}, 26.0),
        ({"tensor": 2}, {}, 30.0),
        ({"context": 2}, {}, 34.0),
        ({"expert": 2}, {"experts": 4}, 26 + 20 + 5),
        ({"trainable": 0.01}, {}, 39.0),
        ({}, {"cross_layers": 1}, 26 * 1.2),
    ],
)
def test_the_host_starts_every_kernel(
    changes: dict[str, object], of: dict[str, object], kernels: float
) -> None:
    found = _causes("launch", layout(**changes), network(**of))

    assert found.forward_host == pytest.approx(kernels * 10e-6)
    assert found.backward_host == pytest.approx(1.7 * kernels * 10e-6)


def test_tensor_ranks_reduce_twice_a_pass() -> None:
    vector = 2 * 8 * 4

    inside = _causes("tensor", layout(tensor=4))

    # a ring of 4 passes 2 x 3/4 of every byte
    assert inside.exchange == pytest.approx(2 * 1.5 * vector / 100e9)


def test_beyond_a_host_a_ring_takes_the_network() -> None:
    vector = 2 * 8 * 4

    outside = _causes("network", layout(tensor=8))

    assert outside.exchange == pytest.approx(2 * 2 * 7 / 8 * vector / 40e9)
    assert _causes("tensor", layout(tensor=8)).exchange == 0


def test_experts_and_context_ranks_pass_their_part_once() -> None:
    spread = _causes("tensor", layout(expert=2), network(experts=2, active=1))
    long = _causes("tensor", layout(context=2))

    assert spread.exchange == pytest.approx(2 * 0.5 * (2 * 8 * 4) / 100e9)
    assert long.exchange == pytest.approx(0.5 * (2 * 4 * 2 * 4) * 2 / 100e9)


def test_rounds_of_a_collective_have_a_latency() -> None:
    assert _causes("latency", layout(tensor=2)).exchange == pytest.approx(2 * 2 * 6e-6)
    assert _causes("latency", layout(tensor=8)).exchange == pytest.approx(2 * 14 * 15e-6 / 2)


def test_activations_hop_to_the_next_stage_and_gradients_back() -> None:
    vector = 2 * 8 * 4

    near = _causes("tensor", layout(pipeline=2, virtual=2))
    far = _causes("network", layout(pipeline=2, data=4))

    assert near.hop == pytest.approx(2 * 2 * vector / 100e9)
    assert far.hop == pytest.approx(2 * vector / 10e9)
    assert _causes("tensor").hop == 0


def test_fully_sharded_weights_are_gathered_twice_and_scattered_once() -> None:
    sharded = layout(data=4, shard=Shard.WEIGHTS)

    found = _causes("data", sharded)

    assert found.weights == pytest.approx(3 * 3 / 4 * (2 * 240) / 100e9)
    assert found.gradients == 0
    frozen = _causes("data", replace(sharded, trainable=0.01))
    assert frozen.weights == pytest.approx(2 / 3 * found.weights)


def test_gradients_are_reduced_once_a_step() -> None:
    found = _causes("data", layout(data=4))

    assert found.gradients == pytest.approx(2 * 3 / 4 * 2 * 520 / 100e9)
    assert found.weights == 0


def test_the_optimizer_reads_and_writes_its_part() -> None:
    whole = _causes("optimizer").update
    shared = _causes("optimizer", layout(data=4, shard=Shard.OPTIMIZER)).update

    assert whole == pytest.approx(34 * 520 / 1e12)
    assert shared == pytest.approx(whole / 4)
    assert _causes("fixed").update == pytest.approx(0.01)
    assert _causes("micro").micro == pytest.approx(0.002)


def test_the_fullest_stage_has_its_end_and_its_experts() -> None:
    assert rank_parameters(NETWORK, layout(pipeline=2)) == 240 + 40
    assert rank_parameters(NETWORK, layout(tensor=2)) == 260
    mixture = network(experts=4)
    assert rank_parameters(mixture, layout(expert=4)) == 2 * (64 + 128 + 16 + 48) + 40


def test_coefficients_are_the_causes_factor_by_factor() -> None:
    found = coefficients(NETWORK, LAYOUT, CLUSTER)

    assert len(found) == len(CAUSES)
    column = NAMES.index("matrix")
    assert found[0][column] == _causes("matrix").forward_kernels
    assert values(only("matrix"))[column] == 1.0
