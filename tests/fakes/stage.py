# ruff: noqa: ARG002, ARG005 - a stage need not look at all that it is handed
"""A fleet on a stage: hosts that act their part in one process when they hear their cue.

Logbook, keys, codec and outer step are real; what the controller does to the hosts is noted. No
process is started, no port is opened, and nobody trains anything: differences are made up.
"""

import json
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from fakes.run import progress, started

from argosy.cluster.provider import Exit, Place, Process
from argosy.core.errors import DiskError, HostError
from argosy.core.fleet import Fleet
from argosy.core.job import Job
from argosy.core.plan import Plan
from argosy.core.records import (
    CONTROLLER,
    Access,
    Body,
    Checkpointed,
    Commit,
    Contribution,
    Crew,
    Digest,
    Drain,
    Entry,
    HostEvent,
    Lead,
    Planned,
    Shard,
)
from argosy.exchange.codec import encode
from argosy.exchange.digest import model_digest
from argosy.exchange.replay import Replay
from argosy.logbook import Logbook
from argosy.logbook.embedded import EmbeddedLogbook
from argosy.logbook.keys import Pen
from argosy.run.begin import Order, make_run, read_order
from argosy.run.folder import RunFolder
from argosy.run.setup import Means, Setup

PARAMETERS = 8
JOB = """\
version: 1
name: small
model: {config: {model_type: llama, hidden_size: 8, num_hidden_layers: 1}}
sources:
  - {name: german, path: german.txt, country: DE, personal: no}
  - {name: english, path: english.txt, country: US, personal: no}
training: {tokens: 4000, sequence: 16, batch: 4}
policy:
  - allow: [update, checkpoint, metric]
    from: [DE, US]
    to: [DE, US]
"""
FLEET = """\
version: 1
home: DE
currency: USD
sites:
  frankfurt:
    country: DE
    link: {mbit_per_s: 100, rtt_ms: 20}
    hosts: {frankfurt-1: {cores: 1, price_per_hour: 0.1, tokens_per_s: 1000}}
  virginia:
    country: US
    link: {mbit_per_s: 100, rtt_ms: 90}
    hosts:
      virginia-1: {cores: 1, price_per_hour: 0.1, tokens_per_s: 1000}
      virginia-2: {cores: 1, price_per_hour: 0.1, tokens_per_s: 1000}
"""
SITE_OF = {"frankfurt-1": "frankfurt", "virginia-1": "virginia", "virginia-2": "virginia"}


@dataclass
class Part:
    """What a host does. The default: it starts, posts whenever it may, and ends after the last."""

    fails: list[int] = field(default_factory=list)  # exit codes of its first lives
    dies_at_round: int | None = None
    falls_silent_at_round: int | None = None
    torch: str = "2.13.0"
    clock_ms: int = 0


class Line:
    """The controller's way to the logbook, which can fail for a while."""

    def __init__(self, book: EmbeddedLogbook) -> None:
        self._book = book
        self.full = 0  # appends that find no space
        self.away = 0  # reads that find nobody

    def append(self, signed: bytes) -> int:
        if self.full:
            self.full -= 1
            raise DiskError("the disk is full")
        return self._book.append(signed)

    def read(self, from_seq: int, wait_s: float = 0.0) -> list[Entry]:
        if self.away:
            self.away -= 1
            raise HostError("nobody answers")
        return self._book.read(from_seq, wait_s)

    def put(self, blob: bytes) -> str:
        return self._book.put(blob)

    def get(self, digest: str) -> bytes:
        return self._book.get(digest)


class Stage:
    """The provider, and everybody it lends."""

    def __init__(self, parts: Mapping[str, Part] | None = None) -> None:
        self.parts = dict(parts or {})
        self.done: list[str] = []  # what the controller did, in order
        self.unreachable: set[str] = set()
        self.cues: dict[int, Callable[[], None]] = {}  # what happens when a round is agreed
        self.export_code = 0
        self.folder: RunFolder | None = None
        self._book: EmbeddedLogbook | None = None
        self._pens: dict[str, Pen] = {}
        self._lives: dict[str, int] = {}
        self._running: dict[str, Process] = {}
        self._exits: list[Exit] = []
        self._n: dict[str, int] = {}
        self._leaders: dict[str, str] = {}
        self._final: set[str] = set()
        self._open: set[str] = set()  # sites with a post that no commit has named yet
        self._draining = False
        self._over = False
        self._agreed_at = self._kept = 0
        self._heard = 0  # the newest record that was read aloud
        self._plan: Plan | None = None
        self._model = Replay(np.zeros(PARAMETERS, np.float32), np.zeros(PARAMETERS, np.float32), 0)
        self._payloads: dict[tuple[str, int], bytes] = {}

    @property
    def book(self) -> EmbeddedLogbook:
        assert self._book is not None, "nobody has connected yet"
        return self._book

    def connect(self, setup: Setup, keys: Path) -> Logbook:
        self.folder = RunFolder(keys.parents[1])
        self._book = self._book or EmbeddedLogbook(self.folder.logbook)
        self._line = Line(self._book)
        return self._line

    def fill_the_disk(self, *, appends: int) -> None:
        self._line.full = appends

    def cut_the_line(self, *, reads: int) -> None:
        self._line.away = reads

    def somebody_takes_the_lead(self, *, term: int) -> None:
        """With the controller's own key, in a later life."""
        assert self.folder is not None, "a controller connects first"
        pen = Pen.open(self.folder.keys(CONTROLLER, CONTROLLER), 99)
        self.book.append(pen.sign(Lead(term=term), 1_700_000_000_000))

    def close(self) -> None:
        if self._book is not None:
            self._book.close()
            self._book = None

    # The provider ---------------------------------------------------------------------------

    async def prepare(self, fleet: Fleet, *, within_s: float) -> None:
        self.done.append("prepare")

    def url(self, site: str) -> str:
        return "https://127.0.0.1:1"

    def place(self, host: str) -> Place:
        return Place(address="127.0.0.1", store_port=0, threads=1, scratch=Path("scratch"))

    async def start(
        self, host: str, argv: list[str], *, log: Path, env: Mapping[str, str], within_s: float
    ) -> Process:
        if host in self.unreachable:
            self.unreachable.discard(host)
            raise HostError(f"{host} cannot be reached")
        if host in self._running:
            return self._running[host]
        self.done.append(f"start {host}")
        log.parent.mkdir(parents=True, exist_ok=True)
        process = self._running[host] = Process(host=host, pid=1, started="now", log=log)
        self._cue_start(host)
        return process

    async def alive(self) -> dict[str, Process]:
        return dict(self._running)

    def exits(self) -> tuple[Exit, ...]:
        told, self._exits = tuple(self._exits), []
        return told

    def away(self) -> frozenset[str]:
        return frozenset()

    async def stop(self, host: str, *, within_s: float) -> Exit | None:
        process = self._running.pop(host, None)
        if process is None:
            return None
        self.done.append(f"stop {host}")
        return Exit(host=host, code=0, log=process.log)

    async def adopt(self, run_folder: Path) -> dict[str, Process]:
        return dict(self._running)

    async def release(self, *, within_s: float) -> tuple[Exit, ...]:
        self.done.append("release")
        self._running.clear()
        return ()

    def heard(self, entry: Entry) -> None:
        """Everybody hears what the controller hears, when it hears it."""
        match entry.body:
            case Planned(plan=plan):
                self._plan = plan
            case Crew(site=site, hosts=hosts) if entry.seq > self._heard:
                self._leaders[site] = hosts[0]
                if hosts[0] in self._running:
                    self._post(hosts[0])
            case Drain():
                self._draining = True
                if "checkpointer" in self._running and self._kept < self._model.round:
                    self._keep(self._agreed_at)
            case Commit() as commit if commit.round == self._model.round + 1:
                self._cue_commit(entry.seq, commit)
            case _:
                pass
        self._heard = max(self._heard, entry.seq)

    # The actors -----------------------------------------------------------------------------

    def ends(self, host: str, code: int) -> None:
        process = self._running.pop(host)
        self._exits.append(Exit(host=host, code=code, log=process.log))

    def says(self, host: str, body: Body) -> None:
        self.book.append(self._pens[host].sign(body, 1_700_000_000_000 + self.book.head[0]))

    def _cue_start(self, host: str) -> None:
        life = self._lives[host] = self._lives.get(host, 0) + 1
        if host == "export":
            self.ends(host, self.export_code)
        if host in SITE_OF or host == "checkpointer":
            assert self.folder is not None, "a controller connects before it starts anybody"
            self._pens[host] = Pen.open(self.folder.keys(SITE_OF.get(host, CONTROLLER), host), life)
        if host == "checkpointer" and life == 1:
            self._keep(0)
        if host in SITE_OF:
            self._begin(host)

    def _begin(self, host: str) -> None:
        part = self.parts.get(host, Part())
        if part.fails or self._over:
            self.ends(host, part.fails.pop(0) if part.fails else 0)
            return
        self.says(host, started(torch=part.torch, offset_ms=part.clock_ms))
        source = {"frankfurt": "german", "virginia": "english"}[SITE_OF[host]]
        self.says(
            host,
            Access(source=source, purpose="train", files=1, bytes=9, digest="", rule="its own"),
        )
        self._post(host)

    def _cue_commit(self, seq: int, commit: Commit) -> None:
        assert self._plan is not None, "no commit without a plan"
        members = {m.site: self._payloads[m.site, m.n] for m in commit.members}
        self._model.apply(commit, self._plan, members)
        self._over, self._agreed_at = commit.last, seq
        self._open -= members.keys()
        self.cues.pop(commit.round, lambda: None)()
        if "checkpointer" in self._running:
            agreed = Digest(fragment=0, round=commit.round, digest=self._model.digest())
            self.says("checkpointer", agreed)
            if self._draining:
                self._keep(seq)
        for host in [name for name in self._running if name in SITE_OF]:
            part = self.parts.get(host, Part())
            if part.dies_at_round == commit.round:
                part.dies_at_round = None
                self.ends(host, -9)
            elif commit.last:
                self.ends(host, 0)
            elif part.falls_silent_at_round == commit.round:
                part.falls_silent_at_round = None
            elif SITE_OF[host] in members:
                self._post(host)

    def _post(self, host: str) -> None:
        """The leader of a site speaks for it, one post at a time, unless it has said its last."""
        site = SITE_OF[host]
        if host != self._leaders[site] or site in self._final | self._open:
            return
        self._open.add(site)
        if self._draining:
            self._final.add(site)
        n = self._n[site] = self._n.get(site, 0) + 1
        made_up = np.full(PARAMETERS, n / 8, dtype=np.float32)
        blob = self._payloads[site, n] = encode(made_up, "fp32", 128)
        shard = Shard(
            parameter="*", start=0, stop=PARAMETERS, blob=self.book.put(blob), bytes=len(blob)
        )
        self.says(host, progress(self._model.round, trained=n * 500))
        self.says(
            host,
            Contribution(
                fragment=0, n=n, base=self._model.round, tokens=500, steps=5, trained=n * 500,
                codec="fp32", form="update", rule="rule 1", cursor="{}",
                incarnation=self._lives[host], shards=(shard,), final=self._draining,
            ),
        )  # fmt: skip

    def _keep(self, seq: int) -> None:
        header = json.dumps({"__metadata__": {}}).encode()
        blob = struct.pack("<Q", len(header)) + header
        blob += self._model.a.tobytes() + self._model.v.tobytes()
        record = Checkpointed(
            round=self._model.round, at_seq=seq, blob=self.book.put(blob), bytes=len(blob),
            digest=model_digest(self._model.a), parameters=PARAMETERS, table="[]",
        )  # fmt: skip
        self.says("checkpointer", record)
        self._kept = self._model.round


class Quiet:
    """An audience that remembers what it was told."""

    def __init__(self, *, agrees: bool = True) -> None:
        self.said: list[str] = []
        self.plans: list[Plan] = []
        self.entries: list[Entry] = []
        self._agrees = agrees

    def say(self, line: str) -> None:
        self.said.append(line)

    def planned(self, job: Job, fleet: Fleet, plan: Plan) -> bool:
        self.plans.append(plan)
        return self._agrees

    def recalled(self, entries: tuple[Entry, ...]) -> None:
        self.entries += entries

    def heard(self, entries: tuple[Entry, ...]) -> None:
        self.entries += entries

    def close(self) -> None:
        """Nothing is open."""

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.entries]

    def events(self) -> list[tuple[str, str]]:
        bodies = [entry.body for entry in self.entries]
        return [(body.what, body.host) for body in bodies if isinstance(body, HostEvent)]


def means(stage: Stage, audience: Quiet, *, clock: Callable[[], float] = time.monotonic) -> Means:
    return Means(
        python="python",
        env={},
        provider=lambda folder, fleet, setup, tell: stage,
        audience=audience,
        connect=stage.connect,
        clock=clock,
    )


def order(folder: Path, *, job: str = JOB, fleet: str = FLEET) -> Order:
    (folder / "job.yaml").write_text(job)
    (folder / "fleet.yaml").write_text(fleet)
    return read_order(folder / "job.yaml", None)


async def begun(folder: Path, *, job: str = JOB) -> tuple[RunFolder, Setup]:
    """A run on disk that nobody leads yet; its speeds are declared, so that nothing is measured."""
    wanted = Setup(lab=False, declared=True, port=1)
    return await make_run(order(folder, job=job), folder / "runs", wanted)
