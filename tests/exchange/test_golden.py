"""Numbers that must not drift. ARGOSY_REWRITE_GOLDEN=1 writes them anew: then read the diff."""

import os
from pathlib import Path

import numpy as np
import pytest

from argosy.core.records import Commit, Member
from argosy.exchange.codec import CODECS, decode, encode, encode_moments, moments_in
from argosy.exchange.digest import model_digest
from argosy.exchange.outer import combine_payloads, outer_step
from argosy.exchange.vectors import Vector

GOLDEN = Path(__file__).parent / "golden"
REWRITE = bool(os.environ.get("ARGOSY_REWRITE_GOLDEN"))
SIZE = 1_500


def golden(name: str, made: bytes) -> bytes:
    path = GOLDEN / name
    if REWRITE:
        path.write_bytes(made)
    return path.read_bytes()


def vector(seed: int) -> Vector:
    """Whole numbers over 2^20, heavy-tailed, exact in fp32: no library's rounding is in them."""
    state, values = seed, []
    for _ in range(SIZE):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        uniform = (state >> 40) - 2**23
        values.append(uniform * uniform * (1 if uniform > 0 else -1) // 2**24 / 2**20)
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize("codec", CODECS)
def test_what_was_once_encoded_decodes_to_the_same_bits(codec: str) -> None:
    frame = golden(f"{codec}.frame", encode(vector(1), codec))

    decoded = decode(frame)

    assert decoded.tobytes() == golden(f"{codec}.f32", decoded.tobytes())


@pytest.mark.parametrize("codec", CODECS)
def test_encoders_still_choose_the_same_values(codec: str) -> None:
    """The frames' bytes may change with zstd; what they say must not without being noticed."""
    assert decode(encode(vector(1), codec)).tobytes() == (GOLDEN / f"{codec}.f32").read_bytes()


def test_moments_that_were_once_encoded_say_the_same() -> None:
    made = encode_moments(np.exp2(-np.arange(130, dtype=np.float32)))
    told = moments_in(golden("moments.frame", made))

    assert told is not None
    assert told.tobytes() == golden("moments.f32", told.tobytes())


def test_a_sequence_of_outer_steps_ends_at_the_same_bits() -> None:
    a, v = vector(10), np.zeros(SIZE, dtype=np.float32)
    for round in range(1, 6):
        members = tuple(
            Member(site=site, n=round, tokens=1_000 * round + index, steps=10 + 3 * index)
            for index, site in enumerate(("berlin", "lima", "osaka"))
        )
        commit = Commit(
            fragment=0, round=round, term=1, plan=1, members=members, expired=(), tokens=0,
            last=False, head_seq=0, head_chain="",
        )  # fmt: skip
        payloads: dict[str, bytes | None] = {
            member.site: encode(vector(100 * round + member.steps), codec)
            for member, codec in zip(members, ("fp32", "int8", "ternary"), strict=True)
        }
        payloads["lima"] = None if round == 3 else payloads["lima"]
        outer_step(a, v, combine_payloads(commit, payloads, SIZE), 0.7, 0.6)

    assert a.tobytes() == golden("outer-a.f32", a.tobytes())
    assert v.tobytes() == golden("outer-v.f32", v.tobytes())
    assert model_digest(a) == golden("outer.digest", model_digest(a).encode()).decode()
