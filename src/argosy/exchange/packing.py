"""Small integers, several to a byte: two of 4 bits, or five of three values.

A byte joins values that lie LANE apart, so that packing and unpacking are a few operations on
long contiguous rows. Values are cut in tiles of `digits` lanes; the last tile is filled with the
digit of zero.
"""

import numpy as np
from numpy.typing import NDArray

from argosy.core.errors import DamagedError

LANE = 128  # values; part of the format
BATCH = 64  # tiles worked on at once, to stay in the cache

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int8]


def pack_nibbles(values: Integers) -> Bytes:
    """-7..7, two to a byte."""
    return _pack(values, digits=2, radix=16, zero=8)


def unpack_nibbles(packed: Bytes, count: int) -> Integers:
    return _unpack(packed, count, digits=2, radix=16, zero=8)


def pack_trits(values: Integers) -> Bytes:
    """-1, 0 and 1, five to a byte: 3^5 = 243."""
    return _pack(values, digits=5, radix=3, zero=1)


def unpack_trits(packed: Bytes, count: int) -> Integers:
    if packed.size and int(packed.max()) >= 3**5:
        raise DamagedError("update: a byte that is no five ternary values")
    return _unpack(packed, count, digits=5, radix=3, zero=1)


def packed_size(count: int, digits: int) -> int:
    tiles = -(-count // (digits * LANE))
    return tiles * LANE


def _pack(values: Integers, *, digits: int, radix: int, zero: int) -> Bytes:
    packed = np.empty(packed_size(values.size, digits), dtype=np.uint8)
    rows, offset, base = packed.reshape(-1, LANE), np.uint8(zero), np.uint8(radix)
    for first in range(0, len(rows), BATCH):
        out = rows[first : first + BATCH]
        tiles = _tiles(values, first, len(out), digits)
        np.add(tiles[:, digits - 1], offset, out=out)
        for digit in range(digits - 2, -1, -1):
            np.multiply(out, base, out=out)
            np.add(out, tiles[:, digit], out=out)
            np.add(out, offset, out=out)
    return packed


def _tiles(values: Integers, first: int, number: int, digits: int) -> Bytes:
    """`number` tiles from tile `first` on, as bytes modulo 256; the last one filled with zeros."""
    size = digits * LANE
    part = values[first * size : (first + number) * size]
    if part.size < number * size:
        part = np.concatenate([part, np.zeros(number * size - part.size, dtype=np.int8)])
    return part.view(np.uint8).reshape(number, digits, LANE)


def _unpack(packed: Bytes, count: int, *, digits: int, radix: int, zero: int) -> Integers:
    rows, offset, base = packed.reshape(-1, LANE), np.uint8(zero), np.uint8(radix)
    values = np.empty((len(rows), digits, LANE), dtype=np.uint8)
    for first in range(0, len(rows), BATCH):
        rest, out = rows[first : first + BATCH], values[first : first + BATCH]
        for digit in range(digits - 1):
            above = rest // base
            np.subtract(rest, above * base, out=out[:, digit])
            np.subtract(out[:, digit], offset, out=out[:, digit])
            rest = above
        np.subtract(rest, offset, out=out[:, digits - 1])
    return values.reshape(-1).view(np.int8)[:count]
