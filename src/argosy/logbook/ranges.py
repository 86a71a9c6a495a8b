"""Which bytes of a blob are there: disjoint stretches in order, with what lies between. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

Stretch = tuple[int, int]  # start and stop, in bytes; stop is not in it


class Ranges:
    """A set of bytes, kept as the fewest stretches. Not safe between threads by itself."""

    def __init__(self, stretches: Iterable[Stretch] = ()) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self.bytes = 0
        for start, stop in stretches:
            self.add(start, stop)

    def __iter__(self) -> Iterator[Stretch]:
        return iter(zip(self._starts, self._stops, strict=True))

    def __len__(self) -> int:
        """How many stretches: what it costs to keep and to tell them."""
        return len(self._starts)

    def add(self, start: int, stop: int) -> None:
        """Those bytes are there now; they may touch or overlap what was."""
        if start >= stop:
            return
        first = bisect_left(self._stops, start)
        last = bisect_right(self._starts, stop)
        if first < last:
            start = min(start, self._starts[first])
            stop = max(stop, self._stops[last - 1])
        replaced = zip(self._starts[first:last], self._stops[first:last], strict=True)
        self.bytes += stop - start - sum(b - a for a, b in replaced)
        self._starts[first:last] = [start]
        self._stops[first:last] = [stop]

    def gaps(self, start: int, stop: int) -> Iterator[Stretch]:
        """What of [start, stop) is not there, in order."""
        at = start
        for number in range(bisect_right(self._stops, start), len(self._starts)):
            if self._starts[number] >= stop:
                break
            if self._starts[number] > at:
                yield at, self._starts[number]
            at = self._stops[number]
        if at < stop:
            yield at, stop

    @property
    def prefix(self) -> int:
        """How many bytes from the beginning on are there without a gap."""
        return self._stops[0] if self._starts and self._starts[0] == 0 else 0
