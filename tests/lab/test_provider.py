"""The lab with real processes: shells as hosts, the relay, and plugs that are really pulled."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fakes.lab import ask, dial, echo, fleet
from fakes.lab_history import History

from argosy.cluster.processes import Processes
from argosy.cluster.provider import Exit, Process
from argosy.core.errors import HostError, SpecError
from argosy.lab.provider import LabProvider
from argosy.lab.relay import read_counters

if TYPE_CHECKING:
    from argosy.core.records import HostEvent

pytestmark = pytest.mark.lab

ENV = dict(os.environ)
COUNT = ["/bin/sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    after = Processes(tmp_path)
    after.adopt()
    asyncio.run(after.stop_all(within_s=0.5))


class Lab:
    def __init__(self, folder: Path, *faults: str, rtt_ms: float = 0.0) -> None:
        self.folder = folder
        self.fleet = fleet(*faults, rtt_ms=rtt_ms)
        self.events: list[HostEvent] = []
        self.log = History().lead(1)
        self.provider: LabProvider

    def run(self, story: Callable[[], Awaitable[None]], *, target: int = 1) -> None:
        async def whole() -> None:
            self.provider = LabProvider(
                self.folder, self.fleet, target, env=ENV, tell=self.events.append
            )
            await self.provider.adopt(self.folder)
            await self.provider.prepare(self.fleet, within_s=20)
            try:
                await story()
            finally:
                await self.provider.leave()

        asyncio.run(whole())

    async def start(self, host: str, argv: list[str] = COUNT) -> Process:
        log = self.folder / "sites" / host / "log.txt"
        return await self.provider.start(host, argv, log=log, env=ENV, within_s=5)

    def round(self, n: int) -> None:
        self.log.post("tokyo", n, 1, n).commit(n, ("tokyo", n))
        self.provider.heard(self.log.entries[-1])

    async def told(self, count: int) -> list[str]:
        await until(lambda: len(self.events) >= count)
        return [event.detail for event in self.events]


async def until(so: Callable[[], bool], within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not so():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def exits(provider: LabProvider) -> tuple[Exit, ...]:
    ends: tuple[Exit, ...] = ()

    def some() -> bool:
        nonlocal ends
        ends = provider.exits()
        return bool(ends)

    await until(some)
    return ends


def size(process: Process) -> int:
    return process.log.stat().st_size


def test_a_killed_host_cannot_be_started_until_it_returns(folder: Path) -> None:
    lab = Lab(folder, "kill virginia-1 at round 1", "return virginia-1 at round 2")

    async def story() -> None:
        for host in ("virginia-1", "virginia-2"):
            await lab.start(host)

        lab.round(1)
        assert await lab.told(1) == ["virginia-1 killed (fault script: kill virginia-1 at round 1)"]
        ends = await exits(lab.provider)
        assert [(end.host, end.code) for end in ends] == [("virginia-1", -9)]
        assert set(await lab.provider.alive()) == {"virginia-2"}
        with pytest.raises(HostError, match="switched off"):
            await lab.start("virginia-1")

        lab.round(2)
        await lab.told(2)
        assert lab.provider.away() == frozenset()
        await lab.start("virginia-1")

    lab.run(story)


def test_a_hung_host_stands_still_and_goes_on(folder: Path) -> None:
    lab = Lab(folder, "hang tokyo for 0.5 s at round 1")

    async def story() -> None:
        process = await lab.start("tokyo-1")
        await until(lambda: size(process) > 0)

        lab.round(1)
        await lab.told(1)
        before = size(process)
        await asyncio.sleep(0.2)
        assert size(process) == before

        await lab.told(2)
        await until(lambda: size(process) > before)

    lab.run(story)


def test_a_slowed_host_does_less(folder: Path) -> None:
    lab = Lab(folder, "slow tokyo-1 to 20 % at round 1", "return tokyo-1 at round 2")

    async def story() -> None:
        busy = await lab.start("tokyo-1", [sys.executable, "-c", SPIN])
        await until(lambda: size(busy) > 0)
        lab.round(1)
        await lab.told(1)

        before_s = cpu_s(busy)
        await asyncio.sleep(1.0)
        used_s = cpu_s(busy) - before_s

        assert used_s < 0.4
        lab.round(2)
        await lab.told(2)

    lab.run(story)


def test_a_full_disk_breaks_off_big_files_and_lets_go_again(folder: Path) -> None:
    lab = Lab(folder, "fill the disk of tokyo-1 at round 1", "return tokyo-1 at round 2")

    async def story() -> None:
        scratch = lab.provider.place("tokyo-1").scratch
        process = await lab.start("tokyo-1", [sys.executable, "-uc", WRITE, str(scratch)])
        await until(lambda: "wrote" in process.log.read_text())

        lab.round(1)
        await until(lambda: "File too large" in process.log.read_text())
        assert (scratch / "big").stat().st_size < 300_000  # broken off in the middle

        lab.round(2)
        await lab.told(2)
        said = process.log.read_text().count("wrote")
        await until(lambda: process.log.read_text().count("wrote") > said)

    lab.run(story)


def test_a_process_started_on_a_full_disk_cannot_write_either(folder: Path) -> None:
    lab = Lab(folder, "fill the disk of tokyo-1 at round 0")

    async def story() -> None:
        await lab.told(1)
        scratch = lab.provider.place("tokyo-1").scratch
        process = await lab.start("tokyo-1", [sys.executable, "-uc", WRITE, str(scratch)])
        await until(lambda: "File too large" in process.log.read_text())

    lab.run(story)


def test_a_cut_site_is_cut_and_the_other_is_not_even_by_a_new_relay(folder: Path) -> None:
    lab = Lab(folder, "cut tokyo at round 1", "return tokyo at round 2")

    async def whole() -> None:
        async with echo() as server:
            lab.provider = LabProvider(folder, lab.fleet, server, env=ENV, tell=lab.events.append)
            await lab.provider.prepare(lab.fleet, within_s=20)
            ports = [int(lab.provider.url(s).rsplit(":", 1)[1]) for s in ("tokyo", "virginia")]
            lab.round(1)
            await lab.told(1)
            await until_cut(ports[0])
            line = await dial(ports[1])
            assert await ask(line, b"hello") == b"hello"
            line[1].close()

            relay = json.loads((folder / "processes.json").read_bytes())["processes"][0]
            os.kill(relay["pid"], signal.SIGKILL)
            await until(lambda: lab.provider.exits() == () and mended(folder, relay["pid"]))
            await until_cut(ports[0])

            lab.round(2)
            await lab.told(2)
            line = await dial(ports[0])
            assert await ask(line, b"hello") == b"hello"
            line[1].close()
            await lab.provider.release(within_s=5)

        counted = read_counters(lab.provider.counters)
        assert counted["virginia"]["up"] in (0, 5)  # killed, it may lose its last half second
        assert counted["tokyo"]["down"] == 5

    asyncio.run(whole())


def test_the_count_before_training_is_kept_apart(folder: Path) -> None:
    lab = Lab(folder)

    async def story() -> None:
        await until(lab.provider.counters.exists)
        lab.provider.heard(History().start("tokyo").entries[0])

        assert read_counters(lab.provider.counters_before)["tokyo"]["up"] == 0

    lab.run(story)


def test_hosts_have_their_cores_and_scratch_of_their_own(folder: Path) -> None:
    lab = Lab(folder)

    async def story() -> None:
        process = await lab.start("virginia-1", ["/bin/sh", "-c", "echo $OMP_NUM_THREADS"])
        await until(lambda: size(process) > 0)

        assert process.log.read_text() == "2\n"
        places = [lab.provider.place(host).scratch for host in ("virginia-1", "virginia-2")]
        assert places[0] != places[1]
        assert all(place.is_dir() for place in places)

    lab.run(story)


def test_a_lost_controller_is_really_killed_and_its_hosts_work_on(folder: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CONTROLLER, str(folder)], env=ENV) as lost:
        assert lost.wait(timeout=30) == -signal.SIGKILL
    lab = Lab(folder, "lose the controller at round 1")

    async def story() -> None:
        process = (await lab.provider.alive())["tokyo-1"]
        before = size(process)
        await until(lambda: size(process) > before)
        assert (await lab.told(1))[0].startswith("controller was lost and is back")
        lab.round(1)
        await lab.provider.release(within_s=5)
        assert await lab.provider.alive() == {}

    lab.run(story)


def test_a_script_that_names_nobody_is_refused_before_anything_starts(folder: Path) -> None:
    with pytest.raises(SpecError, match="atlantis"):
        Lab(folder, "kill atlantis at round 1").run(_nothing)

    assert list(folder.iterdir()) == []


def test_a_relay_that_cannot_start_is_an_error_with_its_last_words(folder: Path) -> None:
    lab = Lab(folder)
    lab.run(_nothing)
    asyncio.run(_stop_relay(folder))
    port = json.loads((folder / "lab" / "relay.json").read_bytes())["sites"][0]["port"]

    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(HostError, match=rf"relay ended at once[\s\S]*port {port} cannot be had"),
    ):
        lab.run(_nothing)


async def _nothing() -> None:
    return


async def _stop_relay(folder: Path) -> None:
    processes = Processes(folder)
    processes.adopt()
    await processes.stop_all(within_s=5)


async def until_cut(port: int) -> None:
    async def is_cut() -> bool:
        try:
            line = await dial(port)
            await asyncio.wait_for(ask(line, b"?"), 1)
        except (OSError, asyncio.IncompleteReadError):
            return True
        line[1].close()
        return False

    deadline = time.monotonic() + 10
    while not await is_cut():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def mended(folder: Path, old: int) -> bool:
    rows = json.loads((folder / "processes.json").read_bytes())["processes"]
    return bool(rows) and rows[0]["pid"] != old


def cpu_s(process: Process) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


SPIN = "print('here', flush=True)\nwhile True: pass"
WRITE = """
import sys, time, pathlib
while True:
    try:
        with open(pathlib.Path(sys.argv[1]) / "big", "wb") as file:
            for _ in range(20):
                file.write(b"x" * 100_000)
        print("wrote")
    except OSError as problem:
        print(problem)
    time.sleep(0.02)
"""
CONTROLLER = """
import asyncio, os, sys
from pathlib import Path
from argosy.core.fleet import Fleet, Host, Link, Site
from argosy.core.records import Commit, Entry, Writer
from argosy.lab.provider import LabProvider

folder = Path(sys.argv[1])
fleet = Fleet(
    home="DE",
    sites=(
        Site(name="tokyo", country="JP", hosts=(Host(name="tokyo-1"),)),
        Site(
            name="virginia",
            country="US",
            hosts=(Host(name="virginia-1", cores=2), Host(name="virginia-2")),
        ),
    ),
    links=tuple(Link(a=s, mbit_per_s=1000.0, rtt_ms=0.0) for s in ("tokyo", "virginia")),
    faults=("lose the controller at round 1",),
)
count = ["/bin/sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done"]


async def lead():
    provider = LabProvider(folder, fleet, 1, env=dict(os.environ), tell=print)
    await provider.prepare(fleet, within_s=20)
    await provider.start("tokyo-1", count, log=folder / "log", env=dict(os.environ), within_s=5)
    body = Commit(
        fragment=0, round=1, term=1, plan=1, members=(), expired=(), tokens=0, last=False,
        head_seq=0, head_chain="",
    )
    writer = Writer(site="controller", host="controller", incarnation=1)
    provider.heard(
        Entry(seq=1, chain="", writer=writer, counter=1, at_ms=0, kind="commit", body=body)
    )
    await asyncio.sleep(600)


asyncio.run(lead())
"""
