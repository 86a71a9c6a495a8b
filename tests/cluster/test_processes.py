"""Real processes, and what becomes of them when their controller ends in every way it can."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from argosy.cluster.identity import identity
from argosy.cluster.processes import Processes, last_words
from argosy.cluster.provider import Exit, Process
from argosy.core.errors import DamagedError, DiskError, HostError

pytestmark = pytest.mark.lab

ENV = {"PATH": os.environ["PATH"]}
DOZE = ["/bin/sh", "-c", "echo here; exec sleep 600"]
DEAF = ["/bin/sh", "-c", "trap '' TERM; echo here; while :; do sleep 0.05; done"]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path)
    yield processes
    asyncio.run(processes.stop_all(within_s=0.5))


def start(desk: Processes, tmp_path: Path, name: str, argv: list[str]) -> Process:
    return desk.start(name, argv, log=tmp_path / "sites" / name / "log.txt", env=ENV)


def until(what: str, log: Path, within_s: float = 10.0) -> None:
    """Wait until a process has said this."""
    deadline = time.monotonic() + within_s
    while what not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline, f"{log} never said {what}"
        time.sleep(0.01)


def exits(desk: Processes, within_s: float = 10.0) -> tuple[Exit, ...]:
    deadline = time.monotonic() + within_s
    while not (told := desk.exits()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return told


def test_a_process_lives_speaks_into_its_log_and_ends_when_asked(
    desk: Processes, tmp_path: Path
) -> None:
    process = start(desk, tmp_path, "tokyo-1", DOZE)

    until("here", process.log)
    assert desk.alive() == {"tokyo-1": process}
    end = asyncio.run(desk.stop("tokyo-1", within_s=5))

    assert end == Exit(host="tokyo-1", code=-signal.SIGTERM, log=process.log)
    assert desk.alive() == {}
    assert desk.exits() == ()  # stop has told it


def test_what_does_not_end_when_asked_is_made_to(desk: Processes, tmp_path: Path) -> None:
    process = start(desk, tmp_path, "deaf", DEAF)
    until("here", process.log)

    end = asyncio.run(desk.stop("deaf", within_s=0.2))

    assert end is not None
    assert end.code == -signal.SIGKILL


def test_a_stopped_process_can_be_ended_too(desk: Processes, tmp_path: Path) -> None:
    process = start(desk, tmp_path, "hung", DOZE)
    until("here", process.log)
    desk.signal("hung", signal.SIGSTOP)

    end = asyncio.run(desk.stop("hung", within_s=5))

    assert end is not None
    assert end.code == -signal.SIGTERM


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("exit 3", 3, "tokyo-1 ended with status 3"),
        ("exit 0", 0, "tokyo-1 ended with status 0"),
        ("kill -9 $$", -9, "tokyo-1 ended by signal 9"),
    ],
    ids=["failed", "finished", "killed"],
)
def test_how_a_process_ended_is_told_once(
    desk: Processes, tmp_path: Path, command: str, code: int, words: str
) -> None:
    start(desk, tmp_path, "tokyo-1", ["/bin/sh", "-c", command])

    (end,) = exits(desk)

    assert (end.code, str(end), end.ok) == (code, words, code == 0)
    assert desk.exits() == ()
    assert asyncio.run(desk.stop("tokyo-1", within_s=1)) is None


def test_who_runs_already_is_not_started_again_and_who_has_ended_is(
    desk: Processes, tmp_path: Path
) -> None:
    first = start(desk, tmp_path, "tokyo-1", DOZE)
    assert start(desk, tmp_path, "tokyo-1", DOZE) == first

    desk.signal("tokyo-1", signal.SIGKILL)
    exits(desk)

    assert start(desk, tmp_path, "tokyo-1", DOZE).pid != first.pid


def test_children_of_a_process_end_with_it(desk: Processes, tmp_path: Path) -> None:
    process = start(
        desk, tmp_path, "parent", ["/bin/sh", "-c", "sleep 600 & echo child $!; kill -9 $$"]
    )
    until("child", process.log)
    child = int(process.log.read_text().split()[1])

    exits(desk)

    deadline = time.monotonic() + 5
    while identity(child) is not None:
        assert time.monotonic() < deadline, "an orphan was left"
        time.sleep(0.01)


def test_a_program_that_is_not_there_is_a_failed_start(desk: Processes, tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot start tokyo-1"):
        start(desk, tmp_path, "tokyo-1", ["/no/such/program"])

    assert desk.alive() == {}


def test_a_log_that_cannot_be_written_is_a_disk_error(desk: Processes, tmp_path: Path) -> None:
    (tmp_path / "sites").write_text("a file where a folder should be")

    with pytest.raises(DiskError, match="log of tokyo-1"):
        start(desk, tmp_path, "tokyo-1", DOZE)


def test_a_nice_process_gives_way(desk: Processes, tmp_path: Path) -> None:
    process = desk.start("n", DOZE, log=tmp_path / "log", env=ENV, nice=5)
    assert process.pid is not None

    usual = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == usual + 5 or usual > 14


CONTROLLER = """
import sys, time
from pathlib import Path
from argosy.cluster.processes import Processes
here = Path(sys.argv[1])
process = Processes(here).start("tokyo-1", {doze!r}, log=here / "log", env={env!r})
print(process.pid, flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def controller(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    text = CONTROLLER.format(doze=DOZE, env=ENV)
    program = [sys.executable, "-c", text, str(folder)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        yield running, int(running.stdout.readline())
        running.kill()


def test_a_process_outlives_its_killed_controller_and_the_next_one_finds_and_ends_it(
    tmp_path: Path,
) -> None:
    with controller(tmp_path) as (killed, pid):
        killed.kill()
        killed.wait()
    after = Processes(tmp_path)

    found = after.adopt()
    assert found["tokyo-1"].pid == pid
    assert start(after, tmp_path, "tokyo-1", DOZE).pid == pid  # it is not started twice
    end = asyncio.run(after.stop("tokyo-1", within_s=5))

    assert end is not None
    assert (end.code, end.ok) == (None, False)
    assert str(end) == "tokyo-1 ended; its status is not known"
    assert identity(pid) is None


def test_what_ended_while_nobody_looked_is_told_by_the_next_controller(tmp_path: Path) -> None:
    with controller(tmp_path) as (killed, pid):
        killed.kill()
        killed.wait()
    os.killpg(pid, signal.SIGKILL)
    after = Processes(tmp_path)
    deadline = time.monotonic() + 5
    while identity(pid) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)

    assert after.adopt() == {}

    (end,) = after.exits()
    assert (end.host, end.code) == ("tokyo-1", None)


def test_a_stranger_with_the_same_number_is_neither_adopted_nor_harmed(
    desk: Processes, tmp_path: Path
) -> None:
    stranger = start(desk, tmp_path, "stranger", DOZE)
    other = tmp_path / "other run"
    other.mkdir()
    row = {"host": "tokyo-1", "pid": stranger.pid, "started": "long ago", "log": "log"}
    (other / "processes.json").write_text(json.dumps({"version": 1, "processes": [row]}))
    after = Processes(other)

    assert after.adopt() == {}
    assert asyncio.run(after.stop("tokyo-1", within_s=0.1)) is None
    assert after.signal("tokyo-1", signal.SIGKILL) is False

    assert "stranger" in desk.alive()


def test_a_list_of_processes_that_cannot_be_read_is_not_taken_for_an_empty_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "processes.json").write_text('{"processes": [{"host": "tokyo-1"}]}')

    with pytest.raises(DamagedError, match=r"processes\.json"):
        Processes(tmp_path).adopt()


def test_all_are_stopped_at_once_so_that_the_slowest_decides(
    desk: Processes, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        until("here", start(desk, tmp_path, name, DEAF).log)

    begun = time.monotonic()
    ends = asyncio.run(desk.stop_all(within_s=0.5))

    assert {end.host for end in ends} == {"a", "b", "c"}
    assert time.monotonic() - begun < 1.4  # one after the other would be 1.5


def test_the_last_words_of_a_log_are_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 9000 + b"\none\n\xfftwo\nthree\n")

    assert last_words(log, lines=2) == "\N{REPLACEMENT CHARACTER}two\nthree"
    assert last_words(tmp_path / "none") == ""
