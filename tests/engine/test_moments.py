"""AdamW at sites with different data: each row at the pace it would have if all data were here."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from fakes.engine import Town
from torch import nn

from argosy.core.job import Training
from argosy.core.records import Contribution
from argosy.engine.optimizer import InnerOptimizer
from argosy.engine.paced import SAMPLE_STEPS
from argosy.engine.weights import Weights
from argosy.exchange.codec import moments_in

RATE = 0.01
ONE_PLACE = Training(
    tokens=10**9, sequence=1, batch=1, learning_rate=RATE, weight_decay=0.0, warmup_fraction=0.0,
    min_learning_rate_ratio=1.0, betas=(0.0, 0.5),
)  # fmt: skip
FIRST = math.sqrt(0.5)  # of a constant gradient AdamW's unbiased first step is 1 rate


def site(rows: int = 2, training: Training = ONE_PLACE) -> tuple[Weights, InnerOptimizer]:
    layer = nn.Linear(3, rows, bias=False)
    nn.init.zeros_(layer.weight)
    weights = Weights(layer, torch.device("cpu"))
    return weights, InnerOptimizer(weights, training)


def pull(weights: Weights, *rows: float) -> None:
    (parameter,) = weights.parameters
    parameter.grad = torch.tensor(rows)[:, None].expand(-1, 3).clone()


def moved(weights: Weights, optimizer: InnerOptimizer, *rows: float) -> list[float]:
    before = weights.vector.clone()
    pull(weights, *rows)
    optimizer.step(0, 1)
    return (weights.vector - before).view(len(rows), 3).mean(1).tolist()


def test_by_itself_a_site_moves_a_quiet_row_as_far_as_a_loud_one() -> None:
    weights, optimizer = site()

    assert moved(weights, optimizer, 1.0, -1e-3) == pytest.approx([-RATE, RATE], rel=1e-4)


def test_a_row_moves_by_the_root_of_its_share_of_all_sites_second_moments() -> None:
    weights, optimizer = site()
    moved(weights, optimizer, 1.0, 1.0)  # exp_avg_sq: half of the square

    optimizer.agree([np.array([0.0, 1.5], np.float32)])

    # shares: 0.5 / 0.25 and 0.5 / 1.0; the next step of AdamW itself is one rate long
    assert moved(weights, optimizer, 1.0, 1.0) == pytest.approx(
        [-RATE * math.sqrt(2), -RATE * FIRST], rel=1e-4
    )


def test_the_moments_told_are_the_rows_means_smoothed() -> None:
    weights, optimizer = site(training=ONE_PLACE)
    moved(weights, optimizer, 2.0, 0.0)
    assert optimizer.moments() is not None
    first = optimizer.moments().tolist()  # type: ignore[union-attr]
    for _ in range(SAMPLE_STEPS):
        moved(weights, optimizer, 2.0, 0.0)

    # exp_avg_sq is 4/2 after one step and all but 4 after nine; a look weighs a quarter
    assert first == [2.0, 0.0]
    assert optimizer.moments().tolist() == pytest.approx(  # type: ignore[union-attr]
        [2.0 + (4 * (1 - 0.5**9) - 2.0) / 4, 0.0], rel=1e-5
    )


def test_what_does_not_fit_and_what_nobody_tells_leaves_the_pace_alone() -> None:
    weights, optimizer = site()
    moved(weights, optimizer, 1.0, 1.0)
    optimizer.agree([np.array([0.0, 1.5], np.float32)])
    optimizer.agree([np.ones(7, np.float32)])
    assert moved(weights, optimizer, 1.0, 1.0) == pytest.approx([-RATE, -RATE], rel=1e-4)

    optimizer.agree([np.array([0.0, 1.5], np.float32)])
    optimizer.agree([])
    assert moved(weights, optimizer, 1.0, 1.0) == pytest.approx([-RATE, -RATE], rel=1e-4)


def test_before_a_step_and_without_adamw_there_is_nothing_to_tell() -> None:
    _, optimizer = site()
    assert optimizer.moments() is None
    optimizer.agree([np.ones(2, np.float32)])

    weights, plain = site(
        training=Training(tokens=1, sequence=1, batch=1, learning_rate=1.0, optimizer="sgd")
    )
    moved(weights, plain, 1.0, 1.0)
    assert plain.moments() is None


def test_another_host_goes_on_at_the_same_pace() -> None:
    weights, optimizer = site()
    moved(weights, optimizer, 1.0, 1.0)
    optimizer.agree([np.array([0.0, 1.5], np.float32)])
    there, other = site()
    there.set(weights.read())

    other.load(optimizer.state())

    assert moved(there, other, 1.0, 1.0) == moved(weights, optimizer, 1.0, 1.0)
    assert other.moments().tolist() == optimizer.moments().tolist()  # type: ignore[union-attr]


def test_after_a_rollback_nothing_of_it_is_left() -> None:
    weights, optimizer = site()
    moved(weights, optimizer, 1.0, 1.0)
    optimizer.agree([np.array([0.0, 1.5], np.float32)])

    optimizer.reset()

    assert optimizer.moments() is None
    assert moved(weights, optimizer, 1.0, 1.0) == pytest.approx([-RATE, -RATE], rel=1e-4)


@pytest.mark.parametrize("moments", ["shared", "own"])
def test_they_travel_with_every_update_where_the_job_lets_them(
    tmp_path: Path, moments: str
) -> None:
    run = Town(tmp_path, sites=("frankfurt", "tokyo"), exchange={"moments": moments})
    run.begin()
    for name in run.sites:
        run.start(name)

    run.go(lambda town: town.round >= 2)

    told = [
        moments_in(run.book.get(shard.blob))
        for entry in run.said(Contribution)
        for shard in entry.body.shards  # type: ignore[union-attr]
    ]
    assert len(told) >= 4
    assert all((each is not None) == (moments == "shared") for each in told)
