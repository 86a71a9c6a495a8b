"""Hosts that people start themselves: a bundle for each, and the command to run there."""

import asyncio
import io
import json
import shlex
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

from argosy.cluster.processes import Processes
from argosy.cluster.provider import Exit, Place, Process
from argosy.cluster.whole import write_whole
from argosy.core.errors import HostError, SpecError
from argosy.core.fleet import Fleet
from argosy.core.records import Entry, HostStarted

_KEYS = ("ca.pem", "host.pem", "host.key")


class ManualProvider:
    """Lends the machines of a fleet file by asking their owners.

    A host counts as started when its own first record stands in the logbook.
    """

    def __init__(
        self, run_folder: Path, fleet: Fleet, url: str, *, say: Callable[[str], None]
    ) -> None:
        self._folder = run_folder
        self._fleet = fleet
        self._url = url
        self._say = say
        self._local = Processes(run_folder)  # the logbook and its helpers, beside the controller
        self._hosts = {host.name: host for site in fleet.sites for host in site.hosts}
        self._joined: dict[str, Process] = {}
        self._waiting: dict[str, asyncio.Event] = {}

    async def prepare(self, fleet: Fleet, *, within_s: float) -> None:  # noqa: ARG002 - nothing waits
        self._fleet = fleet
        self._hosts = {host.name: host for site in fleet.sites for host in site.hosts}
        if fleet.faults:
            self._say("The faults in the fleet file are for the lab; here no plug is pulled.")

    def url(self, site: str) -> str:  # noqa: ARG002 - one door for all
        return self._url

    def place(self, host: str) -> Place:
        known = self._hosts[host]
        return Place(
            address=known.address,
            store_port=0,
            threads=known.cores,
            scratch=Path("scratch"),  # all paths there are relative to the unpacked bundle
        )

    async def start(
        self, host: str, argv: list[str], *, log: Path, env: Mapping[str, str], within_s: float
    ) -> Process:
        """For a host of the fleet, `argv` ends with the path of its worker.json."""
        if host not in self._hosts:
            return self._local.start(host, argv, log=log, env=env)
        if host in self._joined:
            return self._joined[host]
        if Path(argv[-1]).name != "worker.json":
            raise HostError(
                f"{host} is started by people: nothing but its worker can be run there from here",
                where=f"{host} ({self._hosts[host].address})",
                hint="write what is known of it (tokens_per_s, memory_gb) into the fleet file",
            )
        bundle = self._bundle(host, Path(argv[-1]))
        command = _command(bundle, argv[1:-1])
        self._say(_please(host, self._fleet, bundle, command))
        joined = self._waiting.setdefault(host, asyncio.Event())
        try:
            await asyncio.wait_for(joined.wait(), within_s)
        except TimeoutError as late:
            raise HostError(
                f"{host} has not joined within {within_s:.0f} s",
                where=f"{host} ({self._hosts[host].address})",
                hint=f"copy {bundle} to {host} and run there: {command}\n"
                f"  if it runs: can {host} reach {self._url}? (firewall, name, port)",
            ) from late
        finally:
            self._waiting.pop(host, None)
        return self._joined[host]

    async def alive(self) -> dict[str, Process]:
        return {**self._local.alive(), **self._joined}

    def exits(self) -> tuple[Exit, ...]:
        return self._local.exits()

    def away(self) -> frozenset[str]:
        return frozenset()

    def heard(self, entry: Entry) -> None:
        host = entry.writer.host
        if not isinstance(entry.body, HostStarted) or host not in self._hosts:
            return
        log = self._folder / "sites" / entry.writer.site / host / "log.txt"
        started = f"incarnation {entry.writer.incarnation}"
        self._joined[host] = Process(host=host, pid=None, started=started, log=log)
        if host in self._waiting:
            self._waiting[host].set()

    async def stop(self, host: str, *, within_s: float) -> Exit | None:
        if host not in self._hosts:
            return await self._local.stop(host, within_s=within_s)
        process = self._joined.pop(host, None)
        if process is None:
            return None
        self._say(f"{host} ends by itself when the run ends; sooner: press Ctrl-C there.")
        return Exit(host=host, code=None, log=process.log)

    async def adopt(self, run_folder: Path) -> dict[str, Process]:
        """Local helpers are found; hosts are joined again as the logbook is read from its start."""
        assert run_folder == self._folder, "a provider serves one run"
        self._local.adopt()
        return await self.alive()

    async def release(self, *, within_s: float) -> tuple[Exit, ...]:
        hosts = [await self.stop(host, within_s=within_s) for host in list(self._joined)]
        helpers = await self._local.stop_all(within_s=within_s)
        return (*(end for end in hosts if end is not None), *helpers)

    def _bundle(self, host: str, worker: Path) -> Path:
        site = self._fleet.site_of(host).name
        facts = json.loads(_read(worker, host))
        facts |= {"url": self._url, "keys": "keys", "data": "data", "scratch": "scratch"}
        keys = self._folder / "keys" / "sites" / site / host
        files = {
            "worker.json": json.dumps(facts, indent=1).encode(),
            **{f"keys/{name}": _read(keys / name, host) for name in _KEYS},
        }
        bundle = self._folder / "join" / f"{host}.tar"
        write_whole(bundle, _tar(host, files), mode=0o600)
        return bundle


def _read(file: Path, host: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise SpecError(
            f"the bundle for {host} needs this file: {problem.strerror}", where=str(file)
        ) from problem


def _tar(host: str, files: Mapping[str, bytes]) -> bytes:
    """Everything in one folder, readable by its owner alone, the same bytes each time."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for folder in (host, f"{host}/keys", f"{host}/scratch", f"{host}/data"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o700
            tar.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{host}/{name}")
            entry.size, entry.mode = len(content), 0o600
            tar.addfile(entry, io.BytesIO(content))
    return whole.getvalue()


def _command(bundle: Path, program: list[str]) -> str:
    run = shlex.join(["python3", *program, "worker.json"])
    return f"tar -xf {shlex.quote(bundle.name)} && cd {shlex.quote(bundle.stem)} && {run}"


def _please(host: str, fleet: Fleet, bundle: Path, command: str) -> str:
    site = fleet.site_of(host)
    return (
        f"{host} (site {site.name}, {site.country}): copy {bundle} there (it holds the host's key:"
        f" keep it private) and run\n    {command}\n"
        f"  with the sources of {site.name} under {host}/data first, at the paths the job names"
    )
