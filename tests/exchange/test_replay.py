import numpy as np
import pytest
from fakes.exchange import commit, plan

from argosy.exchange.codec import encode
from argosy.exchange.digest import model_digest
from argosy.exchange.outer import combine_payloads, outer_step
from argosy.exchange.replay import Replay
from argosy.exchange.vectors import Vector

FIRST = commit(1, ("berlin", 1), ("lima", 1))


def payloads(seed: int) -> dict[str, bytes | None]:
    chance = np.random.default_rng(seed)
    return {
        site: encode(chance.standard_normal(7).astype(np.float32), "fp32")
        for site in ("berlin", "lima")
    }


def begun() -> tuple[Vector, Vector]:
    return np.ones(7, dtype=np.float32), np.zeros(7, dtype=np.float32)


def test_a_round_is_the_mean_and_the_outer_step_of_the_commit_s_plan() -> None:
    replay = Replay(*begun(), round=0)

    replay.apply(FIRST, plan(outer_learning_rate=0.5, outer_momentum=0.25), payloads(1))

    a, v = begun()
    outer_step(a, v, combine_payloads(FIRST, payloads(1), 7), 0.5, 0.25)
    assert replay.round == 1
    assert replay.a.tobytes() == a.tobytes()
    assert replay.v.tobytes() == v.tobytes()
    assert replay.digest() == model_digest(a)


def test_rounds_are_applied_in_order_only() -> None:
    replay = Replay(*begun(), round=1)

    with pytest.raises(AssertionError):
        replay.apply(FIRST, plan(), payloads(1))


def test_a_commit_is_applied_under_the_plan_that_it_names() -> None:
    replay = Replay(*begun(), round=0)

    with pytest.raises(AssertionError):
        replay.apply(FIRST, plan(number=2), payloads(1))
