"""The logbook's verbs over HTTP: each request asks the gate, then the store, never the loop's time."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from argosy.core.errors import DamagedError, UserError
from argosy.logbook import wire
from argosy.logbook.admission import RECORD_LIMIT
from argosy.logbook.blobs import absent, hex_of
from argosy.logbook.embedded import EmbeddedLogbook
from argosy.logbook.envelope import open_envelope
from argosy.logbook.gate import Gate
from argosy.logbook.listener import Deadlines, Hurried, Peer
from argosy.logbook.uploads import OffsetError, Upload, Uploads

PIECE = 256 * 1024  # bytes of a blob in memory at a time, per connection

P = ParamSpec("P")
T = TypeVar("T")


class Desk:
    """Where requests meet store and gate. Only the server appends, so it knows all news."""

    def __init__(self, store: EmbeddedLogbook, gate: Gate, deadlines: Deadlines) -> None:
        self._store = store
        self._gate = gate
        self._deadlines = deadlines
        self._uploads = Uploads(store.blobs, most_bytes=store.limits.unfinished_bytes)
        self._records = ThreadPoolExecutor(1, "records")  # appends take turns anyway
        self._files = ThreadPoolExecutor(4, "files")
        self._judges = ThreadPoolExecutor(2, "judges")  # a large blob takes long to hash
        self._news = asyncio.Event()
        self._closing = False

    def recall(self) -> None:
        """Let the gate hear what an earlier server has stored."""
        from_seq = 1
        while rows := self._store.rows(from_seq):
            for row in rows:
                envelope = open_envelope(row.raw)
                self._gate.hear(envelope, envelope.decode())
            from_seq = rows[-1].seq + 1

    def app(self) -> Hurried:
        routes = [
            Route(wire.RECORDS, self._answered(self._append), methods=["POST"]),
            Route(wire.RECORDS, self._answered(self._read), methods=["GET"]),
            Route(wire.UPLOADS + "/{hex}", self._answered(self._have), methods=["GET"]),
            Route(wire.BLOBS + "/{hex}", self._answered(self._put), methods=["PUT"]),
            Route(wire.BLOBS + "/{hex}", self._answered(self._get), methods=["GET"]),
            Route(wire.TIME, self._answered(self._time), methods=["GET"]),
            Route(wire.PROBE, self._answered(self._probe_down), methods=["GET"]),
            Route(wire.PROBE, self._answered(self._probe_up), methods=["PUT"]),
        ]
        return Hurried(Starlette(routes=routes), self._deadlines)

    def wake(self) -> None:
        """Answer all long polls now."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def close(self) -> None:
        """No waiting from now on."""
        self._closing = True
        self.wake()

    def end(self) -> None:
        self._records.shutdown()
        self._files.shutdown()
        self._judges.shutdown()
        self._store.close()

    def _answered(
        self, handle: Callable[[Request, Peer], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """A handler whose user errors become answers. Every request asks for the seat anew."""

        async def answer(request: Request) -> Response:
            peer: Peer = request.scope["peer"]
            try:
                self._gate.check_seat(peer.identity, peer.certificate)
                return await handle(request, peer)
            except OffsetError as wrong:
                return Response(json.dumps({"have": wrong.have}), 416)
            except UserError as wrong:
                status, body = wire.refusal(wrong)
                return Response(body, status)
            except TimeoutError:
                return Response(status_code=408)
            except ClientDisconnect:
                return Response(status_code=400)

        return answer

    async def _append(self, request: Request, peer: Peer) -> Response:
        async with asyncio.timeout(self._deadlines.body_s):
            raw = await _body(request, RECORD_LIMIT)
        seq = await self._in(self._records, self._append_now, raw, peer)
        self.wake()
        return Response(str(seq))

    def _append_now(self, raw: bytes, peer: Peer) -> int:
        envelope = open_envelope(raw)
        body = envelope.decode()
        self._gate.check_writer(peer.identity, envelope)
        before = self._store.head[0]
        seq = self._store.append(raw, self._gate.check_append)
        if seq > before:
            self._gate.hear(envelope, body)
        return seq

    async def _read(self, request: Request, peer: Peer) -> Response:
        del peer
        from_seq = _number(request, "from", 1)
        wait_s = min(float(_number(request, "wait_ms", 0)) / 1000, wire.LONGEST_WAIT_S)
        deadline = asyncio.get_running_loop().time() + wait_s
        while True:
            news = self._news
            if self._store.head[0] >= from_seq:
                rows = await self._in(self._files, self._store.rows, from_seq)
                return Response(wire.pack(rows[0].seq, rows[0].before, [row.raw for row in rows]))
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or self._closing:
                return Response(status_code=204)
            try:
                async with asyncio.timeout(left):
                    await news.wait()
            except TimeoutError:
                return Response(status_code=204)

    async def _have(self, request: Request, peer: Peer) -> Response:
        digest, site = _digest(request), peer.identity.site
        if await self._in(self._files, self._has, digest, site):
            return Response(json.dumps({"have": 0, "done": True}))
        standing = await self._in(self._files, self._uploads.standing, site, digest)
        told = {"have": standing.have, "done": False, "missing": standing.missing}
        return Response(json.dumps(told))

    async def _put(self, request: Request, peer: Peer) -> Response:
        digest, site = _digest(request), peer.identity.site
        total = _number(request, "of", 0)
        stretch = (_number(request, "from", 0), _number(request, "to", total))
        upload = await self._in(self._files, self._uploads.begin, site, digest, stretch, total)
        try:
            await self._receive(request, upload)
            own = partial(self._store.own, digest, site)
            done = upload.part.whole and await self._in(self._judges, upload.finish, own)
        finally:
            await self._in(self._files, self._uploads.end, upload)
        return Response(json.dumps({"have": upload.part.prefix, "done": done}))

    async def _receive(self, request: Request, upload: Upload) -> None:
        pieces = bytearray()
        try:
            async for data in request.stream():
                if not pieces and len(data) >= PIECE // 4:
                    await self._in(self._files, upload.write, data)
                    continue
                pieces += data
                if len(pieces) >= PIECE:
                    await self._in(self._files, upload.write, bytes(pieces))
                    pieces.clear()
        finally:
            await self._in(self._files, upload.write, bytes(pieces))  # all that came is kept

    async def _get(self, request: Request, peer: Peer) -> Response:
        digest = _digest(request)
        size = await self._in(self._files, self._fetchable, digest, peer)
        start, stop = _range(request, size)
        path = self._store.blobs.path(digest)
        file = await self._in(self._files, partial(os.open, path, os.O_RDONLY | os.O_CLOEXEC))

        async def pieces() -> AsyncGenerator[bytes, None]:
            at = start
            try:
                while at < stop and not peer.gone():
                    piece = await self._in(self._files, os.pread, file, min(PIECE, stop - at), at)
                    at += len(piece)
                    yield piece
            finally:
                os.close(file)

        if (start, stop) == (0, size):
            return Streamed(pieces(), 200, size)
        where = {"content-range": f"bytes {start}-{stop - 1}/{size}"}
        return Streamed(pieces(), 206, stop - start, where)

    def _has(self, digest: str, site: str) -> bool:
        """Whether this site has put this blob. That another has is not told."""
        return site in self._store.owners(digest) and self._store.blobs.size(digest) is not None

    def _fetchable(self, digest: str, peer: Peer) -> int:
        self._gate.check_fetch(peer.identity, digest, self._store.owners(digest))
        size = self._store.blobs.size(digest)
        if size is None:
            raise absent(digest)
        return size

    async def _time(self, request: Request, peer: Peer) -> Response:
        del request, peer
        return Response(json.dumps({"now_ms": time.time_ns() // 1_000_000}))

    async def _probe_down(self, request: Request, peer: Peer) -> Response:
        size = min(_number(request, "bytes", 0), wire.PROBE_LIMIT)

        async def zeros() -> AsyncGenerator[bytes, None]:
            for at in range(0, size, PIECE):
                if peer.gone():
                    return
                yield bytes(min(PIECE, size - at))

        return Streamed(zeros(), 200, size)

    async def _probe_up(self, request: Request, peer: Peer) -> Response:
        del peer
        size = 0
        async for data in request.stream():
            size += len(data)
            if size > wire.PROBE_LIMIT:
                raise DamagedError(f"probe: at most {wire.PROBE_LIMIT} bytes")
        return Response(json.dumps({"bytes": size}))

    async def _in(
        self, pool: ThreadPoolExecutor, do: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, partial(do, *args, **kwargs))


class Streamed(Response):
    """A body in pieces. Starlette's own listens for a hang-up meanwhile, against the deadlines."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        status: int,
        size: int,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(
            status_code=status, headers={"content-length": str(size), **(headers or {})}
        )
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        async with contextlib.aclosing(self._pieces) as pieces:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _body(request: Request, limit: int) -> bytes:
    body = bytearray()
    async for data in request.stream():
        body += data
        if len(body) > limit:
            raise DamagedError(f"record: more than {limit} bytes")
    return bytes(body)


def _digest(request: Request) -> str:
    digest = f"sha256:{request.path_params['hex']}"
    hex_of(digest)
    return digest


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not (text.isdecimal() and len(text) < 19):
        raise DamagedError(f"request: {name} must be a whole number")
    return int(text)


def _range(request: Request, size: int) -> tuple[int, int]:
    """Of "bytes=A-" or "bytes=A-B", cut to the blob; any other range is answered with the whole."""
    unit, _, rest = request.headers.get("range", "").partition("=")
    first, _, last = rest.partition("-")
    if unit != "bytes" or not _decimal(first) or not (last == "" or _decimal(last)):
        return 0, size
    start, stop = int(first), min(size, int(last) + 1) if last else size
    return (start, stop) if start < stop else (0, size)


def _decimal(text: str) -> bool:
    return text.isdecimal() and len(text) < 19
