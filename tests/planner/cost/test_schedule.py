"""The order of a step, against a pipeline played out task by task."""

from dataclasses import replace

import numpy as np
import pytest
from fakes.cost import CLUSTER, NETWORK, layout, network, only

from argosy.planner.cost.factors import Factors
from argosy.planner.cost.layout import Recompute, Shard
from argosy.planner.cost.schedule import longer, step_time, steps
from argosy.planner.cost.step import causes


def _played(stage_s: list[float], micro_batches: int) -> float:
    """Each stage takes one micro-batch after the other, as soon as the stage before is done."""
    done = [0.0] * micro_batches
    for seconds in stage_s:
        free = 0.0
        for index, before in enumerate(done):
            free = max(free, before) + seconds
            done[index] = free
    return done[-1]


def test_equal_stages_wait_for_the_pipeline_to_fill() -> None:
    found = step_time(NETWORK, layout(pipeline=4, accumulation=8), CLUSTER, only("micro"))
    waiting = step_time(NETWORK, layout(pipeline=4, accumulation=8), CLUSTER, _with_bubble("micro"))

    assert found.total == pytest.approx(8 * 0.002)
    assert waiting.total == pytest.approx(_played([0.002] * 4, 8))
    assert waiting.bubble == pytest.approx(3 * 0.002)


def test_uneven_stages_go_at_the_pace_of_the_fullest() -> None:
    deep = network(layers=6)
    uneven = layout(pipeline=3, stages=(1, 3, 2), accumulation=5)
    one = causes(deep, uneven, CLUSTER, only("launch"))
    layer_s = one.forward_host + one.backward_host

    found = step_time(deep, uneven, CLUSTER, _with_bubble("launch"))

    assert found.total == pytest.approx(_played([layer_s, 3 * layer_s, 2 * layer_s], 5))


def test_interleaved_pieces_divide_the_bubble() -> None:
    once = step_time(NETWORK, layout(pipeline=2), CLUSTER, _with_bubble("micro"))
    twice = step_time(NETWORK, layout(pipeline=2, virtual=2), CLUSTER, _with_bubble("micro"))

    assert twice.bubble == pytest.approx(once.bubble / 2)


def test_recomputation_is_one_more_forward_pass() -> None:
    full = layout(recompute=Recompute.FULL)
    one = causes(NETWORK, full, CLUSTER, only("launch"))

    found = step_time(NETWORK, full, CLUSTER, only("launch"))

    assert found.total == pytest.approx(2 * (2 * one.forward_host + one.backward_host))
    assert found.waiting == pytest.approx(found.total)
    assert found.compute == 0


def test_gradients_hide_under_the_backward_pass_where_they_may() -> None:
    data = layout(data=4, overlap=False)
    bare = step_time(NETWORK, data, CLUSTER, only("data"))
    hidden = step_time(NETWORK, layout(data=4), CLUSTER, replace(only("data"), launch=1.0))

    assert bare.gradients == pytest.approx(1.5 * 2 * 520 / 100e9)
    assert hidden.gradients < 0.05 * bare.gradients


def test_weights_that_are_gathered_hold_up_a_layer() -> None:
    sharded = layout(data=4, shard=Shard.WEIGHTS)

    found = step_time(NETWORK, sharded, CLUSTER, only("data"))

    assert found.total == pytest.approx(2 * 2.25 * 480 / 100e9)
    assert found.waiting == pytest.approx(found.total)


def test_many_setups_are_what_each_is_alone() -> None:
    layouts = [layout(), layout(pipeline=2, accumulation=4), layout(data=4, tensor=2)]

    together = steps([(NETWORK, one, CLUSTER) for one in layouts]).seconds(np.ones(13))

    assert together.tolist() == [
        pytest.approx(step_time(NETWORK, one, CLUSTER, Factors()).total) for one in layouts
    ]


def test_no_setups_take_no_seconds() -> None:
    assert steps([]).seconds(np.ones(13)).shape == (0,)


def test_the_longer_is_within_a_quarter_or_so_of_the_larger() -> None:
    found = longer(np.array([1.0, 1.0]), np.array([1.0, 0.1]))

    assert found.tolist() == pytest.approx([1.26, 1.0], abs=1e-3)


def _with_bubble(name: str) -> Factors:
    return replace(only(name), pipeline=1.0)
