"""Blobs in a folder, named by their SHA-256: written `.part`, synced, then renamed."""

import contextlib
import hashlib
import os
import re
import uuid
from pathlib import Path

from argosy.core.errors import DamagedError, DiskError

BLOB_LIMIT = 16 * 1024**3  # bytes
UNFINISHED_BYTES = 2 * BLOB_LIMIT  # of a site's blobs on their way in
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
PIECE = 1024 * 1024


def digest_of(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def hex_of(digest: str) -> str:
    """The hex part of a digest; also what makes it safe as a file name."""
    if not DIGEST.fullmatch(digest):
        raise DamagedError(f"blob: {digest[:80]!r} is not sha256:<64 hex digits>")
    return digest.removeprefix("sha256:")


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


class BlobFolder:
    """blobs/aa/<hex>. What has its final name is whole and on the disk."""

    def __init__(self, folder: Path, *, limit: int = BLOB_LIMIT) -> None:
        self.folder = folder
        self.parts = folder / "parts"
        self.limit = limit

    def path(self, digest: str) -> Path:
        name = hex_of(digest)
        return self.folder / name[:2] / name

    def size(self, digest: str) -> int | None:
        """Its bytes; None when it is not here."""
        try:
            return self.path(digest).stat().st_size
        except FileNotFoundError:
            return None

    def put(self, blob: bytes) -> str:
        self.check_size(len(blob))
        digest = digest_of(blob)
        if self.size(digest) == len(blob):
            return digest
        part = self.parts / f"{uuid.uuid4().hex}.part"
        try:
            self.parts.mkdir(parents=True, exist_ok=True)
            with part.open("xb") as file:
                file.write(blob)
                file.flush()
                os.fsync(file.fileno())
            self.keep(part, digest)
        except OSError as wrong:
            with contextlib.suppress(OSError):
                part.unlink()
            raise disk_error(wrong, self.folder) from wrong
        return digest

    def keep(self, part: Path, digest: str) -> None:
        """Give a synced, verified part its final name, so that it survives a power cut."""
        path = self.path(digest)
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            sync_folder(self.folder)
        part.replace(path)
        sync_folder(path.parent)

    def get(self, digest: str) -> bytes:
        try:
            blob = self.path(digest).read_bytes()
        except FileNotFoundError:
            raise absent(digest) from None
        except OSError as wrong:
            raise DiskError(
                f"cannot read blob {digest}: {wrong.strerror}", where=str(self.folder)
            ) from wrong
        found = digest_of(blob)
        if found != digest:
            raise DamagedError(f"blob {digest}: its bytes have the digest {found}")
        return blob

    def check_size(self, size: int) -> None:
        if size > self.limit:
            raise DamagedError(f"blob: {size} bytes, at most {self.limit}")


def absent(digest: str) -> DamagedError:
    return DamagedError(f"blob {digest}: not in this logbook")


def disk_error(wrong: OSError, where: Path) -> DiskError:
    return DiskError(
        f"cannot write: {wrong.strerror or wrong}",
        where=str(where),
        hint="free space on this disk; what was acknowledged before is safe",
    )


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
