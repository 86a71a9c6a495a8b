"""How many connections carry a blob, and how much each at a time: by what the link has shown. Pure.

One connection carries no more than its window in each round trip, so a long fat link needs several
(docs/measured/links.md). More are taken as long as more is carried with them.
"""

from dataclasses import dataclass, replace

SMALL = 1024 * 1024  # bytes; up to here a blob is one request
RANGE_LEAST = 256 * 1024
RANGE_MOST = 64 * 1024 * 1024
RANGE_FIRST = 8 * 1024 * 1024  # of a lane whose speed is not known
RANGE_S = 5.0  # a range takes so long, and so many round trips: in the one between two ranges the
RANGE_TRIPS = 25  # lane carries nothing, and the others do not at once carry more
WORTH_S = 0.5  # a lane that is ready takes over from a slower one if that saves so long,
WORTH_TRIPS = 4  # and so many round trips
LANES_MOST = 16
LANES_FIRST = (2, 8)
LANE_PER_S = 0.025  # of round trip, to begin with
LOOK_TRIPS = 4  # between two looks at the rate
LOOK_LEAST_S = 0.4
GAIN = 1.1  # so much more must come through for further connections to be worth it
FORGET = 1.05  # per measurement: a route that got longer is believed after some


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """What one direction of a link has shown so far. None: not known yet."""

    rtt_s: float | None = None
    bytes_per_s: float | None = None  # of all connections together
    lanes: int | None = None  # how many were worth it

    def answered(self, took_s: float) -> "Pace":
        """A request without a body took so long. Waiting at the server makes it longer, never
        shorter, so the shortest counts."""
        if self.rtt_s is None:
            return replace(self, rtt_s=took_s)
        return replace(self, rtt_s=min(took_s, self.rtt_s * FORGET))

    def first_lanes(self, size: int) -> int:
        """Connections to begin a blob of so many bytes with."""
        if size <= SMALL:
            return 1
        wanted = self.lanes
        if wanted is None:
            least, most = LANES_FIRST
            wanted = min(most, max(least, 1 + int((self.rtt_s or 0.0) / LANE_PER_S)))
        return max(1, min(wanted, size // SMALL))

    def stretch(self, left: int, lanes: int, lane_bytes_per_s: float | None) -> int:
        """Bytes of a lane's next range when so many are left, by how fast that lane was."""
        if lanes == 1:
            return left  # nobody to share with, and each range would cost a round trip
        if lane_bytes_per_s is None:
            wanted = float(RANGE_FIRST)
        else:
            wanted = lane_bytes_per_s * max(RANGE_S, RANGE_TRIPS * (self.rtt_s or 0.0))
        share = max(RANGE_LEAST, left // lanes)  # so that all end together
        return min(left, share, RANGE_MOST, max(RANGE_LEAST, int(wanted)))

    def worth_s(self) -> float:
        """What it must save that one lane takes over from another: it costs round trips."""
        return max(WORTH_S, WORTH_TRIPS * (self.rtt_s or 0.0))

    def look_s(self) -> float:
        return max(LOOK_LEAST_S, LOOK_TRIPS * (self.rtt_s or 0.0))


class Climb:
    """More connections, half as many again each time, until they carry no more."""

    def __init__(self, lanes: int, most: int = LANES_MOST) -> None:
        self.lanes = lanes
        self._most = most
        self.best = 0.0  # bytes per second
        self._worth = lanes
        self._settled = False

    def look(self, moved: int, passed_s: float) -> int:
        """Connections wanted from now on; `moved` in the time since the last look."""
        rate = moved / passed_s
        if rate > self.best * GAIN:
            self.best, self._worth = rate, self.lanes
            if not self._settled:
                self.lanes = min(self._most, self.lanes + max(1, self.lanes // 2))
        elif not self._settled:
            self._settled = True
            self.lanes = self._worth
        return self.lanes

    @property
    def worth(self) -> int:
        return self._worth
