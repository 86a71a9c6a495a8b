"""A site sends once: every rank uploads its own stretch of the payload, rank 0 then names them."""

import logging
import threading
import time
from typing import TYPE_CHECKING

from argosy.core.errors import HostError, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from argosy.core.records import Contribution
    from argosy.engine.crew import Crew
    from argosy.logbook import Logbook

log = logging.getLogger(__name__)

PATIENCE_S = 30.0  # and a second more for each so many bytes: then rank 0 uploads what others have
PATIENCE_BYTES_PER_S = 1_000_000  # not; the logbook goes on with what came of them
PAUSE_S = 0.5


class Stripes:
    """Uploads of one host, and on rank 0 the post that waits for those of the others."""

    def __init__(
        self,
        logbook: "Logbook",
        crew: "Crew",
        send: "Callable[[Contribution, Sequence[bytes]], None]",
    ) -> None:
        self._logbook = logbook
        self._crew = crew
        self._send = send
        self._waiting: tuple[Contribution, dict[str, bytes], list[bytes], float] | None = None

    def upload(self, key: str, frame: bytes) -> None:
        """A follower's part, beside the training."""
        thread = threading.Thread(
            target=self._put, args=(key, frame), name="upload stripe", daemon=True
        )
        thread.start()

    def post(self, body: "Contribution", frames: "Sequence[bytes]", keys: "Sequence[str]") -> None:
        """Rank 0: append the record once the others' stripes are in the logbook."""
        others = {key: frame for key, frame in zip(keys[1:], frames[1:], strict=True) if frame}
        own = [frames[0]] if frames[0] else []
        longest = max(map(len, others.values()), default=0)
        self._waiting = (body, others, own, time.monotonic() + patience_s(longest))
        self.flush(now=not others)

    def flush(self, *, now: bool = False) -> None:
        """Send the waiting post if all is there; `now`: with whatever is missing."""
        if self._waiting is None:
            return
        body, others, own, deadline = self._waiting
        missing = [frame for key, frame in others.items() if now or not self._crew.noted(key)]
        if missing and not now and time.monotonic() < deadline:
            return
        self._waiting = None
        self._send(body, [*own, *missing])

    def _put(self, key: str, frame: bytes) -> None:
        until = time.monotonic() + patience_s(len(frame))
        while time.monotonic() < until:
            try:
                self._logbook.put(frame)
            except HostError:
                time.sleep(PAUSE_S)
            except UserError as error:
                log.warning("a stripe was not taken: %s", error)
                return
            else:
                self._crew.note(key)
                return


def patience_s(size: int) -> float:
    """How long a stripe of so many bytes may take before it counts as late."""
    return PATIENCE_S + size / PATIENCE_BYTES_PER_S
