from fractions import Fraction

import numpy as np
import pytest
import torch
from fakes.exchange import commit
from hypothesis import given
from hypothesis import strategies as st

from argosy.core.records import Commit, Member
from argosy.exchange.codec import encode
from argosy.exchange.outer import coefficients, combine, combine_payloads, outer_step
from argosy.exchange.vectors import Vector


def member(site: str, tokens: int, steps: int) -> Member:
    return Member(site=site, n=1, tokens=tokens, steps=steps)


def vector(seed: int, size: int = 100_000) -> Vector:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def test_with_equal_steps_the_weights_are_the_shares_of_tokens() -> None:
    members = [member("berlin", 100, 30), member("lima", 200, 30), member("osaka", 100, 30)]

    assert coefficients(members) == [np.float32(0.25), np.float32(0.5), np.float32(0.25)]


def test_a_site_four_times_as_quick_counts_four_times_not_sixteen_times() -> None:
    """Both move by the same step: the quick one's difference is four steps, the slow one's one."""
    quick, slow = coefficients([member("quick", 400, 4), member("slow", 100, 1)])

    influence = (quick * 4) / (slow * 1)

    assert influence == pytest.approx(4)


def test_when_all_sites_agree_on_a_step_the_mean_is_their_mean_number_of_steps() -> None:
    members = [member("quick", 400, 4), member("slow", 100, 1)]
    step = np.float32(0.125)

    mean = sum(c * m.steps * step for c, m in zip(coefficients(members), members, strict=True))

    assert mean == pytest.approx(step * (400 * 4 + 100 * 1) / 500)


@given(st.lists(st.tuples(st.integers(1, 2**50), st.integers(1, 2**30)), min_size=1, max_size=8))
def test_coefficients_are_the_exact_quotient_rounded_to_fp64_and_then_once_to_fp32(
    members: list[tuple[int, int]],
) -> None:
    tokens = sum(t for t, _ in members)
    mean_steps = sum(Fraction(t, tokens) * s for t, s in members)

    expected = [np.float32(float(Fraction(t, tokens) * mean_steps / s)) for t, s in members]

    assert coefficients([member("x", t, s) for t, s in members]) == expected


def test_the_mean_is_summed_in_member_order_with_a_rounding_after_each_operation() -> None:
    decoded = [vector(seed) for seed in range(3)]
    coefs = coefficients([member("a", 100, 3), member("b", 211, 7), member("c", 97, 5)])

    mean = combine(decoded, coefs)

    expected = torch.from_numpy(decoded[0]) * float(coefs[0])
    for difference, coefficient in zip(decoded[1:], coefs[1:], strict=True):
        expected = expected + torch.from_numpy(difference) * float(coefficient)
    assert mean.tobytes() == expected.numpy().tobytes()


def test_the_outer_step_is_torch_s_to_the_bit() -> None:
    """Separate multiplications and additions: neither library may fuse them."""
    a, v = vector(1), vector(2)
    model, velocity = torch.from_numpy(a.copy()), torch.from_numpy(v.copy())

    for seed in range(3, 6):
        outer_step(a, v, vector(seed), 0.7, 0.6)
        mean = torch.from_numpy(vector(seed))
        velocity = velocity * 0.6
        velocity = velocity + mean
        step = mean + velocity * 0.6
        model = model - step * 0.7

    assert a.tobytes() == model.numpy().tobytes()
    assert v.tobytes() == velocity.numpy().tobytes()


def test_the_outer_step_is_nesterov_s_with_the_new_velocity() -> None:
    a, v, mean = (np.array([value], dtype=np.float32) for value in (10, 2, 4))

    outer_step(a, v, mean, lr=0.5, m=0.25)

    assert v.tolist() == [0.25 * 2 + 4]
    assert a.tolist() == [10 - 0.5 * (4 + 0.25 * 4.5)]


def two() -> tuple[Commit, dict[str, bytes | None]]:
    agreed = commit(1, ("berlin", 1), ("lima", 1))
    return agreed, {"berlin": encode(vector(1, 50), "fp32"), "lima": encode(vector(2, 50), "fp32")}


def test_payloads_are_combined_as_their_vectors_are() -> None:
    agreed, payloads = two()

    mean = combine_payloads(agreed, payloads, 50)

    coefs = coefficients(agreed.members)
    assert mean.tobytes() == combine([vector(1, 50), vector(2, 50)], coefs).tobytes()


@pytest.mark.parametrize(
    "void",
    [None, b"", b"noise", encode(vector(2, 49), "fp32")],
    ids=["gone", "empty", "noise", "short"],
)
def test_a_void_member_is_left_out_and_the_others_weigh_as_if_it_had_not_been_named(
    void: bytes | None,
) -> None:
    for site, left in (("berlin", vector(2, 50)), ("lima", vector(1, 50))):
        agreed, payloads = two()
        payloads[site] = void

        assert combine_payloads(agreed, payloads, 50).tobytes() == left.tobytes()


def test_when_every_member_is_void_the_mean_is_zero() -> None:
    agreed, _ = two()

    mean = combine_payloads(agreed, {"berlin": None, "lima": b"noise"}, 50)

    assert mean.tolist() == [0.0] * 50


def test_a_payload_that_was_not_fetched_is_not_taken_for_void() -> None:
    agreed, payloads = two()
    del payloads["lima"]

    with pytest.raises(KeyError):
        combine_payloads(agreed, payloads, 50)
