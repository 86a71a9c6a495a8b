"""Rule 2 to the letter, against the same sentences in fp64."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from argosy.exchange.codec import NotFinite, decode
from argosy.exchange.holdings import Holdings
from argosy.exchange.vectors import STRETCH, Vector

SIZE = 300
LR, M = 0.7, 0.6


def vector(seed: int, size: int = SIZE) -> Vector:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def near(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return float(np.abs(a - b).max()) < 1e-4


class Slow:
    """The rules in fp64, one after the other, without an eye to memory."""

    def __init__(self, a: Vector) -> None:
        self.a = a.astype(np.float64)
        self.v = np.zeros_like(self.a)
        self.e = np.zeros_like(self.a)
        self.p = self.e_pending = self.e
        self.local = self.a.copy()

    def post(self, sent: Vector) -> None:
        self.e_pending = self.a - self.local + self.e - sent
        self.p = self.local.copy()

    def apply(self, mean: Vector, *, named: bool) -> None:
        before = self.a
        self.v = M * self.v + mean
        self.a = before - LR * (mean + M * self.v)
        if named:
            self.e = self.e_pending
            self.local = self.a + (self.local - self.p)
        else:
            self.local = self.local + (self.a - before)
            self.p = self.p + (self.a - before)


def test_a_post_says_the_difference_and_keeps_what_the_codec_lost() -> None:
    held, local = Holdings(vector(1)), vector(2)

    payload = held.post(local, "int4")

    said = decode(payload)
    assert held.e_pending is not None
    assert held.e_pending.tobytes() == ((vector(1) - vector(2)) - said).tobytes()
    assert held.p is not None
    assert held.p.tobytes() == local.tobytes()
    assert not held.e.any(), "the residual changes when the post is named, not before"


def test_the_next_post_says_what_the_last_one_lost() -> None:
    """What is posted and what is left add up to what was trained, over any number of rounds."""
    held = Holdings(np.zeros(SIZE, dtype=np.float32))
    local = held.a.copy()
    trained, said = np.zeros(SIZE), np.zeros(SIZE)

    for seed in range(20):
        local -= vector(seed)
        trained += vector(seed)
        said += decode(held.post(local, "ternary"))
        held.apply(local, vector(100 + seed), LR, M, named=True)

    assert near(trained, said + held.e)


def test_a_commit_that_names_the_post_keeps_only_what_was_trained_since() -> None:
    held, local = Holdings(vector(1)), vector(2)
    held.post(local, "int8")
    pending = held.e_pending
    local += np.float32(0.25)

    held.apply(local, vector(3), LR, M, named=True)

    assert near(local, held.a + np.float32(0.25))
    assert held.e is pending
    assert held.p is None
    assert held.e_pending is None


def test_without_training_since_the_post_the_local_model_is_the_agreed_one_to_the_bit() -> None:
    held, local = Holdings(vector(1)), vector(2)
    held.post(local, "ternary")

    held.apply(local, vector(3), LR, M, named=True)

    assert local.tobytes() == held.a.tobytes()


def test_a_commit_that_names_others_moves_the_local_model_and_the_open_post_alike() -> None:
    held, local = Holdings(vector(1)), vector(2)
    held.post(local, "int8")
    before, pending = held.a.copy(), held.e_pending

    held.apply(local, vector(3), LR, M, named=False)

    shift = held.a - before
    assert held.p is not None
    assert local.tobytes() == held.p.tobytes() == (vector(2) + shift).tobytes()
    assert held.e_pending is pending
    assert not held.e.any()


def test_a_site_that_has_posted_nothing_moves_with_the_model() -> None:
    held, local = Holdings(vector(1)), vector(2)

    held.apply(local, vector(3), LR, M, named=False)

    assert local.tobytes() == (vector(2) + (held.a - vector(1))).tobytes()
    assert held.p is None


def test_an_expired_post_leaves_its_difference_for_the_next_one() -> None:
    held, local = Holdings(vector(1)), vector(2)
    held.post(local, "fp32")
    held.apply(local, vector(3), LR, M, named=False)

    held.expire()

    assert near(decode(held.post(local, "fp32")), vector(1) - vector(2))


def test_a_new_post_takes_the_place_of_one_that_turned_out_void() -> None:
    held, local = Holdings(vector(1)), vector(2)
    held.post(local, "int4")

    again = held.post(local, "int4")

    fresh = Holdings(vector(1))
    assert again == fresh.post(local, "int4")
    assert held.e_pending is not None
    assert fresh.e_pending is not None
    assert held.e_pending.tobytes() == fresh.e_pending.tobytes()


def test_beginning_again_leaves_the_agreed_model_alone() -> None:
    held, local = Holdings(vector(1), vector(5)), vector(2)
    held.post(local, "int4")
    held.apply(local, vector(3), LR, M, named=True)
    a, v = held.a.copy(), held.v.copy()
    held.post(local, "int4")

    held.reset()

    assert (held.p, held.e_pending) == (None, None)
    assert not held.e.any()
    assert held.a.tobytes() == a.tobytes()
    assert held.v.tobytes() == v.tobytes()


def test_to_be_named_a_post_must_be_open() -> None:
    held, local = Holdings(vector(1)), vector(2)

    with pytest.raises(AssertionError, match="nothing is open"):
        held.apply(local, vector(3), LR, M, named=True)


def test_ranks_that_each_encode_a_stretch_make_the_payload_together() -> None:
    held, alone = Holdings(vector(1)), Holdings(vector(1))
    local = vector(2)

    payload = b"".join(
        held.encode(local, "ternary", 128, start=start, stop=stop)
        for start, stop in ((0, 128), (128, 256), (256, None))
    )
    held.posted(local, payload)

    assert decode(payload).tobytes() == decode(alone.post(local, "ternary", 128)).tobytes()
    assert held.e_pending is not None
    assert alone.e_pending is not None
    assert held.e_pending.tobytes() == alone.e_pending.tobytes()


def test_a_model_that_has_diverged_is_not_posted_and_nothing_changes() -> None:
    held, local = Holdings(vector(1)), vector(2)
    local[17] = np.nan

    with pytest.raises(NotFinite, match="value 17 is nan"):
        held.post(local, "ternary")

    assert held.p is None


@pytest.mark.parametrize("open_post", [False, True])
def test_a_snapshot_comes_back_to_the_bit_and_shares_nothing(open_post: bool) -> None:
    held, local = Holdings(vector(1), vector(5)), vector(2)
    held.post(local, "int4")
    held.apply(local, vector(3), LR, M, named=True)
    if open_post:
        held.post(local, "int4")
    arrays = {name: array.copy() for name, array in held.to_arrays().items()}

    again = Holdings.from_arrays(arrays)

    assert arrays.keys() == again.to_arrays().keys() == held.to_arrays().keys()
    assert ("p" in arrays) == open_post
    for name, array in again.to_arrays().items():
        assert array.dtype == np.float32
        assert array.tobytes() == arrays[name].tobytes()
        assert not np.shares_memory(array, arrays[name])


def test_what_is_handed_in_is_not_kept() -> None:
    a = vector(1)

    held = Holdings(a)
    held.apply(a.copy(), vector(3), LR, M, named=False)

    assert a.tobytes() == vector(1).tobytes()


Event = st.sampled_from(["train", "post", "named", "other", "expire"])


@given(st.lists(Event, max_size=40), st.sampled_from(["fp32", "int8", "ternary"]))
@settings(max_examples=100)
def test_any_course_of_events_follows_the_rules(events: list[str], codec: str) -> None:
    size = STRETCH + 5  # more than one stretch
    held, slow, local = Holdings(vector(0, size)), Slow(vector(0, size)), vector(0, size)

    for seed, event in enumerate(events, 1):
        if event == "train":
            step = vector(seed, size) / np.float32(10)
            local -= step
            slow.local -= step
        elif event == "post" and held.p is None:
            slow.post(decode(held.post(local, codec)))
        elif event == "expire":
            held.expire()
        elif event in ("named", "other"):
            named = event == "named" and held.p is not None
            mean = vector(1_000 + seed, size) / np.float32(10)
            held.apply(local, mean, LR, M, named=named)
            slow.apply(mean, named=named)

    assert near(local, slow.local)
    assert near(held.a, slow.a)
    assert near(held.e, slow.e)
