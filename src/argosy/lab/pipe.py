"""Bytes on their way through one direction of a link: paced, delayed, counted, bounded."""

import asyncio
import socket
from collections import deque

from argosy.lab.link import Lane

_AHEAD_S = 0.020  # how far reading may run ahead of the pace, so that a late wake-up costs no rate


class Direction:
    """One way of a site's link: its lane, whether it flows, and how much has entered it."""

    def __init__(self, lane: Lane, counted: int) -> None:
        self.lane = lane
        self.bytes = counted
        self.flows = asyncio.Event()
        self.flows.set()


class _UnderWay:
    """What one connection has in the link, in order. It is full at `Shape.most_under_way`."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._held = 0
        self._changed = asyncio.Event()

    async def put(self, arrives: float, piece: bytes, most: int) -> None:
        while self._held > most:
            await self._change()
        self._pieces.append((arrives, piece))
        self._held += len(piece)
        self._changed.set()

    async def first(self) -> tuple[float, bytes]:
        while not self._pieces:
            await self._change()
        return self._pieces[0]

    def drop_first(self) -> None:
        self._held -= len(self._pieces.popleft()[1])
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


def connect(
    group: asyncio.TaskGroup, source: socket.socket, sink: socket.socket, direction: Direction
) -> None:
    """Two tasks carry everything from source to sink, the end of the stream included."""
    under_way = _UnderWay()
    group.create_task(_enter(source, direction, under_way))
    group.create_task(_arrive(sink, direction, under_way))


async def _enter(source: socket.socket, direction: Direction, under_way: _UnderWay) -> None:
    loop = asyncio.get_running_loop()
    piece = b"."
    while piece:
        await direction.flows.wait()
        shape = direction.lane.shape
        piece = await loop.sock_recv(source, shape.chunk)
        await direction.flows.wait()  # it may have been stopped while nothing came
        leaves, arrives = direction.lane.enter(len(piece), loop.time())
        direction.bytes += len(piece)
        await under_way.put(arrives, piece, shape.most_under_way)
        early_s = leaves - loop.time() - _AHEAD_S
        if early_s > 0:
            await asyncio.sleep(early_s)


async def _arrive(sink: socket.socket, direction: Direction, under_way: _UnderWay) -> None:
    loop = asyncio.get_running_loop()
    while True:
        arrives, piece = await under_way.first()
        early_s = arrives - loop.time()
        if early_s > 0:
            await asyncio.sleep(early_s)
        await direction.flows.wait()
        if not piece:
            sink.shutdown(socket.SHUT_WR)
            return
        await loop.sock_sendall(sink, piece)
        under_way.drop_first()
