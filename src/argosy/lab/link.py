"""When bytes that enter one direction of a link leave its bottleneck and arrive. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

_CHUNK_S = 0.010  # a small message waits for no more than one chunk of a big one
_CHUNK_LEAST, _CHUNK_MOST = 1460, 65536
_SLACK_BYTES = 256 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """One direction of a site's link."""

    mbit_per_s: float
    delay_ms: float  # one way
    jitter_ms: float = 0.0  # more or less than the delay, evenly spread; never out of order

    @property
    def bytes_per_s(self) -> float:
        return self.mbit_per_s * 1e6 / 8

    @property
    def chunk(self) -> int:
        """How much to read at once."""
        return int(min(max(self.bytes_per_s * _CHUNK_S, _CHUNK_LEAST), _CHUNK_MOST))

    @property
    def most_under_way(self) -> int:
        """What one connection may have in the link before its sender must wait."""
        longest_s = (self.delay_ms + self.jitter_ms) / 1e3
        return int(self.bytes_per_s * longest_s) + _SLACK_BYTES


class Lane:
    """A queue of one pace, shared by all connections of a site in one direction.

    It reckons with times it is told, so lateness of the reader does not add up.
    """

    def __init__(self, shape: Shape, chance: Callable[[], float]) -> None:
        self.shape = shape
        self._chance = chance  # evenly from 0 to 1
        self._free_at = 0.0
        self._last_arrival = 0.0

    def enter(self, size: int, now: float) -> tuple[float, float]:
        """When these bytes have left the bottleneck, and when they arrive at the other end."""
        self._free_at = max(self._free_at, now) + size / self.shape.bytes_per_s
        swing_ms = self.shape.jitter_ms * (2 * self._chance() - 1) if self.shape.jitter_ms else 0.0
        delay_s = max(0.0, self.shape.delay_ms + swing_ms) / 1e3
        self._last_arrival = max(self._last_arrival, self._free_at + delay_s)
        return self._free_at, self._last_arrival
