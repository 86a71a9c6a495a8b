"""The four verbs over HTTPS: every call may be repeated, every byte is checked, nothing hangs."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from argosy.core.errors import DamagedError
from argosy.core.records import Entry
from argosy.logbook import wire
from argosy.logbook.admission import RECORD_LIMIT
from argosy.logbook.blobs import digest_of, hex_of
from argosy.logbook.connection import Away, Connection, Patience
from argosy.logbook.following import Following
from argosy.logbook.keys import SERVER_NAME

PIECE = 64 * 1024  # bytes handed to the connection at a time
PROBE_FIRST = 256 * 1024
PROBE_S = 1.0  # a transfer this long tells the rate of a link; shorter ones tell its slow start


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class RemoteLogbook:
    """A logbook behind its server. Threads may share one.

    `within_s` bounds every call: so long it goes on without any progress, then raises HostError.
    """

    def __init__(
        self,
        url: str,
        keys: Path,
        *,
        within_s: float = 30.0,
        server_name: str = SERVER_NAME,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._connection = Connection(url, keys, within_s=within_s, server_name=server_name)
        self._following = Following((keys / "ca.pem").read_text())
        self._reading = threading.Lock()  # of what is followed; never held while waiting
        self._now_ms = now_ms

    def append(self, signed: bytes) -> int:
        if len(signed) > RECORD_LIMIT:
            raise DamagedError(f"record: {len(signed)} bytes, at most {RECORD_LIMIT}")

        def attempt(patience: Patience) -> int:
            del patience
            return int(self._connection.ask("POST", wire.RECORDS, content=signed).content)

        return self._connection.persist(attempt)

    def read(self, from_seq: int, wait_s: float = 0.0) -> list[Entry]:
        """As the protocol says; signatures, chain and seats are verified before anything is told.

        So a first read from the middle fetches what is before it too.
        """
        from_seq = max(1, from_seq)
        while (seen := self._following.seq) < from_seq - 1:
            if not self._fetch(seen + 1, 0.0):
                break  # shorter than that; wait where it ends
        deadline = time.monotonic() + wait_s
        while True:
            left = max(0.0, deadline - time.monotonic())
            start = min(from_seq, self._following.seq + 1)
            entries = [e for e in self._fetch(start, left) if e.seq >= from_seq]
            if entries or time.monotonic() >= deadline:
                return entries

    def put(self, blob: bytes) -> str:
        digest = digest_of(blob)
        upload = _Sending(self._connection, digest, blob)
        self._connection.persist(upload.attempt)
        return digest

    def get(self, digest: str) -> bytes:
        found = ""
        for _ in range(2):  # what came damaged is fetched once more
            fetch = _Fetching(self._connection, digest)
            blob = self._connection.persist(fetch.attempt)
            found = digest_of(blob)
            if found == digest:
                return blob
        raise DamagedError(
            f"blob {digest}: fetched twice, its bytes have the digest {found}",
            where=self._connection.url,
        )

    def clock_offset_ms(self) -> int:
        """This host's clock minus the server's, to about half a round trip."""
        _, offset = min(self._time() for _ in range(3))
        return offset

    def probe(self) -> tuple[float, float, float]:
        """The link as it is now: round trip in ms, Mbit/s up, Mbit/s down."""
        self._time()  # connects
        rtt_ms = min(self._time()[0] for _ in range(5))
        return rtt_ms, self._rate(self._probe_up, rtt_ms), self._rate(self._probe_down, rtt_ms)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _fetch(self, from_seq: int, wait_s: float) -> list[Entry]:
        wait_s = min(wait_s, wire.LONGEST_WAIT_S)
        params = {"from": from_seq}
        if wait_s:
            params["wait_ms"] = int(wait_s * 1000)

        def attempt(patience: Patience) -> list[Entry]:
            del patience
            answer = self._connection.ask("GET", wire.RECORDS, params=params, extra_s=wait_s)
            if answer.status_code == 204:
                return []
            first, before, raws = wire.unpack(answer.content)
            if first != from_seq:
                raise DamagedError(f"asked for record {from_seq}, served {first}")
            with self._reading:
                return self._following.take(first, before, raws)

        return self._connection.persist(attempt)

    def _time(self) -> tuple[float, int]:
        """Round trip in ms, and the clock's offset by it."""

        def attempt(patience: Patience) -> tuple[float, int]:
            del patience
            began_ms, began = self._now_ms(), time.monotonic()
            answer = self._connection.ask("GET", wire.TIME)
            took_ms = (time.monotonic() - began) * 1000
            theirs: int = json.loads(answer.content)["now_ms"]
            return took_ms, round(began_ms + took_ms / 2) - theirs

        return self._connection.persist(attempt)

    def _rate(self, transfer: Callable[[int], None], rtt_ms: float) -> float:
        size = PROBE_FIRST
        while True:
            began = time.monotonic()
            transfer(size)
            took_s = max(1e-6, time.monotonic() - began - rtt_ms / 1000)
            if took_s >= PROBE_S or size >= wire.PROBE_LIMIT:
                return size * 8 / took_s / 1e6
            size = min(wire.PROBE_LIMIT, size * max(2, min(16, int(1.5 * PROBE_S / took_s))))

    def _probe_down(self, size: int) -> None:
        def attempt(patience: Patience) -> None:
            del patience
            self._connection.ask("GET", wire.PROBE, params={"bytes": size})

        self._connection.persist(attempt)

    def _probe_up(self, size: int) -> None:
        def attempt(patience: Patience) -> None:
            del patience
            self._connection.ask("PUT", wire.PROBE, content=bytes(size))

        self._connection.persist(attempt)


class _Sending:
    """A blob on its way up: begins at once, and after a cut asks where to go on."""

    def __init__(self, connection: Connection, digest: str, blob: bytes) -> None:
        self._connection = connection
        self._name = hex_of(digest)
        self._blob = blob
        self._start = 0
        self._furthest = 0
        self._ask_first = False
        self._began_anew = False

    def attempt(self, patience: Patience) -> None:
        if self._ask_first and self._resume(patience):
            return
        self._ask_first = True
        try:
            answer = self._connection.ask(
                "PUT",
                f"{wire.BLOBS}/{self._name}",
                params={"from": self._start, "of": len(self._blob)},
                content=self._pieces(),
                headers={"content-length": str(len(self._blob) - self._start)},
            )
        except DamagedError:
            if self._start == 0 or self._began_anew:
                raise
            self._began_anew = True  # an earlier part had gone bad, and the server dropped it
            raise Away("what had arrived before was damaged") from None
        if not self._done(answer.content):
            raise Away("it wants the blob from elsewhere on")

    def _done(self, answer: bytes) -> bool:
        return bool(json.loads(answer).get("done"))

    def _resume(self, patience: Patience) -> bool:
        """Ask how much has arrived; True if all of it has."""
        answer = self._connection.ask("GET", f"{wire.UPLOADS}/{self._name}")
        if self._done(answer.content):
            return True
        self._start = min(int(json.loads(answer.content)["have"]), len(self._blob))
        if self._start > self._furthest:
            self._furthest = self._start
            patience.renew()
        return False

    def _pieces(self) -> Iterator[bytes]:
        view = memoryview(self._blob)
        for at in range(self._start, len(view), PIECE):
            yield bytes(view[at : at + PIECE])


class _Fetching:
    """A blob on its way down: what has come is kept, and after a cut the rest is asked for."""

    def __init__(self, connection: Connection, digest: str) -> None:
        self._connection = connection
        self._path = f"{wire.BLOBS}/{hex_of(digest)}"
        self._blob = bytearray()

    def attempt(self, patience: Patience) -> bytes:
        for piece in self._connection.stream(self._path, len(self._blob)):
            self._blob += piece
            patience.renew()
        return bytes(self._blob)
