"""One blob on its way in: a sparse file, which of its bytes have come, and the hash of its beginning.

Called from worker threads. What has come is never written again, so what was hashed stays true.
"""

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

from argosy.core.errors import DamagedError, DiskError
from argosy.logbook.blobs import BlobFolder, disk_error
from argosy.logbook.ranges import Ranges, Stretch

HASH_AHEAD = 1024 * 1024  # bytes hashed at most per piece written, so that none of them waits long
SAVE_EVERY = (
    8 * 1024 * 1024
)  # bytes between two notes of what has come: lost if the server is killed
SYNC_EVERY = 32 * 1024 * 1024  # bytes left to the last sync at most, which the client waits for


class OffsetError(Exception):
    """What was there is not there any more: the client must ask what is missing."""

    def __init__(self, have: int) -> None:
        super().__init__(f"have {have}")
        self.have = have


class Part:
    """`path` holds the bytes, `path.have` says which. It ends kept, dropped, or left for later."""

    def __init__(self, blobs: BlobFolder, path: Path, digest: str) -> None:
        self.path = path
        self.digest = digest
        self.total: int | None = None  # bytes of the whole; None while nobody has said
        self.promised = 0  # bytes that requests under way were let in with
        self.writers = 0
        self.over = False
        self._note = path.with_suffix(".have")
        self._blobs = blobs
        self._lock = threading.Lock()
        self._ranges = Ranges()
        self._handle: int | None = None
        self._unsaved = self._unsynced = 0
        self._judging = False
        self._hashing = threading.Lock()
        self._hash, self._hashed = hashlib.sha256(), 0
        self._recall()

    @property
    def size(self) -> int:
        """How many have come."""
        return self._ranges.bytes

    @property
    def prefix(self) -> int:
        return self._ranges.prefix

    @property
    def whole(self) -> bool:
        return self.size == self.total

    @property
    def scattered(self) -> int:
        """In how many stretches."""
        return len(self._ranges)

    def missing(self) -> list[Stretch]:
        with self._lock:
            return list(self._ranges.gaps(0, self.total or 0))

    def enter(self, promised: int) -> None:
        """One more writer; it must `leave`."""
        with self._lock:
            if self._handle is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._handle = os.open(self.path, flags, 0o600)
            self.writers += 1
            self.promised += promised

    def leave(self, promised: int) -> None:
        with self._lock:
            self.writers -= 1
            self.promised -= promised
            if not self.over:
                with contextlib.suppress(DiskError):  # whoever writes next is told
                    self._save()
            if self.writers == 0 and self._handle is not None:
                os.close(self._handle)
                self._handle = None

    def write(self, at: int, data: bytes) -> None:
        with self._lock:
            handle = self._writable()
            view = memoryview(data)
            try:
                for start, stop in list(self._ranges.gaps(at, at + len(data))):
                    _write_all(handle, view[start - at : stop - at], start)
                    self._ranges.add(start, stop)
            except OSError as wrong:
                raise disk_error(wrong, self._blobs.folder) from wrong
            self._unsaved += len(data)
            self._unsynced += len(data)
            if self._unsaved >= SAVE_EVERY:
                self._save()
            behind = self._unsynced >= SYNC_EVERY
            if behind:
                self._unsynced = 0
        self._hash_on(handle, HASH_AHEAD)
        if behind:
            _sync(handle, self._blobs.folder)

    def finish(self, own: Callable[[], None]) -> bool:
        """True once the blob is whole, verified and durable; False while bytes are missing.

        Also False while another writer finds it out. `own` is called once it is verified, before
        it can be seen: who asks then finds both.
        """
        with self._lock:
            handle = self._writable()
            if not self.whole or self._judging:
                return False
            self._judging = True
        try:
            self._hash_on(handle, None)
            found = "sha256:" + self._hash.hexdigest()
            with self._lock:
                if found != self.digest:
                    self._end()
                    raise DamagedError(f"blob {self.digest}: what arrived has the digest {found}")
                os.fsync(handle)
                own()
                self._blobs.keep(self.path, self.digest)
                self._end()
        except OSError as wrong:
            raise disk_error(wrong, self._blobs.folder) from wrong
        finally:
            self._judging = False
        return True

    def rest(self) -> None:
        """Nobody writes: what lies on the disk meanwhile is hashed anew before it counts."""
        with self._lock:
            if self.writers == 0:
                self._hash, self._hashed = hashlib.sha256(), 0

    def drop(self) -> None:
        with self._lock:
            self._end()

    def _writable(self) -> int:
        if self.over or self._handle is None:
            raise OffsetError(0)
        return self._handle

    def _hash_on(self, handle: int, most: int | None) -> None:
        """Hash what has come from the beginning on: a little, or (None) all of it."""
        if not self._hashing.acquire(blocking=most is None):
            return
        try:
            stop = self._ranges.prefix if most is None else self._hashed + most
            while self._hashed < (until := min(stop, self._ranges.prefix)):
                piece = os.pread(handle, min(HASH_AHEAD, until - self._hashed), self._hashed)
                if not piece:
                    break  # cut off on the disk: the digest will tell
                self._hash.update(piece)
                self._hashed += len(piece)
        except OSError as wrong:
            raise disk_error(wrong, self._blobs.folder) from wrong
        finally:
            self._hashing.release()

    def _save(self) -> None:
        told = {"of": self.total, "have": list(self._ranges)}
        draft = self._note.with_suffix(".have-new")
        try:
            draft.write_text(json.dumps(told))
            draft.replace(self._note)
        except OSError as wrong:
            raise disk_error(wrong, self._blobs.folder) from wrong
        self._unsaved = 0

    def _recall(self) -> None:
        """What an earlier server noted, as far as the file goes. After a power cut bytes of it may
        be missing all the same: the digest of the whole tells, and then it comes anew."""
        try:
            told = json.loads(self._note.read_bytes())
            size = self.path.stat().st_size
            self.total = int(told["of"])
            for start, stop in told["have"]:
                if 0 <= start < stop <= size:
                    self._ranges.add(start, stop)
        except (OSError, ValueError, TypeError, KeyError):
            self.total, self._ranges = None, Ranges()

    def _end(self) -> None:
        self.over = True
        for path in (self.path, self._note):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def _write_all(handle: int, view: memoryview, at: int) -> None:
    while view:
        written = os.pwrite(handle, view, at)
        at += written
        view = view[written:]


def _sync(handle: int, folder: Path) -> None:
    try:
        os.fdatasync(handle)
    except OSError as wrong:
        raise disk_error(wrong, folder) from wrong
