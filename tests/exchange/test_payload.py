import hashlib

import numpy as np
import pytest
from fakes.exchange import contribution

from argosy.core.records import Contribution, Shard
from argosy.exchange.codec import decode, encode
from argosy.exchange.payload import join, mark, mark_of

X = np.arange(300, dtype=np.float32)


def posted(*cuts: tuple[int, int]) -> tuple[Contribution, dict[str, bytes | None]]:
    blobs: dict[str, bytes | None] = {}
    shards = []
    for start, stop in cuts:
        frame = encode(X[start:stop], "fp32")
        digest = f"sha256:{hashlib.sha256(frame).hexdigest()}"
        blobs[digest] = frame
        shards.append(Shard(parameter="*", start=start, stop=stop, blob=digest, bytes=len(frame)))
    return contribution(1, shards=tuple(shards)), blobs


def test_shards_are_joined_in_order_of_their_place_not_of_the_record() -> None:
    payload = join(*posted((128, 300), (0, 128)))

    assert payload is not None
    assert (decode(payload) == X).all()


@pytest.mark.parametrize(
    "cuts",
    [[(0, 128), (200, 300)], [(0, 128), (100, 300)], [(1, 300)]],
    ids=["a gap", "an overlap", "no beginning"],
)
def test_shards_that_do_not_follow_one_another_are_void(cuts: list[tuple[int, int]]) -> None:
    assert join(*posted(*cuts)) is None


@pytest.mark.parametrize(
    "blob", [None, b"noise", encode(X[:127], "fp32")], ids=["gone", "noise", "short"]
)
def test_a_blob_that_is_gone_or_not_what_its_shard_says_makes_the_post_void(
    blob: bytes | None,
) -> None:
    body, blobs = posted((0, 128), (128, 300))
    blobs[body.shards[0].blob] = blob

    assert join(body, blobs) is None


def test_a_payload_and_its_record_have_the_same_mark_and_no_other_post_has_it() -> None:
    body, blobs = posted((0, 128), (128, 300))
    other, _ = posted((0, 129), (129, 300))
    payload = join(body, blobs)

    assert payload is not None
    assert mark(payload) == mark_of(body) != mark_of(other)
