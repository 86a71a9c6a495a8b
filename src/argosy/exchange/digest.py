"""The digest of an agreed model: the same for any number of ranks that hold it."""

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np

from argosy.exchange.vectors import Vector

PIECE = 1 << 20  # values per piece; part of the format (DESIGN section 5, rule 9)


def model_digest(flat: Vector) -> str:
    """SHA-256 over the digests of the pieces, so that ranks can each hash the pieces they hold."""
    return join_digests(piece_digests(flat), flat.size)


def piece_digests(flat: Vector) -> Iterator[bytes]:
    """One digest per piece. `flat` must begin at a multiple of PIECE when it is a stretch."""
    for start in range(0, flat.size, PIECE):
        piece = np.ascontiguousarray(flat[start : start + PIECE], dtype="<f4")
        yield hashlib.sha256(piece.data).digest()


def join_digests(pieces: Iterable[bytes], size: int) -> str:
    whole = hashlib.sha256(size.to_bytes(8, "little"))
    for piece in pieces:
        whole.update(piece)
    return f"sha256:{whole.hexdigest()}"
