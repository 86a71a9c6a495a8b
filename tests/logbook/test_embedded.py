import contextlib
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.logbook import Signing, event

from argosy.core.errors import DamagedError, DiskError, HostError
from argosy.logbook import open_log
from argosy.logbook.admission import RECORD_LIMIT
from argosy.logbook.blobs import digest_of
from argosy.logbook.embedded import BATCH_BYTES, EmbeddedLogbook, StoreLimits
from argosy.logbook.keys import Authority, Pen
from argosy.logbook.rows import Row


@pytest.fixture
def signing(tmp_path: Path) -> Signing:
    return Signing(tmp_path / "keys")


def begin(signing: Signing, book: EmbeddedLogbook) -> Pen:
    pen = signing.pen()
    for raw in signing.opening(pen):
        book.append(raw)
    return pen


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size`: a disk that is full, for a moment."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_logbook_opened_again_goes_on_where_it_was(tmp_path: Path, signing: Signing) -> None:
    with EmbeddedLogbook(tmp_path / "log") as book:
        pen = begin(signing, book)
        head = book.head
        before = book.read(1)

    with EmbeddedLogbook(tmp_path / "log") as book:
        assert book.head == head
        assert book.read(1) == before
        assert book.append(pen.sign(event(), 3)) == 3


def test_every_commit_waits_for_the_disk(tmp_path: Path, signing: Signing) -> None:
    with EmbeddedLogbook(tmp_path / "log") as book:
        writer = book._writer
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert writer.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert writer.execute("PRAGMA fullfsync").fetchone() == (1,)


def test_a_second_process_may_not_write_the_same_logbook(tmp_path: Path) -> None:
    with (
        EmbeddedLogbook(tmp_path / "log"),
        pytest.raises(HostError, match="another process") as refused,
    ):
        EmbeddedLogbook(tmp_path / "log")

    assert refused.value.where == str(tmp_path / "log")
    EmbeddedLogbook(tmp_path / "log").close()


def test_a_logbook_can_be_read_while_it_is_written(tmp_path: Path, signing: Signing) -> None:
    with EmbeddedLogbook(tmp_path / "log") as book:
        pen = begin(signing, book)
        reader = open_log(tmp_path / "log")
        assert len(reader.entries()) == 2

        book.append(pen.sign(event(), 3))

        assert [entry.seq for entry in reader.entries(2)] == [2, 3]
        assert reader.integrity() == "ok"
        reader.close()


def test_there_is_no_logbook_where_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="no logbook here"):
        open_log(tmp_path)


def test_a_database_that_is_only_being_made_is_no_logbook_yet(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "log.db")) as db:
        db.execute("PRAGMA journal_mode = WAL")

    with pytest.raises(DamagedError, match="no logbook here yet"):
        open_log(tmp_path)


def test_one_answer_holds_as_many_records_as_fit_and_at_least_one(
    tmp_path: Path, signing: Signing
) -> None:
    with EmbeddedLogbook(tmp_path / "log") as book:
        pen = begin(signing, book)
        for i in range(6):
            book.append(pen.sign(event("x" * (RECORD_LIMIT - 1000)), i))

        assert len(book.rows(1, limit_bytes=1)) == 1
        first = book.rows(1)
        assert sum(len(row.raw) for row in first) <= BATCH_BYTES
        assert len(first) < 8
        assert book.rows(first[-1].seq + 1)[0].before == first[-1].chain


def test_a_logbook_of_another_authority_is_not_opened_as_this_one(
    tmp_path: Path, signing: Signing
) -> None:
    other = Authority.make(tmp_path / "other")
    with (
        EmbeddedLogbook(tmp_path / "log", authority=other.pem) as book,
        pytest.raises(DamagedError, match="another certificate authority"),
    ):
        begin(signing, book)


def test_a_logbook_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    EmbeddedLogbook(tmp_path / "log").close()
    with sqlite3.connect(tmp_path / "log" / "log.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()

    with pytest.raises(DamagedError, match="format 99"):
        EmbeddedLogbook(tmp_path / "log")


def test_a_changed_record_is_found_when_the_logbook_is_opened(
    tmp_path: Path, signing: Signing
) -> None:
    with EmbeddedLogbook(tmp_path / "log") as book:
        begin(signing, book)
    with sqlite3.connect(tmp_path / "log" / "log.db") as db:
        db.execute("UPDATE records SET raw = replace(raw, 'frankfurt', 'frankfort') WHERE seq = 2")
    db.close()

    with pytest.raises(DamagedError, match="record 2: the chain is broken"):
        EmbeddedLogbook(tmp_path / "log")


def test_a_file_that_is_no_database_is_said_to_be_damaged(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "log.db").write_bytes(b"not a database, but long enough to be one" * 50)

    with pytest.raises(DamagedError, match="damaged"):
        EmbeddedLogbook(tmp_path / "log")


def test_a_folder_that_cannot_be_made_is_a_disk_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(DiskError, match="cannot open"):
        EmbeddedLogbook(tmp_path / "file" / "log")


def test_a_full_logbook_refuses_and_keeps_what_it_has(tmp_path: Path, signing: Signing) -> None:
    limits = StoreLimits(log_bytes=100_000)
    with EmbeddedLogbook(tmp_path / "log", limits=limits) as book:
        pen = begin(signing, book)
        raws = [pen.sign(event("x" * 3000), i) for i in range(100)]
        with pytest.raises(DiskError, match="full") as full:
            any(book.append(raw) == 0 for raw in raws)
        kept = book.read(1)
        raw = raws[len(kept) - 2]
        assert book.head == (len(kept), kept[-1].chain)
        assert "safe" in (full.value.hint or "")

    with EmbeddedLogbook(tmp_path / "log") as book:
        assert book.read(1) == kept
        assert book.append(raw) == len(kept) + 1  # there is room again: the retry lands


def test_a_disk_that_fills_up_in_an_append_leaves_no_half_record(
    tmp_path: Path, signing: Signing
) -> None:
    with EmbeddedLogbook(tmp_path / "log") as book:
        pen = begin(signing, book)
        raw = pen.sign(event("x" * 50_000), 3)
        wal = (tmp_path / "log" / "log.db-wal").stat().st_size

        with files_end_at(wal + 20_000), pytest.raises(DiskError):
            book.append(raw)

        assert [entry.seq for entry in book.read(1)] == [1, 2]
        reader = open_log(tmp_path / "log")
        assert len(reader.entries()) == 2
        reader.close()
        assert book.append(raw) == 3
        assert book.append(raw) == 3


def test_a_disk_that_fills_up_in_a_blob_leaves_no_half_blob(tmp_path: Path) -> None:
    blob = bytes(200_000)
    with EmbeddedLogbook(tmp_path / "log") as book:
        with files_end_at(100_000), pytest.raises(DiskError, match="cannot write"):
            book.put(blob)

        with pytest.raises(DamagedError, match="not in this logbook"):
            book.get(digest_of(blob))
        assert [p for p in (tmp_path / "log" / "blobs").rglob("*") if p.is_file()] == []
        assert book.get(book.put(blob)) == blob


def test_a_blob_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with (
        EmbeddedLogbook(tmp_path / "log", limits=StoreLimits(blob_bytes=10)) as book,
        pytest.raises(DamagedError, match="at most 10"),
    ):
        book.put(b"eleven byte")


def test_a_blob_that_changed_on_the_disk_is_refused(tmp_path: Path) -> None:
    with EmbeddedLogbook(tmp_path / "log") as book:
        digest = book.put(b"payload")
        book.blobs.path(digest).write_bytes(b"payloaf")

        with pytest.raises(DamagedError, match=digest):
            book.get(digest)


def test_a_blob_that_cannot_be_read_is_a_disk_error(tmp_path: Path) -> None:
    with EmbeddedLogbook(tmp_path / "log") as book:
        book.blobs.path(digest_of(b"x")).mkdir(parents=True)

        with pytest.raises(DiskError, match="cannot read"):
            book.get(digest_of(b"x"))


def test_a_blob_is_owned_by_the_sites_that_put_it(tmp_path: Path) -> None:
    with EmbeddedLogbook(tmp_path / "log") as book:
        digest = book.put(b"same", "tokyo")
        book.put(b"same", "frankfurt")
        book.put(b"same", "tokyo")
        assert book.owners(digest) == {"tokyo", "frankfurt"}

    with EmbeddedLogbook(tmp_path / "log") as book:
        assert book.owners(digest) == {"tokyo", "frankfurt"}
        assert book.owners(digest_of(b"other")) == frozenset()


WRITER = """
import sys
from pathlib import Path
from argosy.core.records import HostEvent
from argosy.logbook.embedded import EmbeddedLogbook, StoreLimits
from argosy.logbook.keys import Pen

book = EmbeddedLogbook(Path(sys.argv[1]), limits=StoreLimits(checkpoint_pages=16))
pen = Pen.open(Path(sys.argv[2]), 1)
for i in range(100_000):
    body = HostEvent(what="fault", site="tokyo", host="", detail="x" * (i * 37 % 9000))
    seq = book.append(pen.sign(body, i))
    digest = book.put(b"%d" % i * 1000)
    print(seq, digest, flush=True)
"""


@pytest.mark.lab
def test_what_was_acknowledged_survives_kill_nine(tmp_path: Path, signing: Signing) -> None:
    with EmbeddedLogbook(tmp_path / "log") as book:
        begin(signing, book)

    for incarnation, acknowledged in ((1, 40), (2, 7), (3, 90)):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER.replace("]), 1)", f"]), {incarnation})"),
             tmp_path / "log", signing.keys("tokyo-1")],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert writer.stdout is not None
        with writer:
            told = [writer.stdout.readline().split() for _ in range(acknowledged)]
            writer.kill()

        with EmbeddedLogbook(tmp_path / "log") as book:
            seqs = {row.seq for row in rows_of(book)}
            assert {int(seq) for seq, _ in told} <= seqs
            assert seqs == set(range(1, len(seqs) + 1))
            for _, digest in told:
                book.get(digest)


def rows_of(book: EmbeddedLogbook) -> list[Row]:
    rows: list[Row] = []
    while batch := book.rows(len(rows) + 1):
        rows += batch
    return rows


def test_a_copy_in_a_folder_that_cannot_be_written_is_read(
    tmp_path: Path, signing: Signing
) -> None:
    with EmbeddedLogbook(tmp_path / "log") as book:
        begin(signing, book)
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    (tmp_path / "copy").chmod(0o500)
    try:
        log = open_log(tmp_path / "copy")
        assert len(log.entries()) == 2
        log.close()
    finally:
        (tmp_path / "copy").chmod(0o700)
