"""The logbook: the ordered, chained, durable record of a run, and its content-addressed blobs."""

from typing import TYPE_CHECKING, Protocol

from argosy.logbook.rows import OpenLog, open_log

if TYPE_CHECKING:
    from argosy.core.records import Entry

__all__ = ["Logbook", "OpenLog", "open_log"]


class Logbook(Protocol):
    """The four verbs. Every implementation passes tests/contracts/test_logbook.py."""

    def append(self, signed: bytes) -> int:
        """Store one signed record durably and return its seq. The same bytes again: the same seq.

        Raises HostError when the logbook cannot be reached, DiskError when it is full,
        FencedError when a newer life of the writer has written since, and
        DamagedError when the record is refused (signature, writer, counter, size, blobs not put).
        """
        ...

    def read(self, from_seq: int, wait_s: float = 0.0) -> list["Entry"]:
        """Records from `from_seq` on, in order; waits up to `wait_s` for the first of them.

        One call returns some of them, not always all: read on until it returns none.
        """
        ...

    def put(self, blob: bytes) -> str:
        """Store a blob durably and return its digest, "sha256:<hex>"."""
        ...

    def get(self, digest: str) -> bytes:
        """The blob, verified against its digest. Raises DamagedError when it is not that."""
        ...
