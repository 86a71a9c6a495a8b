"""Processes on this machine that outlive their controller, and are found again by the next."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from argosy.cluster.identity import identity
from argosy.cluster.provider import Exit, Process
from argosy.cluster.whole import write_whole
from argosy.core.errors import DamagedError, DiskError, HostError

_LOOK_EVERY_S = 0.02


class Processes:
    """Started here, each in a session of its own with its output in a file.

    So nothing ends with the controller: neither its terminal, nor its pipes, nor its death take
    the children along. `processes.json` names who runs; only `stop` ends anyone.
    """

    def __init__(self, run_folder: Path) -> None:
        self._file = run_folder / "processes.json"
        self._running: dict[str, Process] = {}
        self._children: set[int] = set()  # pids whose status is ours to collect
        self._exits: list[Exit] = []
        self._stopping: dict[str, Exit | None] = {}  # their ends are told by stop, not by exits

    def start(
        self, name: str, argv: list[str], *, log: Path, env: Mapping[str, str], nice: int = 0
    ) -> Process:
        self._look()
        if name in self._running:
            return self._running[name]
        pid = _spawn(name, argv, log, env)
        self._children.add(pid)
        if nice:
            _make_nice(pid, nice)
        # A program that ended at once is a zombie until it is collected; it is told by exits().
        process = Process(host=name, pid=pid, started=identity(pid) or "ended", log=log)
        self._running[name] = process
        self._write()
        return process

    def alive(self) -> dict[str, Process]:
        self._look()
        return dict(self._running)

    def exits(self) -> tuple[Exit, ...]:
        self._look()
        told = tuple(self._exits)
        self._exits.clear()
        return told

    def signal(self, name: str, number: signal.Signals) -> bool:
        """To the process and all it started. False: it does not run."""
        self._look()
        process = self._running.get(name)
        return process is not None and _signal_group(_pid(process), number)

    async def stop(self, name: str, *, within_s: float) -> Exit | None:
        """Asked to end, and after `within_s` made to."""
        if name not in self.alive():
            return None
        self._stopping.setdefault(name)
        self.signal(name, signal.SIGTERM)
        self.signal(name, signal.SIGCONT)  # a stopped process would not hear the first one
        if not await self._ended(name, within_s):
            self.signal(name, signal.SIGKILL)
            if not await self._ended(name, 10.0):
                raise HostError(
                    f"{name} (process {self._running[name].pid}) does not end, even when killed",
                    where=str(self._running[name].log),
                    hint="it hangs inside the system (a dead disk or network mount?)",
                )
        return self._stopping.pop(name, None)

    async def stop_all(self, *, within_s: float) -> tuple[Exit, ...]:
        names = list(self.alive())
        ends = await asyncio.gather(*(self.stop(name, within_s=within_s) for name in names))
        return tuple(end for end in ends if end is not None)

    def adopt(self) -> dict[str, Process]:
        """Those of an earlier controller that still run, and are still the same processes."""
        for process in _read(self._file):
            if process.host in self._running:
                continue
            self._running[process.host] = process
        self._look()
        return dict(self._running)

    async def _ended(self, name: str, within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while name in self.alive():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_LOOK_EVERY_S)
        return True

    def _look(self) -> None:
        ended = [
            Exit(host=name, code=code, log=process.log)
            for name, process in self._running.items()
            for gone, code in [self._status(process)]
            if gone
        ]
        for end in ended:
            del self._running[end.host]
            if end.host in self._stopping:
                self._stopping[end.host] = end
            else:
                self._exits.append(end)
        if ended:
            self._write()

    def _status(self, process: Process) -> tuple[bool, int | None]:
        pid = _pid(process)
        if pid not in self._children:
            return identity(pid) != process.started, None
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False, None
        # Not collected yet, its number cannot be given away: what it left behind can be ended.
        _signal_group(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        self._children.remove(pid)
        return True, os.waitstatus_to_exitcode(status)

    def _write(self) -> None:
        rows = [
            {"host": p.host, "pid": p.pid, "started": p.started, "log": str(p.log)}
            for p in self._running.values()
        ]
        text = json.dumps({"version": 1, "processes": rows}, indent=1)
        write_whole(self._file, text.encode(), mode=0o600)


def last_words(log: Path, *, lines: int = 5) -> str:
    """The end of a log, for the message about the process that wrote it."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.strip().splitlines()[-lines:])


def _spawn(name: str, argv: list[str], log: Path, env: Mapping[str, str]) -> int:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as problem:
        raise DiskError(
            f"cannot write the log of {name}: {problem.strerror}", where=str(log)
        ) from (problem)
    try:
        return os.posix_spawnp(
            argv[0],
            argv,
            env,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
            setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE),
        )
    except OSError as problem:
        raise HostError(
            f"cannot start {name}: {problem.strerror}",
            where=argv[0],
            hint="is the program there, and is there memory for one more process?",
        ) from problem
    finally:
        os.close(output)


def _make_nice(pid: int, nice: int) -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, pid, nice)
    except ProcessLookupError:  # it has ended already, which exits() will tell
        return


def _signal_group(pid: int, number: signal.Signals) -> bool:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):  # macOS says the latter of a zombie's group
        return False
    return True


def _pid(process: Process) -> int:
    assert process.pid is not None, "every process on this machine has one"
    return process.pid


def _read(file: Path) -> tuple[Process, ...]:
    try:
        found = json.loads(file.read_bytes())
        return tuple(
            Process(
                host=str(row["host"]),
                pid=int(row["pid"]),
                started=str(row["started"]),
                log=Path(row["log"]),
            )
            for row in found["processes"]
        )
    except FileNotFoundError:
        return ()
    except (ValueError, KeyError, TypeError) as problem:
        raise DamagedError(
            "the list of this run's processes cannot be read",
            where=str(file),
            hint="end them by hand (ps aux | grep argosy), remove the file and resume",
        ) from problem
