"""Forecasts of setups, with how sure they are."""

from dataclasses import replace
from math import exp, log

import pytest
from fakes.cost import CLUSTER, NETWORK, layout, network

from argosy.planner.cost.calibration import Bound
from argosy.planner.cost.forecast import (
    Range,
    Setup,
    calibrate_memory,
    calibrate_time,
    memory_factors,
    memory_ranges,
    points,
    time_factors,
    time_ranges,
    usual,
)
from argosy.planner.cost.memory import peak_memory
from argosy.planner.cost.schedule import step_time

SETUP = Setup(network=NETWORK, layout=layout(), cluster=CLUSTER)


def test_a_range_has_an_upper_end() -> None:
    assert Range(middle=2.0, doubt=log(3)).upper(1.0) == pytest.approx(6.0)
    assert Range(middle=2.0, doubt=log(3)).upper() == pytest.approx(18.0)


def test_without_rows_a_forecast_has_the_catalogues_factors() -> None:
    usual_time = calibrate_time([], [])
    usual_memory = calibrate_memory([], [])

    (seconds,) = time_ranges(usual_time, [SETUP])
    (gib,) = memory_ranges(usual_memory, [SETUP])

    factors = time_factors(usual("time").mean)
    assert seconds.middle == pytest.approx(step_time(NETWORK, SETUP.layout, CLUSTER, factors).total)
    by_hand = peak_memory(NETWORK, SETUP.layout, memory_factors(usual("memory").mean))
    assert gib.middle == pytest.approx(by_hand.total)
    assert seconds.doubt > 0.2


def test_a_measured_setup_is_forecast_as_measured_and_more_surely() -> None:
    (before,) = time_ranges(calibrate_time([], []), [SETUP])
    rows = [SETUP, replace(SETUP, layout=layout(micro_batch=2))]

    calibrated = calibrate_time(rows, [2 * before.middle, 2.1 * before.middle])
    (after,) = time_ranges(calibrated, [SETUP])

    assert after.middle == pytest.approx(2 * before.middle, rel=0.15)
    assert after.doubt < before.doubt


def test_a_setup_that_did_not_fit_needs_at_least_the_card() -> None:
    (before,) = memory_ranges(calibrate_memory([], []), [SETUP])

    calibrated = calibrate_memory([SETUP], [3 * before.middle], [Bound.AT_LEAST])
    (after,) = memory_ranges(calibrated, [SETUP])

    assert after.middle > 1.3 * before.middle


def test_the_last_stage_and_the_allocators_view_can_be_asked_for() -> None:
    deep = replace(
        SETUP,
        network=network(layers=4, hidden=64, ffn=256),
        layout=layout(pipeline=4, accumulation=8),
        whole_card=False,
        last_stage=True,
    )
    calibrated = calibrate_memory([], [])

    seen, fullest = memory_ranges(calibrated, [deep, replace(deep, last_stage=False)])

    assert seen.middle < fullest.middle


def test_another_method_is_further_apart_than_another_size() -> None:
    near = replace(SETUP, layout=layout(micro_batch=2))
    far = replace(SETUP, layout=layout(flash=False), place="elsewhere")

    found = points([SETUP, near, far])

    assert abs(found.features[0] - found.features[1]).sum() == pytest.approx(1.0)
    assert abs(found.features[0] - found.features[2]).sum() == pytest.approx(2.0)
    assert found.places[0] == found.places[1] != found.places[2]
    assert len(found) == 3


def test_factors_are_the_exponents_of_their_logs() -> None:
    logs = usual("time").mean * 0

    assert time_factors(logs).matrix == 1.0
    assert memory_factors(usual("memory").mean * 0 + 1).fixed == pytest.approx(exp(1))
