"""A whole run in one process: real loops over a logbook in memory, a controller, a checkpointer."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from fakes.logbook import RUN, FakeLogbook
from torch import nn

from argosy.core.errors import HostError
from argosy.core.plan import Estimate, ExchangePlan, HostPlan, Plan, SitePlan
from argosy.core.records import (
    CONTROLLER,
    Body,
    Commit,
    Crew,
    Entry,
    Planned,
    Roster,
    RunBegun,
    Seat,
    Writer,
)
from argosy.engine import ops
from argosy.engine.checkpointer import Keeper
from argosy.engine.config import Workplace
from argosy.engine.crew import SoloCrew
from argosy.engine.inbox import Inbox, Payloads
from argosy.engine.loop import Loop
from argosy.engine.worker import Worker, started
from argosy.exchange.controller import ControllerSide

CHIEF = Writer(site=CONTROLLER, host=CONTROLLER, incarnation=1)
CHECKER = Writer(site=CONTROLLER, host="checkpointer", incarnation=1)
COUNTRY = {"frankfurt": "DE", "tokyo": "JP", "virginia": "US"}


class Tiny(nn.Module):
    """A bigram model with a bias: the smallest thing that learns from text."""

    def __init__(self, vocabulary: int, width: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.embed(tokens))
        return out


class Clock:
    """Moves only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Mouth:
    """An outbox that says at once, under one writer; while the logbook is away it keeps silent."""

    def __init__(self, book: FakeLogbook, writer: Writer) -> None:
        self._book = book
        self._writer = writer
        self._waiting: list[tuple[Body, Sequence[bytes], Future[int]]] = []
        self.held = False  # posts stay on their way

    def post(self, body: Body, blobs: Sequence[bytes] = ()) -> Future[int]:
        said: Future[int] = Future()
        self._waiting.append((body, tuple(blobs), said))
        self.flush()
        return said

    def flush(self) -> None:
        while self._waiting and not self._book.away and not self.held:
            body, blobs, said = self._waiting.pop(0)
            for blob in blobs:
                self._book.put(blob)
            said.set_result(self._book.say((self._writer, body)))


@dataclass
class Hosting:
    """One host at work."""

    name: str
    loop: Loop
    mouth: Mouth
    left: ops.Leave | None = None

    def turn(self) -> None:
        self.mouth.flush()
        if self.left is not None:
            return
        due = self.loop.turn()
        if isinstance(due, ops.Train):
            self.loop.train(due)
        elif due is not None:
            self.left = due
            if not due.done:
                self.loop.keep_now()


@dataclass
class Town:
    """Sites of one host each. `text` per site lies in `folder`/data."""

    folder: Path
    sites: tuple[str, ...] = ("frankfurt", "tokyo", "virginia")
    tokens: int = 100_000
    training: dict[str, object] = field(default_factory=dict)
    exchange: dict[str, object] = field(default_factory=dict)
    model: str = "fakes.engine:Tiny"
    texts: dict[str, str] = field(default_factory=dict)
    held_out: float = 0.1
    policy: str = "  - {allow: [update, metric, checkpoint], from: '*', to: '*', why: a test}\n"

    def __post_init__(self) -> None:
        self.book = FakeLogbook()
        self.clock = Clock()
        self.hosts: dict[str, Hosting] = {}
        self.controller = ControllerSide(CHIEF)
        self.keeper = Keeper(
            self.book,
            lambda body: self.book.say((CHECKER, body)),
            host="checkpointer",
            root=self.folder / "data",
        )
        self.plan_of: Callable[[int], Plan] = self.planned
        self._heard = 0
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        for site in self.sites:
            text = self.texts.get(site) or prose(site)
            (self.folder / "data" / f"{site}.txt").write_text(text)

    # -- the controller's and the checkpointer's part ----------------------------------------------

    def begin(self) -> None:
        """run, roster, lead, plan; the first model."""
        book = self.book
        begun = RunBegun(
            run=RUN, name="town", argosy="0", job=self.job(), fleet=self.fleet(), authority=""
        )
        seats = [
            Seat(site=site, host=f"{site}-1", country=COUNTRY[site], certificate="")
            for site in self.sites
        ]
        book.say((CHIEF, begun))
        book.say((CHIEF, Roster(seats=tuple(seats), torch="")))
        book.say((CHIEF, self.controller.lead()))
        self.plan(1)
        self.govern()

    def plan(self, number: int) -> None:
        self.book.say((CHIEF, Planned(plan=self.plan_of(number), reason="a test")))

    def crew(self, site: str, epoch: int, *hosts: str) -> None:
        self.book.say((CHIEF, Crew(site=site, epoch=epoch, hosts=hosts)))

    def govern(self, *, decide: bool = True) -> Commit | None:
        """Hear everything new, keep the model, and commit if it is time."""
        self.hear()
        commit = self.controller.decide(self.clock.now) if decide else None
        if commit is not None:
            self.book.say((CHIEF, commit))
            self.hear()
        return commit

    def hear(self) -> None:
        for entry in self.book.read(self._heard + 1):
            self._heard = entry.seq
            self.controller.hear(entry, self.clock.now)
            self.keeper.hear(entry)
        self.keeper.catch_up()
        for entry in self.book.read(self._heard + 1):
            self._heard = entry.seq
            self.controller.hear(entry, self.clock.now)
            self.keeper.hear(entry)

    def drain(self) -> None:
        self.hear()
        self.book.say((CHIEF, self.controller.drain("done")))
        self.hear()

    # -- hosts -------------------------------------------------------------------------------------

    def start(self, site: str, incarnation: int = 1) -> Hosting:
        """A host comes up, in this process."""
        host = f"{site}-1"
        mouth = Mouth(self.book, Writer(site=site, host=host, incarnation=incarnation))
        worker = self.worker(site)
        loop = worker.loop(mouth, SoloCrew(host), started("127.0.0.1"), incarnation=incarnation)
        loop.enter(loop.bench.crew.form((0, 0), 1.0))
        self.hosts[site] = Hosting(host, loop, mouth)
        return self.hosts[site]

    def worker(self, site: str) -> Worker:
        inbox = Inbox(self.book, Payloads(self.book), site=site)
        return Worker(
            self.place(site), self.book, inbox, clock=self.clock, device=torch.device("cpu")
        )

    def place(self, site: str) -> Workplace:
        scratch = self.folder / "scratch" / site
        return Workplace(
            run=RUN, site=site, host=f"{site}-1", url="https://logbook", keys=self.folder,
            data=self.folder / "data", scratch=scratch,
        )  # fmt: skip

    def go(
        self, until: Callable[["Town"], bool], *, turns: int = 3000, step_s: float = 0.01
    ) -> None:
        """Everyone takes turns, the controller too."""
        for _ in range(turns):
            if until(self):
                return
            self.clock.now += step_s
            for hosting in list(self.hosts.values()):
                hosting.turn()
            self.govern()
        raise AssertionError(f"not within {turns} turns; {self.describe()}")

    def describe(self) -> str:
        rounds = {site: h.loop.bench.state.counters for site, h in self.hosts.items()}
        return f"round {self.round}, {rounds}"

    @property
    def round(self) -> int:
        return self.controller.agreement.round()

    def finished(self) -> bool:
        return all(hosting.left is not None for hosting in self.hosts.values())

    # -- looking -----------------------------------------------------------------------------------

    def said(self, kind: type[Body], site: str | None = None) -> list[Entry]:
        return [
            entry
            for entry in self.book.read(1)
            if isinstance(entry.body, kind) and site in (None, entry.writer.site)
        ]

    def agreed(self) -> np.ndarray:
        replay = self.keeper._replay
        assert replay is not None
        return replay.a

    # -- texts -------------------------------------------------------------------------------------

    def job(self) -> str:
        training = {"tokens": self.tokens, "sequence": 8, "batch": 4, "optimizer": "adamw",
                    "precision": "fp32", **self.training}  # fmt: skip
        sources = "".join(
            f"  - {{name: {site}, path: {site}.txt, country: {COUNTRY[site]}, personal: no,"
            f" held_out: {self.held_out}}}\n"
            for site in self.sites
        )
        return (
            f"version: 1\nname: town\nmodel: {{class: {json.dumps(self.model)}}}\n"
            f"sources:\n{sources}training: {json.dumps(training)}\n"
            f"policy:\n{self.policy}"
        )

    def fleet(self) -> str:
        sites = "".join(
            f"  {site}:\n    country: {COUNTRY[site]}\n"
            f"    link: {{mbit_per_s: 100, rtt_ms: 10}}\n    hosts:\n      {site}-1: {{}}\n"
            for site in self.sites
        )
        return f"version: 1\nhome: DE\nsites:\n{sites}"

    def planned(self, number: int) -> Plan:
        batch = int(str(self.training.get("batch", 4)))
        exchange: dict[str, object] = {
            "codec": "fp32", "block": 128, "window_steps": 4, "window_seconds": None, "delay": 1,
            "outer_learning_rate": 0.7, "outer_momentum": 0.6, "staleness": 8,
            "checkpoint_every": 3, "evaluate_every": 2, **self.exchange,
        }  # fmt: skip
        sites = tuple(
            SitePlan(
                site=site,
                hosts=(
                    HostPlan(
                        host=f"{site}-1", micro_batch=batch, accumulation=1, tokens_per_s=100.0
                    ),
                ),
                sources=(site,),
                tokens_per_s=100.0,
                seconds_per_step=0.1,
                steps_per_round=4,
                bytes_per_round=1000,
                transfer_s=0.1,
            )
            for site in self.sites
        )
        estimate = Estimate(
            tokens_per_s=300.0, rounds=10, seconds=100.0, money=0.0, currency="USD", bytes_up=0,
            bytes_down=0, allreduce_bytes=0,
        )  # fmt: skip
        return Plan(
            number=number, sites=sites, exchange=ExchangePlan(**exchange),  # type: ignore[arg-type]
            estimate=estimate, parameters=2000, reasons=(),
        )  # fmt: skip


def prose(seed: str, paragraphs: int = 60) -> str:
    """Reproducible text with blank lines between its paragraphs, a little like a language."""
    rng = np.random.default_rng(sum(map(ord, seed)))
    words = ["".join(rng.choice(list("aeioustrnl"), 4)) for _ in range(30)]
    lines = (" ".join(rng.choice(words, 60)) for _ in range(paragraphs * 8))
    return "\n\n".join(lines)


__all__ = ["CHIEF", "Clock", "HostError", "Hosting", "Mouth", "Tiny", "Town", "prose"]
