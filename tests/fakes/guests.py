"""Guests of a town: loops of their own in threads, of which one runs at a time, in turns."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from fakes.engine import Hosting, Mouth, Tiny, Town
from torch import nn

from argosy.core.records import Writer
from argosy.engine import ops
from argosy.engine.config import Workplace
from argosy.engine.inbox import Inbox, Payloads
from argosy.engine.site import Site

ROWS, SEQUENCE = 4, 8
BATCH = ROWS * SEQUENCE  # tokens
Script = Callable[[nn.Module, torch.optim.Optimizer, Iterator[torch.Tensor], Site], None]


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def loss_of(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = model(batch[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


class Turns:
    """One thread and the test's, of which only one runs."""

    def __init__(self, task: Callable[[], None]) -> None:
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._task = task
        self.failure: BaseException | None = None
        self.ended = False
        threading.Thread(target=self._run, daemon=True).start()

    def turn(self) -> None:
        """Let it run until it rests or ends."""
        self._go.release()
        assert self._back.acquire(timeout=60)
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def rest(self) -> None:
        """Said in the thread: wait for the next turn."""
        self._back.release()
        self._go.acquire()

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._task()
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.failure = error
        self.ended = True
        self._back.release()


class RestingInbox(Inbox):
    """Where there is nothing to do but to wait, others have their turn."""

    rest: Callable[[], None]

    def wait(self, within_s: float) -> None:  # noqa: ARG002 - no time passes
        self.rest()


class TownLine:
    """What line.Line is to a real run."""

    clock_offset_ms = 0

    def __init__(self, town: Town, place: Workplace, rest: Callable[[], None]) -> None:
        self.book = town.book
        self.inbox = RestingInbox(town.book, Payloads(town.book), site=place.site)
        self.inbox.rest = rest
        self.closed = False
        self.sends = True  # what was said has arrived when it is closed
        self._place = place

    def speak(self, incarnation: int) -> Mouth:
        place = self._place
        return Mouth(self.book, Writer(site=place.site, host=place.host, incarnation=incarnation))

    def close(self) -> bool:
        self.closed = True
        return self.sends


class GuestHosting(Hosting):
    """A site of a town whose loop is `script`. One batch, or one wait, a turn."""

    def __init__(
        self,
        town: Town,
        name: str,
        script: Script,
        *,
        model: nn.Module | None = None,
        optimizer: Callable[[nn.Module], torch.optim.Optimizer] = adamw,
        batches: int | None = None,
    ) -> None:
        self.name = f"{name}-1"
        self.model = model if model is not None else Tiny(257)
        self.optimizer = optimizer(self.model)
        self.left: ops.Leave | None = None
        self._place = town.place(name)
        self._town = town
        self.site = self.made(self.model, self.optimizer)
        text = (town.folder / "data" / f"{name}.txt").read_bytes()
        self._script = script
        self._batches = _batches(text, batches)
        self._turns = Turns(lambda: script(self.model, self.optimizer, self._rested(), self.site))
        town.hosts[name] = self

    def made(self, model: nn.Module, optimizer: object) -> Site:
        """Its site, made of these instead: what a loop has prepared."""
        self.site = Site(
            model, optimizer, workplace=self._place, connect=self._line, clock=self._town.clock
        )
        return self.site

    def turn(self) -> None:
        if self.left is not None:
            return
        self._turns.turn()
        if hasattr(self.site, "_loop"):
            self.loop = self.site._loop
        if self._turns.ended:
            assert isinstance(self.site._due, ops.Leave)
            self.left = self.site._due

    def _line(self, place: Workplace) -> TownLine:
        self.line = TownLine(self._town, place, self._turns.rest)
        return self.line

    def _rested(self) -> Iterator[torch.Tensor]:
        for batch in self._batches:
            self._turns.rest()
            yield batch


def _batches(text: bytes, limit: int | None) -> Iterator[torch.Tensor]:
    """[4, 9] tokens (int64) each, drawn by a seed."""
    values = np.frombuffer(text, np.uint8).astype(np.int64)
    rng = np.random.default_rng(7)
    made = 0
    while limit is None or made < limit:
        starts: Sequence[int] = rng.integers(0, values.size - SEQUENCE - 1, ROWS).tolist()
        yield torch.from_numpy(np.stack([values[at : at + SEQUENCE + 1] for at in starts]))
        made += 1


def workplace_file(folder: Path, place: Workplace) -> Path:
    import json

    facts = {name: str(getattr(place, name)) for name in ("run", "site", "host", "url", "keys",
                                                         "data", "scratch")}  # fmt: skip
    path = folder / "worker.json"
    path.write_text(json.dumps(facts))
    return path
