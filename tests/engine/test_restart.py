"""A host that comes back: from its snapshot, from the logbook, or from what is left of either."""

from pathlib import Path

import numpy as np
import pytest
from fakes.engine import Town

from argosy.core.errors import FencedError
from argosy.core.records import (
    Checkpointed,
    Contribution,
    Digest,
    Evaluation,
    HostEvent,
    HostStarted,
)

TWO = ("frankfurt", "tokyo")


def running(folder: Path, **facts: object) -> Town:
    run = Town(folder, sites=TWO, **facts)  # type: ignore[arg-type]
    run.begin()
    for site in run.sites:
        run.start(site)
    return run


def events(run: Town, what: str) -> list[str]:
    bodies = [e.body for e in run.said(HostEvent)]
    return [b.detail for b in bodies if isinstance(b, HostEvent) and b.what == what]


def all_agree(run: Town) -> bool:
    told: dict[int, set[str]] = {}
    for entry in run.said(Digest):
        assert isinstance(entry.body, Digest)
        told.setdefault(entry.body.round, set()).add(entry.body.digest)
    return all(len(digest) == 1 for digest in told.values())


def no_snapshots(run: Town, site: str) -> None:
    run.hosts[site].loop.bench.keeper.settle()
    for path in (run.folder / "scratch" / site).glob("snapshot-*"):
        path.unlink()


def leave(run: Town, site: str) -> None:
    run.hosts[site].loop.stop = "asked to leave"
    run.go(lambda town: town.hosts[site].left is not None)


def test_asked_to_leave_a_site_posts_what_it_has_and_goes_on_later_as_if_nothing_had_been(
    tmp_path: Path,
) -> None:
    run = running(tmp_path, exchange={"window_steps": 6})
    run.go(lambda town: town.round >= 2)
    state = run.hosts["tokyo"].loop.bench.state
    run.hosts["tokyo"].mouth.held = False
    leave(run, "tokyo")
    before, moments = state.counters, state.optimizer.state()

    back = run.start("tokyo", incarnation=2).loop.bench.state

    assert back.counters == before
    assert np.array_equal(back.weights.read(), state.weights.read())
    assert all((back.optimizer.state()[name] == tensor).all() for name, tensor in moments.items())
    run.go(lambda town: town.round >= 6)
    run.drain()
    run.go(Town.finished)
    assert run.controller.agreement.ledger()["tokyo"].lost == {}
    assert all_agree(run)


def test_a_killed_site_comes_back_by_checkpoint_and_replay(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.go(lambda town: town.round >= 4)
    no_snapshots(run, "tokyo")
    del run.hosts["tokyo"]
    run.controller.expect(["frankfurt"])
    run.go(lambda town: town.round >= 8)

    back = run.start("tokyo", incarnation=2)
    run.controller.expect(TWO)
    assert back.loop.bench.state.counters.round == run.round
    assert np.array_equal(back.loop.bench.state.holdings.a, run.agreed())
    run.go(lambda town: town.round >= 11)
    run.drain()
    run.go(Town.finished)

    started = run.said(HostStarted, "tokyo")[-1].body
    assert isinstance(started, HostStarted)
    assert started.resumed_tokens > 0
    books = run.controller.agreement.ledger()["tokyo"]
    assert books.trained == books.committed + sum(books.lost.values())
    assert set(books.lost) <= {"killed"}
    assert all_agree(run)


def test_data_goes_on_where_the_newest_post_ended(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.go(lambda town: town.round >= 3)
    newest = run.said(Contribution, "tokyo")[-1].body
    assert isinstance(newest, Contribution)
    no_snapshots(run, "tokyo")

    back = run.start("tokyo", incarnation=2).loop.bench.state

    assert back.counters.cursor == newest.cursor
    assert back.counters.n == newest.n


def test_a_snapshot_older_than_the_newest_post_gives_its_moments_only(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.go(lambda town: town.round >= 2)
    tokyo = run.hosts["tokyo"].loop
    tokyo.keep_now()
    kept = tokyo.bench.state.optimizer.state()
    folder = run.folder / "scratch/tokyo"
    newest = max(folder.glob("snapshot-*")).read_bytes()
    run.go(lambda town: town.round >= 5)
    no_snapshots(run, "tokyo")
    (folder / "snapshot-000900.safetensors").write_bytes(newest)

    back = run.start("tokyo", incarnation=2).loop.bench.state

    assert back.counters.round == run.round
    assert np.array_equal(back.weights.read(), run.agreed())
    assert all((back.optimizer.state()[name] == tensor).all() for name, tensor in kept.items())


def test_a_damaged_snapshot_is_told_and_the_one_before_is_used(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.go(lambda town: town.round >= 2)
    leave(run, "tokyo")
    tokyo = run.hosts["tokyo"].loop
    tokyo.keep_now()
    newest = max((run.folder / "scratch/tokyo").glob("snapshot-*"))
    damaged = bytearray(newest.read_bytes())
    damaged[-5] ^= 1
    newest.write_bytes(bytes(damaged))

    back = run.start("tokyo", incarnation=2).loop.bench.state

    assert back.counters == tokyo.bench.state.counters
    (told,) = events(run, "checkpoint")
    assert newest.name in told
    assert "the one before is used" in told


def test_a_damaged_checkpoint_is_told_and_the_one_before_is_used(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.go(lambda town: town.round >= 5)
    newest = run.said(Checkpointed)[-1].body
    assert isinstance(newest, Checkpointed)
    blob = bytearray(run.book.blobs[newest.blob])
    blob[-3] ^= 64
    run.book.blobs[newest.blob] = bytes(blob)
    no_snapshots(run, "tokyo")

    back = run.start("tokyo", incarnation=2).loop.bench.state

    assert np.array_equal(back.holdings.a, run.agreed())
    (told,) = events(run, "checkpoint")
    assert f"the checkpoint of round {newest.round} is damaged" in told


def test_a_snapshot_of_another_run_is_not_taken(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.go(lambda town: town.round >= 2)
    loop = run.hosts["tokyo"].loop
    loop.bench.facts = {"run": "another", "config": ""}
    leave(run, "tokyo")

    back = run.start("tokyo", incarnation=2).loop.bench.state

    assert np.array_equal(back.weights.read(), run.agreed())


def test_a_zombie_stops_when_it_hears_that_it_was_replaced(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.go(lambda town: town.round >= 2)
    zombie = run.hosts["tokyo"]
    no_snapshots(run, "tokyo")
    run.start("tokyo", incarnation=2)

    with pytest.raises(FencedError, match="its incarnation 2"):
        zombie.turn()

    run.go(lambda town: town.round >= 6)
    run.drain()
    run.go(Town.finished)
    assert all_agree(run)
    books = run.controller.agreement.ledger()["tokyo"]
    assert books.trained == books.committed + sum(books.lost.values())


def test_a_site_that_returns_does_not_evaluate_again_what_it_has_told(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.go(lambda town: town.round >= 2)
    leave(run, "tokyo")
    run.start("tokyo", incarnation=2)
    run.go(lambda town: town.round >= 6)

    told = [e.body for e in run.said(Evaluation, "tokyo")]
    rounds = [e.round for e in told if isinstance(e, Evaluation)]

    assert len(rounds) == len(set(rounds))


def test_no_room_for_a_snapshot_is_told_once_and_training_goes_on(tmp_path: Path) -> None:
    run = running(tmp_path)
    scratch = run.folder / "scratch/tokyo"
    for path in list(scratch.glob("snapshot-*")):
        path.unlink()
    tokyo = run.hosts["tokyo"].loop
    tokyo.bench.keeper._folder = Path("/dev/full")  # nothing can be written below it

    run.go(lambda town: town.round >= 5)

    assert len(events(run, "disk")) == 1
    assert all_agree(run)
