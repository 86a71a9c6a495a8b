"""Shrinkage: towards what is usual with few rows, towards the rows with many."""

from dataclasses import replace
from math import exp

import numpy as np
import pytest

from argosy.planner.cost.calibration import (
    Bound,
    Forecast,
    Points,
    Usual,
    Vector,
    calibrate,
    likeness,
)

USUAL = Usual(
    mean=np.zeros(1),
    spread=np.array([0.3]),
    noise=0.1,
    residual=0.0,
    reach=4.0,
    place=0.0,
)


def _scale(rows: int) -> Forecast:
    """A figure that is its one factor."""

    def forecast(logs: Vector) -> Vector:
        return np.full(rows, logs[0])

    return forecast


def _at(*features: float, places: tuple[int, ...] = ()) -> Points:
    where = np.array(places or (0,) * len(features), dtype=np.int64)
    return Points(features=np.array(features, dtype=np.float64).reshape(-1, 1), places=where)


def test_without_rows_the_usual_factor_stands_and_its_spread_is_the_doubt() -> None:
    found = calibrate(USUAL, _scale(0), np.zeros(0), _at())

    middle, doubt = found.predict(_scale(1), _at(0.0))

    assert middle.tolist() == [0.0]
    assert doubt.tolist() == pytest.approx([(0.3**2 + 0.1**2) ** 0.5])


def test_one_row_moves_the_factor_by_its_weight() -> None:
    # at the answer the residual is r, its weight 5 / (4 + r^2 / 0.01): solve by hand for y = 0.1
    found = calibrate(USUAL, _scale(1), np.exp([0.1]), _at(0.0))

    left = 0.1 - found.mean[0]
    believed = 5 / (4 + left**2 / 0.01)
    assert found.mean[0] == pytest.approx(left * believed / 0.01 * 0.09, rel=1e-3)
    assert found.mean[0] == pytest.approx(0.0917, abs=0.001)


def test_many_rows_outweigh_what_is_usual() -> None:
    found = calibrate(USUAL, _scale(50), np.exp(np.full(50, 0.5)), _at(*[0.0] * 50))

    _, doubt = found.predict(_scale(1), _at(0.0))

    assert found.mean[0] == pytest.approx(0.5, abs=0.01)
    assert doubt[0] == pytest.approx(0.1, abs=0.01)


def test_a_row_that_is_far_off_is_hardly_believed() -> None:
    figures = np.exp(np.array([0.1, 0.1, 0.1, 0.1, 3.0]))

    found = calibrate(USUAL, _scale(5), figures, _at(*[0.0] * 5))

    assert found.mean[0] == pytest.approx(0.1, abs=0.03)


def test_what_is_left_over_is_expected_of_like_layouts() -> None:
    apart = replace(USUAL, residual=0.3, spread=np.array([0.01]))
    found = calibrate(apart, _scale(2), np.exp(np.array([0.4, -0.4])), _at(0.0, 20.0))

    middle, _ = found.predict(_scale(3), _at(0.0, 20.0, 10.0))

    assert middle[0] > 0.3
    assert middle[1] < -0.3
    assert middle[2] == pytest.approx(0.0, abs=0.05)


def test_rows_at_one_place_share_what_is_missed() -> None:
    usual = replace(USUAL, residual=0.2, place=0.5)

    found = likeness(_at(0.0, places=(1,)), _at(0.0, 4.0, 0.0, places=(1, 1, 2)), usual)

    assert found[0].tolist() == pytest.approx([0.04 + 0.25, 0.04 * exp(-1) + 0.25, 0.04], abs=1e-9)


@pytest.mark.parametrize(
    ("figure", "side", "low", "high"),
    [
        (1.0, Bound.AT_MOST, -0.005, 0.0),  # far above the forecast: says nothing
        (-0.5, Bound.AT_MOST, -0.6, -0.3),  # the forecast is over it
        (0.5, Bound.AT_LEAST, 0.3, 0.6),
        (-1.0, Bound.AT_LEAST, 0.0, 0.005),
    ],
)
def test_a_bound_pushes_only_where_it_is_broken(
    figure: float, side: Bound, low: float, high: float
) -> None:
    found = calibrate(USUAL, _scale(1), np.exp([figure]), _at(0.0), (side,))

    assert low <= found.mean[0] <= high


def test_a_large_step_is_taken_in_parts() -> None:
    wide = replace(USUAL, spread=np.array([5.0]))

    found = calibrate(wide, _scale(3), np.exp(np.full(3, 4.0)), _at(0.0, 0.0, 0.0))

    assert found.mean[0] == pytest.approx(4.0, abs=0.05)


def test_a_forecast_that_never_settles_is_left_after_enough_rounds() -> None:
    def restless(logs: Vector) -> Vector:
        return np.array([np.sin(40 * logs[0])])

    found = calibrate(replace(USUAL, spread=np.array([50.0])), restless, np.exp([2.0]), _at(0.0))

    assert np.isfinite(found.mean).all()
