"""A host's line to the logbook of its run: what is read there, and what is said."""

from typing import TYPE_CHECKING

from argosy.engine.inbox import Inbox, Payloads
from argosy.logbook.client import RemoteLogbook, wall_ms
from argosy.logbook.keys import Pen
from argosy.logbook.outbox import Outbox

if TYPE_CHECKING:
    from argosy.engine.config import Workplace

FIRST_ANSWER_S = 60.0
SEND_S = 25.0  # what is still to be said when the host has to leave


class Line:
    """Open from its making until `close`; reads in threads of its own."""

    def __init__(self, place: "Workplace") -> None:
        """Raises HostError if the logbook does not answer within a minute."""
        self._place = place
        self.book = RemoteLogbook(
            place.url, place.keys, within_s=FIRST_ANSWER_S, server_name=place.server_name
        )
        self.clock_offset_ms = self.book.clock_offset_ms()
        self.inbox = Inbox(self.book, Payloads(self.book), site=place.site)
        self.inbox.start()
        self._outbox: Outbox | None = None

    def speak(self, incarnation: int) -> Outbox:
        """Say things as this life of the host."""
        pen = Pen.open(self._place.keys, incarnation)
        self._outbox = Outbox(self.book, pen, wall_ms)
        return self._outbox

    def close(self) -> bool:
        """Whether all that was to be said has been, within 25 seconds."""
        sent = self._outbox is None or self._outbox.close(SEND_S)
        self.inbox.close()
        return sent
