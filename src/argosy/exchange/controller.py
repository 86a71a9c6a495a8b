"""The controller's side of the exchange: when a round is committed, and with whom. Pure."""

from collections.abc import Iterable

from argosy.core.records import Commit, Drain, Entry, Lead, Writer
from argosy.exchange.agreement import Agreement


class ControllerSide:
    """Decides the rounds of one fragment under one term.

    side = ControllerSide(writer)         hear the whole log, then append side.lead()
    side.hear(entry, now_s)               every record, its own too; side.leading turns true
    side.expect(sites)                    sites with a live crew
    commit = side.decide(now_s)           append it; None: nothing to commit now
    side.next_wake(now_s)                 when to ask again if no record comes
    """

    def __init__(
        self, writer: Writer, *, fragment: int = 0, low_s: float = 2.0, high_s: float = 300.0
    ) -> None:
        raise NotImplementedError

    agreement: Agreement

    @property
    def leading(self) -> bool:
        """This controller's lead counts, and nobody has led since."""
        raise NotImplementedError

    @property
    def deposed(self) -> bool:
        raise NotImplementedError

    def lead(self) -> Lead:
        """The record to append before anything else, after hearing the log to its end."""
        raise NotImplementedError

    def hear(self, entry: Entry, now_s: float) -> None:
        raise NotImplementedError

    def expect(self, sites: Iterable[str]) -> None:
        raise NotImplementedError

    def decide(self, now_s: float) -> Commit | None:
        raise NotImplementedError

    def next_wake(self, now_s: float) -> float | None:
        raise NotImplementedError

    def drain(self, reason: str) -> Drain:
        raise NotImplementedError

    def over(self, now_s: float) -> bool:
        """The last round is committed, or a drain has nobody left to post: append Ended."""
        raise NotImplementedError
