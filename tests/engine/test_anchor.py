"""The anchor (DESIGN rule 11): with nothing clever switched on, a run is plain data-parallel SGD."""

from pathlib import Path

import numpy as np
import torch
from fakes.engine import Tiny, Town

from argosy.data.corpus import open_source, training
from argosy.data.order import Cursor
from argosy.data.tokens import BYTES
from argosy.engine import models
from argosy.spec import parse_job

STEPS = 12
RATE = 0.5
BATCH = 4


def plain_sgd(town: Town, start: np.ndarray) -> np.ndarray:
    """One process, all data: the gradient of the whole batch, one step of SGD, and again."""
    job = parse_job(town.job())
    orders = []
    for site, country in (("frankfurt", "DE"), ("tokyo", "JP"), ("virginia", "US")):
        corpus = open_source(
            job.source(site), town.folder / "data", site_country=country, policy=job.policy
        )
        orders.append(training([corpus.tokens(BYTES, None)], sequence=8, seed=job.training.seed))
    module = Tiny(257)
    models.load_flat(module, start)
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    cursor = Cursor()
    for _ in range(STEPS):
        rows = np.concatenate([order.batch(cursor, BATCH)[0] for order in orders])
        _, cursor = orders[0].batch(cursor, BATCH)
        optimizer.zero_grad()
        logits = module(torch.from_numpy(rows[:, :-1]))
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), torch.from_numpy(rows[:, 1:].copy()).flatten()
        )
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return models.flat(module)


def anchored(folder: Path) -> Town:
    return Town(
        folder,
        training={
            "optimizer": "sgd", "learning_rate": RATE, "clip_norm": None, "weight_decay": 0.0,
            "warmup_fraction": 0.0, "min_learning_rate_ratio": 1.0, "batch": BATCH,
        },
        exchange={
            "codec": "fp32", "window_steps": 1, "delay": 0, "outer_learning_rate": 1.0,
            "outer_momentum": 0.0,
        },
    )  # fmt: skip


def test_fp32_every_step_and_a_plain_outer_step_are_data_parallel_sgd(tmp_path: Path) -> None:
    town = anchored(tmp_path)
    town.begin()
    start = town.agreed().copy()
    for site in town.sites:
        town.start(site)

    town.go(lambda town: town.round == STEPS)

    expected = plain_sgd(town, start)
    moved = np.abs(expected - start).max()
    assert moved > 0.05, "the reference must have learned something"
    assert np.abs(town.agreed() - expected).max() < 2e-6


def test_the_anchor_holds_for_every_member_of_every_round(tmp_path: Path) -> None:
    town = anchored(tmp_path)
    town.begin()
    for site in town.sites:
        town.start(site)

    town.go(lambda town: town.round == STEPS)

    for _, commit in town.controller.agreement.commits[0]:
        assert [member.site for member in commit.members] == list(town.sites)
        assert {member.steps for member in commit.members} == {1}
