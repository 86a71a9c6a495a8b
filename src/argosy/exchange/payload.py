"""A payload and its record: joined from the blobs that the ranks have put, and told from others."""

import hashlib
from collections.abc import Iterable, Mapping

from argosy.core.errors import DamagedError
from argosy.core.records import Contribution, Shard
from argosy.exchange.codec import split, values_in


def join(contribution: Contribution, blobs: Mapping[str, bytes | None]) -> bytes | None:
    """The shards' frames in order. None, and so void for everyone (rule 1), when a blob is gone or
    damaged for good, does not hold what its shard says, or the shards do not follow one another."""
    frames: list[bytes] = []
    stop = 0
    for shard in _in_order(contribution):
        blob = blobs[shard.blob]
        if blob is None or shard.start != stop or not _holds(blob, shard.stop - shard.start):
            return None
        frames.append(blob)
        stop = shard.stop
    return b"".join(frames)


def mark(payload: bytes) -> str:
    """What tells this post from any other of its site, before its record has a place in the log.
    Each shard of the record is one frame of the payload."""
    digests = (f"sha256:{hashlib.sha256(frame).hexdigest()}" for frame in split(payload))
    return _mark(digests)


def mark_of(contribution: Contribution) -> str:
    """The mark of the payload that a record speaks of."""
    return _mark(shard.blob for shard in _in_order(contribution))


def _mark(digests: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _in_order(contribution: Contribution) -> list[Shard]:
    return sorted(contribution.shards, key=lambda shard: (shard.start, shard.stop))


def _holds(blob: bytes, values: int) -> bool:
    try:
        return values_in(blob) == values
    except DamagedError:
        return False
