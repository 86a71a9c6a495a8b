"""A power cut at any moment: what reached the disk since the last sync may be any part of it.

SQLite writes an append to the end of its write-ahead log and syncs that; now and then it copies
pages from there into the database, syncs this, and begins the log anew. So between two answers the
disk holds the database as before with any mix of the old and the new log, or the new log with any
mix of the old and the new database. Each such mix is opened here as after a restart.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes.logbook import Signing, event

from argosy.logbook import open_log
from argosy.logbook.embedded import EmbeddedLogbook, StoreLimits

SECTOR = 512  # bytes that a disk writes at once
FRAME = 24  # header of a page in the write-ahead log
HEADER = 32  # of the log itself
PAGE = 4096

Read = Callable[[Path], list[bytes]]


@dataclass
class Disk:
    """The two files as they lie on the disk after an answer."""

    seq: int
    db: bytes
    wal: bytes


@dataclass
class History:
    raws: list[bytes]
    disks: list[Disk]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Forty appends of unequal size, with the log begun anew several times."""
    folder = tmp_path_factory.mktemp("written")
    signing = Signing(folder / "keys")
    pen = signing.pen()
    raws = signing.opening(pen)
    raws += [pen.sign(event("x" * (i * 1237 % 9000)), i) for i in range(38)]
    disks = []
    with EmbeddedLogbook(folder / "log", limits=StoreLimits(checkpoint_pages=12)) as book:
        for raw in raws:
            seq = book.append(raw)
            db, wal = (folder / "log" / name for name in ("log.db", "log.db-wal"))
            disks.append(Disk(seq, db.read_bytes(), wal.read_bytes()))
    return History(raws, disks)


def pairs(history: History) -> Iterator[tuple[Disk, Disk]]:
    """The disk at every answer, and at the next."""
    return itertools.pairwise(history.disks)


def opened(folder: Path) -> list[bytes]:
    """As the server opens it after a restart: it folds the log, and syncs what it mends."""
    with EmbeddedLogbook(folder) as book:
        return [row.raw for row in book.rows(1, limit_bytes=2**30)]


def recovered(folder: Path) -> list[bytes]:
    """Only what SQLite recovers: the same records, ten times quicker."""
    log = open_log(folder)
    try:
        return [row.raw for row in log.rows()]
    finally:
        log.close()


def survives(
    history: History, folder: Path, at_least: int, db: bytes, wal: bytes, read: Read = opened
) -> None:
    """After a restart the log is the first `at_least` records, or one more, each of them whole."""
    folder.mkdir(exist_ok=True)
    (folder / "log.db-shm").unlink(missing_ok=True)
    (folder / "log.db").write_bytes(db)
    (folder / "log.db-wal").write_bytes(wal)
    raws = read(folder)
    assert raws == history.raws[: len(raws)]
    assert at_least <= len(raws) <= at_least + 1


def changed(before: bytes, after: bytes) -> tuple[int, int]:
    """From where to where the file was written."""
    size = max(len(before), len(after))
    pairs = zip(before.ljust(size, b"\0"), after.ljust(size, b"\0"), strict=True)
    differ = [i for i, (a, b) in enumerate(pairs) if a != b]
    return differ[0], differ[-1] + 1


def cuts(before: bytes, after: bytes) -> list[int]:
    """Every end of a write or of a sector, and the byte to each side of it."""
    first, last = changed(before, after)
    ends = {first, last, HEADER, *range(0, last, SECTOR)}
    for frame in range(HEADER, last, FRAME + PAGE):
        ends |= {frame, frame + FRAME}
    return sorted({at for end in ends for at in (end - 1, end, end + 1) if first <= at <= last})


def test_the_log_was_begun_anew_on_the_way(history: History) -> None:
    sizes = [len(disk.wal) for disk in history.disks]
    salts = {disk.wal[16:24] for disk in history.disks}

    assert len(salts) > 3
    assert max(sizes) < 50 * PAGE


def test_an_append_cut_anywhere_is_there_whole_or_not_at_all(
    history: History, tmp_path: Path
) -> None:
    for step, (before, after) in enumerate(pairs(history)):
        # All cuts of some appends, some cuts of all of them.
        for at in cuts(before.wal, after.wal)[step % 5 :: 1 if step % 8 == 0 else 5]:
            wal = after.wal[:at] + before.wal[at:]
            survives(history, tmp_path / "log", before.seq, before.db, wal, recovered)


def test_sectors_may_reach_the_disk_in_any_order(history: History, tmp_path: Path) -> None:
    chance = random.Random(20)
    for before, after in pairs(history):
        for _ in range(4):
            wal = mixed(before.wal, after.wal, chance)
            survives(history, tmp_path / "log", before.seq, before.db, wal)


def test_pages_may_be_copied_into_the_database_in_any_order(
    history: History, tmp_path: Path
) -> None:
    chance = random.Random(21)
    copied = 0
    for before, after in pairs(history):
        if before.db == after.db:
            continue
        copied += 1
        for _ in range(6):
            db = mixed(before.db, after.db, chance)
            survives(history, tmp_path / "log", after.seq, db, after.wal)
    assert copied > 3


def mixed(before: bytes, after: bytes, chance: random.Random) -> bytes:
    """Some sectors as they were, some as they became."""
    size = max(len(before), len(after))
    old, new = before.ljust(size, b"\0"), after.ljust(size, b"\0")
    sectors = range(0, size, SECTOR)
    return b"".join((old, new)[chance.random() < 0.5][at : at + SECTOR] for at in sectors)


def test_a_cut_that_loses_a_synced_byte_would_be_noticed(history: History, tmp_path: Path) -> None:
    """The test itself can fail: without the last byte the acknowledged record is gone."""
    before, last = history.disks[-2:]
    _, end = changed(before.wal, last.wal)

    with pytest.raises(AssertionError):
        survives(history, tmp_path / "log", last.seq, last.db, last.wal[: end - 1])
