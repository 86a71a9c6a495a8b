"""The order in which a site sees its text: the same everywhere, resumed at any point. Pure."""

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from argosy.core.errors import DamagedError, SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_EVERY = slice(None)


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Cursor:
    """How far a site is: `position` sequences of this epoch are done."""

    epoch: int = 0
    position: int = 0

    def text(self) -> str:
        """Canonical JSON, as records and snapshots carry it."""
        return f'{{"epoch":{self.epoch},"position":{self.position}}}'


def parse_cursor(text: str) -> Cursor:
    try:
        value: Any = json.loads(text)
        cursor = Cursor(epoch=value["epoch"], position=value["position"])
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError(f"not a data cursor: {text[:80]!r}") from error
    whole = type(cursor.epoch) is int and type(cursor.position) is int
    if not whole or cursor.epoch < 0 or cursor.position < 0:
        raise DamagedError(f"not a data cursor: {text[:80]!r}")
    return cursor


class Sequences:
    """Token streams cut into windows of `sequence` + 1 (inputs and targets overlap by one token).

    Each epoch is a permutation of all windows of all sources that depends on `seed` and the epoch
    alone, not on hosts, ranks, batch sizes or library versions. Sources are interleaved in
    proportion to their size: at every point of an epoch each has given its share, within a window.
    A stream's last tokens that fill no window are left out.
    """

    def __init__(
        self, streams: "Mapping[str, NDArray[Any]]", *, sequence: int, seed: int = 0
    ) -> None:
        if not streams:
            raise SpecError("no source to train on", hint="name at least one source in the job")
        self.sequence = sequence
        self._seed = seed
        self._streams = [streams[name] for name in sorted(streams)]
        for name in sorted(streams):
            if len(streams[name]) <= sequence:
                raise SpecError(
                    f"shorter than one sequence: {len(streams[name])} tokens, "
                    f"{sequence + 1} are needed",
                    where=f"source {name}",
                    hint="add text, or lower training.sequence",
                )
        self._windows = [(len(stream) - 1) // sequence for stream in self._streams]
        self._ends = np.cumsum(self._windows)
        self._epoch: int | None = None
        self._order = np.empty(0, np.int64)

    def __len__(self) -> int:
        """Windows in an epoch."""
        return int(self._ends[-1])

    def batch(
        self, cursor: Cursor, size: int, rows: slice = _EVERY
    ) -> "tuple[NDArray[np.int64], Cursor]":
        """The next `size` windows, [size, sequence + 1], and where the one after them stands.

        A rank passes the `rows` of the global batch that are its own, and makes only those.
        """
        if cursor.position >= len(self):
            raise SpecError(
                f"the cursor stands at sequence {cursor.position}, the data has {len(self)}",
                hint="the sources changed since it was written; put them back, or begin a new run",
            )
        first = cursor.epoch * len(self) + cursor.position
        taken = range(first, first + size)[rows]
        out = np.empty((len(taken), self.sequence + 1), np.int64)
        for row, place in enumerate(taken):
            epoch, position = divmod(place, len(self))
            out[row] = self.window(int(self._epoch_order(epoch)[position]))
        epoch, position = divmod(first + size, len(self))
        return out, Cursor(epoch=epoch, position=position)

    def window(self, index: int) -> "NDArray[Any]":
        """The window at `index` in reading order, as it lies in its stream."""
        which = int(self._ends.searchsorted(np.int64(index), side="right"))
        start = (index - int(self._ends[which]) + self._windows[which]) * self.sequence
        return self._streams[which][start : start + self.sequence + 1]

    def spread(self, limit: int) -> "NDArray[np.int64]":
        """At most `limit` windows evenly spread in reading order: what an evaluation looks at."""
        count = min(limit, len(self))
        picked = [index * len(self) // count for index in range(count)]
        return np.stack([self.window(index) for index in picked]).astype(np.int64)

    def _epoch_order(self, epoch: int) -> "NDArray[np.int64]":
        if self._epoch != epoch:
            self._order = interleaved(self._windows, self._seed, epoch)
            self._epoch = epoch
        return self._order


def interleaved(sizes: list[int], seed: int, epoch: int) -> "NDArray[np.int64]":
    """Every index below sum(sizes) once: each stretch shuffled, then all merged by their progress.

    Element k of a stretch of m is due at (k + 1/2) / m; ties go to the earlier stretch.
    """
    starts = np.cumsum([0, *sizes[:-1]])
    shuffled = [
        permutation(size, seed, epoch, which) + start
        for which, (size, start) in enumerate(zip(sizes, starts, strict=True))
    ]
    due = [(np.arange(size, dtype=np.float64) + 0.5) / size for size in sizes]
    return np.concatenate(shuffled)[np.argsort(np.concatenate(due), kind="stable")]


def permutation(size: int, *key: int) -> "NDArray[np.int64]":
    """A permutation of range(size) from integers. NumPy's own may change between its versions."""
    named = ",".join(str(part) for part in key).encode()
    base = int.from_bytes(hashlib.sha256(named).digest()[:8], "little")
    # splitmix64 (Steele, Lea and Flood 2014): a counter with a good finaliser, arithmetic mod 2^64.
    x = np.arange(1, size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(base)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return np.argsort(x, kind="stable").astype(np.int64)
