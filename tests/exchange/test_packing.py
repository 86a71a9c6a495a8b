import numpy as np
import pytest

from argosy.core.errors import DamagedError
from argosy.exchange.packing import (
    LANE,
    pack_nibbles,
    pack_trits,
    packed_size,
    unpack_nibbles,
    unpack_trits,
)

SIZES = [0, 1, 127, 128, 255, 256, 257, 639, 640, 641, 100_000]


@pytest.mark.parametrize("size", SIZES)
def test_five_ternary_values_share_a_byte(size: int) -> None:
    values = np.random.default_rng(size).integers(-1, 2, size).astype(np.int8)

    packed = pack_trits(values)

    assert packed.size == packed_size(size, 5) <= size / 5 + LANE
    assert (unpack_trits(packed, size) == values).all()


@pytest.mark.parametrize("size", SIZES)
def test_two_values_of_four_bits_share_a_byte(size: int) -> None:
    values = np.random.default_rng(size).integers(-8, 8, size).astype(np.int8)

    packed = pack_nibbles(values)

    assert packed.size == packed_size(size, 2) <= size / 2 + LANE
    assert (unpack_nibbles(packed, size) == values).all()


def test_every_byte_of_five_ternary_values_is_read_as_its_digits() -> None:
    packed = np.zeros(2 * LANE, dtype=np.uint8)
    packed[:243] = np.arange(243)

    values = unpack_trits(packed, 10 * LANE).reshape(2, 5, LANE)

    for byte in range(243):
        tile, lane = divmod(byte, LANE)
        digits = [byte // 3**digit % 3 - 1 for digit in range(5)]
        assert values[tile, :, lane].tolist() == digits


def test_a_byte_beyond_them_is_refused() -> None:
    with pytest.raises(DamagedError, match="no five ternary values"):
        unpack_trits(np.array([243] * LANE, dtype=np.uint8), 5)
