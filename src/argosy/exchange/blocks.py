"""Values as small integers times a scale per block.

A scale is stored as the upper half of an fp32 (bfloat16): decoding it is exact and the same
everywhere. What its rounding loses is in the residual, like everything else that is lost here.
"""

import numpy as np
from numpy.typing import NDArray

from argosy.core.errors import DamagedError
from argosy.exchange.packing import Integers
from argosy.exchange.vectors import STRETCH, Vector

Codes = NDArray[np.uint16]
_ZERO = np.float32(0)


def quantise(x: Vector, block: int, most: int) -> tuple[Codes, Integers]:
    """Integers in -most..most, and per block the code of the scale that gives them back."""
    codes = np.empty(-(-x.size // block), dtype=np.uint16)
    values = np.empty(x.size, dtype=np.int8)
    for rows, number in _rows(x.size, block):
        part = x[rows].reshape(number, -1)
        largest = np.maximum(part.max(axis=1), -part.min(axis=1))
        first = rows.start // block
        codes[first : first + number] = code = _codes(largest, most)
        _round(part, _scales(code), most, values[rows].reshape(number, -1))
    return codes, values


def restore(codes: Codes, values: Integers, block: int, most: int, out: Vector) -> None:
    """One conversion to fp32 and one multiplication per value."""
    if codes.size and int(codes.max()) > _largest_code(most):
        raise DamagedError("update: a scale that is not finite")
    for rows, number in _rows(out.size, block):
        part = out[rows].reshape(number, -1)
        first = rows.start // block
        np.copyto(part, values[rows].reshape(number, -1))
        np.multiply(part, _scales(codes[first : first + number])[:, None], out=part)


def _rows(size: int, block: int) -> list[tuple[slice, int]]:
    """Stretches of whole blocks with their number, then the block that is left over."""
    whole = size - size % block
    stride = max(1, STRETCH // block) * block
    starts = range(0, whole, stride)
    stops = [min(start + stride, whole) for start in starts]
    parts = [
        (slice(start, stop), (stop - start) // block)
        for start, stop in zip(starts, stops, strict=True)
    ]
    return [*parts, (slice(whole, size), 1)] if whole < size else parts


def _round(part: Vector, scales: Vector, most: int, out: Integers) -> None:
    if most == 1:  # the nearest of -s, 0 and s by two comparisons
        half = np.where(scales > _ZERO, scales * np.float32(0.5), np.float32(np.inf))[:, None]
        np.subtract((part >= half).view(np.int8), (part <= -half).view(np.int8), out=out)
        return
    quotient = part / np.where(scales > _ZERO, scales, np.float32(1))[:, None]
    np.rint(quotient, out=quotient)
    np.clip(quotient, np.float32(-most), np.float32(most), out=quotient)
    np.copyto(out, quotient, casting="unsafe")


def _codes(largest: Vector, most: int) -> Codes:
    """The scale for the largest value of each block. Ternary takes the nearest scale; with more
    values it is rounded up, so that the largest is never clipped."""
    bits = (largest / np.float32(most)).view(np.uint32)
    odd = bits >> np.uint32(16) & np.uint32(1)
    bits = bits + (np.uint32(0xFFFF) if most > 1 else np.uint32(0x7FFF) + odd)
    codes: Codes = np.minimum(bits >> np.uint32(16), np.uint32(_largest_code(most))).astype(
        np.uint16
    )
    return codes


def _scales(codes: Codes) -> Vector:
    return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _largest_code(most: int) -> int:
    """No integer that fits, -most - 1 included, overflows fp32 with this scale."""
    room = most + 1 if most > 1 else 1
    limit = np.finfo(np.float32).max / np.float32(room)
    return int(limit.view(np.uint32)) >> 16
