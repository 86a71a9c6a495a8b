from random import Random

from hypothesis import given
from hypothesis import strategies as st

from argosy.lab.link import Lane, Shape

MB = 1_000_000


def lane(mbit_per_s: float, delay_ms: float = 0.0, jitter_ms: float = 0.0) -> Lane:
    shape = Shape(mbit_per_s=mbit_per_s, delay_ms=delay_ms, jitter_ms=jitter_ms)
    return Lane(shape, Random(1).random)


def test_a_megabyte_takes_80_ms_at_100_mbit_and_arrives_one_delay_later() -> None:
    leaves, arrives = lane(100, delay_ms=115).enter(MB, now=50.0)

    assert round(leaves, 6) == 50.08
    assert round(arrives, 6) == 50.195


def test_two_senders_share_one_rate() -> None:
    shared = lane(100)

    shared.enter(MB, now=0.0)
    leaves, _ = shared.enter(MB, now=0.0)

    assert round(leaves, 6) == 0.16


def test_time_in_which_nothing_was_sent_is_not_saved_up() -> None:
    idle = lane(100)
    idle.enter(MB, now=0.0)

    leaves, _ = idle.enter(MB, now=10.0)

    assert round(leaves, 6) == 10.08


def test_late_readers_do_not_lose_rate_as_long_as_the_lane_is_busy() -> None:
    busy = lane(100)
    busy.enter(MB, now=0.0)

    leaves, _ = busy.enter(MB, now=0.07)  # before the first has left, at 0.08

    assert round(leaves, 6) == 0.16


@given(
    sizes=st.lists(st.integers(0, 70_000), min_size=2, max_size=50),
    steps=st.lists(st.floats(0, 0.1), min_size=50, max_size=50),
    jitter=st.floats(0, 300),
)
def test_jitter_never_changes_the_order_nor_beats_the_delay_by_more_than_itself(
    sizes: list[int], steps: list[float], jitter: float
) -> None:
    shaken = lane(50, delay_ms=100, jitter_ms=jitter)
    now, arrivals = 0.0, []

    for size, step in zip(sizes, steps, strict=False):
        now += step
        leaves, arrives = shaken.enter(size, now)
        assert arrives >= leaves + max(0.0, 100 - jitter) / 1e3 - 1e-9
        arrivals.append(arrives)

    assert arrivals == sorted(arrivals)


def test_a_change_of_shape_does_not_let_later_bytes_overtake() -> None:
    slow = lane(100, delay_ms=500)
    _, first = slow.enter(1000, now=0.0)

    slow.shape = Shape(mbit_per_s=100, delay_ms=1)
    _, second = slow.enter(1000, now=0.01)

    assert second >= first


def test_a_slow_link_is_read_in_small_pieces_and_a_fast_one_in_big() -> None:
    assert Shape(mbit_per_s=0.1, delay_ms=0).chunk == 1460
    assert Shape(mbit_per_s=8, delay_ms=0).chunk == 10_000
    assert Shape(mbit_per_s=1000, delay_ms=0).chunk == 65_536


def test_what_may_be_under_way_is_what_a_real_link_of_that_length_holds() -> None:
    shape = Shape(mbit_per_s=100, delay_ms=115, jitter_ms=5)

    assert shape.most_under_way == 1_500_000 + 256 * 1024
