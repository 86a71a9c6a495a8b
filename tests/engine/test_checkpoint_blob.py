"""A checkpoint goes into a blob and comes out; a damaged blob never does."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from argosy.core.errors import DamagedError
from argosy.engine.checkpoint_blob import Checkpoint, pack, unpack

TABLE = (("weight", (2, 3)), ("scale", ()), ("bias", (2,)))


def checkpoint(seed: int = 0) -> Checkpoint:
    random = np.random.default_rng(seed)
    return Checkpoint(
        table=TABLE,
        a=random.standard_normal(9).astype(np.float32),
        v=random.standard_normal(9).astype(np.float32),
        round=5,
        seq=77,
        chain="ab" * 32,
        plan=1,
        tokens=123_456,
        last_n={"tokyo": 4, "frankfurt": 5},
        config='{"model_type": "llama"}',
        job="demo",
    )


def test_a_checkpoint_comes_out_as_it_went_in() -> None:
    before = checkpoint()

    after = unpack(pack(before))

    np.testing.assert_array_equal(after.a, before.a)
    np.testing.assert_array_equal(after.v, before.v)
    assert after.a.flags.writeable
    assert after.digest == before.digest
    for name in ("table", "round", "seq", "chain", "plan", "tokens", "last_n", "config", "job"):
        assert getattr(after, name) == getattr(before, name), name
    assert json.loads(after.table_json) == [["weight", [2, 3]], ["scale", []], ["bias", [2]]]


def test_the_same_checkpoint_is_the_same_bytes() -> None:
    assert pack(checkpoint()) == pack(unpack(pack(checkpoint())))
    assert pack(checkpoint()) != pack(checkpoint(1))


def test_any_safetensors_reader_can_look_inside(tmp_path: Path) -> None:
    before = checkpoint()
    (tmp_path / "blob").write_bytes(pack(before))

    tensors = safetensors.numpy.load_file(tmp_path / "blob")

    np.testing.assert_array_equal(tensors["model/weight"], before.a[:6].reshape(2, 3))
    np.testing.assert_array_equal(tensors["velocity/bias"], before.v[7:])


@given(st.integers(0, 10_000))
def test_a_cut_blob_is_damaged(length: int) -> None:
    blob = pack(checkpoint())

    with pytest.raises(DamagedError):
        unpack(blob[: length % len(blob)])


@pytest.mark.parametrize("at", [-1, -40])
def test_a_changed_value_is_damaged(at: int) -> None:
    blob = bytearray(pack(checkpoint()))
    blob[at] ^= 1

    with pytest.raises(DamagedError, match="the values are not those"):
        unpack(bytes(blob), where="round 5")


def test_another_format_is_refused() -> None:
    with pytest.raises(DamagedError, match="format other"):
        unpack(pack(checkpoint()).replace(b"argosy-checkpoint", b"other-checkpoint."))
