"""Hosts that are killed inside a site, hang, wake beside their own second life, or have full disks."""

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from fakes.whole import MARK, OWN, SITES, Run, Town, commits, entries_of, note, rounds_of

from argosy.cluster.processes import Processes
from argosy.core.records import (
    CONTROLLER,
    Contribution,
    Crew,
    Digest,
    Entry,
    HostEvent,
    HostStarted,
    Progress,
)
from argosy.lab import checkers
from argosy.lab.checkers import OK
from argosy.lab.files import limit_files
from argosy.logbook.blobs import BlobFolder
from argosy.run.audit import audit

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

Keep = Callable[[Run], Run]


def ended_well(run: Run, sites: Sequence[str], *, disturbed: tuple[str, ...] = ()) -> list[Entry]:
    assert run.process.poll() == 0, run.said
    assert run.alive() == {}
    assert "Traceback" not in run.said
    entries = entries_of(run.folder)
    assert audit(run.folder).ok
    assert checkers.same_model(entries, at_the_end=sites) == OK
    assert checkers.no_round_twice(entries) == OK
    assert checkers.ledger_closes(entries, disturbed=disturbed) == OK
    return entries


def events(entries: list[Entry], what: str) -> list[tuple[int, HostEvent]]:
    return [
        (e.seq, e.body) for e in entries if isinstance(e.body, HostEvent) and e.body.what == what
    ]


def fault(entries: list[Entry], words: str) -> int:
    return next(seq for seq, event in events(entries, "fault") if words in event.detail)


def posts(
    entries: list[Entry], site: str, from_seq: int, to_seq: float = math.inf
) -> list[Contribution]:
    told = (e.body for e in entries if e.writer.site == site and from_seq < e.seq < to_seq)
    return [body for body in told if isinstance(body, Contribution)]


def test_a_site_of_two_hosts_outlives_the_loss_of_either(tmp_path: Path, keep: Keep) -> None:
    """First the one that follows, then the one that leads; each comes back and joins again."""
    hosts = {"frankfurt": ("frankfurt-1",), "virginia": ("virginia-1", "virginia-2")}
    run = keep(Run.train(tmp_path, Town(hosts=hosts, model=OWN), "--declared"))
    story: list[tuple[str | None, str]] = [
        (None, "virginia-1, virginia-2 train together"),
        ("virginia-2", "virginia-1 train together"),
        (None, "virginia-1, virginia-2 train together"),
        ("virginia-1", "virginia-2 train together"),
        (None, "virginia-2, virginia-1 train together"),
    ]

    heard = 0
    for killed, together in story:
        if killed is not None:
            run.wait_for_round(rounds_of(run.entries()) + 2)
            run.kill_host(killed)
        told = run.wait_for(lambda told: formed(told, heard, together), together)  # noqa: B023
        heard = told[-1].seq
        if killed is not None:
            run.wait_for(lambda told: bool(posts(told, "virginia", heard)), "a post of the rest")  # noqa: B023
    assert run.stop(after_rounds=2) == 0
    entries = ended_well(run, list(hosts))

    crews = [e.body for e in entries if isinstance(e.body, Crew) and e.body.site == "virginia"]
    assert [crew.hosts[0] for crew in crews] == ["virginia-1", "virginia-2"]
    assert {event.host for _, event in events(entries, "lost")} == {"virginia-1", "virginia-2"}


def formed(entries: list[Entry], after: int, detail: str) -> bool:
    return any(seq > after and e.detail == detail for seq, e in events(entries, "regroup"))


def test_a_hang_a_damaged_blob_and_two_full_disks_hold_up_nobody(
    tmp_path: Path, keep: Keep
) -> None:
    """Virginia hangs, and what it fetches when it wakes is damaged at first; Tokyo's disk is full;
    then, for a while, that of the logbook itself."""
    script = ("hang virginia-1 at round 3 for 10 s", "fill the disk of tokyo-1 at round 2 for 12 s")
    run = keep(Run.train(tmp_path, Town(faults=script, model=OWN), "--declared"))

    blob = missed_by_virginia(run)
    whole = blob.read_bytes()
    swap(blob, whole[:-5] + bytes([whole[-5] ^ 8]) + whole[-4:])
    refused(run, "virginia", "fetching it again")
    swap(blob, whole)
    run.wait_for(awake, "virginia awake again")
    run.wait_for(
        lambda told: bool(posts(told, "virginia", fault(told, "virginia-1 goes on"))), "a post"
    )
    fill_the_logbooks_disk(run)
    assert run.stop(after_rounds=3) == 0
    entries = ended_well(run, SITES)

    hangs, wakes = fault(entries, "virginia-1 hangs"), fault(entries, "virginia-1 goes on")
    without = [c for e, c in commits(entries) if hangs < e.seq < wakes]
    assert sum("virginia" not in {m.site for m in c.members} for c in without) >= 2
    for site in ("frankfurt", "tokyo"):
        assert waits(entries, site, hangs, wakes) == 0.0
        assert posts(entries, site, hangs, wakes)
    (full,) = [event for _, event in events(entries, "disk") if event.host == "tokyo-1"]
    assert "a snapshot could not be written" in full.detail
    scratch = run.folder.home("tokyo", "tokyo-1") / "scratch"
    assert list(scratch.glob("*.part")) == []
    assert list(scratch.glob("snapshot-*.safetensors")), "with space again, it kept one"
    assert "the logbook takes no records now" in run.said


def missed_by_virginia(run: Run) -> Path:
    """A blob that a commit has named while Virginia hung, and that all others have fetched."""
    found: list[str] = []

    def there(entries: list[Entry]) -> bool:
        if not any("virginia-1 hangs" in event.detail for _, event in events(entries, "fault")):
            return False
        hangs = fault(entries, "virginia-1 hangs")
        agreed = {(e.writer.site, e.body.round) for e in entries if isinstance(e.body, Digest)}
        for entry, commit in commits(entries):
            others = [m for m in commit.members if m.site == "frankfurt"]
            known = {("tokyo", commit.round), (CONTROLLER, commit.round)} <= agreed
            if entry.seq > hangs and known and others:
                posted = (p for p in posts(entries, "frankfurt", 0) if p.n == others[0].n)
                found.extend(shard.blob for post in posted for shard in post.shards)
                return True
        return False

    run.wait_for(there, "a round without virginia")
    return BlobFolder(run.folder.logbook / "blobs").path(found[0])


def swap(path: Path, content: bytes) -> None:
    part = path.with_name("swap")
    part.write_bytes(content)
    part.replace(path)


def refused(run: Run, site: str, words: str) -> None:
    log = run.folder.log(site, f"{site}-1")
    run.wait_for(lambda _: words in log.read_text(errors="replace"), f"{site} saying {words!r}")


def awake(entries: list[Entry]) -> bool:
    return any("virginia-1 goes on" in event.detail for _, event in events(entries, "fault"))


def fill_the_logbooks_disk(run: Run) -> None:
    """Until the controller has said that no record can be written."""
    server = Processes(run.folder.path).adopt()["logbook"]
    assert server.pid is not None
    limit_files(server.pid, server.log, full=True)
    try:
        deadline = time.monotonic() + 60
        while "the logbook takes no records now" not in run.said:
            assert time.monotonic() < deadline, run.said
            time.sleep(0.05)
        before = len(run.entries())
        time.sleep(1.0)
        assert len(run.entries()) == before, "a full disk takes nothing"
    finally:
        limit_files(server.pid, server.log, full=False)


def waits(entries: list[Entry], site: str, from_seq: int, to_seq: int) -> float:
    told = (e.body for e in entries if e.writer.site == site and from_seq < e.seq < to_seq)
    return max(body.wait_s for body in told if isinstance(body, Progress))


@pytest.mark.slow
def test_a_cut_link_and_the_loss_of_every_helper_cost_no_token_and_no_life(
    tmp_path: Path, keep: Keep
) -> None:
    """Tokyo is cut off for a while; then the checkpointer, the relay and the logbook are killed."""
    script = ("cut tokyo for 6 s at round 3",)
    run = keep(Run.train(tmp_path, Town(faults=script, model=OWN), "--declared"))
    run.wait_for(
        lambda told: any("is linked again" in e.detail for _, e in events(told, "fault")), "a link"
    )

    for helper in ("checkpointer", "relay", "logbook"):
        run.wait_for_round(rounds_of(run.entries()) + 2)
        run.kill_host(helper)
    assert run.stop(after_rounds=4) == 0
    entries = ended_well(run, SITES)

    cut = (fault(entries, "tokyo is cut off"), fault(entries, "tokyo is linked again"))
    without = [c for e, c in commits(entries) if cut[0] < e.seq < cut[1]]
    assert any("tokyo" not in {m.site for m in c.members} for c in without)
    later = [c for e, c in commits(entries) if e.seq > cut[1]]
    assert any("tokyo" in {m.site for m in c.members} for c in later)
    begun = [e for e in entries if isinstance(e.body, HostStarted)]
    assert [e.writer.incarnation for e in begun] == [1, 1, 1], "a site was started again"


@pytest.mark.slow
def test_a_host_that_wakes_beside_its_own_second_life_is_harmless(
    tmp_path: Path, keep: Keep
) -> None:
    """Stopped for 10 s; meanwhile somebody starts the same host again; then the first one wakes."""
    script = ("hang frankfurt-1 at round 3 for 10 s",)
    run = keep(Run.train(tmp_path, Town(faults=script, model=OWN), "--declared"))
    run.wait_for(lambda told: bool(events(told, "fault")), "frankfurt hanging")

    worker = run.folder.worker("frankfurt", "frankfurt-1")
    second = subprocess.Popen(
        [sys.executable, "-m", "argosy.engine", str(worker)],
        env={**os.environ, MARK: run.mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    told = run.wait_for(lambda told: lives(told) >= [1, 2], "the second life")
    rounds = rounds_of(told)
    run.wait_for(lambda told: lives(told) >= [1, 2, 3], "the first life refused, and a third one")
    assert second.wait(60) is not None, "the second life goes on beside the third"
    third = next(e.seq for e in run.entries() if started(e) and e.writer.incarnation == 3)
    run.wait_for(lambda told: bool(posts(told, "frankfurt", third)), "a post of the third life")
    assert run.stop(after_rounds=2) == 0
    entries = ended_well(run, SITES, disturbed=("frankfurt",))

    hangs = fault(entries, "frankfurt-1 hangs")
    begun = next(e.seq for e in entries if e.writer.incarnation == 2 and started(e))
    assert hangs < begun
    late = [e for e in entries if e.seq > begun and e.writer.host == "frankfurt-1"]
    assert all(e.writer.incarnation >= 2 for e in late), "the fence let the first life write"
    others = [e.seq for e, c in commits(entries) if e.seq > hangs and len(c.members) >= 2]
    assert others
    note(f"second life in round {rounds}, lives {lives(entries)}")


def started(entry: Entry) -> bool:
    return isinstance(entry.body, HostStarted) and entry.writer.host == "frankfurt-1"


def lives(entries: list[Entry]) -> list[int]:
    return [entry.writer.incarnation for entry in entries if started(entry)]
