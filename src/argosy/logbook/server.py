"""The logbook's server: one process over one folder, reached by mutual TLS on one port."""

import argparse
import asyncio
import contextlib
import errno
import json
import logging
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.server import ServerState

from argosy.core.errors import HostError, UserError
from argosy.logbook import tcp
from argosy.logbook.app import Desk
from argosy.logbook.blobs import BLOB_LIMIT, UNFINISHED_BYTES
from argosy.logbook.embedded import EmbeddedLogbook, StoreLimits
from argosy.logbook.gate import Gate
from argosy.logbook.listener import Crowd, Deadlines, Listener
from argosy.logbook.tls import server_tls

log = logging.getLogger("argosy.logbook")

GRACE_S = 5.0  # for answers under way when the server is told to stop


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """What a server serves, where, and within which limits."""

    folder: Path
    keys: Path
    host: str = "127.0.0.1"
    port: int = 0
    connections_per_site: int = 64
    limits: StoreLimits = field(default_factory=StoreLimits)
    deadlines: Deadlines = field(default_factory=Deadlines)


async def serve(
    serving: Serving,
    stop: asyncio.Event,
    ready: Callable[[int], None],
    gate: Gate | None = None,
    *,
    around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> None:
    """Serves until `stop` is set; calls `ready` with the port once it can be reached.

    `around` may put something between the wire and the desk that sees every decrypted request.
    """
    tls = server_tls(serving.keys)
    with contextlib.closing(_listen(serving.host, serving.port)) as listening:
        authority = (serving.keys / "ca.pem").read_text()
        store = EmbeddedLogbook(serving.folder, authority=authority, limits=serving.limits)
        desk = Desk(store, gate or Gate(), serving.deadlines)
        try:
            desk.recall()
            connect, state = _protocol(serving, around(desk.app()))
            server = await asyncio.get_running_loop().create_server(
                connect,
                sock=listening,
                ssl=tls,
                ssl_handshake_timeout=serving.deadlines.handshake_s,
                ssl_shutdown_timeout=serving.deadlines.hang_up_s,
                backlog=256,
            )
            ready(listening.getsockname()[1])
            await stop.wait()
            server.close()
            desk.close()
            await _drain(state)
        finally:
            desk.end()


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m argosy.logbook.server`: one JSON line when ready, until SIGTERM or SIGINT."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        asyncio.run(_until_told(_serving(arguments)))
    except UserError as wrong:
        said = {"what": wrong.what, "where": wrong.where, "hint": wrong.hint}
        sys.stdout.write(json.dumps({"event": "error", "kind": type(wrong).__name__} | said) + "\n")
        sys.stderr.write(f"{wrong}\n")
        return wrong.exit_code
    return 0


async def _until_told(serving: Serving) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for told in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(told, stop.set)

    def ready(port: int) -> None:
        log.info("serving %s on %s port %d", serving.folder, serving.host, port)
        sys.stdout.write(json.dumps({"event": "ready", "port": port}) + "\n")
        sys.stdout.flush()

    await serve(serving, stop, ready)
    log.info("stopped")


def _serving(arguments: Sequence[str] | None) -> Serving:
    parser = argparse.ArgumentParser(prog="python -m argosy.logbook.server")
    parser.add_argument("--folder", type=Path, required=True, help="the logbook's folder")
    parser.add_argument("--keys", type=Path, required=True, help="ca.pem, host.pem, host.key")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--max-blob-mb", type=int, default=BLOB_LIMIT // 2**20)
    parser.add_argument("--max-unfinished-mb", type=int, default=UNFINISHED_BYTES // 2**20)
    parser.add_argument("--max-log-mb", type=int, default=None)
    parser.add_argument("--connections-per-site", type=int, default=64)
    given = parser.parse_args(arguments)
    log_bytes = None if given.max_log_mb is None else given.max_log_mb * 2**20
    return Serving(
        folder=given.folder,
        keys=given.keys,
        host=given.host,
        port=given.port,
        connections_per_site=given.connections_per_site,
        limits=StoreLimits(
            blob_bytes=given.max_blob_mb * 2**20,
            unfinished_bytes=given.max_unfinished_mb * 2**20,
            log_bytes=log_bytes,
        ),
    )


def _protocol(serving: Serving, app: ASGIApp) -> tuple[Callable[[], Listener], ServerState]:
    # Every byte of a header is paid for on slow links: no date, no server name.
    config = Config(
        app,
        http=Listener,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=int(serving.deadlines.idle_s),
    )
    config.load()
    state = ServerState()
    crowd = Crowd(serving.connections_per_site)
    return lambda: Listener(config, state, crowd, serving.deadlines), state


async def _drain(state: ServerState) -> None:
    """Let answers under way go out, then end every connection."""
    for connection in list(state.connections):
        connection.shutdown()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE_S):
            await asyncio.gather(*state.tasks, return_exceptions=True)
    for task in list(state.tasks):
        task.cancel()
    for connection in list(state.connections):
        assert isinstance(connection, Listener)
        connection.transport.abort()
    await asyncio.sleep(0)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle off only where the protocol is given; left on, each answer takes 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for option in tcp.OPTIONS:  # whoever connects gets them from here
            listening.setsockopt(*option)
        listening.bind((host, port))
    except OSError as wrong:
        listening.close()
        taken = wrong.errno == errno.EADDRINUSE
        what = (
            f"port {port} is taken" if taken else f"cannot listen on port {port}: {wrong.strerror}"
        )
        raise HostError(
            what, where=host, hint="another server runs there; stop it or choose another port"
        ) from None
    except OverflowError:
        listening.close()
        raise HostError(f"{port} is no port", where=host) from None
    return listening


if __name__ == "__main__":
    sys.exit(main())
