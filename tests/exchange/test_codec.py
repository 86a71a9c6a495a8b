import math
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from argosy.core.errors import DamagedError
from argosy.exchange.codec import CODECS, NotFinite, decode, encode, split, values_in
from argosy.exchange.vectors import Vector

SCALED = ("int8", "int4", "ternary")
MOST = {"int8": 127, "int4": 7, "ternary": 1}
HEADER = struct.Struct("<4sBBHI I QQ")  # magic version codec 0 block check count length


def update(size: int, seed: int = 0) -> Vector:
    chance = np.random.default_rng(seed)
    return (chance.standard_normal(size) * 1e-3).astype(np.float32)


def slowly(x: Vector, codec: str, block: int) -> list[float]:
    """Block by block, value by value, from the scale that the frame is known to hold."""
    most, result = MOST[codec], []
    for start in range(0, x.size, block):
        values = [float(value) for value in x[start : start + block]]
        scale = bfloat16(max(map(abs, values)) / most, up=codec != "ternary")
        for value in values:
            if codec == "ternary":
                result.append(math.copysign(scale, value) if abs(value) >= scale / 2 else 0.0)
            else:
                result.append(round(value / scale) * scale if scale else 0.0)
    return result


def bfloat16(value: float, *, up: bool) -> float:
    """The upper half of the fp32, rounded up or to the nearest."""
    bits = int(np.float32(value).view(np.uint32))
    low, high = bits & 0xFFFF, bits >> 16
    higher = low > 0 if up else low > 0x8000 or (low == 0x8000 and high % 2 == 1)
    return float(np.uint32((high + higher) << 16).view(np.float32))


@pytest.mark.parametrize("size", [0, 1, 2, 127, 128, 129, 640, 641, 5_000, 40_000])
def test_fp32_gives_back_every_bit(size: int) -> None:
    x = update(size)

    assert decode(encode(x, "fp32")).tobytes() == x.tobytes()


@pytest.mark.parametrize("codec", SCALED)
@pytest.mark.parametrize("size", [0, 1, 2, 127, 128, 129, 640, 641, 1_500, 40_000])
@pytest.mark.parametrize("block", [1, 3, 128, 1_000, 100_000])
def test_scaled_codecs_give_what_their_definition_says(codec: str, size: int, block: int) -> None:
    x = update(size)

    decoded = decode(encode(x, codec, block))

    assert decoded.dtype == np.float32
    assert decoded.size == size
    for got, expected in zip(decoded.tolist(), slowly(x, codec, block), strict=True):
        assert math.isclose(got, expected, rel_tol=1e-6)


def test_ternary_keeps_the_largest_of_a_block_and_rounds_the_others_to_it() -> None:
    x = np.array([1.0, 0.5, 0.49, -0.5, -1.0, 0.0], dtype=np.float32)

    assert decode(encode(x, "ternary")).tolist() == [1.0, 1.0, 0.0, -1.0, -1.0, 0.0]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("value", [0.0, 1e-45, -1e-45, 1e-40, 1e-38, 1e30, -1e30, 3.4e38, -3.4e38])
def test_extreme_values_come_back_finite_and_near(codec: str, value: float) -> None:
    x = np.full(300, value, dtype=np.float32)
    x[::3] = 0

    decoded = decode(encode(x, codec))

    assert np.isfinite(decoded).all()
    assert np.abs(decoded - x).max() <= max(abs(value) / 7, 1e-40)


@pytest.mark.parametrize("codec", SCALED)
def test_one_large_value_does_not_drown_other_blocks(codec: str) -> None:
    x = update(256)
    x[0] = 1e30

    decoded = decode(encode(x, codec))

    assert np.abs(decoded[128:] - x[128:]).max() < np.abs(x[128:]).max()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_and_said_where(codec: str, bad: float) -> None:
    x = update(40_000)
    x[37_123] = x[39_000] = bad

    with pytest.raises(NotFinite, match="value 37123 is") as refusal:
        encode(x, codec)

    assert refusal.value.index == 37_123


def test_ternary_takes_about_one_bit_a_value() -> None:
    x = update(500_000)

    assert 8 * len(encode(x, "ternary")) / x.size < 1.0  # 0.81 for the values, 0.09 for scales


@pytest.mark.parametrize("codec", CODECS)
def test_frames_joined_decode_to_their_values_joined(codec: str) -> None:
    x = update(1_000)

    payload = b"".join(encode(x[a:b], codec) for a, b in ((0, 384), (384, 384), (384, 1_000)))

    assert decode(payload).tobytes() == decode(encode(x, codec)).tobytes()
    assert values_in(payload) == 1_000
    assert b"".join(split(payload)) == payload
    assert len(split(payload)) == 3


@pytest.mark.parametrize("codec", CODECS)
def test_a_payload_of_another_length_than_the_model_is_refused(codec: str) -> None:
    with pytest.raises(DamagedError, match="10 values where 11 were expected"):
        decode(encode(update(10), codec), count=11)


@pytest.mark.parametrize("codec", CODECS)
def test_one_flipped_bit_anywhere_is_noticed(codec: str) -> None:
    blob = encode(update(130), codec)

    for index in range(len(blob)):
        damaged = bytearray(blob)
        damaged[index] ^= 1 << (index % 8)
        with pytest.raises(DamagedError):
            decode(bytes(damaged))


@pytest.mark.parametrize("codec", CODECS)
def test_a_blob_cut_short_anywhere_is_refused(codec: str) -> None:
    blob = encode(update(130), codec)

    for length in range(len(blob)):
        with pytest.raises(DamagedError):
            decode(blob[:length])


@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(DamagedError):
        decode(noise)


def forged(body: bytes = b"", **fields: int) -> bytes:
    """A frame with a right checksum and wrong contents."""
    said = {"version": 1, "codec": 3, "zero": 0, "block": 128, "count": 10, **fields}
    length = said.get("length", len(body))

    def head(check: int) -> bytes:
        return HEADER.pack(
            b"ARGU", said["version"], said["codec"], said["zero"], said["block"], check,
            said["count"], length,
        )  # fmt: skip

    return head(zlib.crc32(body, zlib.crc32(head(0)))) + body


def parts(upper: bytes, lower: bytes, packed: bytes) -> bytes:
    streams = [zstandard.ZstdCompressor().compress(part) for part in (upper, lower, packed)]
    return struct.pack("<QQQ", *map(len, streams)) + b"".join(streams)


def test_a_forged_frame_that_is_right_decodes() -> None:
    """So that the refusals below have one reason each."""
    body = parts(b"\x3f", b"\x80", bytes([121, 122]) + bytes([121]) * 126)

    assert decode(forged(body)).tolist() == [0, 1.0, *[0] * 8]


FORGED = {
    "another version": (forged(version=2), "version 2; this Argosy reads version 1"),
    "no codec": (forged(codec=9), "codec 9 with blocks of 128"),
    "no blocks": (forged(block=0), "codec 3 with blocks of 0"),
    "too short": (forged(codec=0, block=0, body=b"1234"), "4 bytes for 10 fp32 values"),
    "no lengths": (forged(body=b"short"), "cut short in its lengths"),
    "too few parts": (forged(struct.pack("<QQQ", 1, 1, 1)), "parts do not make up its whole"),
    "overflow": (forged(struct.pack("<QQQ", 2**64 - 1, 1, 0)), "parts do not make up its whole"),
    "few values": (forged(parts(b"\x3f", b"\x80", bytes(127))), "not the 128 bytes it must be"),
    "many scales": (forged(parts(b"\x3f" * 2, b"\x80", bytes(128))), "not the 1 bytes it must be"),
    "no trits": (forged(parts(b"\x3f", b"\x80", bytes([243]) * 128)), "no five ternary values"),
    "infinite": (forged(parts(b"\x7f", b"\x80", bytes(128))), "a scale that is not finite"),
    "negative": (forged(parts(b"\xbf", b"\x80", bytes(128))), "a scale that is not finite"),
    "no stream": (forged(struct.pack("<QQQ", 4, 4, 4) + b"noise, noise"), "zstd"),
    "nan": (forged(codec=0, block=0, count=1, body=struct.pack("<f", np.nan)), "value 0 is nan"),
    "other magic": (b"ARGS" + forged()[4:], "begins with b'ARGS', not with b'ARGU'"),
}


@pytest.mark.parametrize(("blob", "why"), FORGED.values(), ids=list(FORGED))
def test_a_forged_frame_is_refused_with_its_reason(blob: bytes, why: str) -> None:
    with pytest.raises(DamagedError, match=why):
        decode(blob)


def test_bytes_after_a_stream_are_refused() -> None:
    streams = [zstandard.ZstdCompressor().compress(part) for part in (b"\x3f", b"\x80", bytes(128))]
    streams[0] += b"more"
    body = struct.pack("<QQQ", *map(len, streams)) + b"".join(streams)

    with pytest.raises(DamagedError, match="zstd"):
        decode(forged(body))


@pytest.mark.parametrize("count", [2**28 + 1, 2**40, 2**64 - 1])
def test_a_huge_claim_is_refused_before_memory_is_taken_for_it(count: int) -> None:
    blob = forged(parts(b"", b"", b""), count=count)
    tracemalloc.start()

    with pytest.raises(DamagedError, match="values where at most"):
        decode(blob)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


def test_a_stream_that_would_swell_is_refused_before_it_is_opened() -> None:
    blob = forged(parts(b"\x3f", b"\x80", bytes(50_000_000)))
    tracemalloc.start()

    with pytest.raises(DamagedError, match="not the 128 bytes it must be"):
        decode(blob)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000


@given(
    st.lists(st.floats(-(2.0**120), 2.0**120, width=32), max_size=300),
    st.sampled_from(CODECS),
    st.integers(1, 200),
)
def test_any_finite_update_comes_back_within_half_a_step(
    values: list[float], codec: str, block: int
) -> None:
    x = np.array(values, dtype=np.float32)

    decoded = decode(encode(x, codec, block), count=x.size)

    assert np.isfinite(decoded).all()
    for start in range(0, x.size, block):
        part, got = x[start : start + block], decoded[start : start + block]
        largest = float(np.abs(part).max())
        step = 0.0 if codec == "fp32" else largest / MOST[codec]
        error = np.abs(part.astype(np.float64) - got.astype(np.float64)).max()
        assert error <= step * 0.51 + largest * 0.005 + 1e-38
