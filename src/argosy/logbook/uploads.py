"""Blobs on their way in: written piece by piece, resumed where they broke off, verified at the end.

Called from worker threads; each upload is one client's, and a newer one takes its place.
"""

import contextlib
import hashlib
import os
import threading
from pathlib import Path

from argosy.core.errors import DamagedError
from argosy.logbook.blobs import BlobFolder, disk_error, file_digest, hex_of

UNFINISHED = 64  # parts kept per site; the oldest makes room


class OffsetError(Exception):
    """The client begins where we don't stand: it must ask and go on from there."""

    def __init__(self, have: int) -> None:
        super().__init__(f"have {have}")
        self.have = have


class Uploads:
    """Unfinished blobs, per site: whether another site has a blob is none of a site's business."""

    def __init__(self, blobs: BlobFolder) -> None:
        self._blobs = blobs
        self._lock = threading.Lock()
        self._current: dict[Path, Upload] = {}

    def have(self, site: str, digest: str) -> int:
        """How many bytes of it have arrived from this site."""
        try:
            return self._part(site, digest).stat().st_size
        except FileNotFoundError:
            return 0

    def begin(self, site: str, digest: str, start: int, total: int) -> "Upload":
        self._blobs.check_size(total)
        part = self._part(site, digest)
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            self._make_room(site, part)
            upload = Upload(self._blobs, part, digest, start, total)
        except OSError as wrong:
            raise disk_error(wrong, self._blobs.folder) from wrong
        with self._lock:
            before, self._current[part] = self._current.get(part), upload
        if before is not None:
            before.close()  # its connection hangs, or its client has given it up
        try:
            upload.open()
        except BaseException:
            self.end(upload)
            raise
        return upload

    def end(self, upload: "Upload") -> None:
        upload.close()
        with self._lock:
            if self._current.get(upload.part) is upload:
                del self._current[upload.part]

    def _part(self, site: str, digest: str) -> Path:
        return self._blobs.parts / f"{_site_key(site)}-{hex_of(digest)}.part"

    def _make_room(self, site: str, wanted: Path) -> None:
        parts = [p for p in self._blobs.parts.glob(f"{_site_key(site)}-*.part") if p != wanted]
        if len(parts) >= UNFINISHED:
            with contextlib.suppress(FileNotFoundError):
                min(parts, key=lambda p: p.stat().st_mtime_ns).unlink()


class Upload:
    """One attempt to bring a blob in. Once closed it writes nothing more, whoever still calls."""

    def __init__(self, blobs: BlobFolder, part: Path, digest: str, start: int, total: int) -> None:
        self.part = part
        self._blobs = blobs
        self._digest = digest
        self._at = start
        self._total = total
        self._lock = threading.Lock()
        self._handle: int | None = None

    def open(self) -> None:
        with self._lock:
            try:
                handle = os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as wrong:
                raise disk_error(wrong, self._blobs.folder) from wrong
            have = os.fstat(handle).st_size
            if self._at > have:
                os.close(handle)
                raise OffsetError(have)
            os.ftruncate(handle, self._at)
            self._handle = handle

    def write(self, data: bytes) -> None:
        with self._lock:
            handle = self._open_handle()
            if self._at + len(data) > self._total:
                raise DamagedError(f"blob: more than the {self._total} bytes it was said to have")
            view = memoryview(data)
            try:
                while view:
                    written = os.pwrite(handle, view, self._at)
                    self._at += written
                    view = view[written:]
            except OSError as wrong:
                raise disk_error(wrong, self._blobs.folder) from wrong

    def finish(self) -> bool:
        """True once the blob is whole, verified and durable; False while bytes are missing."""
        with self._lock:
            handle = self._open_handle()
            if self._at < self._total:
                return False
            found = file_digest(self.part)
            if found != self._digest:
                self.part.unlink()
                raise DamagedError(f"blob {self._digest}: what arrived has the digest {found}")
            try:
                os.fsync(handle)
                self._blobs.keep(self.part, self._digest)
            except OSError as wrong:
                raise disk_error(wrong, self._blobs.folder) from wrong
            return True

    @property
    def at(self) -> int:
        return self._at

    def close(self) -> None:
        with self._lock:
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None

    def _open_handle(self) -> int:
        if self._handle is None:
            raise OffsetError(self._at)
        return self._handle


def _site_key(site: str) -> str:
    """A site's name as part of a file name, whatever signs it is made of."""
    return hashlib.sha256(site.encode()).hexdigest()[:16]
