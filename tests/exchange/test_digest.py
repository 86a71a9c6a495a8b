import hashlib

import numpy as np

from argosy.exchange.digest import PIECE, join_digests, model_digest, piece_digests


def test_the_digest_is_of_the_digests_of_pieces_and_the_size() -> None:
    flat = np.arange(PIECE + 3, dtype=np.float32)

    pieces = [flat[:PIECE], flat[PIECE:]]
    whole = (PIECE + 3).to_bytes(8, "little")
    whole += b"".join(hashlib.sha256(piece.tobytes()).digest() for piece in pieces)
    assert model_digest(flat) == "sha256:" + hashlib.sha256(whole).hexdigest()


def test_ranks_that_hold_whole_pieces_find_the_same_digest_together() -> None:
    flat = np.arange(2 * PIECE + 3, dtype=np.float32)

    shares = [*piece_digests(flat[: 2 * PIECE]), *piece_digests(flat[2 * PIECE :])]

    assert join_digests(shares, flat.size) == model_digest(flat)


def test_one_bit_changes_it_and_so_does_a_zero_more() -> None:
    flat = np.zeros(10, dtype=np.float32)
    minus = flat.copy()
    minus[3] = -0.0

    assert len({model_digest(flat), model_digest(minus), model_digest(flat[:9])}) == 3


def test_it_does_not_matter_how_the_vector_lies_in_memory() -> None:
    flat = np.arange(20, dtype=np.float32)

    assert model_digest(flat[::2]) == model_digest(flat[::2].copy())
