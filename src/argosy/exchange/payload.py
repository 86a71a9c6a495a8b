"""The payload of a contribution, from the blobs that its ranks have put."""

from collections.abc import Mapping

from argosy.core.errors import DamagedError
from argosy.core.records import Contribution
from argosy.exchange.codec import values_in


def join(contribution: Contribution, blobs: Mapping[str, bytes | None]) -> bytes | None:
    """The shards' frames in order. None, and so void for everyone (rule 1), when a blob is gone or
    damaged for good, does not hold what its shard says, or the shards do not follow one another."""
    frames: list[bytes] = []
    stop = 0
    for shard in sorted(contribution.shards, key=lambda shard: (shard.start, shard.stop)):
        blob = blobs[shard.blob]
        if blob is None or shard.start != stop or not _holds(blob, shard.stop - shard.start):
            return None
        frames.append(blob)
        stop = shard.stop
    return b"".join(frames)


def _holds(blob: bytes, values: int) -> bool:
    try:
        return values_in(blob) == values
    except DamagedError:
        return False
