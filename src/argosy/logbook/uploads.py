"""Blobs on their way in, per site: in ranges side by side, resumed where they broke off, bounded.

Whether another site has a blob is none of a site's business, so each site sends its own. Called from
worker threads.
"""

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass

from argosy.core.errors import DamagedError, DiskError
from argosy.logbook.blobs import BlobFolder, disk_error, hex_of
from argosy.logbook.part import OffsetError, Part
from argosy.logbook.ranges import Stretch

__all__ = ["OffsetError", "Standing", "Upload", "Uploads"]

UNFINISHED = 64  # parts kept per site; the oldest makes room, also where their bytes are too many
STRETCHES = 1024  # of one part: who sends more scattered than this is no client of ours


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How much of a blob has come: `have` bytes from its beginning, and what is missing after."""

    have: int
    missing: tuple[Stretch, ...] | None  # None: nothing is known of it


class Uploads:
    """Unfinished blobs of all sites."""

    def __init__(self, blobs: BlobFolder, *, most_bytes: int) -> None:
        self._blobs = blobs
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._sites: dict[str, dict[str, Part]] = {}  # site -> digest -> part

    def standing(self, site: str, digest: str) -> Standing:
        hex_of(digest)
        with self._lock:
            part = self._parts(site).get(digest)
        if part is None or part.over:
            return Standing(have=0, missing=None)
        part.rest()
        missing = part.missing()
        return Standing(have=part.prefix, missing=tuple(missing[:STRETCHES]))

    def begin(self, site: str, digest: str, stretch: Stretch, total: int) -> "Upload":
        """Let the bytes [start, stop) of a blob in. The upload must `end`."""
        start, stop = stretch
        if not 0 <= start <= stop <= total:
            raise DamagedError(f"blob: no bytes {start} to {stop} of {total}")
        self._blobs.check_size(total)
        try:
            with self._lock:
                part = self._part(site, digest, total)
                self._make_room(site, part, stop - start)
                part.enter(stop - start)
        except OSError as wrong:
            raise disk_error(wrong, self._blobs.folder) from wrong
        upload = Upload(part, start, stop)
        if part.scattered >= STRETCHES:
            self.end(upload)
            raise DamagedError(f"blob: comes in more than {STRETCHES} separate pieces")
        return upload

    def end(self, upload: "Upload") -> None:
        with self._lock:
            upload.part.leave(upload.promised)

    def _parts(self, site: str) -> dict[str, Part]:
        """All of this site, those of an earlier server included."""
        if site not in self._sites:
            key, parts = _site_key(site), {}
            for path in sorted(self._blobs.parts.glob(f"{key}-*.part")):
                digest = "sha256:" + path.stem.removeprefix(f"{key}-")
                part = Part(self._blobs, path, digest)
                if part.total is None:
                    part.drop()  # of no use without its note
                else:
                    parts[digest] = part
            self._sites[site] = parts
        parts = self._sites[site]
        for digest in [d for d, part in parts.items() if part.over]:
            del parts[digest]
        return parts

    def _part(self, site: str, digest: str, total: int) -> Part:
        parts = self._parts(site)
        part = parts.get(digest)
        if part is not None and part.total != total:
            if part.writers:
                raise DamagedError(f"blob {digest}: has {part.total} bytes by another request")
            part.drop()
            part = None
        if part is None:
            self._blobs.parts.mkdir(parents=True, exist_ok=True)
            path = self._blobs.parts / f"{_site_key(site)}-{hex_of(digest)}.part"
            part = parts[digest] = Part(self._blobs, path, digest)
            part.total = total
        return part

    def _make_room(self, site: str, wanted: Part, coming: int) -> None:
        parts = self._sites[site]

        def full() -> bool:
            held = sum(part.size + part.promised for part in parts.values())
            return len(parts) > UNFINISHED or held + coming > self._most_bytes

        while full():
            idle = [p for p in parts.values() if p is not wanted and not p.writers]
            if not idle:
                if not wanted.writers and not wanted.size:
                    del parts[wanted.digest]
                raise DiskError(
                    f"site {site} has more unfinished uploads than the logbook holds",
                    hint="it goes on when one of them is finished",
                )
            oldest = min(idle, key=_age)
            oldest.drop()
            del parts[oldest.digest]


class Upload:
    """One request that brings a range in."""

    def __init__(self, part: Part, start: int, stop: int) -> None:
        self.part = part
        self.promised = stop - start
        self._at = start
        self._stop = stop

    def write(self, data: bytes) -> None:
        if self._at + len(data) > self._stop:
            raise DamagedError(f"blob: more than the {self.promised} bytes it was said to have")
        self.part.write(self._at, data)
        self._at += len(data)

    def finish(self, own: Callable[[], None]) -> bool:
        """As of the part: True for the one request that made the blob whole."""
        return self.part.finish(own)


def _age(part: Part) -> int:
    try:
        return part.path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _site_key(site: str) -> str:
    """A site's name as part of a file name, whatever signs it is made of."""
    return hashlib.sha256(site.encode()).hexdigest()[:16]
