import random

import pytest

from argosy.logbook.ranges import Ranges


def test_stretches_that_touch_or_overlap_become_one() -> None:
    ranges = Ranges([(10, 20), (30, 40)])

    ranges.add(20, 30)

    assert list(ranges) == [(10, 40)]
    assert ranges.bytes == 30
    ranges.add(5, 50)
    assert list(ranges) == [(5, 50)]
    assert len(ranges) == 1


def test_nothing_is_nothing() -> None:
    ranges = Ranges([(3, 3)])

    assert list(ranges) == []
    assert ranges.prefix == 0
    assert list(ranges.gaps(0, 9)) == [(0, 9)]
    assert list(ranges.gaps(4, 4)) == []


@pytest.mark.parametrize(
    ("stretches", "prefix"), [([(0, 7), (9, 10)], 7), ([(1, 7)], 0), ([(0, 3), (3, 8)], 8)]
)
def test_the_prefix_ends_at_the_first_gap(stretches: list[tuple[int, int]], prefix: int) -> None:
    assert Ranges(stretches).prefix == prefix


def test_gaps_are_cut_to_what_is_asked_for() -> None:
    ranges = Ranges([(10, 20), (30, 40)])

    assert list(ranges.gaps(0, 50)) == [(0, 10), (20, 30), (40, 50)]
    assert list(ranges.gaps(15, 35)) == [(20, 30)]
    assert list(ranges.gaps(12, 18)) == []
    assert list(ranges.gaps(5, 10)) == [(5, 10)]


@pytest.mark.parametrize("seed", range(30))
def test_any_history_is_what_a_set_of_bytes_would_say(seed: int) -> None:
    chance = random.Random(seed)
    ranges, slow = Ranges(), set[int]()
    for _ in range(60):
        start = chance.randrange(200)
        stop = start + chance.randrange(12)
        ranges.add(start, stop)
        slow |= set(range(start, stop))

        assert {byte for a, b in ranges for byte in range(a, b)} == slow
        assert ranges.bytes == len(slow)
        a, b = sorted(chance.randrange(220) for _ in range(2))
        gaps = [byte for x, y in ranges.gaps(a, b) for byte in range(x, y)]
        assert gaps == [byte for byte in range(a, b) if byte not in slow]
        assert all(b < c for (_, b), (c, _) in zip(ranges, list(ranges)[1:], strict=False))
