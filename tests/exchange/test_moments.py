"""Second moments beside an update: their bytes, what sites make of them, and what they leave alone."""

import math
import struct
import zlib

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from argosy.core.errors import DamagedError
from argosy.exchange.codec import (
    MOST_ROWS,
    decode,
    encode,
    encode_moments,
    moments_in,
    split,
    values_in,
)
from argosy.exchange.moments import SLOWEST, levels, moments_of, paces
from argosy.exchange.outer import moments_told
from argosy.exchange.vectors import Vector

HEADER = struct.Struct("<4sBBHI I QQ")
UPDATE = np.array([0.5, -0.25, 0.0, 1.0], np.float32)


def vector(*values: float) -> Vector:
    return np.array(values, np.float32)


def frame(body: bytes, *, rows: int, count: int = 0) -> bytes:
    """A frame of moments whose checksum is right, whatever it says."""
    head = HEADER.pack(b"ARGU", 1, 4, 0, rows, 0, count, len(body))
    check = zlib.crc32(body, zlib.crc32(head))
    return HEADER.pack(b"ARGU", 1, 4, 0, rows, check, count, len(body)) + body


def test_a_level_is_half_an_octave() -> None:
    moments = vector(1.0, 0.5, 2.0**-10, 0.7071, 0.0, 2.0**-140, 3.0)

    assert levels(moments).tolist() == [0, 2, 20, 1, 255, 255, 0]


def test_levels_say_what_they_stand_for() -> None:
    told = moments_of(np.array([0, 2, 3, 255], np.uint8))

    assert told.tolist() == [1.0, 0.5, pytest.approx(2.0**-1.5), 0.0]


@given(arrays(np.float32, 20, elements=st.floats(2.0**-100, 1.0, width=32)))
def test_a_moment_comes_back_within_a_quarter_of_an_octave(moments: Vector) -> None:
    octaves = np.abs(np.log2(moments_of(levels(moments))) - np.log2(moments))

    assert octaves.max() <= 0.26


def test_a_row_moves_by_the_root_of_its_share() -> None:
    own, other = vector(4.0, 1.0, 0.0, 0.0, 1.0), vector(1.0, 1.0, 3.0, 0.0, 0.0)

    found = paces(own, [other])

    assert found.tolist() == pytest.approx([math.sqrt(1.6), 1.0, SLOWEST, 1.0, math.sqrt(2.0)])


def test_alone_a_site_keeps_its_pace() -> None:
    assert paces(vector(0.3, 0.0), []).tolist() == [1.0, 1.0]


def test_no_site_outvotes_the_only_one_that_has_gradients() -> None:
    """Three sites, one row: steps of equal size, +1 where it matters and -1 at the other two."""
    mattering, quiet = vector(1.0), vector(1e-6)

    pulled = paces(mattering, [quiet, quiet])[0]
    pushed = 2 * paces(quiet, [mattering, quiet])[0]

    assert pulled > pushed  # without: 1 against 2


def test_the_values_are_the_same_with_and_without() -> None:
    update = encode(UPDATE, "int8")
    both = update + encode_moments(vector(0.5, 0.25))

    assert decode(both, count=4).tobytes() == decode(update, count=4).tobytes()
    assert values_in(both) == 4
    assert moments_in(update) is None
    assert moments_in(both) is not None
    assert moments_in(both).tolist() == [0.5, 0.25]  # type: ignore[union-attr]


def test_each_rank_may_tell_its_own_rows() -> None:
    payload = b"".join(
        encode(UPDATE[part], "fp32") + encode_moments(vector(*rows))
        for part, rows in ((slice(0, 2), (0.5,)), (slice(2, 4), (0.25, 1.0)))
    )

    assert moments_in(payload).tolist() == [0.5, 0.25, 1.0]  # type: ignore[union-attr]
    assert [values_in(blob) for blob in split(payload)] == [2, 2]
    assert b"".join(split(payload)) == payload


def test_moments_before_any_values_are_a_blob_of_their_own() -> None:
    alone = encode_moments(vector(0.5))

    assert split(alone) == [alone]


@pytest.mark.parametrize(
    "damaged",
    [
        frame(zstandard.compress(b"\x01\x02"), rows=3),
        frame(zstandard.compress(b"\x01\x02"), rows=2, count=1),
        frame(zstandard.compress(b""), rows=MOST_ROWS + 1),
        frame(b"no stream", rows=1),
    ],
    ids=["rows", "values", "too-many", "stream"],
)
def test_what_no_encoder_makes_is_refused_by_everyone(damaged: bytes) -> None:
    payload = encode(UPDATE, "fp32") + damaged

    with pytest.raises(DamagedError):
        decode(payload)
    with pytest.raises(DamagedError):
        moments_in(payload)


def test_a_void_payload_tells_nothing_and_hides_nothing() -> None:
    update = encode(UPDATE, "fp32")
    payloads = [b"what is this", update, update + encode_moments(vector(0.5))]

    assert [moments.tolist() for moments in moments_told(payloads)] == [[0.5]]


def test_a_byte_a_row_is_the_most_it_takes() -> None:
    rows = np.exp2(-np.random.default_rng(1).uniform(0, 120, 5_000)).astype(np.float32)

    assert len(encode_moments(rows)) < 5_000 + 100
