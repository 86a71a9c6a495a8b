"""The exchange inside a training loop that Argosy did not write."""

import math
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

import torch

from argosy.core.errors import HostError, SpecError
from argosy.engine import ops
from argosy.engine.config import Workplace, read_workplace
from argosy.engine.crew import SoloCrew
from argosy.engine.guest import Guest
from argosy.engine.line import Line
from argosy.engine.worker import started
from argosy.logbook.keys import next_incarnation

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

    from torch import nn

    from argosy.engine.exchange_driver import Posting
    from argosy.engine.inbox import Inbox
    from argosy.engine.loop import Loop
    from argosy.engine.state import SiteState
    from argosy.logbook import Logbook

VARIABLE = "ARGOSY_WORKPLACE"


class Connection(Protocol):
    """What is used of line.Line."""

    @property
    def book(self) -> "Logbook": ...
    @property
    def inbox(self) -> "Inbox": ...
    @property
    def clock_offset_ms(self) -> int: ...
    def speak(self, incarnation: int) -> "Posting": ...
    def close(self) -> bool: ...


class Site:
    """One site of a run, trained by your own loop.

        with argosy.Site(model, optimizer) as site:
            for batch in loader:
                loss = model(batch); loss.backward(); optimizer.step(); optimizer.zero_grad()
                if not site.step(tokens=batch.numel()):
                    break

    On entering, the model takes the values that the run has agreed on. Each `step` hears what the
    other sites have said, applies it to the model and posts this site's progress when it is time.
    On leaving, what was trained is posted and a snapshot stays in the workplace's scratch folder.
    """

    def __init__(
        self,
        model: "nn.Module",
        optimizer: object,
        *,
        workplace: "Workplace | Path | str | None" = None,
        connect: "Callable[[Workplace], Connection]" = Line,
        clock: "Callable[[], float]" = time.monotonic,
    ) -> None:
        """`model`: fp32 parameters on one device, the same names and shapes as the job's model.
        `optimizer`: a torch optimizer of its parameters, or accelerate's wrapper around one.
        `workplace`: the worker.json of this host; by default the file that the environment variable
        ARGOSY_WORKPLACE names. `connect` and `clock` (seconds) are for tests.

        Nothing happens before the site is entered. Entering raises SpecError (no workplace, a model
        or optimizer that does not fit, a site of several hosts), PolicyError (updates may not leave
        here), DamagedError (other parameters than the checkpoint's), HostError (no logbook, no
        controller).
        """
        self._model = model
        self._optimizer = optimizer
        self._workplace = workplace
        self._connect = connect
        self._clock = clock
        self._line: Connection
        self._guest: Guest | None = None
        self._loop: Loop
        self._due: ops.Train | ops.Leave
        self._began = 0.0  # the guest's step
        self._handled = False  # SIGTERM, by us

    # -- what the loop may ask ---------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether there is nothing more to train: the run is over, or this host has to leave."""
        return isinstance(self._due, ops.Leave)

    @property
    def tokens(self) -> int:
        """Of the whole run, all sites together, as far as known here: for learning rates."""
        due = self._due
        return due.tokens if isinstance(due, ops.Train) else self._state.counters.committed

    @property
    def steps(self) -> int:
        """That this site has ever counted, earlier lives included: to skip what was trained on."""
        return self._state.counters.step

    @property
    def round(self) -> int:
        """Which the agreed model, that the local one began from, is of."""
        return self._state.counters.round

    def step(self, tokens: int, loss: float | torch.Tensor | None = None) -> bool:
        """Count one optimizer step over `tokens` tokens (or samples: the job's unit), then exchange.

        `loss`: its mean loss in nats per token, for the run's progress; without it none is told.
        False when there is nothing more to train. Returns at once while the run lets this site go
        on; waits while it has to wait for others. Raises SpecError for no tokens or a model that was
        moved, FencedError if this host has begun anew elsewhere.
        """
        if self.over:
            return False
        if tokens < 1:
            raise SpecError(
                f"a step over {tokens} tokens", where="argosy.Site.step",
                hint="say how many tokens the step's gradient came from",
            )  # fmt: skip
        if not self._state.weights.intact():
            raise SpecError(
                "the model's parameters were moved or replaced since the site was entered",
                where="argosy.Site.step",
                hint="move, cast or prepare the model before the site is made",
            )
        passed = self._clock() - self._began
        self._state.trained(int(tokens), self._state.counters.cursor)
        told = loss.item() if isinstance(loss, torch.Tensor) else loss
        if told is not None and not math.isfinite(told):
            told = None  # what it does to the weights is seen before they leave
        self._loop.stepped(told, int(tokens), passed)
        return self._go_on()

    # -- entering and leaving ----------------------------------------------------------------------

    def __enter__(self) -> Self:
        place = self._place()
        self._line = self._connect(place)
        try:
            guest = self._guest = Guest(
                place, self._line.book, self._line.inbox, model=self._model,
                optimizer=self._optimizer, clock=self._clock,
            )  # fmt: skip
            incarnation = next_incarnation(guest.history, place.site, place.host)
            told = started(place.address, clock_offset_ms=self._line.clock_offset_ms)
            self._loop = guest.loop(
                self._line.speak(incarnation), SoloCrew(place.host), told, incarnation=incarnation
            )
            self._heed_notice()
            self._go_on()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: "type[BaseException] | None",
        error: "BaseException | None",
        trace: "TracebackType | None",
    ) -> None:
        try:
            if kind is not None:
                if not self.over:
                    self._loop.keep_now()
            elif not self.over:
                self._loop.stop = "its own loop has ended"
                self._go_on()
            if isinstance(self._due, ops.Leave) and self._due.done:
                self._state.weights.set(self._state.holdings.a)
        finally:
            sent = self._close()
        if kind is None and not sent:
            raise HostError(
                "the last records could not be sent", where="argosy.Site",
                hint="start again in the same folder when the logbook can be reached",
            )  # fmt: skip

    def _close(self) -> bool:
        """Everything as it was found; whether all has been sent."""
        if self._guest is not None:
            self._guest.optimizer.detach()
        if self._handled:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._handled = False
        return self._line.close()

    @property
    def _state(self) -> "SiteState":
        return self._loop.bench.state

    def _go_on(self) -> bool:
        self._due = self._loop.until_step()
        self._began = self._clock()
        return not self.over

    def _place(self) -> Workplace:
        chosen = self._workplace
        if isinstance(chosen, Workplace):
            return chosen
        named = chosen or os.environ.get(VARIABLE)  # noqa: TID251 - a guest has no entry of ours
        if not named:
            raise SpecError(
                "no workplace",
                where="argosy.Site",
                hint=f"workplace='worker.json', or {VARIABLE}=worker.json in the environment;"
                " it is in the bundle of `argosy train --declared`",
            )
        return read_workplace(Path(named))

    def _heed_notice(self) -> None:
        """SIGTERM asks to leave, if nobody else has a use for it."""
        here = threading.current_thread() is threading.main_thread()
        if here and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._take)
            self._handled = True

    def _take(self, number: int, _: "FrameType | None") -> None:
        self._loop.stop = f"asked to leave ({signal.Signals(number).name})"
