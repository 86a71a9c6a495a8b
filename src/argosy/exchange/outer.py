"""The outer step: from the members' differences to the next agreed model, the same to the bit
everywhere.

Every operation is fp32, element-wise, and rounds once: a multiplication, then an addition, never
a fused pair. The coefficients are exact integer quotients, rounded to fp64 and then once to fp32.

**Weights** (rule 4). A difference grows with the steps that went into it, so a site twice as quick
weighs twice already; weighting it by tokens on top would square its influence. Each difference is
therefore divided by its own local steps and multiplied by the members' mean steps:

    w_i = tokens_i / sum tokens        mean steps = sum_j w_j steps_j
    mean = sum_i w_i (mean steps / steps_i) decode_i

which is FedNova's normalisation: a site counts by the tokens it has seen, not by how it cut them
into steps, and with equal steps the coefficients are the plain token weights of rule 3.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from argosy.core.errors import DamagedError
from argosy.core.records import Commit, Member
from argosy.exchange.codec import decode, moments_in
from argosy.exchange.vectors import STRETCH, Vector, stretches


def coefficients(members: Sequence[Member]) -> list[np.float32]:
    """What each member's difference is multiplied by, in member order."""
    tokens = sum(member.tokens for member in members)
    token_steps = sum(member.tokens * member.steps for member in members)
    # Python divides integers with one correct rounding to fp64, whatever their size.
    return [
        np.float32(member.tokens * token_steps / (member.steps * tokens * tokens))
        for member in members
    ]


def combine(decoded: Sequence[Vector], coefs: Sequence[np.float32]) -> Vector:
    """sum_i coefs_i decoded_i, in order."""
    mean = decoded[0] * coefs[0]
    for difference, coefficient in zip(decoded[1:], coefs[1:], strict=True):
        _add_scaled(mean, difference, coefficient)
    return mean


def combine_payloads(
    commit: Commit, payloads: Mapping[str, bytes | None], parameters: int
) -> Vector:
    """The mean difference of a commit, from each member site's payload.

    A payload that is None (its blobs are gone or are not what their digests say), or that does not
    decode to `parameters` values, is void for everyone: the others are weighted as if it had not
    been named. A site that merely has not fetched a blob yet must fetch it, never pass None.
    When nothing is left the mean is zero.
    """
    members = list(commit.members)
    while members:
        mean = np.zeros(0, dtype=np.float32)
        for member, coefficient in zip(members, coefficients(members), strict=True):
            difference = _decoded(payloads[member.site], parameters)
            if difference is None:
                members.remove(member)
                break  # the others' coefficients change: begin again, one vector held at a time
            if mean.size == 0:
                np.multiply(difference, coefficient, out=difference)
                mean = difference
            else:
                _add_scaled(mean, difference, coefficient)
        else:
            return mean
    return np.zeros(parameters, dtype=np.float32)


def moments_told(payloads: Iterable[bytes]) -> list[Vector]:
    """The second moments that payloads carry. One that carries none, or is void, tells nothing."""
    told = []
    for payload in payloads:
        with contextlib.suppress(DamagedError):
            moments = moments_in(payload)
            if moments is not None:
                told.append(moments)
    return told


def outer_step(a: Vector, v: Vector, mean: Vector, lr: float, m: float) -> None:
    """Nesterov, new velocity first, in place: v <- m v + mean;  a <- a - lr (mean + m v)."""
    rate, momentum = np.float32(lr), np.float32(m)
    step = np.empty(min(STRETCH, a.size), dtype=np.float32)
    for part in stretches(a.size):
        velocity, now = v[part], step[: part.stop - part.start]
        np.multiply(velocity, momentum, out=velocity)
        np.add(velocity, mean[part], out=velocity)
        np.multiply(velocity, momentum, out=now)
        np.add(mean[part], now, out=now)
        np.multiply(now, rate, out=now)
        np.subtract(a[part], now, out=a[part])


def _decoded(payload: bytes | None, parameters: int) -> Vector | None:
    if payload is None:
        return None
    try:
        return decode(payload, count=parameters)
    except DamagedError:
        return None


def _add_scaled(mean: Vector, difference: Vector, coefficient: np.float32) -> None:
    scaled = np.empty(min(STRETCH, mean.size), dtype=np.float32)
    for part in stretches(mean.size):
        now = scaled[: part.stop - part.start]
        np.multiply(difference[part], coefficient, out=now)
        np.add(mean[part], now, out=mean[part])
