import pytest

from argosy.logbook.pace import (
    LANES_MOST,
    RANGE_FIRST,
    RANGE_LEAST,
    RANGE_MOST,
    SMALL,
    Climb,
    Pace,
)

MB = 1_000_000


@pytest.mark.parametrize(
    ("rtt_s", "lanes"), [(None, 2), (0.001, 2), (0.02, 2), (0.09, 4), (0.2, 8), (2.0, 8)]
)
def test_a_longer_round_trip_begins_with_more_connections(rtt_s: float | None, lanes: int) -> None:
    assert Pace(rtt_s=rtt_s).first_lanes(100 * MB) == lanes


def test_a_small_blob_takes_one_connection_and_a_middling_one_few() -> None:
    pace = Pace(rtt_s=0.2, lanes=16)

    assert pace.first_lanes(SMALL) == 1
    assert pace.first_lanes(3 * SMALL) == 3
    assert pace.first_lanes(100 * SMALL) == 16


def test_the_shortest_answer_is_the_round_trip_until_the_route_is_longer() -> None:
    pace = Pace().answered(0.6).answered(0.2).answered(0.9)

    assert pace.rtt_s == pytest.approx(0.21)
    for _ in range(40):
        pace = pace.answered(0.9)
    assert pace.rtt_s == 0.9


@pytest.mark.parametrize(
    ("left", "lanes", "rate", "size"),
    [
        (500 * MB, 1, 1.0 * MB, 500 * MB),  # alone: everything at once
        (500 * MB, 8, None, RANGE_FIRST),
        (500 * MB, 8, 1.0 * MB, 5 * MB),  # 25 round trips of 0.2 s
        (8 * MB, 8, 1.0 * MB, 1 * MB),  # an equal share of what is left
        (500 * MB, 8, 1.0, RANGE_LEAST),
        (10_000 * MB, 8, 900.0 * MB, RANGE_MOST),
        (100_000, 8, 1.0 * MB, 100_000),
    ],
)
def test_a_range_is_what_the_lane_carries_in_a_while(
    left: int, lanes: int, rate: float | None, size: int
) -> None:
    assert Pace(rtt_s=0.2).stretch(left, lanes, rate) == size


def test_lanes_are_added_as_long_as_more_comes_through() -> None:
    """A link of 100 MB/s of which one connection gets 10."""
    climb = Climb(4)
    lanes = [climb.look(min(100, 10 * climb.lanes) * MB, 1.0) for _ in range(6)]

    assert lanes == [6, 9, 13, 16, 13, 13]  # 16 carry no more than 13
    assert climb.worth == 13


def test_lanes_that_brought_nothing_are_given_back() -> None:
    climb = Climb(4)
    lanes = [climb.look(40 * MB, 1.0) for _ in range(4)]

    assert lanes == [6, 4, 4, 4]
    assert climb.worth == 4


def test_there_are_never_more_lanes_than_allowed() -> None:
    climb = Climb(LANES_MOST - 1)
    for rate in range(1, 20):
        climb.look(2**rate, 1.0)

    assert climb.lanes == LANES_MOST
    assert Climb(2, 2).look(MB, 1.0) == 2
