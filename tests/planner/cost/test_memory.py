"""Peak memory, part by part, against sums by hand. 2 layers of 240 parameters, 40 at the ends."""

import pytest
from fakes.cost import NETWORK, layout, network

from argosy.core.network import Network
from argosy.planner.cost.layout import Layout, Recompute, Shard
from argosy.planner.cost.memory import (
    GIB,
    Memory,
    MemoryFactors,
    layer_bytes,
    peak_memory,
)


def _peak(layout: Layout, network: Network = NETWORK) -> Memory:
    return peak_memory(network, layout, MemoryFactors())


def test_mixed_precision_keeps_sixteen_bytes_a_parameter() -> None:
    found = _peak(layout())

    assert found.weights * GIB == pytest.approx(2 * 520)
    assert found.gradients * GIB == pytest.approx(2 * 520)
    assert found.optimizer * GIB == pytest.approx(12 * 520)
    assert found.fixed == pytest.approx(1.5)
    assert found.total == pytest.approx(1.5 + (16 * 520 + 2 * _layer() + 6 * 8 * 10) / GIB)


def _layer() -> float:
    return 8 * (10 * 4 + 8 * 4 + 4 * 16)


@pytest.mark.parametrize(
    ("shard", "weights", "gradients", "optimizer"),
    [
        (Shard.NOTHING, 1040.0, 1040.0, 6240.0),
        (Shard.OPTIMIZER, 1040.0, 1040.0, 1560.0),
        (Shard.GRADIENTS, 1040.0, 260.0, 1560.0),
        (Shard.WEIGHTS, 260.0 + 2 * (2 * 240 + 40), 260.0, 1560.0),
    ],
)
def test_sharding_divides_by_the_ranks(
    shard: Shard, weights: float, gradients: float, optimizer: float
) -> None:
    found = _peak(layout(data=4, shard=shard))

    assert found.weights * GIB == pytest.approx(weights)
    assert found.gradients * GIB == pytest.approx(gradients)
    assert found.optimizer * GIB == pytest.approx(optimizer)


def test_adapters_keep_states_only_for_what_learns() -> None:
    found = _peak(layout(trainable=0.1, mixed=False, optimizer_bytes=4.0, gradient_bytes=4.0))
    packed = _peak(layout(trainable=0.1, base_bits=4.0))

    assert found.gradients * GIB == pytest.approx(4 * 52)
    assert found.optimizer * GIB == pytest.approx(4 * 52)
    assert packed.weights * GIB == pytest.approx(480 / 2 + 2 * 40)


def test_an_optimizer_in_host_memory_takes_none_of_the_card() -> None:
    assert _peak(layout(offload=True)).optimizer == 0


def test_experts_are_spread() -> None:
    mixture = network(experts=4)

    found = _peak(layout(expert=4), mixture)

    assert found.weights * GIB == pytest.approx(2 * (2 * (64 + 128 + 16 + 48) + 40))


def test_activations_are_counted_by_their_widths() -> None:
    assert layer_bytes(NETWORK, layout()) == _layer()
    assert layer_bytes(network(gated=True), layout()) == 8 * (10 * 4 + 8 * 4 + 6 * 16)
    assert layer_bytes(NETWORK, layout(precision="fp32")) == 2 * _layer()
    assert layer_bytes(NETWORK, layout(tensor=2)) == 8 * (40 + (32 + 64) / 2)
    assert layer_bytes(NETWORK, layout(tensor=2, sequence_parallel=True)) == _layer() / 2


def test_scores_are_kept_unless_a_kernel_or_recomputation_spares_them() -> None:
    scores = 8 * 5 * 2 * 8

    assert layer_bytes(NETWORK, layout(flash=False)) == _layer() + scores
    selective = layout(flash=False, recompute=Recompute.SELECTIVE)
    assert layer_bytes(NETWORK, selective) == _layer()


def test_full_recomputation_keeps_inputs_and_one_layer() -> None:
    found = _peak(layout(recompute=Recompute.FULL))
    shared = _peak(layout(recompute=Recompute.FULL, tensor=2, sequence_parallel=True))

    assert found.activations * GIB == pytest.approx(2 * 2 * 8 * 4 + _layer())
    assert shared.activations * GIB == pytest.approx(2 * 8 * 4 + _layer() / 2)


def test_the_first_stage_holds_the_most_micro_batches() -> None:
    deep = network(layers=4, hidden=64, ffn=256, heads=4, kv_heads=4)
    cut = layout(pipeline=4, accumulation=8)

    first = _peak(cut, deep)
    last = peak_memory(deep, cut, MemoryFactors(), last_stage=True)

    assert first.activations * GIB == pytest.approx(4 * layer_bytes(deep, cut))
    assert last.activations * GIB == pytest.approx(layer_bytes(deep, cut))
    assert first.logits == 0
    assert last.logits * GIB == pytest.approx(6 * 8 * 10)


def test_interleaving_holds_more_pieces() -> None:
    deep = network(layers=12)
    cut = layout(pipeline=4, virtual=3, accumulation=8)

    last = peak_memory(deep, cut, MemoryFactors(), last_stage=True)
    first = _peak(layout(pipeline=4, virtual=3, accumulation=8), network(layers=12, vocab=1))
    few = peak_memory(deep, layout(pipeline=4, virtual=3), MemoryFactors(), last_stage=True)

    # 1 + 2 rounds of 4 pieces of one layer each; the first stage 6 more
    assert last.activations * GIB == pytest.approx(9 * _layer())
    assert first.activations * GIB == pytest.approx(15 * _layer())
    assert few.activations * GIB == pytest.approx(3 * _layer())


def test_an_allocator_does_not_count_the_drivers_part() -> None:
    seen = peak_memory(NETWORK, layout(), MemoryFactors(), whole_card=False)

    assert seen.fixed == pytest.approx(0.3)


def test_factors_multiply_their_part() -> None:
    once = _peak(layout())
    twice = peak_memory(
        NETWORK,
        layout(),
        MemoryFactors(states=2, gradients=2, activations=2, logits=2, fixed=2),
    )

    assert twice.total == pytest.approx(2 * once.total)
