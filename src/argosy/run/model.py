"""Checkpoints and payloads as plain vectors and bytes, read without the engine that wrote them."""

import struct

import numpy as np
import numpy.typing as npt

from argosy.core.errors import DamagedError
from argosy.core.records import Checkpointed, Contribution
from argosy.logbook.blobs import BlobFolder


def vectors(
    blobs: BlobFolder, checkpoint: Checkpointed
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The agreed model and its velocity: after the safetensors header, one behind the other."""
    blob = blobs.path(checkpoint.blob).read_bytes()
    header = struct.unpack_from("<Q", blob)[0]
    values = np.frombuffer(blob, "<f4", offset=8 + header)
    if values.size != 2 * checkpoint.parameters:
        raise DamagedError(
            f"expected {checkpoint.parameters} parameters twice, found {values.size} values",
            where=checkpoint.blob,
        )
    a, v = np.split(values.astype(np.float32), 2)
    return a.copy(), v.copy()


def payload(blobs: BlobFolder, post: Contribution) -> bytes:
    """What a site posted: its shards in order."""
    shards = sorted(post.shards, key=lambda shard: shard.start)
    return b"".join(blobs.path(shard.blob).read_bytes() for shard in shards)
