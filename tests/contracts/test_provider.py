"""What every provider of hosts must do. Plugin authors: add a Kit that makes yours."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from fakes.lab import fleet
from fakes.lab_history import History

from argosy.cluster.identity import identity
from argosy.cluster.manual import ManualProvider
from argosy.cluster.processes import Processes
from argosy.cluster.provider import Exit, Process, Provider
from argosy.core.errors import HostError
from argosy.core.records import HostEvent
from argosy.lab.provider import LabProvider

pytestmark = pytest.mark.lab

ENV = dict(os.environ)
WORK = ["/bin/sh", "-c", "trap 'exit 0' TERM; echo here; while :; do sleep 0.05; done"]
SLEEP_S = 0.01


class Kit:
    """A run folder, and providers on it: one after the other, like controllers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.provider = self.make()

    def make(self) -> Provider:
        raise NotImplementedError

    async def start(self, name: str, argv: list[str] = WORK) -> Process:
        log = self.folder / "sites" / name / "log.txt"
        return await self.provider.start(name, argv, log=log, env=ENV, within_s=10)

    async def leave(self) -> None:
        """The controller ends and stops nothing."""


class Lab(Kit):
    def make(self) -> Provider:
        return LabProvider(self.folder, fleet(), 1, env=ENV, tell=_ignore)

    async def leave(self) -> None:
        assert isinstance(self.provider, LabProvider)
        await self.provider.leave()


class Manual(Kit):
    def make(self) -> Provider:
        return ManualProvider(self.folder, fleet(), "https://here:1", say=_ignore)


class Bare(Kit):
    """The processes themselves, with the provider's verbs."""

    def make(self) -> Provider:
        return _Bare(self.folder)


class _Bare(ManualProvider):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, fleet(), "https://here:1", say=_ignore)
        self._hosts = {}  # every host is here


def _ignore(_: str | HostEvent) -> None:
    return


KITS: dict[str, type[Kit]] = {"lab": Lab, "manual": Manual, "processes": Bare}


@pytest.fixture(params=list(KITS.values()), ids=list(KITS))
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    yield request.param(tmp_path)
    after = Processes(tmp_path)
    after.adopt()
    asyncio.run(after.stop_all(within_s=0.5))


def run(kit: Kit, story: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await kit.provider.adopt(kit.folder)
        await kit.provider.prepare(fleet(), within_s=20)
        try:
            await story()
        finally:
            await kit.leave()

    asyncio.run(whole())


async def until_it_says(what: str, process: Process) -> None:
    deadline = time.monotonic() + 10
    while what not in process.log.read_text():
        assert time.monotonic() < deadline
        await asyncio.sleep(SLEEP_S)


async def exits(provider: Provider) -> tuple[Exit, ...]:
    deadline = time.monotonic() + 10
    while not (told := provider.exits()):
        assert time.monotonic() < deadline
        await asyncio.sleep(SLEEP_S)
    return told


def test_what_is_started_is_alive_until_it_is_stopped(kit: Kit) -> None:
    async def story() -> None:
        process = await kit.start("logbook")
        await until_it_says("here", process)
        assert await kit.provider.alive() == {"logbook": process}

        end = await kit.provider.stop("logbook", within_s=5)

        assert end is not None
        assert end.ok
        assert await kit.provider.alive() == {}
        assert await kit.provider.stop("logbook", within_s=5) is None

    run(kit, story)


def test_a_program_that_fails_is_not_taken_for_one_that_finished(kit: Kit) -> None:
    async def story() -> None:
        await kit.start("logbook", ["/bin/sh", "-c", "echo no port; exit 4"])

        (end,) = await exits(kit.provider)

        assert (end.host, end.code, end.ok) == ("logbook", 4, False)
        assert end.log.read_text() == "no port\n"
        assert kit.provider.exits() == ()

    run(kit, story)


def test_a_program_that_is_not_there_is_a_host_error(kit: Kit) -> None:
    async def story() -> None:
        with pytest.raises(HostError):
            await kit.start("logbook", ["/no/such/program"])

    run(kit, story)


def test_to_start_what_runs_changes_nothing(kit: Kit) -> None:
    async def story() -> None:
        assert await kit.start("logbook") == await kit.start("logbook")

    run(kit, story)


def test_the_next_controller_finds_what_runs_and_nothing_was_harmed(kit: Kit) -> None:
    begun: list[Process] = []

    async def first() -> None:
        begun.append(await kit.start("logbook"))
        await until_it_says("here", begun[0])

    async def second() -> None:
        assert await kit.provider.alive() == {"logbook": begun[0]}
        await kit.provider.release(within_s=5)

    run(kit, first)
    assert begun[0].pid is not None
    assert identity(begun[0].pid) == begun[0].started
    kit.provider = kit.make()
    run(kit, second)

    assert identity(begun[0].pid) is None


def test_release_ends_everything_that_was_started(kit: Kit) -> None:
    async def story() -> None:
        for name in ("logbook", "checkpointer"):
            await until_it_says("here", await kit.start(name))

        ends = await kit.provider.release(within_s=5)

        assert {"logbook", "checkpointer"} <= {end.host for end in ends}
        assert await kit.provider.alive() == {}

    run(kit, story)


def test_an_end_that_was_not_asked_for_names_its_signal(kit: Kit) -> None:
    async def story() -> None:
        process = await kit.start("logbook")
        assert process.pid is not None
        os.killpg(process.pid, signal.SIGKILL)

        (end,) = await exits(kit.provider)

        assert end.code == -9

    run(kit, story)


def test_a_url_stays_the_same_for_the_next_controller(kit: Kit) -> None:
    urls: list[str] = []

    async def story() -> None:
        urls.append(kit.provider.url("tokyo"))

    run(kit, story)
    kit.provider = kit.make()
    run(kit, story)

    assert urls[0] == urls[1]
    assert urls[0].startswith("https://")


def test_a_place_has_the_threads_of_its_host(kit: Kit) -> None:
    if isinstance(kit, Bare):
        pytest.skip("has no fleet")

    place = kit.provider.place("virginia-1")

    assert place.threads == 2
    assert place.address == "127.0.0.1"


def test_all_hosts_can_be_had_and_records_may_be_told(kit: Kit) -> None:
    for entry in History().lead(1).post("tokyo", 1, 1, 1).commit(1, ("tokyo", 1)).entries:
        kit.provider.heard(entry)

    assert kit.provider.away() == frozenset()
