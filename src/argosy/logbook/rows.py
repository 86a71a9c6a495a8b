"""The rows of the logbook's database, and how to read them without changing anything."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from argosy.core.errors import DamagedError
from argosy.core.records import Entry
from argosy.logbook.chain import GENESIS
from argosy.logbook.envelope import entry_of

APPLICATION_ID = 0x41524753  # "ARGS"
SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE records (
    seq INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    chain TEXT NOT NULL,
    raw BLOB NOT NULL
);
CREATE TABLE owners (
    digest TEXT NOT NULL,
    site TEXT NOT NULL,
    PRIMARY KEY (digest, site)
) WITHOUT ROWID
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A record as stored: `before` is the stored chain of the record before it."""

    seq: int
    key: str
    before: str
    chain: str
    raw: bytes


def select_rows(db: sqlite3.Connection, from_seq: int, limit_bytes: int) -> list[Row]:
    """Rows from `from_seq` on: the first, and more while they fit into `limit_bytes`."""
    rows: list[Row] = []
    size = 0
    for row in iterate_rows(db, from_seq):
        size += len(row.raw)
        if rows and size > limit_bytes:
            break
        rows.append(row)
    return rows


def iterate_rows(db: sqlite3.Connection, from_seq: int = 1) -> Iterator[Row]:
    from_seq = max(1, from_seq)
    before = GENESIS
    if from_seq > 1:
        found = db.execute("SELECT chain FROM records WHERE seq = ?", (from_seq - 1,)).fetchone()
        if found is None:
            return
        before = found[0]
    cursor = db.execute(
        "SELECT seq, CAST(key AS TEXT), CAST(chain AS TEXT), CAST(raw AS BLOB)"
        " FROM records WHERE seq >= ? ORDER BY seq",
        (from_seq,),
    )
    for seq, key, chain, raw in cursor:
        yield Row(seq=seq, key=key, before=before, chain=chain, raw=raw)
        before = chain


class OpenLog:
    """A logbook's folder opened for reading only; its server may be running meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs = folder / "blobs"
        self._db = _open(folder / "log.db")

    def rows(self, from_seq: int = 1) -> Iterator[Row]:
        return iterate_rows(self._db, from_seq)

    def entries(self, from_seq: int = 1) -> list[Entry]:
        """All records as stored, unchecked: chain and signatures are for `verify` to judge."""
        try:
            return [entry_of(row.seq, row.before, row.raw) for row in self.rows(from_seq)]
        except sqlite3.DatabaseError as wrong:
            raise DamagedError(
                f"the database is damaged: {wrong}",
                where=str(self.folder),
                hint="`argosy audit` says what is wrong; bring log.db back from a copy",
            ) from wrong

    def integrity(self) -> str:
        """SQLite's own words on the file, in one line: "ok" or what is wrong first."""
        try:
            found = self._db.execute("PRAGMA integrity_check(1)").fetchone()
        except sqlite3.Error as wrong:
            return str(wrong)
        lines = [line for line in str(found[0]).splitlines() if not line.startswith("***")]
        return "; ".join(lines) or "damaged"

    def close(self) -> None:
        self._db.close()


def open_log(folder: Path) -> OpenLog:
    return OpenLog(folder)


def _open(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise DamagedError("no logbook here", where=str(path.parent))
    uri = path.resolve().as_uri()
    db = connect(f"{uri}?mode=ro")
    try:
        if db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'records'").fetchone() is None:
            db.close()
            raise DamagedError("no logbook here yet", where=str(path.parent))
    except sqlite3.OperationalError:
        db.close()
        # A folder that is not writable can't hold the shared-memory file of a write-ahead log.
        # Without such a log the database alone is whole.
        wal = path.with_name(path.name + "-wal")
        if wal.is_file() and wal.stat().st_size:
            raise DamagedError(
                "cannot be read: its write-ahead log needs a writable folder",
                where=str(path.parent),
                hint="copy the logbook's folder and read the copy",
            ) from None
        db = connect(f"{uri}?immutable=1")
    except sqlite3.DatabaseError:
        pass  # damaged: integrity() says how
    return db


def connect(uri: str) -> sqlite3.Connection:
    """Any thread may use it, one at a time. Nothing in the file is trusted, but it is read."""
    db = sqlite3.connect(uri, uri=True, timeout=10.0, isolation_level=None, check_same_thread=False)
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    return db
