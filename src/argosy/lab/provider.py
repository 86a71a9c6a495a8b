"""The lab: each host a process on this machine, each site's link a door of the shaping relay."""

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from argosy.cluster.processes import Processes, last_words
from argosy.cluster.provider import Exit, Place, Process
from argosy.cluster.whole import write_whole
from argosy.core.errors import HostError
from argosy.core.fleet import Fleet
from argosy.core.records import Entry, HostEvent, HostStarted
from argosy.lab.config import RelayConfig, RelaySite, read_config
from argosy.lab.control import command
from argosy.lab.files import limit_files
from argosy.lab.plugs import Plugs

_RELAY = "relay"
_NICE = 5  # workers give way to the relay, or busy cores would read as slow links
_LOOK_EVERY_S = 0.02
_MEND_S = 30.0  # a relay that died is started again


class LabProvider:
    """Make it inside a running event loop. On resume: adopt, then prepare."""

    def __init__(
        self,
        run_folder: Path,
        fleet: Fleet,
        server_port: int,
        *,
        env: Mapping[str, str],
        tell: Callable[[HostEvent], None],
    ) -> None:
        self._folder = run_folder
        self._fleet = fleet
        self._server_port = server_port
        self._env = env  # of the relay
        self._file = run_folder / "lab" / "relay.json"
        self._log = run_folder / "lab" / "relay.log"
        self._processes = Processes(run_folder)
        self._plugs = Plugs(run_folder / "lab" / "plugs.json", fleet, self, tell=tell)
        self._watching: asyncio.Task[None] | None = None  # the plugs
        self._mending: asyncio.Task[None] | None = None  # the relay
        self._relay_lock = asyncio.Lock()
        self._answered: Process | None = None  # the relay, in the life that has answered
        self._config: RelayConfig | None = None
        self._hosts = {host.name: host for site in fleet.sites for host in site.hosts}

    @property
    def counters(self) -> Path:
        """What crossed each link, by the relay's own count."""
        return self._folder / "lab" / "counters.json"

    @property
    def counters_before(self) -> Path:
        """The same when the first host took up work: what measuring the links had cost."""
        return self.counters.with_name("counters-before.json")

    async def prepare(self, fleet: Fleet, *, within_s: float) -> None:
        assert fleet == self._fleet, "a lab is made for one fleet"
        for site in fleet.sites:
            for host in site.hosts:
                self.place(host.name).scratch.mkdir(parents=True, exist_ok=True)
        if not self._file.exists():
            write_whole(self._file, self._first_config().text(), mode=0o600)
        await self._relay_runs(within_s)
        await self.order(do="target", port=self._server_port)
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._plugs.watch())

    def url(self, site: str) -> str:
        assert self._config is not None, "prepare first: the relay chooses its ports"
        port = next(s.port for s in self._config.sites if s.site == site)
        return f"https://127.0.0.1:{port}"

    def place(self, host: str) -> Place:
        site = self._fleet.site_of(host).name
        return Place(
            address="127.0.0.1",
            store_port=0,  # any: the system never gives the same one to two hosts
            threads=self._hosts[host].cores,
            scratch=self._folder / "sites" / site / host / "scratch",
        )

    async def start(
        self, host: str, argv: list[str], *, log: Path, env: Mapping[str, str], within_s: float
    ) -> Process:
        assert within_s > 0, "a lab needs no time, but the caller has to have some"
        assert host != _RELAY, "the relay is the lab's own"
        if host not in self._hosts:
            return self._processes.start(host, argv, log=log, env=env)
        if host in self.away():
            raise HostError(
                f"{host} is switched off by the fault script",
                where=host,
                hint=f'a line "return {host} at ..." switches it on again',
            )
        threads = str(self.place(host).threads)
        limits = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        process = self._processes.start(host, argv, log=log, env={**env, **limits}, nice=_NICE)
        if host in self._plugs.full:
            self.limit_files(host, full=True)
        return process

    async def alive(self) -> dict[str, Process]:
        return self._others(self._processes.alive())

    def exits(self) -> tuple[Exit, ...]:
        for task in (self._watching, self._mending):
            if task is not None and task.done():
                task.result()  # a plug that could not be pulled is not passed over
        ends = self._processes.exits()
        if self._watching is not None and any(end.host == _RELAY for end in ends):
            mend = self._relay_runs(within_s=_MEND_S)
            self._mending = asyncio.get_running_loop().create_task(mend)
        return tuple(end for end in ends if end.host != _RELAY)

    def away(self) -> frozenset[str]:
        return self._plugs.away

    def heard(self, entry: Entry) -> None:
        self._plugs.heard(entry)
        if isinstance(entry.body, HostStarted) and entry.writer.host in self._hosts:
            self._training_begins()

    async def stop(self, host: str, *, within_s: float) -> Exit | None:
        return await self._processes.stop(host, within_s=within_s)

    async def adopt(self, run_folder: Path) -> dict[str, Process]:
        assert run_folder == self._folder, "a lab serves one run"
        return self._others(self._processes.adopt())

    async def release(self, *, within_s: float) -> tuple[Exit, ...]:
        """The relay ends last, so that it counts what the others sent in their last moments."""
        await self.leave()
        names = self._others(self._processes.alive())
        ends = await asyncio.gather(*(self.stop(name, within_s=within_s) for name in names))
        relay = await self._processes.stop(_RELAY, within_s=within_s)
        return tuple(end for end in (*ends, relay) if end is not None)

    async def leave(self) -> None:
        """Pull no more plugs, and leave everything running."""
        tasks = [task for task in (self._watching, self._mending) if task is not None]
        self._watching = self._mending = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def signal(self, host: str, number: signal.Signals) -> bool:
        return self._processes.signal(host, number)

    def limit_files(self, host: str, *, full: bool) -> None:
        process = self._processes.alive().get(host)
        if process is not None and process.pid is not None:
            limit_files(process.pid, process.log, full=full)

    async def order(self, **order: Any) -> None:
        """To the relay, also when it has to be started again first."""
        await self._relay_runs(_MEND_S)
        await self._command(order)

    async def _command(self, order: dict[str, Any]) -> None:
        assert self._config is not None, "it has answered, so its ports are known"
        await command(self._config.control_port, self._config.token, order, within_s=5.0)

    def lose_controller(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _training_begins(self) -> None:
        if not self.counters_before.exists() and self.counters.exists():
            write_whole(self.counters_before, self.counters.read_bytes())

    def _others(self, processes: dict[str, Process]) -> dict[str, Process]:
        return {name: process for name, process in processes.items() if name != _RELAY}

    def _first_config(self) -> RelayConfig:
        links = [(site.name, self._fleet.link(site.name)) for site in self._fleet.sites]
        return RelayConfig(
            target_port=self._server_port,
            control_port=0,
            token=secrets.token_hex(16),
            counters=self.counters,
            sites=tuple(
                RelaySite(
                    site=name,
                    port=0,
                    mbit_per_s=link.mbit_per_s,
                    rtt_ms=link.rtt_ms,
                    jitter_ms=link.jitter_ms,
                )
                for name, link in links
            ),
        )

    async def _relay_runs(self, within_s: float) -> None:
        """Started and answering, with all that the plugs have done to its links."""
        async with self._relay_lock:
            argv = [sys.executable, "-m", "argosy.lab.relay", str(self._file)]
            process = self._processes.start(_RELAY, argv, log=self._log, env=self._env)
            if process == self._answered:
                return
            try:
                async with asyncio.timeout(within_s):
                    while not await self._answers():
                        await asyncio.sleep(_LOOK_EVERY_S)
            except TimeoutError as late:
                raise HostError(
                    f"the lab's relay is not ready within {within_s:.0f} s",
                    where=str(self._log),
                    hint=last_words(self._log) or "the machine may be too busy",
                ) from late
            for order in self._plugs.link_orders():
                await self._command(order)
            self._answered = process

    async def _answers(self) -> bool:
        if _RELAY not in self._processes.alive():
            raise HostError(
                "the lab's relay ended at once", where=str(self._log), hint=last_words(self._log)
            )
        config = read_config(self._file)
        if config.control_port == 0:
            return False
        try:
            await command(config.control_port, config.token, {"do": "status"}, within_s=2.0)
        except HostError:
            return False
        self._config = config
        return True
