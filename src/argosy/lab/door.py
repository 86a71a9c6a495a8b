"""One site's door in the relay: a listening port, and the connections that came in by it."""

import asyncio
import logging
import random
import socket
import struct
from dataclasses import replace

from argosy.core.errors import HostError
from argosy.lab.config import RelaySite
from argosy.lab.link import Lane, Shape
from argosy.lab.pipe import Direction, connect

_MOST_CONNECTIONS = 64  # each holds at most Shape.most_under_way in each direction
_BUFFER = 256 * 1024  # of the kernel: what waits should wait at the sender
_log = logging.getLogger(__name__)


class Door:
    """Stays open all through a cut, so that nobody else can take its port."""

    def __init__(self, site: RelaySite, target: tuple[str, int], counted: dict[str, int]) -> None:
        self._site = site
        self.target = target
        chance = random.Random(site.site).random
        self.up, self.down = (
            Direction(Lane(_shape(site), chance), counted.get(way, 0)) for way in ("up", "down")
        )
        self._opened = counted.get("opened", 0)
        self._refused = counted.get("refused", 0)
        self._cut: str | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._listener = _listen(site)
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def counted(self) -> dict[str, int]:
        """Payload bytes of TCP that entered the link, and connections, since the run began."""
        return {
            "up": self.up.bytes,
            "down": self.down.bytes,
            "opened": self._opened,
            "refused": self._refused,
        }

    def shape(
        self,
        direction: str | None,
        *,
        mbit_per_s: float | None = None,
        rtt_ms: float | None = None,
        jitter_ms: float | None = None,
    ) -> None:
        """What is named changes; what is not is again as it was configured."""
        site = replace(
            self._site,
            mbit_per_s=self._site.mbit_per_s if mbit_per_s is None else mbit_per_s,
            rtt_ms=self._site.rtt_ms if rtt_ms is None else rtt_ms,
            jitter_ms=self._site.jitter_ms if jitter_ms is None else jitter_ms,
        )
        if site.mbit_per_s <= 0 or site.rtt_ms < 0 or site.jitter_ms < 0:
            raise ValueError("a rate is above 0, a time 0 or more (to stop a link, stall it)")
        for way in self._ways(direction):
            way.lane.shape = _shape(site)

    def stall(self, direction: str | None) -> None:
        """Nothing moves, nobody is told. Healed, all goes on where it was."""
        for way in self._ways(direction):
            way.flows.clear()

    def cut(self, how: str) -> None:
        """Connections are reset at once, or silently dead; new ones are refused."""
        if how not in ("reset", "silent"):
            raise ValueError("a cut is 'reset' or 'silent'")
        self._cut = how
        self.stall(None)
        if how == "reset":
            self._end_connections()

    def heal(self) -> None:
        if self._cut is not None:
            self._end_connections()  # what a silent cut swallowed cannot be caught up with
        self._cut = None
        for way in self._ways(None):
            way.flows.set()

    async def close(self) -> None:
        self._accepting.cancel()
        self._end_connections()
        await asyncio.gather(self._accepting, *self._connections, return_exceptions=True)
        self._listener.close()

    def _ways(self, direction: str | None) -> tuple[Direction, ...]:
        return {"up": (self.up,), "down": (self.down,), None: (self.up, self.down)}[direction]

    def _end_connections(self) -> None:
        for connection in self._connections:
            connection.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                near, _ = await loop.sock_accept(self._listener)
            except OSError as problem:  # too many open files, mostly: they pass
                _log.warning("%s: cannot accept: %s", self._site.site, problem)
                await asyncio.sleep(0.1)
                continue
            if self._cut is not None or len(self._connections) >= _MOST_CONNECTIONS:
                self._refused += 1
                _reset(near)
                continue
            self._opened += 1
            connection = loop.create_task(self._carry(near))
            self._connections.add(connection)
            connection.add_done_callback(self._connections.discard)

    async def _carry(self, near: socket.socket) -> None:
        far = _socket()
        whole = False
        try:
            near.setblocking(False)
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # To open a connection takes one round trip, before its first byte.
            await asyncio.sleep(sum(way.lane.shape.delay_ms for way in self._ways(None)) / 1e3)
            await asyncio.get_running_loop().sock_connect(far, self.target)
            async with asyncio.TaskGroup() as group:
                connect(group, near, far, self.up)
                connect(group, far, near, self.down)
            whole = True
        except* OSError as problems:
            _log.info("%s: a connection broke: %s", self._site.site, problems.exceptions[0])
        finally:
            for end in (near, far):
                end.close() if whole else _reset(end)


def _shape(site: RelaySite) -> Shape:
    return Shape(mbit_per_s=site.mbit_per_s, delay_ms=site.rtt_ms / 2, jitter_ms=site.jitter_ms / 2)


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _listen(site: RelaySite) -> socket.socket:
    listener = _socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", site.port))
        listener.listen(_MOST_CONNECTIONS)
    except OSError as problem:
        listener.close()
        raise HostError(
            f"port {site.port} cannot be had: {problem.strerror}",
            where=f"the link of {site.site}",
            hint="another program uses it: end that one, or begin a new run",
        ) from problem
    return listener


def _reset(end: socket.socket) -> None:
    """The other side learns of it as of a broken connection, not as of an end."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()
