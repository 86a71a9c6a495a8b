import fcntl
import json
import resource
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from argosy.core.errors import DiskError
from argosy.data.cache import Arrays, in_memory, load, store
from argosy.data.tokens import Counts

U2 = np.dtype("<u2")
Part = tuple[bool, int, np.ndarray]


def parts(count: int = 5) -> Iterator[Part]:
    """Document i is i + 1 tokens of value i; every second one is held out."""
    for index in range(count):
        yield index % 2 == 1, index * 10, np.full(index + 1, index, U2)


def same(one: Arrays, other: Arrays) -> bool:
    return (
        one.tokens.tolist() == other.tokens.tolist()
        and one.tokens.dtype == other.tokens.dtype
        and (one.trained, one.held) == (other.trained, other.held)
    )


def test_what_is_held_out_stands_behind_what_is_trained(tmp_path: Path) -> None:
    stored = store(tmp_path, "k", U2, parts())

    assert stored.tokens.tolist() == [0, 2, 2, 2, 4, 4, 4, 4, 4, 1, 1, 3, 3, 3, 3]
    assert stored.trained == Counts(documents=3, tokens=9, bytes=60)
    assert stored.held == Counts(documents=2, tokens=6, bytes=40)
    assert same(stored, in_memory(U2, parts()))


def test_stored_tokens_are_found_again_and_lie_in_a_mapped_file(tmp_path: Path) -> None:
    stored = store(tmp_path / "new/folder", "k", U2, parts())

    found = load(tmp_path / "new/folder", "k", U2)

    assert found is not None
    assert same(found, stored)
    assert isinstance(found.tokens, np.memmap)
    assert not found.tokens.flags.writeable


def test_numpy_reads_the_file_by_itself(tmp_path: Path) -> None:
    store(tmp_path, "k", U2, parts())

    assert np.load(tmp_path / "k.npy").tolist() == in_memory(U2, parts()).tokens.tolist()


def test_an_empty_source_can_be_stored_too(tmp_path: Path) -> None:
    stored = store(tmp_path, "k", U2, iter(()))

    assert stored.tokens.tolist() == []
    assert stored.trained == stored.held == Counts()


def test_only_the_owner_can_read_the_tokens(tmp_path: Path) -> None:
    store(tmp_path / "scratch", "k", U2, parts())

    for path in (tmp_path / "scratch/k.npy", tmp_path / "scratch/k.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "scratch").stat().st_mode) == 0o700


def flip_last_byte(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("k.npy", flip_last_byte),
        ("k.npy", lambda path: path.write_bytes(path.read_bytes()[:-2])),
        ("k.npy", lambda path: path.write_bytes(b"no array")),
        ("k.npy", lambda path: path.write_bytes(b"")),
        ("k.npy", lambda path: path.unlink()),
        ("k.npy", lambda path: np.save(path, np.arange(15, dtype="<u4"))),
        ("k.npy", lambda path: np.save(path, np.arange(14, dtype="<u2"))),
        ("k.json", lambda path: path.unlink()),
        ("k.json", lambda path: path.write_text("")),
        ("k.json", lambda path: path.write_text("[]")),
        ("k.json", lambda path: path.write_text('{"trained": {}}')),
        ("k.json", lambda path: path.write_text('{"trained": {"x": 1}, "held": {}}')),
        ("k.json", lambda path: path.write_bytes(b"\xff")),
        ("k.json", lambda path: path.write_text('{"trained": {"tokens": null}, "held": {}}')),
    ],
    ids=range(14),
)
def test_damaged_tokens_are_never_used_and_made_anew(
    tmp_path: Path, name: str, damage: object
) -> None:
    assert callable(damage)
    before = store(tmp_path, "k", U2, parts())
    kept = before.tokens.tolist()

    damage(tmp_path / name)

    assert load(tmp_path, "k", U2) is None
    assert store(tmp_path, "k", U2, parts()).tokens.tolist() == kept


def test_a_note_without_a_digest_is_damaged(tmp_path: Path) -> None:
    store(tmp_path, "k", U2, parts())
    note = json.loads((tmp_path / "k.json").read_text())
    del note["sha256"]
    (tmp_path / "k.json").write_text(json.dumps(note))

    assert load(tmp_path, "k", U2) is None


def test_nothing_is_left_when_making_the_tokens_fails(tmp_path: Path) -> None:
    def failing() -> Iterator[Part]:
        yield from parts()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store(tmp_path, "k", U2, failing())

    assert [path.name for path in tmp_path.iterdir()] == ["tokens.lock"]


def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / "k.npy.part").write_bytes(b"half")
    (tmp_path / "other.json.part").write_bytes(b"half")

    store(tmp_path, "k", U2, parts())

    assert sorted(path.name for path in tmp_path.iterdir()) == ["k.json", "k.npy", "tokens.lock"]


def test_a_process_that_finds_another_one_writing_keeps_its_tokens_in_memory(
    tmp_path: Path,
) -> None:
    with (tmp_path / "tokens.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        arrays = store(tmp_path, "k", U2, parts())

    assert same(arrays, in_memory(U2, parts()))
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.lock"]


@pytest.mark.parametrize("fits", [0, 4096, 200_000])
def test_a_full_disk_is_said_and_leaves_nothing_behind(tmp_path: Path, fits: int) -> None:
    # A limit on the size of files fails a write as a full disk does, at any byte one likes.
    big = [(False, 1, np.zeros(100_100, U2))]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (fits, hard))
    try:
        with pytest.raises(DiskError, match="tokens cannot be kept") as caught:
            store(tmp_path, "k", U2, big)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)

    assert caught.value.exit_code == 5
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.lock"]


def test_a_scratch_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(DiskError, match="tokens cannot be kept"):
        store(tmp_path / "file" / "scratch", "k", U2, parts())


def test_a_place_that_is_taken_is_said(tmp_path: Path) -> None:
    (tmp_path / "k.json").mkdir()

    with pytest.raises(DiskError, match="tokens cannot be kept: Is a directory"):
        store(tmp_path, "k", U2, parts())


def test_tokens_that_read_back_otherwise_than_written_are_said(tmp_path: Path) -> None:
    # Wider tokens than announced stand for a disk that gives back other bytes.
    wide = [(False, 1, np.arange(4, dtype="<u4"))]

    with pytest.raises(DiskError, match="not those that were written"):
        store(tmp_path, "k", U2, wide)
