"""Groups by epoch, over real gloo, with threads for hosts."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from fakes.engine import Tiny

from argosy.core.job import Training
from argosy.core.plan import HostPlan, SitePlan
from argosy.data.order import Sequences
from argosy.engine.group import HEADER, Alone, EpochGroup, EpochOver, Group, Rules, c10d
from argosy.engine.optimizer import InnerOptimizer
from argosy.engine.state import Counters, SiteState, stretch_of
from argosy.engine.step import Share, Stepper, share_of
from argosy.engine.weights import Weights
from argosy.exchange.holdings import Holdings

SEEDING = threading.Lock()


def together(size: int, do: Callable[[Group], Any], *, within_s: float = 30.0) -> list[Any]:
    """What `do` returns at every rank of one group."""
    store = c10d.HashStore()
    results: list[Any] = [None] * size

    def be(rank: int) -> None:
        try:
            group = EpochGroup(store, rank, size, Rules(lambda: None, within_s=within_s))
            results[rank] = do(group)
        except Exception as error:  # noqa: BLE001 - raised again below
            results[rank] = error

    threads = [threading.Thread(target=be, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wrong = [result for result in results if isinstance(result, Exception)]
    if wrong:
        raise wrong[0]
    return results


@pytest.mark.parametrize("length", [0, 1, HEADER - 9, HEADER - 8, HEADER - 7, 5000])
def test_a_message_of_any_length_reaches_every_rank(length: int) -> None:
    message = bytes(range(256)) * (length // 256) + bytes(length % 256)

    came = together(2, lambda g: g.send(message if g.rank == 1 else None, source=1))

    assert came == [message, message]


def test_messages_are_gathered_in_rank_order() -> None:
    came = together(3, lambda g: g.gather(b"x" * g.rank))

    assert came == [[b"", b"x", b"xx"]] * 3


def test_sums_are_of_all_ranks() -> None:
    came = together(3, lambda g: g.start_sum(torch.tensor([float(g.rank), 1.0])).finish().tolist())

    assert came == [[3.0, 3.0]] * 3


def test_alone_every_collective_is_the_identity() -> None:
    group = Alone()

    assert group.send(b"a") == b"a"
    assert group.gather(b"a") == [b"a"]
    assert group.start_sum(torch.ones(1)).finish().tolist() == [1.0]
    group.spread(torch.ones(1), 0)


def test_waiting_for_a_silent_peer_is_given_up_when_the_epoch_is_over() -> None:
    store, over, done = c10d.HashStore(), threading.Event(), threading.Event()
    rules = Rules(lambda: "another epoch was called" if over.is_set() else None, within_s=60.0)

    def silent() -> None:
        group = EpochGroup(store, 1, 2, rules)
        done.wait(60)
        del group

    quiet = threading.Thread(target=silent)
    quiet.start()
    group = EpochGroup(store, 0, 2, rules)
    total = group.start_sum(torch.ones(4))
    over.set()

    with pytest.raises(EpochOver, match="another epoch was called"):
        total.finish()

    done.set()
    quiet.join()


def test_waiting_has_a_deadline_of_its_own() -> None:
    store, done = c10d.HashStore(), threading.Event()

    def silent() -> None:
        group = EpochGroup(store, 1, 2, Rules(lambda: None, within_s=60.0))
        done.wait(60)
        del group

    quiet = threading.Thread(target=silent)
    quiet.start()
    rules = Rules(lambda: None, within_s=60.0)
    group = EpochGroup(store, 0, 2, rules)
    rules.within_s = 0.05

    with pytest.raises(EpochOver, match="no answer inside the site"):
        group.send(b"hello")

    done.set()
    quiet.join()


def stepper(group: Group, *, share: Share, batch: int = 6) -> tuple[SiteState, Stepper]:
    training = Training(
        tokens=10_000, sequence=8, batch=batch, precision="fp32", warmup_fraction=0.0
    )
    with SEEDING:  # ranks are threads here, and torch has one generator
        torch.manual_seed(1)
        weights = Weights(Tiny(64), torch.device("cpu"))
    optimizer = InnerOptimizer(weights, training)
    state = SiteState(weights=weights, optimizer=optimizer, holdings=Holdings(weights.read()))
    stream = np.random.default_rng(3).integers(0, 64, 2000)
    sequences = Sequences({"text": stream}, sequence=8, seed=1)
    return state, Stepper(state, sequences, training, group=group, share=share)


def trained(group: Group, share: Share) -> tuple[np.ndarray, float]:
    state, steps = stepper(group, share=share)
    losses = [steps.take(index * 48).loss for index in range(5)]
    return state.weights.read().copy(), losses[-1]


def test_a_batch_cut_over_ranks_and_micro_batches_trains_like_one_machine() -> None:
    alone, loss = trained(Alone(), Share(rows=slice(0, 6), micro_batch=6))
    shares = [Share(rows=slice(0, 3), micro_batch=2), Share(rows=slice(3, 6), micro_batch=1)]

    (first, first_loss), (second, second_loss) = together(
        2, lambda group: trained(group, shares[group.rank])
    )

    assert np.abs(first - alone).max() < 1e-5
    assert np.array_equal(first, second)
    assert first_loss == second_loss == pytest.approx(loss, abs=1e-5)


def test_a_rank_with_unequal_or_no_rows_weighs_what_it_did() -> None:
    alone, _ = trained(Alone(), Share(rows=slice(0, 6), micro_batch=6))
    shares = [
        Share(rows=slice(0, 1), micro_batch=4),
        Share(rows=slice(1, 6), micro_batch=4),
        Share(rows=slice(0, 1), micro_batch=1, counts=False),
    ]

    came = together(3, lambda group: trained(group, shares[group.rank]))

    for weights, _ in came:
        assert np.abs(weights - alone).max() < 1e-5


def test_state_is_shared_whole_from_the_rank_that_is_furthest() -> None:
    def do(group: Group) -> tuple[Counters, list[float], list[str]]:
        state, steps = stepper(Alone(), share=Share(rows=slice(0, 6), micro_batch=6))
        if group.rank == 1:
            for _ in range(3):
                steps.take(0)
            state.posted(state.frame("int8", 128, slice(0, state.parameters)), 1)
        state.share(group, 1)
        moments = state.optimizer.state()
        return state.counters, state.weights.read().tolist(), sorted(moments)

    first, second = together(2, do)

    assert first == second
    assert first[0].open_n == 1
    assert first[2] == ["exp_avg", "exp_avg_sq", "moments", "step", "taken"]


def test_stretches_cover_the_vector_and_begin_where_blocks_begin() -> None:
    for size in (1, 2, 3, 7):
        for parameters in (1, 127, 128, 1000, 1290):
            cuts = [stretch_of(rank, size, parameters, 128) for rank in range(size)]
            assert [i for cut in cuts for i in range(cut.start, cut.stop)] == list(
                range(parameters)
            )
            assert all(cut.start % 128 == 0 or cut.start == parameters for cut in cuts)


def site_plan(*speeds: float) -> SitePlan:
    hosts = tuple(
        HostPlan(host=f"h{i}", micro_batch=2, accumulation=1, tokens_per_s=speed)
        for i, speed in enumerate(speeds)
    )
    return SitePlan(
        site="s", hosts=hosts, sources=(), tokens_per_s=1.0, seconds_per_step=1.0,
        steps_per_round=1.0, bytes_per_round=0, transfer_s=0.0,
    )  # fmt: skip


def test_rows_go_by_measured_speed() -> None:
    plan = site_plan(300.0, 100.0)

    assert share_of(["h0", "h1"], 0, plan, 8) == Share(rows=slice(0, 6), micro_batch=2)
    assert share_of(["h0", "h1"], 1, plan, 8) == Share(rows=slice(6, 8), micro_batch=2)


def test_who_is_left_does_all_rows_and_a_stranger_counts_as_usual() -> None:
    plan = site_plan(300.0, 100.0)

    assert share_of(["h1"], 0, plan, 8).rows == slice(0, 8)
    assert share_of(["h0", "new"], 1, plan, 8).rows == slice(4, 8)


def test_a_host_too_slow_for_a_row_does_one_that_weighs_nothing() -> None:
    plan = site_plan(1000.0, 1.0)

    assert share_of(["h0", "h1"], 1, plan, 4) == Share(
        rows=slice(0, 1), micro_batch=1, counts=False
    )
