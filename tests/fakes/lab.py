"""Small stand-ins for the lab: a fleet, an echoing server, a relay within this process."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.core.fleet import Fleet, Host, Link, Site
from argosy.lab.control import command
from argosy.lab.relay import Relay

TOKEN = "open sesame"


def fleet(*faults: str, mbit_per_s: float = 1000.0, rtt_ms: float = 0.0) -> Fleet:
    return Fleet(
        home="DE",
        sites=(
            Site(name="tokyo", country="JP", hosts=(Host(name="tokyo-1"),)),
            Site(
                name="virginia",
                country="US",
                hosts=(Host(name="virginia-1", cores=2), Host(name="virginia-2")),
            ),
        ),
        links=(
            Link(a="tokyo", mbit_per_s=mbit_per_s, rtt_ms=rtt_ms),
            Link(a="virginia", mbit_per_s=mbit_per_s, rtt_ms=rtt_ms),
        ),
        faults=faults,
    )


@contextlib.asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """The port of a server that sends back what it gets."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningRelay:
    ports: dict[str, int]
    file: Path

    async def order(self, **order: Any) -> dict[str, Any]:
        port = json.loads(self.file.read_bytes())["control_port"]
        return await command(port, TOKEN, order, within_s=5.0)


def relay_file(folder: Path, target: int, **links: tuple[float, float]) -> Path:
    """`links`: (Mbit/s, round-trip ms) of each site."""
    config = {
        "target_port": target,
        "control_port": 0,
        "token": TOKEN,
        "counters": str(folder / "counters.json"),
        "sites": [
            {"site": site, "port": 0, "mbit_per_s": rate, "rtt_ms": rtt}
            for site, (rate, rtt) in links.items()
        ],
    }
    file = folder / "relay.json"
    file.write_text(json.dumps(config))
    return file


@contextlib.asynccontextmanager
async def running(file: Path) -> AsyncIterator[RunningRelay]:
    stop: asyncio.Event = asyncio.Event()
    ready: asyncio.Future[dict[str, int]] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(Relay(file).run(stop, ready.set_result))
    await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    try:
        yield RunningRelay(ports=ready.result(), file=file)
    finally:
        stop.set()
        await task


async def dial(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def ask(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], text: bytes) -> bytes:
    """Send, and read as much back."""
    reader, writer = connection
    writer.write(text)
    return await asyncio.wait_for(reader.readexactly(len(text)), 10.0)
