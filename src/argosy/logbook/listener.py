"""The listening end: who is at the other end of a connection, and deadlines for slow peers."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from argosy.core.errors import DamagedError
from argosy.logbook.keys import Identity, identity_of_uri


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """Who holds the connection, by its certificate."""

    identity: Identity
    certificate: bytes  # DER
    gone: Callable[[], bool]  # whether it has hung up


@dataclass(frozen=True, kw_only=True, slots=True)
class Deadlines:
    handshake_s: float = 15.0
    headers_s: float = 15.0  # from the first byte of a request to its last header
    body_s: float = 30.0  # until a record is whole; between two pieces of a blob
    send_s: float = 60.0  # until the peer takes the next piece
    idle_s: float = 75.0  # between requests; longer than clients keep connections
    hang_up_s: float = 5.0  # for the last bytes and TLS's goodbye


class Crowd:
    """How many connections each site holds."""

    def __init__(self, per_site: int) -> None:
        self.per_site = per_site
        self.count: Counter[str] = Counter()


class Listener(H11Protocol):
    """One connection: uvicorn's own, and the peer's identity in every request's scope."""

    def __init__(
        self, config: Config, state: ServerState, crowd: Crowd, deadlines: Deadlines
    ) -> None:
        super().__init__(config, state, {})
        self._crowd = crowd
        self._deadlines = deadlines
        self._peer: Peer | None = None
        self._headers_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        try:
            self._peer = _peer(transport)
        except DamagedError:
            transport.close()
            return
        site = self._peer.identity.site
        self._crowd.count[site] += 1
        crowded = self._crowd.count[site] > self._crowd.per_site
        self.app = _crowded if crowded else _Introduced(self.app, self._peer)
        self._watch_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._unwatch_headers()
        elif self._headers_due is None and self.timeout_keep_alive_task is None:
            self._watch_headers()  # a part of a request's headers, after an earlier request

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            # Answered before the body was whole: what is still coming can't be told from abuse.
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch_headers()
        if self._peer is not None:
            self._crowd.count[self._peer.identity.site] -= 1
        super().connection_lost(exc)

    def _watch_headers(self) -> None:
        self._headers_due = self.loop.call_later(self._deadlines.headers_s, self.transport.abort)

    def _unwatch_headers(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None


class _Introduced:
    """The app, told who asks."""

    def __init__(self, app: Any, peer: Peer) -> None:
        self._app = app
        self._peer = peer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["peer"] = self._peer
        await self._app(scope, receive, send)


class Hurried:
    """The app, with deadlines: a peer that neither sends nor takes loses its connection."""

    def __init__(self, app: ASGIApp, deadlines: Deadlines) -> None:
        self._app = app
        self._deadlines = deadlines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def hurried_receive() -> Message:
            async with asyncio.timeout(self._deadlines.body_s):
                return await receive()

        async def hurried_send(message: Message) -> None:
            async with asyncio.timeout(self._deadlines.send_s):
                await send(message)

        # uvicorn closes a connection whose answer was not completed.
        with contextlib.suppress(TimeoutError):
            await self._app(scope, hurried_receive, hurried_send)


async def _crowded(scope: Scope, receive: Receive, send: Send) -> None:
    del scope, receive
    headers = [(b"content-length", b"0"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 429, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _peer(transport: asyncio.Transport) -> Peer:
    tls = transport.get_extra_info("ssl_object")
    names: Any = (tls.getpeercert() or {}).get("subjectAltName", ())
    uris = [value for kind, value in names if kind == "URI"]
    if len(uris) != 1:
        raise DamagedError("certificate: names no argosy://run/site/host")
    return Peer(
        identity=identity_of_uri(uris[0]),
        certificate=tls.getpeercert(True),
        gone=transport.is_closing,
    )
