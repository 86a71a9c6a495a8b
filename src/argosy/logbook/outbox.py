"""What a process has to say, said in order: one thread that signs, appends, and waits for an answer."""

import queue
import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from argosy.core.errors import (
    DamagedError,
    DiskError,
    FencedError,
    HostError,
    PolicyError,
    UserError,
)
from argosy.core.records import Body
from argosy.logbook import Logbook
from argosy.logbook.keys import Pen

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
LAST_LOOK_S = 0.2

T = TypeVar("T")


@dataclass(slots=True)
class Post:
    body: Body
    blobs: Sequence[bytes]
    at_ms: int
    seq: Future[int] = field(default_factory=Future)


class Outbox:
    """Blobs first, then the record, one post after the other; goes on while the logbook is away.

    A record that is refused fails its own future only: the next takes its number. Once fenced,
    every post fails. Nobody else may use the pen.
    """

    def __init__(
        self,
        logbook: Logbook,
        pen: Pen,
        clock: Callable[[], int],
        *,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._logbook = logbook
        self._pen = pen
        self._clock = clock
        self._first_pause_s = first_pause_s
        self._posts: queue.SimpleQueue[Post | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._gave_up = False
        self._waiting = 0
        self._hurry = threading.Event()  # set: no more tries
        self._away_since: int | None = None
        self._trouble: UserError | None = None
        self._fenced: FencedError | None = None
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    @property
    def away_since(self) -> int | None:
        """The clock's ms at the first try that failed; None while the logbook answers."""
        return self._away_since

    @property
    def trouble(self) -> UserError | None:
        """Why the newest try failed (out of reach, disk full); None while the logbook answers."""
        return self._trouble

    @property
    def fenced(self) -> FencedError | None:
        """Set once a newer life of this host has written: this process must stop."""
        return self._fenced

    @property
    def waiting(self) -> int:
        """Posts without an answer yet."""
        return self._waiting

    def post(self, body: Body, blobs: Sequence[bytes] = ()) -> Future[int]:
        """The future is the record's seq, or the reason why it is not in the logbook."""
        post = Post(body, tuple(blobs), self._clock())
        with self._lock:
            assert not self._closed, "the outbox is closed"
            self._waiting += 1
            self._posts.put(post)
        return post.seq

    def close(self, within_s: float) -> bool:
        """Send what is waiting, for so long; True when every post has found its answer.

        What could not be sent fails with HostError or DiskError. If an answer was lost, its record
        may be in the logbook all the same: the host's next incarnation reads it there.
        """
        with self._lock:
            if not self._closed:
                self._closed = True
                self._posts.put(None)
        self._thread.join(within_s)
        self._hurry.set()
        # A call to the logbook that still runs ends by its own deadline; nobody waits for it here.
        self._thread.join(LAST_LOOK_S)
        return not self._thread.is_alive() and not self._gave_up

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(within_s=10.0)

    def _run(self) -> None:
        while (post := self._posts.get()) is not None:
            if post.seq.set_running_or_notify_cancel():
                try:
                    seq = self._send(post)
                except Exception as wrong:  # noqa: BLE001 - told to whoever posted it
                    post.seq.set_exception(wrong)
                else:
                    post.seq.set_result(seq)
            with self._lock:
                self._waiting -= 1

    def _send(self, post: Post) -> int:
        if self._fenced is not None:
            raise self._fenced
        for blob in post.blobs:
            self._persist(partial(self._logbook.put, blob))
        raw = self._pen.sign(post.body, post.at_ms)
        try:
            return self._persist(partial(self._logbook.append, raw))
        except FencedError as wrong:
            self._fenced = wrong
            raise
        except (DamagedError, PolicyError):
            self._pen.take_back(raw)  # it is surely not in the logbook, so its number is free
            raise

    def _persist(self, call: Callable[[], T]) -> T:
        pause_s = self._first_pause_s
        while True:
            began = self._clock()
            if self._hurry.is_set():
                self._gave_up = True
                raise self._trouble or HostError("closed before it could be sent")
            try:
                result = call()
            except (HostError, DiskError) as wrong:
                self._trouble = wrong
                self._away_since = began if self._away_since is None else self._away_since
            else:
                self._trouble = self._away_since = None
                return result
            self._hurry.wait(pause_s * random.uniform(0.5, 1.5))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
