"""A blob on its way down: a small one in one request, a large one in ranges over several connections."""

import hashlib
import io
import threading
import time
from collections.abc import Iterable

from argosy.core.errors import DamagedError
from argosy.logbook import wire
from argosy.logbook.blobs import BLOB_LIMIT, hex_of
from argosy.logbook.connection import Away
from argosy.logbook.pace import SMALL
from argosy.logbook.ranges import Ranges, Stretch
from argosy.logbook.transfer import Lane, Transfer, Way

TELL = 256 * 1024  # bytes between two looks at what the other lanes do


def fetch(way: Way, digest: str) -> tuple[bytes, str]:
    """What the server has under this digest, and the digest that its bytes have."""
    return _Fetching(way, digest).fetch()


class _Fetching(Transfer):
    """The bytes lie once in memory: written where they belong, hashed as the beginning grows."""

    def __init__(self, way: Way, digest: str) -> None:
        super().__init__(way)
        self._path = f"{wire.BLOBS}/{hex_of(digest)}"
        self._todo = [(0, SMALL)]  # the answer to this tells the size
        self._size: int | None = None
        self._buffer = io.BytesIO()
        self._view = memoryview(b"")
        self._there = Ranges()
        self._hashing = threading.Lock()
        self._hash, self._hashed = hashlib.sha256(), 0

    def fetch(self) -> tuple[bytes, str]:
        self._run()
        self._hash_on(wait=True)
        self._view.release()
        return self._buffer.getvalue(), "sha256:" + self._hash.hexdigest()

    def _carry(self, lane: Lane, stretch: Stretch) -> None:
        at, stop = stretch
        began = time.monotonic()
        with self.way.connection.stream(self._path, stretch) as answer:
            self.way.pace = self.way.pace.answered(time.monotonic() - began)
            if self._size is None:
                self._make_room(answer.total)
            elif self._size != answer.total:
                raise Away("it is another blob than before")
            assert self._size is not None
            told = at
            try:
                for piece in answer.pieces:  # 16 KiB each, as TLS has them
                    end = at + len(piece)
                    if end > self._size:
                        raise Away("more came than was said")
                    self._view[at:end] = piece
                    at = end
                    if at - told >= TELL:
                        told = self._tell(lane, told, at)
            finally:
                with self._news:
                    self._there.add(told, at)
        if at < min(stop, self._size):
            raise Away("the answer ended early")
        self._hash_on(wait=False)

    def _tell(self, lane: Lane, told: int, at: int) -> int:
        with self._news:
            self._there.add(told, at)
        self._progressed()
        self._move(lane, at - told)
        return at

    def _make_room(self, size: int) -> None:
        if size > BLOB_LIMIT:
            raise DamagedError(f"blob: {size} bytes, at most {BLOB_LIMIT}")
        self._size = size
        if size:
            self._buffer.seek(size - 1)
            self._buffer.write(b"\0")
        self._view = self._buffer.getbuffer()
        if size > SMALL:
            with self._news:
                self._todo.append((SMALL, size))
            self._open(size)

    def _missing(self, stretch: Stretch) -> Iterable[Stretch]:
        start, stop = stretch
        with self._news:
            return list(self._there.gaps(start, min(stop, self._size or stop)))

    def _last(self) -> Stretch | None:
        return None

    def _hash_on(self, *, wait: bool) -> None:
        if not self._hashing.acquire(blocking=wait):
            return
        try:
            with self._news:
                until = self._there.prefix
            with self._view[self._hashed : until] as fresh:
                self._hash.update(fresh)
            self._hashed = until
        finally:
            self._hashing.release()
