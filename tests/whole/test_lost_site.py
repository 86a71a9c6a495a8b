"""A site is killed in the middle and comes back, its neighbour's clock is wrong, and all it said to
the logbook was written down: what the others felt, what was lost, and whether a text leaked."""

import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard
from fakes.server import RunningServer
from fakes.whole import LANGUAGE, SITES, Run, Town, commits, counters, entries_of, note

from argosy.core.records import Commit, Contribution, Drain, Entry, HostEvent, HostStarted, Progress
from argosy.exchange.agreement import Agreement
from argosy.lab import checkers
from argosy.lab.canary import Recorder, find
from argosy.lab.checkers import OK
from argosy.lab.crossing import counters_agree
from argosy.logbook.gate import Gate
from argosy.logbook.keys import Pen, next_incarnation
from argosy.logbook.server import Serving
from argosy.run.audit import audit
from argosy.run.folder import RunFolder

if TYPE_CHECKING:
    from whole.conftest import Undisturbed

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

CANARIES = {
    "german": "Der Kanarienvogel sang um drei Uhr nachts in Bockenheim ganz leise.",
    "japanese": "カナリアは午前三時に渋谷で静かに歌っていた。",
    "english": "At three in the morning the canary of Arlington whistled a sea shanty.",
}
KILLED, RETURNS = 4, 8  # at these rounds
HOUR_S = 3600


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """A run in which one site was killed and came back."""

    site: str
    code: int
    said: str
    folder: RunFolder
    entries: list[Entry]
    bodies: list[bytes]

    @property
    def survivors(self) -> tuple[str, ...]:
        return tuple(site for site in SITES if site != self.site)

    def fault(self, word: str) -> Entry:
        told = (e for e in self.entries if isinstance(e.body, HostEvent) and e.body.what == "fault")
        return next(e for e in told if isinstance(e.body, HostEvent) and word in e.body.detail)

    @property
    def draining(self) -> Entry:
        return next(entry for entry in self.entries if isinstance(entry.body, Drain))


def lose(place: Path, site: str) -> Lost:
    ahead = next(other for other in SITES if other != site)
    bodies = place / "bodies"
    script = (f"kill {site}-1 at round {KILLED}", f"return {site}-1 at round {RETURNS}")
    run = Run.backstage(
        place,
        Town(faults=script, planted=CANARIES),
        bodies=str(bodies),
        clocks={f"{ahead}-1": HOUR_S},
    )
    try:
        run.wait_for(lambda told: in_a_round_again(told, site), f"{site} in a round again")
        code = run.stop(after_rounds=3)
        assert run.alive() == {}
    finally:
        run.clear()
    return Lost(
        site=site,
        code=code,
        said=run.said,
        folder=run.folder,
        entries=entries_of(run.folder),
        bodies=[path.read_bytes() for path in sorted(bodies.iterdir())],
    )


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Lost:
    return lose(tmp_path_factory.mktemp("lost"), "tokyo")


def test_the_run_ends_well_with_one_model_and_an_audit_that_is_ok(lost: Lost) -> None:
    ends_well(lost)


def ends_well(lost: Lost) -> None:
    assert lost.code == 0, lost.said
    assert audit(lost.folder).ok
    assert checkers.same_model(lost.entries, at_the_end=SITES) == OK
    assert checkers.no_round_twice(lost.entries) == OK


def test_no_survivor_waited_while_the_site_was_away(lost: Lost) -> None:
    nobody_waited(lost)


def nobody_waited(lost: Lost) -> None:
    """Between the kill and the drain of the run each survivor trained all the time."""
    from_seq, to_seq = lost.fault("killed").seq, lost.draining.seq
    for site in lost.survivors:
        told = [
            e.body for e in lost.entries if e.writer.site == site and from_seq <= e.seq < to_seq
        ]
        waits = [body.wait_s for body in told if isinstance(body, Progress)]
        assert waits, f"{site} told nothing"
        assert max(waits) == 0.0, f"{site} waited {waits}"


def test_no_survivor_stood_still_longer_than_it_does_undisturbed(
    lost: Lost, undisturbed: "Undisturbed", tmp_path: Path
) -> None:
    """What our neighbours on this machine do passes; a stall that is ours comes every time."""
    try:
        stood_still(lost, undisturbed)
    except AssertionError as once:
        note(f"once more, for {once}")
        stood_still(lose(tmp_path, lost.site), undisturbed)


def stood_still(lost: Lost, undisturbed: "Undisturbed") -> None:
    """From the kill until the site may start again: the starting process itself takes a core of
    this desk from its neighbours, which another continent would not.

    What is usual is the larger of two 99th percentiles: of the undisturbed run, and of this one
    before the fault, for this machine may have been busier now than then.
    """
    killed, back = lost.fault("killed").seq, lost.fault("may start again").seq
    for site in lost.survivors:
        usual = max(
            percentile(gaps(undisturbed.entries, site)),
            percentile(gaps(lost.entries, site, 0, killed)),
        )
        around = gaps(lost.entries, site, killed, back)
        note(f"{site}: longest gap {max(around):.3f} s, usual {usual:.3f} s, n={len(around)}")
        assert max(around) <= 1.5 * usual, (site, around, usual)


def gaps(
    entries: list[Entry], site: str, from_seq: int = 0, to_seq: float = math.inf
) -> list[float]:
    told = (e.body for e in entries if e.writer.site == site and from_seq <= e.seq <= to_seq)
    return [body.longest_gap_s for body in told if isinstance(body, Progress)]


def in_a_round_again(entries: list[Entry], site: str) -> bool:
    second = [e.seq for e in entries if isinstance(e.body, HostStarted) and e.writer.site == site][
        1:
    ]
    later = (c for e, c in commits(entries) if second and e.seq > second[0])
    return any(site in {m.site for m in commit.members} for commit in later)


def percentile(values: list[float]) -> float:
    assert values
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def test_the_others_went_on_agreeing_and_the_site_came_back_into_the_rounds(lost: Lost) -> None:
    comes_back(lost)


def comes_back(lost: Lost) -> None:
    killed, back = lost.fault("killed").seq, lost.fault("may start again").seq
    commits = [(e.seq, e.body) for e in lost.entries if isinstance(e.body, Commit)]
    without = [c for seq, c in commits if killed < seq < back]
    assert len(without) >= RETURNS - KILLED - 1
    assert lost.site not in {m.site for c in without[1:] for m in c.members}

    lives = [
        e for e in lost.entries if isinstance(e.body, HostStarted) and e.writer.site == lost.site
    ]
    assert [e.writer.incarnation for e in lives] == [1, 2]
    assert lives[1].seq > back
    again = [
        c for seq, c in commits if seq > lives[1].seq and lost.site in {m.site for m in c.members}
    ]
    assert again, "it is in no round after it came back"


def test_only_what_the_killed_site_had_not_posted_is_lost(lost: Lost) -> None:
    loses_little(lost)


def loses_little(lost: Lost) -> None:
    assert checkers.ledger_closes(lost.entries, disturbed=(lost.site,)) == OK
    agreement = Agreement()
    for entry in lost.entries:
        agreement.hear(entry)
    for site, row in agreement.ledger().items():
        assert row.trained == row.committed + row.pending + sum(row.lost.values())
        reasons = {reason for reason, tokens in row.lost.items() if tokens}
        assert reasons <= ({"killed"} if site == lost.site else set()), (site, row)


def test_the_relay_counted_what_the_logbook_says(lost: Lost) -> None:
    folder = lost.folder
    before = counters(folder, "counters-before.json")

    said = counters_agree(lost.entries, counters(folder), before, disturbed=(lost.site,))

    assert said == OK


def test_a_clock_that_is_an_hour_ahead_is_told_and_changes_nothing(lost: Lost) -> None:
    told = [
        e.body for e in lost.entries if isinstance(e.body, HostEvent) and e.body.what == "clock"
    ]

    assert [(event.host, "1 h 0 min ahead" in event.detail) for event in told] == [
        ("frankfurt-1", True)
    ]
    hours = [e.at_ms / 3.6e6 for e in lost.entries if e.writer.host == "frankfurt-1"]
    others = [e.at_ms / 3.6e6 for e in lost.entries if e.writer.host != "frankfurt-1"]
    assert min(hours) > max(others), "its clock was wrong"
    assert "1 h" not in lost.said.split("small-town: stopped")[1].splitlines()[0]


def test_no_text_left_its_site(lost: Lost) -> None:
    """First that it is found where it lies: among the tokens that each site has trained on."""
    for site, language in LANGUAGE.items():
        scratch = lost.folder.home(site, f"{site}-1") / "scratch" / "tokens"
        tokens = [path.read_bytes() for path in scratch.glob("*.npy")]
        assert find([CANARIES[language]], tokens), f"{site} has not read its sentence"
    assert sum(map(len, lost.bodies)) > 500_000, "the updates themselves are among them"

    stored = [
        path.read_bytes() for path in (lost.folder.logbook / "blobs").rglob("*") if path.is_file()
    ]
    records = [entry.raw for entry in lost.entries]

    assert find(list(CANARIES.values()), [*lost.bodies, *stored, *records]) == ()


def test_a_site_that_leaks_is_caught(lost: Lost) -> None:
    """The same search, over what a rogue with the site's own keys sends to the same logbook."""
    german, japanese = CANARIES["german"], CANARIES["japanese"]
    keys = lost.folder.keys("tokyo", "tokyo-1")
    pen = Pen.open(keys, next_incarnation(lost.entries, "tokyo", "tokyo-1"))

    with recording(lost.folder) as (server, recorder), closing(server.client(keys)) as rogue:
        rogue.put(zstandard.compress(b"".join(bytes([b, 0]) for b in japanese.encode())))
        said = HostEvent(what="note", site="tokyo", host="tokyo-1", detail=f"harmless: {german}")
        rogue.append(pen.sign(said, 0))
    bodies = recorder.bodies

    leaks = find(list(CANARIES.values()), bodies)

    assert {leak.sentence for leak in leaks} == {german, japanese}
    assert {leak.form for leak in leaks} == {"zstd > uint16", "text"}


@contextmanager
def recording(folder: RunFolder) -> Iterator[tuple[RunningServer, Recorder]]:
    recorders: list[Recorder] = []

    def around(app: Recorder) -> Recorder:
        recorders.append(Recorder(app))
        return recorders[0]

    serving = Serving(folder=folder.logbook, keys=folder.keys("controller", "server"))
    with RunningServer(serving, Gate(), around=around) as server:  # type: ignore[arg-type]
        yield server, recorders[0]


@pytest.mark.slow
@pytest.mark.parametrize("site", ["frankfurt", "virginia"])
def test_any_other_site_may_be_the_one(
    tmp_path: Path, site: str, undisturbed: "Undisturbed"
) -> None:
    lost = lose(tmp_path, site)

    ends_well(lost)
    nobody_waited(lost)
    stood_still(lost, undisturbed)
    comes_back(lost)
    loses_little(lost)
    contributions = [e for e in lost.entries if isinstance(e.body, Contribution)]
    assert {entry.writer.site for entry in contributions} == set(SITES)
