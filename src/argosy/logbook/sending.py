"""A blob on its way up: a small one in one request, a large one in ranges over several connections."""

import json
import time
from collections.abc import Iterable, Iterator

from argosy.core.errors import DamagedError
from argosy.logbook import wire
from argosy.logbook.blobs import hex_of
from argosy.logbook.connection import Away, Patience
from argosy.logbook.pace import SMALL
from argosy.logbook.ranges import Ranges, Stretch
from argosy.logbook.transfer import Lane, Transfer, Way

PIECE = 64 * 1024  # bytes handed to the connection at a time


def send(way: Way, digest: str, blob: bytes) -> None:
    """Returns once the server has acknowledged the whole."""
    _Sending(way, digest, blob).send()


class _Sending(Transfer):
    def __init__(self, way: Way, digest: str, blob: bytes) -> None:
        super().__init__(way)
        self._name = hex_of(digest)
        self._view = memoryview(blob)
        self._size = len(blob)
        self._todo = [(0, self._size)]
        self._least_missing = self._size
        self._anew = False

    def send(self) -> None:
        if self._size > SMALL:
            missing = self.way.connection.persist(self._standing)
            if missing is None:
                return
            self._todo = missing
            self._open(sum(stop - start for start, stop in missing))
        self._run()

    def _standing(self, patience: Patience | None = None) -> list[Stretch] | None:
        """What the server lacks; None: nothing, the blob is there."""
        del patience
        began = time.monotonic()
        answer = self.way.connection.ask("GET", f"{wire.UPLOADS}/{self._name}")
        self.way.pace = self.way.pace.answered(time.monotonic() - began)
        told = json.loads(answer.content)
        if told["done"]:
            return None
        missing = [(0, self._size)]
        if told["missing"] is not None:
            missing = [(int(start), min(int(stop), self._size)) for start, stop in told["missing"]]
        left = sum(stop - start for start, stop in missing)
        if left < self._least_missing:
            self._least_missing = left
            self._progressed()
        return missing

    def _carry(self, lane: Lane, stretch: Stretch) -> None:
        start, stop = stretch
        try:
            answer = self.way.connection.ask(
                "PUT",
                f"{wire.BLOBS}/{self._name}",
                params={"from": start, "to": stop, "of": self._size},
                content=self._pieces(lane, stretch),
                headers={"content-length": str(stop - start)},
            )
        except DamagedError:
            if self._anew:
                raise
            # Perhaps a part that came earlier had gone bad, and the server dropped it.
            self._anew = True
            self._begin_anew(lane, self._size)
            raise Away("what had arrived before was damaged") from None
        if answer.status_code == 416:
            raise Away("what had arrived before is not there")
        if json.loads(answer.content).get("done"):
            self._end()
        elif start == stop:
            raise Away("the blob is not whole yet")
        self._progressed()

    def _missing(self, stretch: Stretch) -> Iterable[Stretch]:
        standing = self._standing()
        if standing is None:
            self._end()
            return []
        start, stop = stretch
        if start == stop:
            return standing  # all was brought, but a part with some of it was dropped since
        there = Ranges(Ranges(standing).gaps(0, self._size))
        return list(there.gaps(start, stop))

    def _last(self) -> Stretch | None:
        # All was brought, and no answer said that it is whole: the last one to ask is told.
        return self._size, self._size

    def _pieces(self, lane: Lane, stretch: Stretch) -> Iterator[bytes]:
        start, stop = stretch
        for at in range(start, stop, PIECE):
            piece = bytes(self._view[at : min(at + PIECE, stop)])
            yield piece
            self._move(lane, len(piece))
