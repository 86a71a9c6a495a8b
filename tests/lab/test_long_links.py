"""A large blob over a long link of the lab that is cut in the middle: by the relay's own count."""

import asyncio
import random
from pathlib import Path

import pytest
from fakes.lab import RunningRelay, relay_file, running
from fakes.logbook import Signing
from fakes.server import FLEET, JOB, RunningServer, begun

from argosy.logbook.blobs import digest_of
from argosy.logbook.client import RemoteLogbook

MBIT_PER_S, RTT_MS, LANES = 300.0, 80.0, 4
BLOB = random.Random(4).randbytes(32_000_000)
DIGEST = digest_of(BLOB)
# A cut costs what the link and the sockets at its ends hold. The link: half a round trip at its
# rate. Each connection: 256 KiB of slack in the relay, two socket buffers of 256 KiB (the kernel
# doubles what is asked for), 256 KiB not sent yet.
IN_FLIGHT = int(MBIT_PER_S * 1e6 / 8 * RTT_MS / 2000) + LANES * (256 + 2 * 512 + 256) * 1024
OVERHEAD = 0.02  # TLS records, requests


@pytest.mark.parametrize("how", ["reset", "silent"])
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_cut_of_a_long_link_costs_what_was_in_flight(tmp_path: Path, way: str, how: str) -> None:
    signing = Signing(tmp_path / "keys", job=JOB, fleet=FLEET)
    with RunningServer(begun(signing)) as server:
        if way == "down":
            with server.client(signing.keys("tokyo-1")) as direct:
                direct.put(BLOB)

        def transfer(port: int) -> bytes:
            url, keys = f"https://127.0.0.1:{port}", signing.keys("tokyo-1")
            with RemoteLogbook(url, keys, within_s=30.0, lanes=LANES) as book:
                if way == "up":
                    book.put(BLOB)
                return book.get(DIGEST) if way == "down" else BLOB

        async def go() -> tuple[int, bytes]:
            link = {"tokyo": (MBIT_PER_S, RTT_MS)}
            async with running(relay_file(tmp_path, server.port, **link)) as relay:
                carrying = asyncio.create_task(asyncio.to_thread(transfer, relay.ports["tokyo"]))
                await crossed(relay, way, len(BLOB) // 2)
                await relay.order(do="cut", site="tokyo", how=how)
                await relay.order(do="heal", site="tokyo")
                got = await carrying
                return await count(relay, way), got

        moved, got = asyncio.run(go())

    assert got == BLOB
    assert len(BLOB) <= moved <= (1 + OVERHEAD) * len(BLOB) + IN_FLIGHT
    assert len(BLOB) / 4 > IN_FLIGHT  # or else the bound would say nothing


async def crossed(relay: RunningRelay, way: str, size: int) -> None:
    while await count(relay, way) < size:
        pass


async def count(relay: RunningRelay, way: str) -> int:
    status = await relay.order(do="status")
    return int(status["sites"]["tokyo"][way])
