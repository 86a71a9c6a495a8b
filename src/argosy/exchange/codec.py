"""Updates as bytes and back: fp32, int8, int4 and ternary, each checked to the last bit.

A **frame** is a header and a body; a **payload** is one frame or several, whose values follow one
another, so that the ranks of a site can each encode a stretch. Codec blocks restart in each frame.

    header   magic "ARGU", version, codec, 0, block, CRC-32 of all the rest, values, body bytes
    fp32     the values, little-endian
    moments  no values: a zstd stream of a byte for each row, as many as the header's block says
             (moments.py); belongs to the frame before it
    others   three lengths and three zstd streams: the scales' upper bytes, their lower bytes (which
             have nothing in common with the upper ones), and the integers (packing.py)

Encoders may differ between machines and versions, decoders may not: golden vectors hold them.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import zstandard

from argosy.core.errors import DamagedError
from argosy.exchange.blocks import Codes, quantise, restore
from argosy.exchange.moments import levels, moments_of
from argosy.exchange.packing import (
    Bytes,
    Integers,
    pack_nibbles,
    pack_trits,
    packed_size,
    unpack_nibbles,
    unpack_trits,
)
from argosy.exchange.vectors import Vector, stretches

BLOCK = 128  # values that share a scale
MOST_VALUES = 1 << 28  # what decode() accepts when it is not told how many to expect
MOST_ROWS = 1 << 24

_MAGIC = b"ARGU"
_VERSION = 1
_HEADER = struct.Struct("<4sBBHI I QQ")
_LENGTHS = struct.Struct("<QQQ")
_LEVEL = 1  # zstd: its entropy coder does the work, searching for matches finds none


class NotFinite(DamagedError):
    """An update that holds NaN or Inf; `index` is the first such value."""

    def __init__(self, index: int, value: float) -> None:
        super().__init__(
            f"value {index} is {value}",
            where="update",
            hint="the local model has diverged: go back to the agreed one",
        )
        self.index = index


@dataclass(frozen=True, slots=True)
class _Scaled:
    """A codec of integers in -most..most with a scale per block."""

    number: int
    most: int
    per_byte: int
    pack: Callable[[Integers], Bytes]
    unpack: Callable[[Bytes, int], Integers]

    def size(self, count: int) -> int:
        return count if self.per_byte == 1 else packed_size(count, self.per_byte)


_FP32 = 0
_MOMENTS = 4
_SCALED = {
    "int8": _Scaled(1, 127, 1, lambda q: q.view(np.uint8), lambda b, n: b.view(np.int8)[:n]),
    "int4": _Scaled(2, 7, 2, pack_nibbles, unpack_nibbles),
    "ternary": _Scaled(3, 1, 5, pack_trits, unpack_trits),
}
_BY_NUMBER = {codec.number: codec for codec in _SCALED.values()}
CODECS = ("fp32", *_SCALED)


def encode(x: Vector, codec: str, block: int = BLOCK) -> bytes:
    """One frame. Raises NotFinite, naming the first value that is NaN or Inf."""
    _check_finite(x)
    if codec == "fp32":
        return _frame(_FP32, 0, x.size, x.astype("<f4", copy=False).tobytes())
    scaled = _SCALED[codec]
    codes, values = quantise(x, block, scaled.most)
    compress = zstandard.ZstdCompressor(level=_LEVEL).compress
    streams = [
        compress(data.tobytes())
        for data in (
            (codes >> np.uint16(8)).astype(np.uint8),
            codes.astype(np.uint8),
            scaled.pack(values),
        )
    ]
    lengths = _LENGTHS.pack(*map(len, streams))
    return _frame(scaled.number, block, x.size, b"".join((lengths, *streams)))


def encode_moments(moments: Vector) -> bytes:
    """A frame of second moments, one for each row; it is put behind the frame of the values."""
    body = zstandard.ZstdCompressor(level=_LEVEL).compress(levels(moments).tobytes())
    return _frame(_MOMENTS, moments.size, 0, body)


def moments_in(payload: bytes) -> Vector | None:
    """What the frames of moments hold, one behind the other; None when there is none."""
    found = [_levels(frame) for frame in _frames(payload) if frame.codec == _MOMENTS]
    return moments_of(np.concatenate(found)) if found else None


def decode(payload: bytes, *, count: int | None = None) -> Vector:
    """The values of a payload. Raises DamagedError for anything that no encoder here has made,
    or that does not hold `count` values, before it takes memory for it."""
    frames = list(_frames(payload))
    size = sum(frame.count for frame in frames)
    if size != count if count is not None else size > MOST_VALUES:
        raise _damaged(f"{size} values where {count or f'at most {MOST_VALUES}'} were expected")
    x = np.empty(size, dtype=np.float32)
    start = 0
    for frame in frames:
        _decode_frame(frame, x[start : start + frame.count])
        start += frame.count
    return x


def values_in(payload: bytes) -> int:
    """How many values a payload says it holds; only its headers and checksums are read."""
    return sum(frame.count for frame in _frames(payload))


def split(payload: bytes) -> list[bytes]:
    """The frames of a payload, each a blob of its own; moments stay with the values they are of."""
    blobs: list[bytes] = []
    for frame in _frames(payload):
        if frame.codec == _MOMENTS and blobs:
            blobs[-1] += frame.whole
        else:
            blobs.append(bytes(frame.whole))
    return blobs


@dataclass(frozen=True, slots=True)
class _Frame:
    codec: int
    block: int
    count: int
    body: memoryview
    whole: memoryview  # its header too


def _frame(codec: int, block: int, count: int, body: bytes) -> bytes:
    head = _HEADER.pack(_MAGIC, _VERSION, codec, 0, block, 0, count, len(body))
    check = zlib.crc32(body, zlib.crc32(head))
    return _HEADER.pack(_MAGIC, _VERSION, codec, 0, block, check, count, len(body)) + body


def _frames(payload: bytes) -> Iterator[_Frame]:
    rest = memoryview(payload)
    while True:
        if len(rest) < _HEADER.size:
            raise _damaged("cut short in a header")
        magic, version, codec, zero, block, check, count, length = _HEADER.unpack_from(rest)
        if magic != _MAGIC:
            raise _damaged(f"begins with {bytes(magic)!r}, not with {_MAGIC!r}")
        if version != _VERSION:
            raise _damaged(f"version {version}; this Argosy reads version {_VERSION}")
        whole, rest = rest[: _HEADER.size + length], rest[_HEADER.size + length :]
        body = whole[_HEADER.size :]
        if len(body) < length:
            raise _damaged(f"cut short: {len(body)} bytes where {length} follow")
        head = _HEADER.pack(magic, version, codec, zero, block, 0, count, length)
        if check != zlib.crc32(body, zlib.crc32(head)):
            raise _damaged("its checksum is not that of its bytes")
        yield _Frame(codec, block, count, body, whole)
        if not rest:
            return


def _decode_frame(frame: _Frame, out: Vector) -> None:
    if frame.codec == _FP32:
        _decode_fp32(frame, out)
    elif frame.codec == _MOMENTS:
        _levels(frame)
    elif (codec := _BY_NUMBER.get(frame.codec)) is not None and frame.block > 0:
        _decode_scaled(frame, codec, out)
    else:
        raise _damaged(f"codec {frame.codec} with blocks of {frame.block}")


def _decode_fp32(frame: _Frame, out: Vector) -> None:
    if len(frame.body) != 4 * frame.count:
        raise _damaged(f"{len(frame.body)} bytes for {frame.count} fp32 values")
    np.copyto(out, np.frombuffer(frame.body, dtype="<f4"))
    _check_finite(out)


def _levels(frame: _Frame) -> Bytes:
    if frame.count or frame.block > MOST_ROWS:
        raise _damaged(f"moments of {frame.block} rows with {frame.count} values")
    return _decompress(frame.body, frame.block)


def _decode_scaled(frame: _Frame, codec: _Scaled, out: Vector) -> None:
    if len(frame.body) < _LENGTHS.size:
        raise _damaged("cut short in its lengths")
    lengths = _LENGTHS.unpack_from(frame.body)
    if _LENGTHS.size + sum(lengths) != len(frame.body):
        raise _damaged("its parts do not make up its whole")
    upper_stop = _LENGTHS.size + lengths[0]
    lower_stop = upper_stop + lengths[1]
    blocks = -(-frame.count // frame.block)
    upper = _decompress(frame.body[_LENGTHS.size : upper_stop], blocks)
    lower = _decompress(frame.body[upper_stop:lower_stop], blocks)
    packed = _decompress(frame.body[lower_stop:], codec.size(frame.count))
    codes: Codes = upper.astype(np.uint16) << np.uint16(8) | lower
    restore(codes, codec.unpack(packed, frame.count), frame.block, codec.most, out)


def _decompress(stream: memoryview, size: int) -> Bytes:
    """Exactly `size` bytes: a stream that says otherwise is refused before it is opened."""
    try:
        if zstandard.frame_content_size(stream) != size:
            raise _damaged(f"a part that is not the {size} bytes it must be")
        data = zstandard.ZstdDecompressor().decompress(stream, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise _damaged(f"zstd: {error}") from None
    return np.frombuffer(data, dtype=np.uint8)


def _check_finite(x: Vector) -> None:
    for part in stretches(x.size):
        if not np.isfinite(x[part]).all():
            index = part.start + int(np.argmin(np.isfinite(x[part])))
            raise NotFinite(index, float(x[index]))


def _damaged(what: str) -> DamagedError:
    return DamagedError(what, where="update", hint="its site must encode and post it again")
