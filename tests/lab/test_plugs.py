import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from fakes.lab import fleet

from argosy.core.errors import DamagedError
from argosy.core.records import CONTROLLER, Commit, Entry, HostEvent, Lead, Writer
from argosy.lab.plugs import Plugs


class Desk:
    """Writes down what is done to it. `dies`: losing the controller ends the turn, as it would."""

    def __init__(self, *, dies: bool = False) -> None:
        self.done: list[tuple[object, ...]] = []
        self.dies = dies

    def signal(self, host: str, number: signal.Signals) -> bool:
        self.done.append((host, number.name))
        return True

    def limit_files(self, host: str, *, full: bool) -> None:
        self.done.append((host, "full" if full else "free"))

    async def order(self, **order: Any) -> None:
        self.done.append(tuple(order.values()))

    def lose_controller(self) -> None:
        self.done.append(("controller", "lost"))
        if self.dies:
            raise KeyboardInterrupt


class Lab:
    """Plugs on a desk, with a clock that goes when told."""

    def __init__(self, file: Path, *faults: str) -> None:
        self.file = file
        self.faults = faults
        self.now = 1000.0
        self.said: list[str] = []
        self.events: list[HostEvent] = []
        self.controller()

    def controller(self) -> None:
        """A new one, which knows only the file."""
        self.desk = Desk()
        self.plugs = Plugs(
            self.file, fleet(*self.faults), self.desk, tell=self._tell, clock=lambda: self.now
        )

    def turn(self, *, to_round: int = 0, after_s: float = 0.0) -> float | None:
        self.now += after_s
        if to_round:
            self.plugs.heard(commit(to_round))
        return asyncio.run(self.plugs.turn())

    def _tell(self, event: HostEvent) -> None:
        self.events.append(event)
        self.said.append(event.detail)


def commit(round: int) -> Entry:
    body = Commit(
        fragment=0, round=round, term=1, plan=1, members=(), expired=(), tokens=0, last=False,
        head_seq=0, head_chain="",
    )  # fmt: skip
    return entry(body)


def entry(body: Commit | Lead) -> Entry:
    writer = Writer(site=CONTROLLER, host=CONTROLLER, incarnation=1)
    return Entry(seq=1, chain="", writer=writer, counter=1, at_ms=0, kind="", body=body)


def test_a_killed_host_is_away_until_it_returns_and_all_of_it_is_told(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "plugs.json", "kill tokyo at round 2", "return tokyo at round 4")

    lab.turn(to_round=1)
    assert (lab.desk.done, lab.plugs.away) == ([], frozenset())

    lab.turn(to_round=2)
    assert lab.desk.done == [("tokyo-1", "SIGKILL")]
    assert lab.plugs.away == {"tokyo-1"}

    lab.turn(to_round=4)
    assert lab.plugs.away == frozenset()
    assert lab.said == [
        "tokyo-1 killed (fault script: kill tokyo at round 2)",
        "tokyo-1 may start again (fault script: return tokyo at round 4)",
    ]
    assert lab.events[0] == HostEvent(
        what="fault", site="tokyo", host="tokyo-1", detail=lab.said[0]
    )


def test_each_fault_is_pulled_once_though_its_round_is_passed_again_and_again(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path / "plugs.json", "kill tokyo at round 2")

    for round in (2, 3, 4):
        lab.turn(to_round=round)

    assert lab.desk.done == [("tokyo-1", "SIGKILL")]


def test_other_records_and_older_rounds_pull_nothing(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "plugs.json", "hang tokyo at round 2")
    lab.plugs.heard(entry(Lead(term=7)))

    lab.turn(to_round=1)

    assert lab.desk.done == []


def test_a_hang_ends_by_itself_and_the_time_until_then_is_known(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "plugs.json", "hang tokyo for 10 s at round 1")

    wait_s = lab.turn(to_round=1)
    assert wait_s == pytest.approx(10)
    assert lab.turn(after_s=9.9) == pytest.approx(0.1)
    assert lab.desk.done == [("tokyo-1", "SIGSTOP")]

    assert lab.turn(after_s=0.2) is None
    assert lab.desk.done == [("tokyo-1", "SIGSTOP"), ("tokyo-1", "SIGCONT")]


def test_a_fault_by_the_clock_counts_from_the_beginning_of_the_run(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "plugs.json", "cut tokyo for 5 s at 20 s")

    assert lab.turn() == pytest.approx(20)
    lab.turn(after_s=20)
    lab.turn(after_s=5)

    assert lab.desk.done == [("cut", "tokyo"), ("heal", "tokyo")]


def test_a_hang_is_ended_by_the_controller_that_comes_after(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "plugs.json", "hang tokyo for 10 s at round 1")
    lab.turn(to_round=1)

    lab.controller()
    lab.turn(after_s=11)

    assert lab.desk.done == [("tokyo-1", "SIGCONT")]


def test_a_lost_controller_does_not_lose_itself_again_and_says_what_was(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "plugs.json", "lose the controller at round 3")
    lab.desk.dies = True
    with pytest.raises(KeyboardInterrupt):
        lab.turn(to_round=3)
    assert lab.desk.done == [("controller", "lost")]

    lab.controller()
    lab.turn(to_round=3)

    assert lab.desk.done == []
    assert lab.said[-1].startswith("controller was lost and is back")
    assert lab.events[-1].site == CONTROLLER


def test_a_preempted_host_is_asked_first_and_is_away_from_then_on(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "plugs.json", "preempt tokyo-1 with 30 s notice at round 1")

    lab.turn(to_round=1)
    assert lab.plugs.away == {"tokyo-1"}
    lab.turn(after_s=30)

    assert lab.desk.done == [("tokyo-1", "SIGTERM"), ("tokyo-1", "SIGKILL")]


def test_who_returns_within_the_notice_is_not_switched_off_after_it(tmp_path: Path) -> None:
    lab = Lab(
        tmp_path / "plugs.json",
        "preempt tokyo-1 with 30 s notice at round 1",
        "return tokyo-1 at round 2",
    )

    lab.turn(to_round=1)
    lab.turn(to_round=2, after_s=1)
    lab.turn(after_s=60)

    assert lab.desk.done == [("tokyo-1", "SIGTERM")]
    assert lab.plugs.away == frozenset()


def test_a_return_heals_what_had_no_end_and_is_silent_about_the_rest(tmp_path: Path) -> None:
    lab = Lab(
        tmp_path / "plugs.json",
        "stall virginia at round 1",
        "hang virginia-2 at round 1",
        "slow virginia to 2 Mbit/s at round 1",
        "return virginia at round 2",
    )

    lab.turn(to_round=1)
    assert lab.plugs.link_orders() == [
        {"do": "stall", "site": "virginia"},
        {"do": "link", "site": "virginia", "mbit_per_s": 2.0},
    ]
    lab.turn(to_round=2)

    assert lab.desk.done[3:] == [
        ("virginia-2", "SIGCONT"),
        ("heal", "virginia"),
        ("link", "virginia"),
    ]
    assert len(lab.said) == 6
    assert lab.plugs.link_orders() == []


def test_a_full_disk_is_remembered_for_the_next_process_of_the_host(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "plugs.json", "fill the disk of tokyo-1 for 5 s at round 1")

    lab.turn(to_round=1)
    assert lab.plugs.full == {"tokyo-1"}
    lab.turn(after_s=5)

    assert lab.desk.done == [("tokyo-1", "full"), ("tokyo-1", "free")]
    assert lab.plugs.full == frozenset()


def test_a_slowed_host_stops_and_goes_on_and_is_not_left_stopped(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "plugs.json", "slow tokyo-1 to 90 % at 0 s", "return tokyo-1 at round 1")

    async def go() -> None:
        watching = asyncio.create_task(lab.plugs.watch())
        while len(lab.desk.done) < 4:
            await asyncio.sleep(0)
        lab.plugs.heard(commit(1))
        while len(lab.said) < 2:
            await asyncio.sleep(0)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(go())

    assert [name for _, name in lab.desk.done[:4]] == ["SIGSTOP", "SIGCONT"] * 2
    assert lab.desk.done[-1] == ("tokyo-1", "SIGCONT")
    assert lab.said[1].startswith("tokyo-1 runs at full speed again")


def test_a_slowed_host_is_slowed_by_the_next_controller_too(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "plugs.json", "slow tokyo-1 to 90 % at 0 s")

    async def watch_until(done: int) -> None:
        watching = asyncio.create_task(lab.plugs.watch())
        while len(lab.desk.done) < done:
            await asyncio.sleep(0)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(watch_until(1))
    lab.controller()
    asyncio.run(watch_until(1))

    assert lab.desk.done[0] == ("tokyo-1", "SIGSTOP")
    assert lab.desk.done[-1] == ("tokyo-1", "SIGCONT")
    assert len(lab.said) == 1


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "plugs.json").write_text('{"began_s": 1}')

    with pytest.raises(DamagedError, match=r"plugs\.json"):
        Lab(tmp_path / "plugs.json")
