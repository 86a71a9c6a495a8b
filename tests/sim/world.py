"""Time, chance and a network that loses, delays and repeats. One seed is one schedule of faults."""

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from sim.server import Refused, Server

from argosy.core.records import Body, Entry, Writer

FAULTS_UNTIL_S = 60.0
PATIENCE_S = 400.0  # after the faults: then a run must have ended


@dataclass(frozen=True, slots=True)
class Chances:
    """How this schedule's world misbehaves while it does."""

    lose: float
    repeat: float
    kill: float  # per turn of a process
    freeze: float
    roll_back: float
    slow_s: float  # the longest that a message takes


class World:
    """Runs events in order of time; the seed alone decides everything."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        chance = self.random.choice
        self.chances = Chances(
            lose=chance((0.0, 0.1, 0.3)),
            repeat=chance((0.0, 0.2)),
            kill=chance((0.0, 0.05, 0.12)),
            freeze=chance((0.0, 0.08)),
            roll_back=chance((0.0, 0.03)),
            slow_s=chance((0.2, 1.5)),
        )
        self.now = 0.0
        self.server = Server(fences=chance((True, False)))
        self._away = self._outages()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def _outages(self) -> list[tuple[float, float]]:
        starts = [self.random.uniform(0, FAULTS_UNTIL_S) for _ in range(self.random.choice((0, 2)))]
        return [(start, start + self.random.uniform(1, 10)) for start in starts]

    @property
    def faulty(self) -> bool:
        return self.now < FAULTS_UNTIL_S

    def happens(self, probability: float) -> bool:
        return self.faulty and probability > 0 and self.random.random() < probability

    def away(self) -> bool:
        return any(start <= self.now < stop for start, stop in self._away)

    def travel_s(self) -> float:
        longest = self.chances.slow_s if self.faulty else 0.3
        return self.random.uniform(0.01, longest)

    def later(self, delay_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now + delay_s, next(self._order), event))

    def run(self, over: Callable[[], bool]) -> None:
        while self._heap and not over() and self.now < FAULTS_UNTIL_S + PATIENCE_S:
            self.now, _, event = heapq.heappop(self._heap)
            event()


@dataclass(slots=True)
class Message:
    counter: int
    body: Body
    blobs: dict[str, bytes] = field(default_factory=dict)


class Process:
    """A host's process: it may be killed, or frozen and wake up as a zombie. What it has sent
    travels on without it."""

    def __init__(self, world: World, writer: Writer) -> None:
        self.world = world
        self.writer = writer
        self.alive = True
        self.greedy = False  # reads to the end each time, as whoever starts does
        self._frozen_until_s = 0.0
        self._outbox: deque[Message] = deque()
        self._counter = 0
        self._sending = False
        self._read = 0
        self._poll()

    def heard(self, entries: list[Entry]) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        self.alive = False

    def freeze(self, for_s: float) -> None:
        self._frozen_until_s = self.world.now + for_s

    @property
    def frozen(self) -> bool:
        return self.world.now < self._frozen_until_s

    def mine(self, delay_s: float, event: Callable[[], None]) -> None:
        """Something this process does later: not when dead, not before it wakes."""

        def guarded() -> None:
            if not self.alive:
                return
            if self.frozen:
                self.mine(self._frozen_until_s - self.world.now, event)
            else:
                event()

        self.world.later(delay_s, guarded)

    def post(self, body: Body, blobs: dict[str, bytes] | None = None) -> None:
        self._counter += 1
        self._outbox.append(Message(self._counter, body, blobs or {}))
        self._send()

    # -- the outbox: blobs first, then the record, strictly in order, until acknowledged -----------

    def _send(self) -> None:
        if self._outbox and not self._sending:
            self._sending = True
            self._attempt(self._outbox[0], 0)

    def _attempt(self, message: Message, try_: int) -> None:
        if not self._outbox or self._outbox[0] is not message:
            return
        world = self.world
        if not world.happens(world.chances.lose):
            world.later(world.travel_s(), lambda: self._arrive(message))
            if world.happens(world.chances.repeat):
                world.later(world.travel_s() * 10, lambda: self._arrive(message))
        self.mine(2.0, lambda: self._attempt(message, try_ + 1))

    def _arrive(self, message: Message) -> None:
        """At the server, whatever has become of the sender. Blobs are put before the record."""
        server, world = self.world.server, self.world
        if world.away():
            return
        fresh = [digest for digest in message.blobs if digest not in server.blobs]
        if fresh:
            server.blobs[fresh[0]] = message.blobs[fresh[0]]
            self.mine(world.travel_s(), lambda: self._attempt(message, 0))
            return
        try:
            seq = server.append(self.writer, message.counter, message.body)
        except Refused:
            self.mine(world.travel_s(), self.kill)
            return
        if seq is not None and not world.happens(world.chances.lose):
            self.mine(world.travel_s(), lambda: self._acknowledged(message))

    def _acknowledged(self, message: Message) -> None:
        if self._outbox and self._outbox[0] is message:
            self._outbox.popleft()
            self._sending = False
            self._send()

    # -- reading -----------------------------------------------------------------------------------

    def _poll(self) -> None:
        world = self.world
        self.mine(world.random.uniform(0.8, 2.4), self._poll)
        entries = world.server.entries[self._read :]
        if not entries or world.away() or world.happens(world.chances.lose):
            return
        some = world.faulty and not self.greedy
        cut = world.random.randint(1, len(entries)) if some else len(entries)
        times = 2 if world.happens(world.chances.repeat) else 1
        for _ in range(times):
            self.mine(world.travel_s(), lambda: self._deliver(entries[:cut]))

    def _deliver(self, entries: list[Entry]) -> None:
        if entries[0].seq > self._read + 1:
            return  # overtook an answer that is still on its way: read again
        self._read = max(self._read, entries[-1].seq)
        self.heard(entries)
