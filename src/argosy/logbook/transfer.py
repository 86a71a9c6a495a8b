"""One blob on its way over several connections: who carries which bytes, until none is missing.

Each connection is a lane with a thread of its own, the first one the caller's. A lane takes a range,
carries it, takes the next; when none is left it takes half of what a slower lane has still before it.
What a broken lane had not brought is taken again while the others go on.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace

from argosy.logbook.connection import Away, Connection, Patience
from argosy.logbook.pace import LANES_MOST, RANGE_LEAST, SMALL, Climb, Pace
from argosy.logbook.ranges import Ranges, Stretch

TRIES = 3  # then a further lane is given up; the first one goes on for as long as it may


class Over(Exception):
    """The blob is whole or given up, and a lane still carries something of it."""


class Enough(Exception):
    """Another lane has taken the rest of this range."""


class Way:
    """One direction of a client's link: what it has shown, and the further lanes that are free."""

    def __init__(self, connection: Connection, lanes: int = LANES_MOST) -> None:
        self.connection = connection
        self.lanes = lanes  # of one blob, at most
        self.pace = Pace()
        self.spare = threading.Semaphore(lanes - 1)


@dataclass(slots=True, eq=False)
class Lane:
    """What one connection has before it: from `at` to `stop`."""

    further: bool
    at: int = 0
    stop: int = 0
    busy: bool = False
    start: int = 0
    began: float = 0.0
    bytes_per_s: float | None = None  # in its newest range

    def take(self, stretch: Stretch) -> Stretch:
        self.start = self.at = stretch[0]
        self.stop = stretch[1]
        self.busy, self.began = True, time.monotonic()
        return stretch

    def pace(self) -> float:
        """Bytes per second in the range it carries now."""
        passed_s = max(1e-3, time.monotonic() - self.began)
        return max(1.0, (self.at - self.start) / passed_s)

    def rest(self) -> None:
        if self.busy and self.at > self.start:
            self.bytes_per_s = self.pace()
        self.busy = False


class Transfer(ABC):
    """`_run` returns when the blob is whole, or raises why it can't be."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self._news = threading.Condition(threading.RLock())
        self._todo: list[Stretch] = []  # taken by no lane
        self._doubts: list[Stretch] = []  # of lanes that gave up: perhaps there, perhaps not
        self._first = Lane(further=False)  # the caller's own
        self._lanes = [self._first]
        self._over = False
        self._failure: Exception | None = None
        self._moved = 0
        self._climb = Climb(1, 1)
        self._looked_at, self._looked_moved, self._looks = time.monotonic(), 0, 0
        self._progress_at = time.monotonic()

    # -- what put and get do differently -----------------------------------------------------------

    @abstractmethod
    def _carry(self, lane: Lane, stretch: Stretch) -> None:
        """Bring these bytes over. Raises Away when the connection broke."""

    @abstractmethod
    def _missing(self, stretch: Stretch) -> Iterable[Stretch]:
        """What of a doubtful stretch is not there."""

    @abstractmethod
    def _last(self) -> Stretch | None:
        """Nothing is left to take or under way: what to do yet; None: nothing."""

    # -- what both do ------------------------------------------------------------------------------

    def _run(self) -> None:
        began = time.monotonic()
        self._lane(self._first)
        if self._failure is not None:
            raise self._failure
        self._remember(time.monotonic() - began)

    def _open(self, size: int) -> None:
        """The size is known: go on with as many lanes as the link was worth."""
        with self._news:
            lanes = min(self.way.lanes, self.way.pace.first_lanes(size))
            self._climb = Climb(lanes, self.way.lanes)
            self._looked_at, self._looked_moved = time.monotonic(), self._moved
            self._top_up()

    def _end(self) -> None:
        """Whole: the lanes end."""
        with self._news:
            self._over = True
            self._news.notify_all()

    def _move(self, lane: Lane, size: int) -> None:
        """So many bytes went over. Raises Over or Enough when no more are wanted of this lane."""
        with self._news:
            if self._over:
                raise Over
            lane.at += size
            self._moved += size
            self._look()
            if lane.at > lane.stop:
                raise Enough

    def _look(self) -> None:
        """Now and then: is it worth to open more connections?"""
        passed_s = time.monotonic() - self._looked_at
        if self._climb.lanes == 1 or passed_s < self.way.pace.look_s():
            return
        if self._looks:  # in the first one buffers fill, and TCP begins slowly
            self._climb.look(self._moved - self._looked_moved, passed_s)
        self._looks += 1
        self._looked_at, self._looked_moved = time.monotonic(), self._moved
        self._top_up()

    def _progressed(self) -> None:
        self._progress_at = time.monotonic()

    def _top_up(self) -> None:
        while len(self._lanes) < self._climb.lanes and self._todo:
            if not self.way.spare.acquire(blocking=False):
                return  # other blobs have them
            lane = Lane(further=True)
            self._lanes.append(lane)
            threading.Thread(target=self._further, args=(lane,), name="lane", daemon=True).start()

    def _further(self, lane: Lane) -> None:
        try:
            self._lane(lane)
        finally:
            self.way.spare.release()

    def _lane(self, lane: Lane) -> None:
        try:
            self._work(lane)
        except Over:
            pass
        except Exception as wrong:  # noqa: BLE001 - raised by `_run`
            with self._news:
                self._failure = self._failure or wrong
                self._over = True
        finally:
            with self._news:
                lane.busy = False
                self._lanes.remove(lane)
                self._news.notify_all()

    def _work(self, lane: Lane) -> None:
        patience = Patience(self.way.connection.within_s)
        patience.renew()
        doubtful: Stretch | None = None
        while True:
            try:
                doubtful = doubtful or self._adopt(lane)
                if doubtful is not None:
                    self._give_back(lane, self._missing(doubtful))
                    doubtful = None
                taken = self._take(lane)
                if taken is None:
                    return
                doubtful = taken
                self._carry(lane, taken)
                doubtful = None
                patience.renew()
            except Enough:
                doubtful = lane.start, lane.stop
            except Away as wrong:
                if doubtful is not None:
                    doubtful = doubtful[0], min(doubtful[1], lane.stop)
                if lane.further and patience.tries >= TRIES:
                    self._leave(doubtful)
                    return
                self._pause(patience, wrong)
            finally:
                with self._news:
                    lane.rest()
                    lane.busy = doubtful is not None
                    self._news.notify_all()

    def _pause(self, patience: Patience, why: Away) -> None:
        patience.deadline = max(patience.deadline, self._progress_at + patience.within_s)
        pause_s = patience.pause_s()
        if pause_s is None:
            raise self.way.connection.unreachable(why)
        with self._news:
            if self._news.wait_for(lambda: self._over, pause_s):
                raise Over

    def _take(self, lane: Lane) -> Stretch | None:
        """The next range for this lane; None when it can end."""
        with self._news:
            while not self._over:
                if self._todo and not (lane.further and len(self._lanes) > self._climb.lanes):
                    return lane.take(self._cut(lane))
                half = self._half_of_a_slower(lane)
                if half is not None:
                    return lane.take(half)
                under_way = any(other.busy for other in self._lanes if other is not lane)
                if lane.further:
                    if not under_way or self._todo:
                        return None
                    self._news.wait(self.way.pace.look_s())  # one of them may break, or be slow
                elif under_way:
                    self._news.wait(self.way.pace.look_s())
                elif self._doubts:
                    raise Away("a connection was given up")
                else:
                    last = self._last()
                    self._over = last is None
                    return last and lane.take(last)
            return None

    def _cut(self, lane: Lane) -> Stretch:
        start, stop = self._todo[0]
        left = sum(b - a for a, b in self._todo)
        size = stop - start
        if left > SMALL:
            lanes = max(len(self._lanes), self._climb.lanes)
            size = min(size, self.way.pace.stretch(left, lanes, lane.bytes_per_s))
        self._todo[:1] = [(start + size, stop)] if start + size < stop else []
        return start, start + size

    def _half_of_a_slower(self, lane: Lane) -> Stretch | None:
        """Of the lane that would be ready last, if that is late enough to be worth it."""
        worth_s = self.way.pace.worth_s()
        since = time.monotonic() - worth_s  # before that a range has hardly begun
        slow = max(
            (other for other in self._lanes if other.busy and other.began < since),
            key=lambda other: (other.stop - other.at) / other.pace(),
            default=None,
        )
        if slow is None or slow.stop - slow.at < 2 * RANGE_LEAST:
            return None
        # A lane whose own speed is not known takes for it that it is as quick as the slow one.
        half = (slow.stop - slow.at) // 2
        saves_s = (slow.stop - slow.at) / slow.pace() - half / (lane.bytes_per_s or slow.pace())
        if saves_s < worth_s:
            return None
        middle = slow.stop - half
        slow.stop, stop = middle, slow.stop
        return middle, stop

    def _give_back(self, lane: Lane, stretches: Iterable[Stretch]) -> None:
        with self._news:
            self._todo[:0] = [s for s in stretches if s[0] < s[1]]
            lane.busy = False
            self._news.notify_all()

    def _adopt(self, lane: Lane) -> Stretch | None:
        with self._news:
            return lane.take(self._doubts.pop()) if self._doubts else None

    def _leave(self, doubtful: Stretch | None) -> None:
        with self._news:
            if doubtful is not None:
                self._doubts.append(doubtful)

    def _begin_anew(self, lane: Lane, size: int) -> None:
        """Nothing that came counts. What other lanes have before them comes anyhow."""
        with self._news:
            others = (other for other in self._lanes if other.busy and other is not lane)
            under_way = Ranges((other.start, other.stop) for other in others)
            self._todo = list(under_way.gaps(0, size))

    def _remember(self, passed_s: float) -> None:
        """What this blob has shown of the link, for the next."""
        if self._looks >= 2:
            rate = self._moved / passed_s
            self.way.pace = replace(self.way.pace, bytes_per_s=rate, lanes=self._climb.worth)
