"""Where a site's time goes, gathered into a Progress record now and then."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from argosy.core.records import Progress

if TYPE_CHECKING:
    from argosy.engine.state import Counters

EVERY_S = 2.0
KINDS = ("compute", "encode", "apply", "wait")


class Meter:
    """Reset by every Progress it gives, but for the end of the last step."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ended: float | None = None  # the last step
        self._gap = 0.0
        self._begin()

    @contextlib.contextmanager
    def timing(self, kind: str) -> Iterator[None]:
        began = self._clock()
        try:
            yield
        finally:
            self._spent[kind] += self._clock() - began

    def step(self, loss: float | None, tokens: int, compute_s: float) -> None:
        """A step has ended; `tokens` are what it has trained. Its loss may be nobody's to know."""
        now = self._clock()
        self._spent["compute"] += compute_s
        if self._ended is not None:
            self._gap = max(self._gap, now - self._ended)
        self._ended = now
        if tokens and loss is not None:
            self._losses.append(loss)
            self._tokens += tokens

    def due(self, every_s: float = EVERY_S) -> bool:
        return bool(self._losses) and self._clock() - self._began >= every_s

    def progress(self, counters: "Counters") -> Progress:
        passed = max(1e-9, self._clock() - self._began)
        told = Progress(
            round=counters.round,
            step=counters.step,
            trained=counters.trained,
            loss=sum(self._losses) / len(self._losses),
            tokens_per_s=self._tokens / passed,
            compute_s=self._spent["compute"],
            encode_s=self._spent["encode"],
            apply_s=self._spent["apply"],
            wait_s=self._spent["wait"],
            longest_gap_s=self._gap,
        )
        self._begin()
        return told

    def _begin(self) -> None:
        self._began = self._clock()
        self._spent = dict.fromkeys(KINDS, 0.0)
        self._losses: list[float] = []
        self._tokens = 0
        self._gap = 0.0
