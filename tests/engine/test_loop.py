"""Whole small runs, step by step: what a site does from its first record to its last."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes.engine import CHECKER, Town

from argosy.core.errors import PolicyError, SpecError
from argosy.core.law import Form
from argosy.core.records import (
    Access,
    Commit,
    Contribution,
    Digest,
    Drain,
    Evaluation,
    HostEvent,
    HostStarted,
    Progress,
    Shard,
    Writer,
)
from argosy.data.order import Cursor

ONE = ("frankfurt",)
TWO = ("frankfurt", "tokyo")


def town(folder: Path, sites: tuple[str, ...] = TWO, **facts: object) -> Town:
    made = Town(folder, sites=sites, **facts)  # type: ignore[arg-type]
    made.begin()
    return made


def running(folder: Path, sites: tuple[str, ...] = TWO, **facts: object) -> Town:
    made = town(folder, sites, **facts)
    for site in sites:
        made.start(site)
    return made


def digests(town: Town) -> dict[int, set[str]]:
    by_round: dict[int, set[str]] = {}
    for entry in town.said(Digest):
        assert isinstance(entry.body, Digest)
        by_round.setdefault(entry.body.round, set()).add(entry.body.digest)
    return by_round


def test_a_run_trains_drains_and_ends_with_one_model_and_a_closed_ledger(tmp_path: Path) -> None:
    run = running(tmp_path)

    run.go(lambda town: town.round >= 5)
    run.drain()
    run.go(Town.finished)

    assert all(len(told) == 1 for told in digests(run).values())
    assert len(digests(run)) == run.round
    for books in run.controller.agreement.ledger().values():
        assert books.trained == books.committed > 0
        assert (books.pending, books.lost) == (0, {})
    assert not run.controller.agreement.void


def test_the_first_model_is_evaluated_before_a_step_is_trained_and_the_last_at_the_end(
    tmp_path: Path,
) -> None:
    run = running(tmp_path)
    run.hosts["tokyo"].turn()
    assert [e.body.round for e in run.said(Evaluation)] == [0]  # type: ignore[union-attr]
    assert run.hosts["tokyo"].loop.bench.state.counters.step == 0

    run.go(lambda town: town.round >= 3)
    run.drain()
    run.go(Town.finished)

    told = [e.body for e in run.said(Evaluation, "tokyo")]
    assert [e.round for e in told] == [0, 2, run.round]  # type: ignore[union-attr]
    first, *_, last = told
    assert isinstance(first, Evaluation)
    assert isinstance(last, Evaluation)
    assert last.loss < first.loss
    assert first.source == "tokyo"


def test_a_life_begins_with_its_start_then_the_opening_of_each_source(tmp_path: Path) -> None:
    run = running(tmp_path, ONE)

    mine = [e for e in run.book.read(1) if e.writer.site == "frankfurt"]

    assert isinstance(mine[0].body, HostStarted)
    assert isinstance(mine[1].body, Access)
    assert mine[1].body.source == "frankfurt"
    assert mine[1].body.rule == "stays in DE"


def test_a_source_that_may_not_be_read_here_is_not_opened(tmp_path: Path) -> None:
    run = Town(tmp_path, sites=TWO)
    right = Town.planned(run, 1)
    abroad = replace(right.sites[0], sources=("tokyo",))  # a plan that policy does not allow
    run.plan_of = lambda number: replace(right, number=number, sites=(abroad, right.sites[1]))
    run.begin()

    with pytest.raises(PolicyError, match="may not be opened in DE"):
        run.start("frankfurt")

    assert not run.said(Access)


def test_updates_that_may_not_go_to_the_logbook_stop_the_worker_at_once(tmp_path: Path) -> None:
    run = town(tmp_path, policy="  - {allow: [metric], from: '*', to: '*', why: a test}\n")

    run.start("frankfurt")  # stays in its country
    with pytest.raises(PolicyError, match="updates of tokyo may not go to the logbook in DE"):
        run.start("tokyo")

    assert not run.said(HostStarted, "tokyo")


def test_without_a_rule_for_metrics_a_site_trains_in_silence(tmp_path: Path) -> None:
    run = running(tmp_path, policy="  - {allow: update, from: '*', to: '*', why: a test}\n")

    run.go(lambda town: town.round >= 2)

    assert not run.said(Progress, "tokyo")
    assert not run.said(Evaluation, "tokyo")
    assert run.said(Contribution, "tokyo")


def test_with_delay_1_nobody_waits_for_the_commit(tmp_path: Path) -> None:
    run = running(tmp_path, ONE)
    frankfurt = run.hosts["frankfurt"]

    for _ in range(20):
        frankfurt.turn()

    assert len(run.said(Contribution, "frankfurt")) == 1
    assert frankfurt.loop.bench.state.counters.step > 10


def test_with_delay_0_a_site_waits_for_the_commit(tmp_path: Path) -> None:
    run = running(tmp_path, ONE, exchange={"delay": 0})
    frankfurt = run.hosts["frankfurt"]

    for _ in range(20):
        frankfurt.turn()
    assert frankfurt.loop.bench.state.counters.step == 4
    run.govern()
    for _ in range(3):
        frankfurt.turn()

    assert frankfurt.loop.bench.state.counters.step > 4


def test_a_site_that_hears_nothing_trains_as_many_windows_alone_as_it_may(tmp_path: Path) -> None:
    run = running(tmp_path, ONE, exchange={"staleness": 3})
    frankfurt = run.hosts["frankfurt"]

    for _ in range(60):
        frankfurt.turn()

    assert frankfurt.loop.bench.state.counters.step == 12


def test_a_time_window_ends_when_its_seconds_are_over(tmp_path: Path) -> None:
    run = running(tmp_path, ONE, exchange={"window_steps": None, "window_seconds": 1.0})
    frankfurt = run.hosts["frankfurt"]

    for _ in range(9):
        run.clock.now += 0.1
        frankfurt.turn()
    assert not run.said(Contribution)
    for _ in range(3):
        run.clock.now += 0.1
        frankfurt.turn()

    assert len(run.said(Contribution)) == 1


@pytest.mark.parametrize(("behind_s", "falls_in"), [(0.3, True), (0.7, False)])
def test_a_commit_brings_a_site_into_step_unless_most_of_its_window_is_over(
    tmp_path: Path, behind_s: float, falls_in: bool
) -> None:
    run = running(tmp_path, ONE, exchange={"window_steps": None, "window_seconds": 1.0})
    frankfurt = run.hosts["frankfurt"]
    while not run.said(Contribution):
        run.clock.now += 0.1
        frankfurt.turn()
    posted_at = run.clock.now

    run.clock.now += behind_s
    run.go(lambda town: town.round >= 1)
    frankfurt.turn()
    run.clock.now = posted_at + 1.05
    frankfurt.turn()
    frankfurt.turn()

    assert (len(run.said(Contribution)) == 1) == falls_in


@pytest.mark.parametrize("others_posted", [True, False])
def test_the_last_one_of_a_round_posts_after_half_a_window(
    tmp_path: Path, others_posted: bool
) -> None:
    run = running(tmp_path, exchange={"window_steps": None, "window_seconds": 1.0})
    frankfurt, tokyo = run.hosts["frankfurt"], run.hosts["tokyo"]
    run.go(lambda town: town.round >= 1)

    def posts(site: str) -> int:
        return len(run.said(Contribution, site))

    before = posts("frankfurt")
    for _ in range(4):  # takes the commit
        frankfurt.turn()
    while others_posted and posts("tokyo") == before:
        run.clock.now += 0.1
        tokyo.turn()
    frankfurt.loop.bench.driver._began = run.clock.now - 0.4
    frankfurt.turn()
    assert posts("frankfurt") == before
    run.clock.now += 0.2
    for _ in range(2):
        frankfurt.turn()

    assert (posts("frankfurt") > before) == others_posted


@pytest.mark.parametrize("moments", ["shared", "own"])
def test_a_payload_that_does_not_decode_is_void_and_nobody_stumbles_over_it(
    tmp_path: Path, moments: str
) -> None:
    run = town(tmp_path, (*TWO, "virginia"), exchange={"moments": moments})
    for site in TWO:
        run.start(site)
    nonsense = b"what is this"
    shard = Shard(
        parameter="*", start=0, stop=run.agreed().size, blob=run.book.put(nonsense),
        bytes=len(nonsense),
    )  # fmt: skip
    body = Contribution(
        fragment=0, n=1, base=0, tokens=64, steps=2, trained=64, codec="fp32", form=Form.UPDATE,
        rule="a test", cursor=Cursor().text(), incarnation=1, shards=(shard,),
    )  # fmt: skip
    run.book.say((Writer(site="virginia", host="virginia-1", incarnation=1), body))

    run.go(lambda town: town.round >= 1)
    run.hosts["frankfurt"].turn()
    run.go(lambda town: len(digests(town).get(1, set())) == 1 and town.round >= 2)

    named = next(e.body for e in run.said(Commit))
    assert isinstance(named, Commit)
    assert "virginia" in {member.site for member in named.members}
    assert {e.writer.site for e in run.said(Digest) if e.body.round == 1} >= {  # type: ignore[union-attr]
        "frankfurt", "tokyo", "controller",
    }  # fmt: skip


@pytest.mark.parametrize("codec", ["int8", "int4", "ternary"])
def test_every_codec_carries_a_run_with_equal_models(tmp_path: Path, codec: str) -> None:
    run = running(tmp_path, exchange={"codec": codec})

    run.go(lambda town: town.round >= 4)

    assert all(len(told) == 1 for told in digests(run).values())


def test_the_same_run_twice_is_the_same_to_the_bit(tmp_path: Path) -> None:
    losses, models = [], []
    for name in ("once", "again"):
        run = running(tmp_path / name, exchange={"delay": 0, "codec": "int4"})
        run.go(lambda town: town.round >= 4)
        told = [(e.writer.site, e.body) for e in run.said(Progress)]
        losses.append([(s, p.loss.hex()) for s, p in told if isinstance(p, Progress)])
        models.append(run.agreed().tobytes())

    assert losses[0] == losses[1] != []
    assert models[0] == models[1]


def test_a_late_contribution_is_not_lost_but_comes_with_a_later_round(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.hosts["tokyo"].mouth.held = True

    run.go(lambda town: town.round >= 2, step_s=5.0)
    assert not run.said(Contribution, "tokyo")
    run.hosts["tokyo"].mouth.held = False
    run.go(lambda town: town.round >= 5)
    run.drain()
    run.go(Town.finished)

    books = run.controller.agreement.ledger()["tokyo"]
    assert books.trained == books.committed
    assert all(len(told) == 1 for told in digests(run).values())


def test_the_logbook_goes_away_and_comes_back_and_nothing_is_lost(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.go(lambda town: town.round >= 2)
    before = run.hosts["tokyo"].loop.bench.state.counters.step

    for hosting in run.hosts.values():
        hosting.mouth.held = True  # what is said does not arrive; nothing new is heard either
        for _ in range(6):
            hosting.turn()
    for hosting in run.hosts.values():
        hosting.mouth.held = False
    run.go(lambda town: town.round >= 6)
    run.drain()
    run.go(Town.finished)

    assert run.hosts["tokyo"].loop.bench.state.counters.step > before + 5
    assert all(b.lost == {} for b in run.controller.agreement.ledger().values())


def test_a_drain_commits_what_every_site_had_trained(tmp_path: Path) -> None:
    run = running(tmp_path, exchange={"window_steps": 50})
    for hosting in run.hosts.values():
        for _ in range(8):
            hosting.turn()
    trained = {s: h.loop.bench.state.counters.trained for s, h in run.hosts.items()}

    run.drain()
    run.go(Town.finished)

    (last,) = [e.body for e in run.said(Commit)]
    assert isinstance(last, Commit)
    assert last.last
    assert {member.site: member.tokens for member in last.members} == trained
    assert len(run.said(Drain)) == 1


def test_a_model_that_is_not_the_agreed_one_is_reloaded_and_everyone_is_told(
    tmp_path: Path,
) -> None:
    run = running(tmp_path)
    run.go(lambda town: town.round >= 4)
    tokyo = run.hosts["tokyo"].loop.bench.state
    tokyo.holdings.a[7] += 0.25  # a bit has flipped

    run.go(lambda town: any(e.body.what == "rollback" for e in town.said(HostEvent)))  # type: ignore[union-attr]
    run.go(lambda town: town.round >= 9)
    run.drain()
    run.go(Town.finished)

    told = digests(run)
    assert len(told[run.round]) == 1
    books = run.controller.agreement.ledger()["tokyo"]
    assert set(books.lost) <= {"rolled back"}
    assert books.trained == books.committed + sum(books.lost.values())


def test_steps_without_a_number_are_skipped_and_then_the_site_goes_back(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.go(lambda town: town.round >= 2)
    state = run.hosts["tokyo"].loop.bench.state
    state.weights.vector[4 * ord("a")] = float("nan")

    run.go(lambda town: any(e.body.what == "rollback" for e in town.said(HostEvent)))  # type: ignore[union-attr]
    run.go(lambda town: town.round >= 6)

    events = [e.body.what for e in run.said(HostEvent, "tokyo")]  # type: ignore[union-attr]
    assert events == ["nan", "nan", "nan", "rollback"]
    assert np.isfinite(run.agreed()).all()
    assert all(len(told) == 1 for told in digests(run).values())
    assert run.said(HostEvent)[-1].writer != CHECKER


def test_a_weight_without_a_number_never_leaves_the_site(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.go(lambda town: town.round >= 2)
    run.hosts["tokyo"].loop.bench.state.weights.vector[0] = float("inf")  # of a byte never seen

    run.go(lambda town: town.round >= 6)

    (event,) = [e.body for e in run.said(HostEvent, "tokyo")]
    assert isinstance(event, HostEvent)
    assert event.what == "rollback"
    assert "no numbers" in event.detail
    assert all(len(told) == 1 for told in digests(run).values())


def test_a_new_plan_is_taken_up_at_a_step_boundary(tmp_path: Path) -> None:
    run = running(tmp_path, exchange={"window_steps": 4})
    run.go(lambda town: town.round >= 2)

    run.exchange["window_steps"] = 2
    run.plan(2)
    before = run.round
    run.go(lambda town: town.round >= before + 4)

    newest = run.said(Contribution, "tokyo")[-1].body
    assert isinstance(newest, Contribution)
    assert newest.steps == 2
    assert all(len(told) == 1 for told in digests(run).values())


def test_a_plan_without_this_site_lets_it_go(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.go(lambda town: town.round >= 1)

    run.sites = ONE
    run.plan(2)
    run.go(lambda town: town.hosts["tokyo"].left is not None)

    left = run.hosts["tokyo"].left
    assert left is not None
    assert not left.done
    assert "plan 2 does without this site" in left.reason


def test_without_a_controller_a_site_leaves_after_a_while(tmp_path: Path) -> None:
    run = running(tmp_path, ONE, exchange={"staleness": 2})
    frankfurt = run.hosts["frankfurt"]
    frankfurt.loop._driver.inbox.controller_at = run.clock.now

    for _ in range(30):
        run.clock.now += 30.0
        frankfurt.turn()

    assert frankfurt.left is not None
    assert "no controller has written for" in frankfurt.left.reason
    assert list((tmp_path / "scratch/frankfurt").glob("snapshot-*"))


def test_a_job_of_no_known_precision_is_a_mistake(tmp_path: Path) -> None:
    run = town(tmp_path, ONE)
    worker = run.worker("frankfurt")
    worker.job = replace(worker.job, training=replace(worker.job.training, optimizer="lion"))

    with pytest.raises(SpecError, match="expected adamw or sgd, got 'lion'"):
        worker._empty("")
