"""A controller's desk: the files, machines, logbook and pen with which it leads one run."""

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.cluster.processes import last_words
from argosy.cluster.provider import Exit
from argosy.cluster.whole import write_whole
from argosy.core.errors import (
    DamagedError,
    DiskError,
    HostError,
    NoPlan,
    PolicyError,
    SpecError,
    UserError,
)
from argosy.core.records import CONTROLLER, Body, Entry, HostEvent
from argosy.logbook.keys import Pen
from argosy.logbook.outbox import Outbox
from argosy.run.folder import RunFolder, spec_text
from argosy.run.reconcile import CHECKPOINTER, LOGBOOK
from argosy.run.setup import Means, Setup
from argosy.run.together import together
from argosy.spec import parse_fleet, parse_job

if TYPE_CHECKING:
    from concurrent.futures import Future

    from argosy.core.fleet import Fleet
    from argosy.core.job import Job

KINDS: dict[str, type[UserError]] = {
    kind.__name__: kind
    for kind in (SpecError, PolicyError, NoPlan, HostError, DiskError, DamagedError)
}
EVERYWHERE = "0.0.0.0"  # noqa: S104 - sites come from outside, each with its certificate
PREPARE_S = 60.0
START_S = 60.0
JOIN_S = 3600.0  # when people start the hosts
STOP_S = 15.0
CLOSE_S = 10.0
LOOK_EVERY_S = 0.05


class Desk:
    """Made inside a running event loop."""

    def __init__(self, folder: RunFolder, setup: Setup, means: Means) -> None:
        self.folder = folder
        self.setup = setup
        self.means = means
        self.audience = means.audience
        job, fleet = spec_text(folder.job), spec_text(folder.fleet)
        self.job_name = _typed(setup.job_file, job) or str(folder.job)
        self.fleet_name = _typed(setup.fleet_file, fleet) or str(folder.fleet)
        self.job: Job = parse_job(job, self.job_name)
        self.fleet: Fleet = parse_fleet(fleet, self.fleet_name)
        self.provider = means.provider(folder, self.fleet, setup, self.tell)
        keys = folder.keys(CONTROLLER, CONTROLLER)
        self.logbook = means.connect(setup, keys)
        self._outbox: Outbox | None = None

    # The pen -------------------------------------------------------------------------------

    def take_pen(self, pen: Pen) -> None:
        self._outbox = Outbox(self.logbook, pen, now_ms)

    def post(self, body: Body) -> "Future[int]":
        """Into the logbook, in order, tried again for as long as the logbook is away."""
        assert self._outbox is not None, "a controller leads before it writes"
        return self._outbox.post(body)

    @property
    def trouble(self) -> UserError | None:
        """Why the logbook does not take what is posted; None while it does."""
        return self._outbox.trouble if self._outbox else None

    def tell(self, event: HostEvent) -> None:
        """What a provider did to a host, for everybody to read."""
        if self._outbox is None:
            self.audience.say(event.detail)
        else:
            self.post(event)

    async def write(self, *bodies: Body, within_s: float = START_S) -> int:
        """Post and wait until it stands there."""
        posted = [asyncio.wrap_future(self.post(body)) for body in bodies]
        try:
            async with asyncio.timeout(within_s):
                return [await each for each in posted][-1]
        except TimeoutError:
            away = HostError(f"the logbook takes no records within {within_s:.0f} s")
            raise self.trouble or away from None

    async def read(self, from_seq: int, wait_s: float = 0.0) -> list[Entry]:
        return await asyncio.to_thread(self.logbook.read, from_seq, wait_s)

    async def read_all(self, from_seq: int = 1) -> list[Entry]:
        entries: list[Entry] = []
        while batch := await self.read(from_seq + len(entries)):
            entries += batch
        return entries

    # The machines --------------------------------------------------------------------------

    def site_of(self, host: str) -> str:
        sites = (site.name for site in self.fleet.sites for h in site.hosts if h.name == host)
        return next(sites, CONTROLLER)

    def log(self, host: str) -> Path:
        return self.folder.log(self.site_of(host), host)

    def program(self, host: str) -> list[str]:
        if host == LOGBOOK:
            keys = self.folder.keys(CONTROLLER, "server")
            module, rest = "argosy.logbook.server", [
                "--folder", str(self.folder.logbook), "--keys", str(keys),
                "--port", str(self.setup.port),
                "--host", EVERYWHERE if self.setup.url else "127.0.0.1",
            ]  # fmt: skip
        else:
            module = "argosy.engine.checkpointer" if host == CHECKPOINTER else "argosy.engine"
            rest = [str(self.folder.worker(self.site_of(host), host))]
        return [self.means.python, "-m", module, *rest]

    async def start(self, host: str) -> None:
        people = not self.setup.lab and self.site_of(host) != CONTROLLER
        if host != LOGBOOK:
            self.write_worker(host)
        await self.provider.start(
            host,
            self.program(host),
            log=self.log(host),
            env=self.means.env,
            within_s=JOIN_S if people else START_S,
        )

    async def run_beside(self, name: str, program: list[str]) -> Exit:
        """A program that ends by itself, beside the controller."""
        await self.provider.start(
            name, program, log=self.log(name), env=self.means.env, within_s=START_S
        )
        return (await self.ends({name}))[name]

    async def ends(self, hosts: set[str]) -> dict[str, Exit]:
        """How these processes end. Nobody else may ask the provider meanwhile."""
        ends: dict[str, Exit] = {}
        while hosts - ends.keys():
            ends |= {end.host: end for end in self.provider.exits()}
            await asyncio.sleep(LOOK_EVERY_S)
        return ends

    def write_worker(self, host: str) -> Path:
        """The file from which a worker learns who it is; everything else is in the logbook."""
        site = self.site_of(host)
        home = self.folder.home(site, host)
        facts: dict[str, object] = {
            "run": self.setup.run,
            "site": site,
            "host": host,
            "keys": str(self.folder.keys(site, host)),
            "data": self.setup.data,
            "server_name": "logbook",
        }
        if site == CONTROLLER:
            facts |= {"url": self.setup.server_url, "scratch": str(home / "scratch")}
            facts |= {"address": "127.0.0.1", "threads": 1, "store_port": 0}
        else:
            place = self.provider.place(host)
            facts |= {"url": self.provider.url(site), "scratch": str(place.scratch)}
            facts |= {"address": place.address, "threads": place.threads}
            facts |= {"store_port": place.store_port}
        path = self.folder.worker(site, host)
        write_whole(path, json.dumps(facts, indent=1).encode(), mode=0o600)
        return path

    async def serve(self, *, within_s: float = START_S) -> None:
        """Start the logbook's server unless it lives, and wait until it answers."""
        await self.start(LOGBOOK)
        deadline = time.monotonic() + within_s
        asking = asyncio.create_task(self.read(1))
        while True:
            await asyncio.wait({asking}, timeout=LOOK_EVERY_S)
            if asking.done() and asking.exception() is None:
                return
            ended = LOGBOOK not in await self.provider.alive()
            if ended or time.monotonic() > deadline:
                asking.cancel()
                silent = HostError("the logbook's server does not answer", where=LOGBOOK)
                raise self.why_ended(LOGBOOK, silent)
            if asking.done():
                asking = asyncio.create_task(self.read(1))

    def why_ended(self, host: str, otherwise: UserError, *, log: Path | None = None) -> UserError:
        """What a process that failed said last, as an error of its own kind; else `otherwise`."""
        log = log or self.log(host)
        said = last_words(log, lines=40)
        told = error_told(said.splitlines(), otherwise)
        if told is not otherwise:
            return self._as_typed(told)
        hint = f"{otherwise.hint or ''} Its log: {log}".strip()
        tail = "\n  ".join(said.splitlines()[-3:])
        what = f"{otherwise.what}\n  {tail}" if tail else otherwise.what
        return type(otherwise)(what, where=otherwise.where, hint=hint)

    def _as_typed(self, told: UserError) -> UserError:
        """Processes know the job by its text alone: the user's own name of the file, with the line."""
        for kept, typed in ((self.folder.job, self.job_name), (self.folder.fleet, self.fleet_name)):
            file, colon, line = (told.where or "").rpartition(":")
            if colon and file in (kept.name, str(kept)):
                told.where = f"{typed}:{line}"
        return told

    # The end -------------------------------------------------------------------------------

    async def stop_hosts(self) -> None:
        """All that train. They post what they have, so the logbook must outlive them."""
        alive = await self.provider.alive()
        hosts = [host for host in alive if self.site_of(host) != CONTROLLER]
        await together(*(self.provider.stop(host, within_s=STOP_S) for host in hosts))

    async def close(self) -> None:
        """Put the pen down and end every process: those that others need go last."""
        try:
            await self.stop_hosts()
            await self.provider.stop(CHECKPOINTER, within_s=STOP_S)
            if self._outbox is not None:
                await asyncio.to_thread(self._outbox.close, CLOSE_S)
        finally:
            await self.provider.release(within_s=STOP_S)


def _typed(name: str, text: str) -> str:
    """The file that the user named, if it still says the same from here; else ""."""
    try:
        return name if name and Path(name).read_text(encoding="utf-8") == text else ""
    except (OSError, UnicodeDecodeError):
        return ""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def error_told(lines: list[str], otherwise: UserError) -> UserError:
    """The last error that a process told as a JSON line; else `otherwise`."""
    for line in reversed(lines):
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and told.get("event") == "error":
            return _as_error(told, otherwise)
    return otherwise


def _as_error(told: dict[str, object], otherwise: UserError) -> UserError:
    def text(name: str) -> str | None:
        return str(told[name]) if told.get(name) else None

    kind = KINDS.get(str(told.get("kind")), type(otherwise))
    what, hint = text("what") or otherwise.what, text("hint") or otherwise.hint
    return kind(what, where=text("where"), hint=hint)
