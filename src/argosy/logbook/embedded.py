"""The embedded logbook: records in SQLite with full sync, blobs in a folder beside it."""

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from argosy.core.errors import DamagedError, DiskError, HostError
from argosy.core.records import Body, Entry
from argosy.logbook.admission import Admission
from argosy.logbook.blobs import BLOB_LIMIT, UNFINISHED_BYTES, BlobFolder, sync_folder
from argosy.logbook.chain import GENESIS, chain
from argosy.logbook.envelope import Envelope, entry_of, named_blobs, open_envelope
from argosy.logbook.rows import (
    APPLICATION_ID,
    SCHEMA,
    SCHEMA_VERSION,
    Row,
    connect,
    iterate_rows,
    select_rows,
)

BATCH_BYTES = 4 * 1024 * 1024  # of records in one answer; a reader asks on

Check = Callable[[Envelope, Body], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreLimits:
    blob_bytes: int = BLOB_LIMIT
    unfinished_bytes: int = UNFINISHED_BYTES
    log_bytes: int | None = None  # a full logbook, before the disk is
    checkpoint_pages: int = 1000  # of the write-ahead log, before it is folded into the database


class EmbeddedLogbook:
    """The four verbs over a folder. One process writes it at a time; its threads may share it."""

    def __init__(
        self, folder: Path, *, authority: str | None = None, limits: StoreLimits | None = None
    ) -> None:
        self.folder = folder
        self.limits = limits or StoreLimits()
        self._expected_authority = authority
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._news = threading.Condition()
        self._head = (0, GENESIS)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(folder / "lock")
        except OSError as wrong:
            raise DiskError(f"cannot open: {wrong.strerror}", where=str(folder)) from None
        self.blobs = BlobFolder(folder / "blobs", limit=self.limits.blob_bytes)
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, self._lock)
            self._open(undo)
            self._close = undo.pop_all().close

    def append(self, signed: bytes, check: Check | None = None) -> int:
        """As the protocol says; `check` may raise a further refusal before anything is stored."""
        with self._writing:
            seq = self._append(signed, check)
        with self._news:
            self._news.notify_all()
        return seq

    def read(self, from_seq: int, wait_s: float = 0.0) -> list[Entry]:
        rows = self.rows(from_seq)
        if not rows and wait_s > 0:
            deadline = time.monotonic() + wait_s
            with self._news:
                while self._head[0] < from_seq:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        break
                    self._news.wait(left)
            rows = self.rows(from_seq)
        return [entry_of(row.seq, row.before, row.raw) for row in rows]

    def rows(self, from_seq: int, limit_bytes: int = BATCH_BYTES) -> list[Row]:
        """Records as stored, without decoding: at least one if there is one, then up to a limit."""
        with self._reading, _sqlite_errors(self.folder):
            return select_rows(self._reader, from_seq, limit_bytes)

    def put(self, blob: bytes, site: str = "") -> str:
        digest = self.blobs.put(blob)
        if site:
            self.own(digest, site)
        return digest

    def get(self, digest: str) -> bytes:
        return self.blobs.get(digest)

    def own(self, digest: str, site: str) -> None:
        """Remember that this site has put this blob: it may read it back, and name it."""
        with self._writing, _sqlite_errors(self.folder):
            self._writer.execute("INSERT OR IGNORE INTO owners VALUES (?, ?)", (digest, site))

    def owners(self, digest: str) -> frozenset[str]:
        with self._reading, _sqlite_errors(self.folder):
            found = self._reader.execute("SELECT site FROM owners WHERE digest = ?", (digest,))
            return frozenset(site for (site,) in found)

    @property
    def head(self) -> tuple[int, str]:
        """The newest seq and its chain."""
        return self._head

    def close(self) -> None:
        with self._writing, self._reading:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _append(self, signed: bytes, check: Check | None) -> int:
        known = self._known(signed)
        if known is not None:
            return known
        envelope, body = self.admission.check(signed)
        self._check_blobs(body)
        if check is not None:
            check(envelope, body)
        seq, value = self._head[0] + 1, chain(self._head[1], signed)
        try:
            # One statement is one transaction: it is synced before execute returns.
            self._writer.execute(
                "INSERT INTO records VALUES (?, ?, ?, ?)", (seq, envelope.key, value, signed)
            )
        except sqlite3.Error as wrong:
            # Rolled back, whatever reached the disk: the log goes on where it was. Opening the
            # file anew here could take frames for durable whose sync has failed.
            raise _disk_error(wrong, self.folder) from wrong
        self.admission.admit(envelope, body)
        self._head = (seq, value)
        return seq

    def _known(self, signed: bytes) -> int | None:
        """The seq of exactly these bytes, when a retry brings them again."""
        envelope = open_envelope(signed)
        hand = self.admission.hand(envelope.writer.site, envelope.writer.host)
        if hand is None or (envelope.writer.incarnation, envelope.counter) > (
            hand.incarnation,
            hand.counter,
        ):
            return None
        with _sqlite_errors(self.folder):
            found = self._writer.execute(
                "SELECT seq FROM records WHERE key = ? AND raw = ?", (envelope.key, signed)
            ).fetchone()
        return found[0] if found else None

    def _check_blobs(self, body: Body) -> None:
        for digest, size in named_blobs(body):
            found = self.blobs.size(digest)
            if found is None:
                raise DamagedError(f"blob {digest}: named before it was put")
            if found != size:
                raise DamagedError(f"blob {digest}: named with {size} bytes, it has {found}")

    def _open(self, undo: contextlib.ExitStack) -> None:
        """Connect, and fold what is there: after a crash that is what was acknowledged."""
        path = self.folder.resolve() / "log.db"
        try:
            self._writer = undo.enter_context(contextlib.closing(connect(path.as_uri())))
            self._prepare()
            self._reader = undo.enter_context(contextlib.closing(connect(path.as_uri())))
            self._fold()
        except sqlite3.Error as wrong:
            raise _disk_error(wrong, self.folder) from wrong

    def _prepare(self) -> None:
        db = self._writer
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA fullfsync = ON")  # where fsync alone does not reach the platter (macOS)
        db.execute(f"PRAGMA wal_autocheckpoint = {self.limits.checkpoint_pages}")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            db.executescript(
                f"BEGIN IMMEDIATE; {SCHEMA}; PRAGMA application_id = {APPLICATION_ID};"
                f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )
            sync_folder(self.folder)
        elif version > SCHEMA_VERSION:
            raise DamagedError(
                f"the logbook has format {version}, this Argosy knows {SCHEMA_VERSION}",
                where=str(self.folder),
            )
        if self.limits.log_bytes is not None:
            page = db.execute("PRAGMA page_size").fetchone()[0]
            db.execute(f"PRAGMA max_page_count = {max(1, self.limits.log_bytes // page)}")

    def _fold(self) -> None:
        """The admission state from the records; a broken chain is found before anyone relies on it.

        Signatures were checked when the records came; `verify` checks them again.
        """
        admission = Admission(self._expected_authority)
        value = GENESIS
        for row in iterate_rows(self._writer):
            value = chain(value, row.raw)
            if row.seq != admission.seq + 1 or row.chain != value:
                raise DamagedError(
                    f"record {admission.seq + 1}: the chain is broken here",
                    where=str(self.folder),
                    hint="argosy audit names what is wrong",
                )
            envelope = open_envelope(row.raw)
            admission.admit(envelope, envelope.decode())
        self.admission = admission
        self._head = (admission.seq, value)


def _lock(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise HostError(
            "another process writes this logbook",
            where=str(path.parent),
            hint="a logbook has one server; stop it, or reach it through its port",
        ) from None
    return handle


@contextlib.contextmanager
def _sqlite_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as wrong:
        raise _disk_error(wrong, folder) from wrong


def _disk_error(wrong: sqlite3.Error, folder: Path) -> DiskError | DamagedError:
    code = getattr(wrong, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return DamagedError(
            f"the logbook's database is damaged: {wrong}",
            where=str(folder),
            hint="argosy audit says what is wrong; restore the folder from a copy",
        )
    return DiskError(
        f"cannot write the logbook: {wrong}",
        where=str(folder),
        hint="free space on this disk; what was acknowledged before is safe",
    )
