"""One client's way to the server: pinned TLS, explicit time-outs, and safe retries with back-off."""

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx

from argosy.core.errors import HostError, UserError
from argosy.logbook import tcp, wire
from argosy.logbook.ranges import Stretch
from argosy.logbook.tls import broken_trust, client_tls

T = TypeVar("T")

CONNECTIONS = 40  # long polls and records beside what carries blobs
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
CONNECT_S = 10.0
SILENCE_S = 15.0  # a transfer or answer in which nothing comes for so long is begun again

AWAY = frozenset({408, 425, 429, 500, 502, 503, 504})  # try again; the server or a proxy is busy


class Away(Exception):
    """The logbook did not answer this time."""


@dataclass(slots=True)
class Patience:
    """How long to go on. Bytes that arrive renew it: a slow link is not a dead one."""

    within_s: float
    deadline: float = 0.0
    tries: int = 0

    def renew(self) -> None:
        self.deadline = time.monotonic() + self.within_s
        self.tries = 0

    def pause_s(self) -> float | None:
        """How long to wait before the next try; None when there is none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            return None
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self.tries, 16))
        self.tries += 1
        return min(pause * random.uniform(0.5, 1.5), left)


@dataclass(frozen=True, slots=True)
class Streaming:
    """An answer that is still coming."""

    total: int  # bytes of the whole blob
    pieces: Iterator[bytes]


class Connection:
    """Sends requests; tells a logbook that is away from one that refuses. Thread-safe."""

    def __init__(self, url: str, keys: Path, *, within_s: float, server_name: str) -> None:
        self.url = url
        self.within_s = within_s
        self._keys = keys
        self._sni = {"sni_hostname": server_name}
        self._client = httpx.Client(
            base_url=url,
            transport=httpx.HTTPTransport(
                verify=client_tls(keys),
                trust_env=False,  # no proxy and no certificate that this run does not name
                limits=httpx.Limits(max_connections=CONNECTIONS, keepalive_expiry=60.0),
                socket_options=tcp.OPTIONS,
            ),
            trust_env=False,
            timeout=self._timeout(0.0),
        )
        for header in ("accept", "accept-encoding", "user-agent"):
            del self._client.headers[header]  # the server asks for none of them

    def close(self) -> None:
        self._client.close()

    def persist(self, attempt: Callable[[Patience], T]) -> T:
        """Repeat `attempt` while the logbook is away, for `within_s` without any progress."""
        patience = Patience(self.within_s)
        patience.renew()
        while True:
            try:
                return attempt(patience)
            except Away as wrong:
                pause = patience.pause_s()
                if pause is None:
                    raise self.unreachable(wrong) from None
            time.sleep(pause)

    def unreachable(self, why: Away) -> HostError:
        return HostError(
            f"the logbook cannot be reached: {why}",
            where=self.url,
            hint="training goes on meanwhile; what was acknowledged is safe",
        )

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, int] | None = None,
        content: bytes | Iterator[bytes] | None = None,
        headers: dict[str, str] | None = None,
        extra_s: float = 0.0,
    ) -> httpx.Response:
        """One request and its whole answer. Raises Away, or what the server refused it with."""
        request = self._client.build_request(
            method, path, params=params, content=content, headers=headers,
            timeout=self._timeout(extra_s), extensions=self._sni,
        )  # fmt: skip
        try:
            response = self._client.send(request)
        except httpx.HTTPError as wrong:
            raise self._why(wrong) from wrong
        self.check(response)
        return response

    @contextlib.contextmanager
    def stream(self, path: str, stretch: Stretch) -> Iterator["Streaming"]:
        """The bytes [start, stop) of what is there, as they come; less when it ends before.

        The whole may come instead when the stretch begins at 0. Raises as `ask` does.
        """
        start, stop = stretch
        headers = {"range": f"bytes={start}-{stop - 1}"}
        request = self._client.build_request("GET", path, headers=headers, extensions=self._sni)
        try:
            response = self._client.send(request, stream=True)
            try:
                if response.status_code >= 300:
                    response.read()
                self.check(response)
                total = _total(response, start)
                if total is None:
                    raise HostError("it does not serve a blob in parts", where=self.url)
                yield Streaming(total, response.iter_raw())
            finally:
                response.close()
        except httpx.HTTPError as wrong:
            raise self._why(wrong) from wrong

    def check(self, response: httpx.Response) -> None:
        if response.status_code < 300 or response.status_code == 416:
            return
        if response.status_code in AWAY:
            raise Away(f"it answered {response.status_code}")
        raise wire.refused(response.status_code, response.content, self.url)

    def _timeout(self, extra_s: float) -> httpx.Timeout:
        silence_s = min(SILENCE_S, self.within_s)
        connect_s = min(CONNECT_S, self.within_s)
        return httpx.Timeout(silence_s + extra_s, connect=connect_s, pool=self.within_s)

    def _why(self, wrong: httpx.HTTPError) -> Away | UserError:
        tls = broken_trust(wrong)
        if tls is None:
            return Away(str(wrong) or type(wrong).__name__)
        return HostError(
            f"no trust between this host and the logbook: {tls}",
            where=self.url,
            hint=f"the keys in {self._keys} must be of this run, and the clock right to a day",
        )


def _total(response: httpx.Response, start: int) -> int | None:
    """Bytes of the whole by the answer to a range from `start` on; None when it is another range."""
    said = response.headers.get("content-range", "")
    if response.status_code == 206:
        begins, _, total = said.removeprefix("bytes ").partition("/")
        fits = begins.startswith(f"{start}-") and total.isdecimal()
    else:
        total = response.headers.get("content-length", "")
        fits = start == 0 and total.isdecimal()
    return int(total) if fits else None
