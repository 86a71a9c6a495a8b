"""The four verbs over HTTPS: every call may be repeated, every byte is checked, nothing hangs."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from argosy.core.errors import DamagedError
from argosy.core.records import Entry
from argosy.logbook import wire
from argosy.logbook.admission import RECORD_LIMIT
from argosy.logbook.blobs import digest_of
from argosy.logbook.connection import Connection, Patience
from argosy.logbook.fetching import fetch
from argosy.logbook.following import Following
from argosy.logbook.keys import SERVER_NAME
from argosy.logbook.pace import LANES_MOST
from argosy.logbook.sending import send
from argosy.logbook.transfer import Way

PROBE_FIRST = 256 * 1024
PROBE_S = 1.0  # a transfer this long tells the rate of a link; shorter ones tell its slow start


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class RemoteLogbook:
    """A logbook behind its server. Threads may share one.

    `within_s` bounds every call: so long it goes on without any progress, then raises HostError.
    `lanes`: connections that may carry one blob; several blobs at once share all but their first.
    """

    def __init__(
        self,
        url: str,
        keys: Path,
        *,
        within_s: float = 30.0,
        server_name: str = SERVER_NAME,
        now_ms: Callable[[], int] = wall_ms,
        lanes: int = LANES_MOST,
    ) -> None:
        self._connection = Connection(url, keys, within_s=within_s, server_name=server_name)
        self._up, self._down = (Way(self._connection, lanes) for _ in range(2))
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
        send(self._up, digest, blob)
        return digest

    def get(self, digest: str) -> bytes:
        found = ""
        for _ in range(2):  # what came damaged is fetched once more
            blob, found = fetch(self._down, digest)
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
