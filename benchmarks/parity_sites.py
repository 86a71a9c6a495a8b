"""Three sites in one process: the engine's own worker and loop around a logbook, no network.

Nothing is imitated but time and transport: records are signed and checked, payloads encoded and
stored, commits decided by the controller's side, replayed by the checkpointer.
"""

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from argosy.core.plan import HostFacts, Plan
from argosy.core.records import (
    CONTROLLER,
    Body,
    Commit,
    Contribution,
    Crew,
    Digest,
    Ended,
    Entry,
    Planned,
    Roster,
    RunBegun,
    Seat,
    Writer,
)
from argosy.lab.crossing import OVERHEAD_PER_RECORD  # as the relay counts

if TYPE_CHECKING:
    from torch import nn

    from argosy.core.job import Job
    from argosy.data.tokens import Tokens
    from argosy.engine.loop import Loop
    from argosy.engine.ops import Leave
    from argosy.logbook.embedded import EmbeddedLogbook
    from argosy.logbook.keys import Pen

DATA = Path(__file__).parents[1] / "examples" / "three-continents"
SITES = {"frankfurt": ("DE", "german"), "tokyo": ("JP", "japanese"), "virginia": ("US", "english")}
STEP_S = 0.25  # on the sites' clocks
RUN = "0198c0de-0000-7000-8000-00000000da7a"

JOB = """
version: 1
name: parity
model:
  config: {{model_type: llama, hidden_size: {width}, intermediate_size: {inner},
           num_hidden_layers: {layers}, num_attention_heads: 4, tie_word_embeddings: true}}
sources:
  - {{name: german, path: data/german.txt.gz, country: DE, personal: no, held_out: 0.05}}
  - {{name: japanese, path: data/japanese.txt.gz, country: JP, personal: no, held_out: 0.05}}
  - {{name: english, path: data/english.txt.gz, country: US, personal: no, held_out: 0.05}}
training: {{tokens: {tokens}, sequence: 128, batch: {batch}, learning_rate: {rate}, seed: {seed},
           precision: fp32, evaluate_every: 1000000}}
exchange: {{window: {{steps: {window}}}, codec: {codec}, delay: {delay},
           outer_learning_rate: {outer_rate}, outer_momentum: {momentum}, moments: {moments}}}
policy:
  - {{allow: [update, checkpoint, metric], from: "*", to: "*", why: a benchmark on public text}}
"""
FLEET = """
version: 1
home: DE
sites:
  frankfurt: {country: DE, link: {mbit_per_s: 100, rtt_ms: 20}, hosts: {frankfurt-1: {cores: 1}}}
  tokyo: {country: JP, link: {mbit_per_s: 100, rtt_ms: 230}, hosts: {tokyo-1: {cores: 1}}}
  virginia: {country: US, link: {mbit_per_s: 100, rtt_ms: 90}, hosts: {virginia-1: {cores: 1}}}
"""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is compared."""

    seed: int
    steps: int
    batch: int
    width: int
    layers: int
    rate: float
    window: int
    codec: str
    delay: int
    lag: int
    outer_rate: float
    momentum: float
    moments: str = "shared"

    @property
    def job(self) -> str:
        sequence = 128
        return JOB.format(
            width=self.width,
            inner=3 * self.width,
            layers=self.layers,
            tokens=self.steps * self.batch * sequence * len(SITES),
            batch=self.batch,
            rate=self.rate,
            seed=self.seed,
            window=self.window,
            codec=self.codec,
            delay=self.delay,
            outer_rate=self.outer_rate,
            momentum=self.momentum,
            moments=self.moments,
        )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    losses: dict[str, float]  # nats per token on what each source holds back
    seconds: float
    parameters: int
    site_bytes: float = 0.0  # up plus down, mean over the sites
    payload_bits: float = 0.0  # per parameter, mean over all posts
    rounds: int = 0

    @property
    def loss(self) -> float:
        return float(np.mean(list(self.losses.values())))


def opened(job: "Job") -> "dict[str, Tokens]":
    from argosy.data.corpus import open_source
    from argosy.data.tokens import BYTES

    found = {}
    for source in job.sources:
        corpus = open_source(source, DATA, site_country=source.country, policy=job.policy)
        found[source.name] = corpus.tokens(BYTES, None)
    return found


def losses(module: "nn.Module", job: "Job") -> dict[str, float]:
    """Over all of what each source holds back."""
    import torch

    from argosy.data.corpus import held_out
    from argosy.engine import models

    found = {}
    module.eval()
    for name, tokens in opened(job).items():
        held = held_out(tokens, sequence=job.training.sequence)
        windows = torch.from_numpy(held.spread(len(held)))
        with torch.inference_mode():
            means = [
                (float(models.loss(module, rows)), len(rows)) for rows in torch.split(windows, 32)
            ]
        found[name] = sum(mean * count for mean, count in means) / len(windows)
    return found


def initial(job: "Job") -> "nn.Module":
    import torch

    from argosy.engine import models

    torch.manual_seed(job.training.seed)
    return models.build(job.model, 257, root=DATA)


class Hand:
    """A writer whose records are in the logbook when `post` returns."""

    def __init__(self, logbook: "EmbeddedLogbook", pen: "Pen") -> None:
        self._logbook = logbook
        self._pen = pen

    def post(self, body: Body, blobs: Sequence[bytes] = ()) -> "Future[int]":
        for blob in blobs:
            self._logbook.put(blob, self._pen.site)
        done: Future[int] = Future()
        done.set_result(self._logbook.append(self._pen.sign(body, time.time_ns() // 1_000_000)))
        return done


class Run:
    """Three sites, their controller and their checkpointer around one logbook."""

    def __init__(self, trial: Trial, folder: Path) -> None:
        from argosy.exchange.controller import ControllerSide
        from argosy.logbook.embedded import EmbeddedLogbook
        from argosy.logbook.keys import Authority
        from argosy.spec import parse_job

        self.job = parse_job(trial.job)
        self.trial = trial
        self.folder = folder
        self._now_s = 0.0  # what the sites' clocks say: how often they report depends on it
        self.logbook = EmbeddedLogbook(folder / "logbook")
        self._authority: Authority = Authority.make(folder / "ca")
        seats = [self._seat(CONTROLLER, name, "DE") for name in (CONTROLLER, "checkpointer")]
        seats += [self._seat(site, f"{site}-1", country) for site, (country, _) in SITES.items()]
        self._controller = self._hand(CONTROLLER)
        for body in (
            RunBegun(
                run=RUN, name="parity", argosy="0", job=trial.job, fleet=FLEET,
                authority=self._authority.pem,
            ),
            Roster(seats=tuple(seats), torch=""),
        ):  # fmt: skip
            self._controller.post(body)
        me = Writer(site=CONTROLLER, host=CONTROLLER, incarnation=1)
        self._side = ControllerSide(me, low_s=1e9, high_s=1e9)
        self._heard = 0
        self._hear()
        self._controller.post(self._side.lead())
        self._controller.post(Planned(plan=self._plan(), reason="first plan"))
        for site in SITES:
            self._controller.post(Crew(site=site, epoch=1, hosts=(f"{site}-1",)))
        self._keeper = self._checkpointer()
        self._keep()
        self.loops = {site: self._loop(site) for site in SITES}

    def train(self) -> None:
        """Step by step, all sites in turn; commits come `lag` steps after their last post."""
        held: list[tuple[int, Commit]] = []
        for step in range(self.trial.steps):
            for loop in self.loops.values():
                one_step(loop)
            self._now_s += STEP_S
            self._hear()
            if (commit := self._side.decide(0.0)) is not None:
                held.append((step + self.trial.lag, commit))
            while held and held[0][0] <= step:
                self._controller.post(held.pop(0)[1])
            if (step + 1) % 300 == 0:
                said = f"{step + 1} steps, round {self._side.agreement.round()}"
                say(f"  three sites, seed {self.trial.seed}: {said}")
        for _, commit in held:
            self._controller.post(commit)
        self._finish()

    def _finish(self) -> None:
        """Drain: every site posts what it has, and the last round is committed."""
        self._hear()
        self._controller.post(self._side.drain("done"))
        while not all(loop.bench.driver.side.finished for loop in self.loops.values()):
            for loop in self.loops.values():
                turn(loop)
            self._hear()
            if (commit := self._side.decide(0.0)) is not None:
                self._controller.post(commit)
        for loop in self.loops.values():
            while turn(loop) is None:
                pass
        agreed = self._side.agreement
        self._controller.post(
            Ended(
                outcome="done", rounds=agreed.round(), tokens=agreed.tokens(),
                head_seq=agreed.seq, head_chain=agreed.chain,
            )
        )  # fmt: skip

    def outcome(self, began: float) -> Outcome:
        from argosy.engine import models

        module = initial(self.job)
        loops = list(self.loops.values())
        models.load_flat(module, loops[0].bench.state.holdings.a)
        self._check_agreement()
        entries = all_entries(self.logbook)
        posts = [entry.body for entry in entries if isinstance(entry.body, Contribution)]
        parameters = models.size(module)
        sizes = [sum(shard.bytes for shard in post.shards) for post in posts]
        return Outcome(
            losses=losses(module, self.job),
            seconds=time.monotonic() - began,
            parameters=parameters,
            site_bytes=float(np.mean([crossed(entries, site) for site in SITES])),
            payload_bits=8 * float(np.mean(sizes)) / parameters,
            rounds=self._side.agreement.round(),
        )

    def _check_agreement(self) -> None:
        """Replay by the checkpointer and what the sites have said: one model for every round."""
        said = defaultdict(set)
        self._keep()
        for entry in all_entries(self.logbook):
            if isinstance(entry.body, Digest):
                said[entry.body.round].add(entry.body.digest)
        assert len(said) == self._side.agreement.round()
        assert all(len(digests) == 1 for digests in said.values()), "the sites disagree"

    def _plan(self) -> Plan:
        from argosy.planner import plan
        from argosy.policy import placement
        from argosy.spec import parse_fleet

        fleet = parse_fleet(FLEET)
        facts = tuple(
            HostFacts(
                host=f"{site}-1", tokens_per_s=5000, micro_batch=self.trial.batch,
                peak_memory_gb=0.5, memory_gb=4.0,
            )
            for site in SITES
        )  # fmt: skip
        return plan(
            self.job, fleet, facts=facts, links=fleet.links, placement=placement(self.job, fleet),
            parameters=300_000,
        )  # fmt: skip

    def _checkpointer(self) -> "Callable[[Entry], None]":
        from argosy.engine.checkpointer import Keeper

        hand = self._hand("checkpointer")
        keeper = Keeper(self.logbook, hand.post, host="checkpointer", root=DATA)
        self._catch_up = keeper.catch_up
        self._kept = 0
        return keeper.hear

    def _keep(self) -> None:
        while entries := self.logbook.read(self._kept + 1):
            for entry in entries:
                self._keeper(entry)
                self._kept = entry.seq
            self._catch_up()

    def _loop(self, site: str) -> "Loop":
        from argosy.engine.config import Workplace
        from argosy.engine.crew import SoloCrew
        from argosy.engine.inbox import Inbox, Payloads
        from argosy.engine.worker import Worker, started

        host = f"{site}-1"
        place = Workplace(
            run=RUN, site=site, host=host, url="", keys=self.folder / host, data=DATA,
            scratch=self.folder / "scratch" / host,
        )  # fmt: skip
        inbox = Inbox(self.logbook, Payloads(self.logbook), site=site)
        worker = Worker(place, self.logbook, inbox, clock=lambda: self._now_s)
        crew = SoloCrew(host)
        loop = worker.loop(self._hand(host), crew, started("127.0.0.1"), incarnation=1)
        loop.enter(crew.form((0, 0), 1.0))
        return loop

    def _seat(self, site: str, host: str, country: str) -> Seat:
        certificate = self._authority.issue(RUN, site, host, self.folder / host)
        return Seat(site=site, host=host, country=country, certificate=certificate)

    def _hand(self, host: str) -> Hand:
        from argosy.logbook.keys import Pen

        return Hand(self.logbook, Pen.open(self.folder / host, 1))

    def _hear(self) -> None:
        for entry in self.logbook.read(self._heard + 1):
            self._side.hear(entry, 0.0)
            self._heard = entry.seq


def turn(loop: "Loop") -> "Leave | None":
    """One operation, a training step included; what ends the run."""
    from argosy.engine.ops import Train

    due = loop.turn()
    if not isinstance(due, Train):
        return due
    loop.train(due)
    return None


def one_step(loop: "Loop") -> None:
    """Whatever is due at this boundary, then one optimizer step."""
    before = loop.bench.state.counters.step
    while loop.bench.state.counters.step == before:
        left = turn(loop)
        assert left is None, left


def all_entries(logbook: "EmbeddedLogbook") -> list[Entry]:
    entries: list[Entry] = []
    while batch := logbook.read(len(entries) + 1):
        entries += batch
    return entries


def crossed(entries: list[Entry], site: str) -> int:
    """Bytes over one site's link, up and down, without the initial model."""
    total = 0
    for entry in entries:
        own = entry.writer.site == site
        total += (1 + own) * (len(entry.raw) + OVERHEAD_PER_RECORD)  # every site reads every record
        if isinstance(entry.body, Contribution):  # put by its own site, fetched by the others
            total += sum(shard.bytes + OVERHEAD_PER_RECORD for shard in entry.body.shards)
    return total


def three_sites(trial: Trial) -> Outcome:
    import torch

    torch.set_num_threads(1)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(trial, Path(folder))
        run.train()
        return run.outcome(began)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
