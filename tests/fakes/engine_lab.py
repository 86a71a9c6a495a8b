"""Real workers, checkpointer and logbook server as processes on this machine, governed by a test."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from fakes.engine import CHIEF, COUNTRY, Town, prose
from fakes.logbook import RUN

from argosy.core.plan import HostPlan, Plan, SitePlan
from argosy.core.records import (
    CONTROLLER,
    Body,
    Crew,
    Digest,
    Entry,
    HostEvent,
    Planned,
    Roster,
    RunBegun,
    Seat,
)
from argosy.exchange.controller import ControllerSide
from argosy.logbook.client import RemoteLogbook
from argosy.logbook.keys import Authority, Pen

MODEL = """
import torch
from torch import nn

class Small(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 16)
        self.between = nn.Linear(16, 16)
        self.head = nn.Linear(16, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.between(self.embed(tokens))))
"""


class LabTown:
    """`with LabTown(folder, {"virginia": 2}) as town:` then `town.until(...)`."""

    def __init__(
        self, folder: Path, hosts: dict[str, int], *, exchange: dict[str, object] | None = None
    ) -> None:
        self.folder = folder
        self.hosts = {site: tuple(f"{site}-{i + 1}" for i in range(n)) for site, n in hosts.items()}
        self._texts = Town(
            folder / "texts", sites=tuple(hosts), model="small:Small", exchange=exchange or {},
            training={"batch": 6, "sequence": 16},
        )  # fmt: skip
        self.data = folder / "data"
        self.data.mkdir()
        (self.data / "small.py").write_text(MODEL)
        for site in hosts:
            (self.data / f"{site}.txt").write_text(prose(site))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._files: list[IO[bytes]] = []
        self.controller = ControllerSide(CHIEF, low_s=1.0)
        self.log: list[Entry] = []
        self._url = ""

    def __enter__(self) -> Self:
        authority = Authority.make(self.folder / "ca")
        authority.issue_server(RUN, self.folder / "keys/server")
        seats = [self._seat(authority, CONTROLLER, CONTROLLER),
                 self._seat(authority, CONTROLLER, "checkpointer")]  # fmt: skip
        seats += [self._seat(authority, s, h) for s, hosts in self.hosts.items() for h in hosts]
        self._start("server", "argosy.logbook.server", "--folder", str(self.folder / "logbook"),
                    "--keys", str(self.folder / "keys/server"))  # fmt: skip
        self._url = f"https://127.0.0.1:{self._line('server')['port']}"
        keys = self.folder / "keys" / CONTROLLER
        self.book = RemoteLogbook(self._url, keys)
        self._pen = Pen.open(keys, 1)
        self.say(RunBegun(run=RUN, name="lab", argosy="0", job=self._texts.job(),
                          fleet=self._fleet(), authority=authority.pem))  # fmt: skip
        self.say(Roster(seats=tuple(seats), torch=""))
        self.say(self.controller.lead())
        self.say(Planned(plan=self._plan(), reason="a test"))
        self.worker(CONTROLLER, "checkpointer", module="argosy.engine.checkpointer")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        for file in self._files:
            file.close()
        self.book.close()

    def worker(
        self, site: str, host: str, *, module: str = "argosy.engine", **facts: object
    ) -> None:
        place = {
            "run": RUN, "site": site, "host": host, "url": self._url,
            "keys": str(self.folder / "keys" / host), "data": str(self.data),
            "scratch": str(self.folder / "scratch" / host), "threads": 1, **facts,
        }  # fmt: skip
        path = self.folder / f"{host}.json"
        path.write_text(json.dumps(place))
        self._start(host, module, str(path))

    def torchrun(self, site: str) -> None:
        """All hosts of a site as ranks that torchrun starts, with one worker.json."""
        hosts = self.hosts[site]
        place = {
            "run": RUN, "site": site, "host": hosts[0], "url": self._url,
            "keys": str(self.folder / "keys" / hosts[0]), "data": str(self.data),
            "scratch": str(self.folder / "scratch" / hosts[0]), "threads": 1,
        }  # fmt: skip
        path = self.folder / "torchrun.json"
        path.write_text(json.dumps(place))
        self._start(
            "torchrun", "torch.distributed.run", "--standalone", f"--nproc-per-node={len(hosts)}",
            "-m", "argosy.engine", str(path), "--hosts", ",".join(hosts),
        )  # fmt: skip

    def crew(self, site: str, epoch: int, *hosts: str) -> None:
        self.say(Crew(site=site, epoch=epoch, hosts=hosts))

    def say(self, body: Body) -> None:
        self.book.append(self._pen.sign(body, time.time_ns() // 1_000_000))

    def until(self, there: Callable[[], bool], within_s: float = 60.0) -> None:
        """Govern until it is so."""
        deadline = time.monotonic() + within_s
        while not there():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {within_s} s\n{self.logs()}")
            for entry in self.book.read(len(self.log) + 1, 0.1):
                self.log.append(entry)
                self.controller.hear(entry, time.monotonic())
            if (commit := self.controller.decide(time.monotonic())) is not None:
                self.say(commit)

    def drain(self) -> None:
        self.say(self.controller.drain("done"))

    def said(self, kind: type[Body], site: str | None = None) -> list[Entry]:
        return [e for e in self.log if isinstance(e.body, kind) and site in (None, e.writer.site)]

    @property
    def round(self) -> int:
        return self.controller.agreement.round()

    def events(self, what: str) -> list[str]:
        bodies = [entry.body for entry in self.said(HostEvent)]
        return [b.detail for b in bodies if isinstance(b, HostEvent) and b.what == what]

    def digests(self) -> dict[int, set[str]]:
        told: dict[int, set[str]] = {}
        for entry in self.said(Digest):
            assert isinstance(entry.body, Digest)
            told.setdefault(entry.body.round, set()).add(entry.body.digest)
        return told

    def ended(self, *hosts: str) -> bool:
        return all(self.exit_code(host) is not None for host in hosts)

    def exit_code(self, host: str) -> int | None:
        return self.processes[host].poll()

    def logs(self) -> str:
        parts = []
        for host in self.processes:
            path = self.folder / f"{host}.log"
            parts.append(f"--- {host}\n" + "\n".join(path.read_text().splitlines()[-25:]))
        return "\n".join(parts)

    def _start(self, name: str, module: str, *arguments: str) -> None:
        errors = (self.folder / f"{name}.log").open("ab")
        self._files.append(errors)
        out = (self.folder / f"{name}.out").open("ab")
        self._files.append(out)
        before = self.processes.get(name)
        if before is not None:
            before.wait()
        self.processes[name] = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=out,
            stderr=errors,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def _line(self, name: str, within_s: float = 30.0) -> dict[str, int]:
        path = self.folder / f"{name}.out"
        deadline = time.monotonic() + within_s
        while not path.read_text().endswith("\n"):
            assert time.monotonic() < deadline, self.logs()
            assert self.processes[name].poll() is None, self.logs()
            time.sleep(0.02)
        told: dict[str, int] = json.loads(path.read_text().splitlines()[0])
        return told

    def _seat(self, authority: Authority, site: str, host: str) -> Seat:
        certificate = authority.issue(RUN, site, host, self.folder / "keys" / host)
        return Seat(site=site, host=host, country=COUNTRY.get(site, "DE"), certificate=certificate)

    def _fleet(self) -> str:
        sites = "".join(
            f"  {site}:\n    country: {COUNTRY[site]}\n"
            f"    link: {{mbit_per_s: 100, rtt_ms: 10}}\n    hosts:\n"
            + "".join(f"      {host}: {{}}\n" for host in hosts)
            for site, hosts in self.hosts.items()
        )
        return f"version: 1\nhome: DE\nsites:\n{sites}"

    def _plan(self) -> Plan:
        plan = self._texts.planned(1)
        return replace(plan, sites=tuple(self._sited(site) for site in plan.sites))

    def _sited(self, site: SitePlan) -> SitePlan:
        hosts = tuple(
            HostPlan(host=host, micro_batch=2, accumulation=1, tokens_per_s=100.0)
            for host in self.hosts[site.site]
        )
        return replace(site, hosts=hosts)
