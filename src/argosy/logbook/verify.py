"""Whether a logbook is what its writers signed: the first record or blob that is wrong, if any."""

import json
import sqlite3
from dataclasses import asdict, dataclass
from pathlib import Path

from argosy.core.errors import DamagedError, UserError
from argosy.core.records import Body, Commit, Ended
from argosy.logbook.admission import Admission
from argosy.logbook.blobs import BlobFolder, file_digest
from argosy.logbook.chain import GENESIS, chain
from argosy.logbook.envelope import named_blobs
from argosy.logbook.rows import OpenLog, Row, open_log


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrong:
    """The first thing that is wrong. `seq` 0: the file as a whole."""

    seq: int
    kind: str  # the record's; "" where it can't be told
    what: str  # "file" | "order" | "chain" | "record" | "blob" | "head" | "tail"
    expected: str
    found: str

    def to_json(self) -> dict[str, int | str]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """A place in the chain that was written down elsewhere: in a model card, or by a reader."""

    seq: int
    chain: str


def first_wrong(
    folder: Path, *, authority: str | None = None, heads: tuple[Head, ...] = ()
) -> Wrong | None:
    """None when the logbook in `folder` is whole and genuine.

    `authority` (PEM) is the run's, as known from elsewhere: without it, a logbook that was forged
    from the first record on, with an authority of its own, looks as genuine as any. Without a
    head from elsewhere, records cut off behind the last signed head are not missed.
    """
    try:
        log = open_log(folder)
    except UserError as wrong:
        return Wrong(seq=0, kind="", what="file", expected="a logbook", found=wrong.what)
    try:
        integrity = log.integrity()
        if integrity != "ok":
            return Wrong(seq=0, kind="", what="file", expected="ok", found=integrity)
        return _Audit(log, authority).first_wrong(heads)
    except sqlite3.Error as wrong:
        return Wrong(seq=0, kind="", what="file", expected="ok", found=str(wrong))
    finally:
        log.close()


class _Audit:
    """One pass from the first record to the last."""

    def __init__(self, log: OpenLog, authority: str | None) -> None:
        self._log = log
        self._blobs = BlobFolder(log.blobs)
        self._admission = Admission(authority)
        self._chains = [GENESIS]
        self._good: set[str] = set()  # blobs that were looked at

    def first_wrong(self, heads: tuple[Head, ...]) -> Wrong | None:
        for row in self._log.rows():
            wrong = self._row(row)
            if wrong is not None:
                return wrong
        if self._admission.seq < 2:
            # Only the roster, the second record, brings the key that signed the first.
            return self._wrong(
                "tail", "a run record and a roster", f"{self._admission.seq} records"
            )
        return next((wrong for head in heads if (wrong := self._head(head, "tail"))), None)

    def _row(self, row: Row) -> Wrong | None:
        seq = len(self._chains)
        if row.seq != seq:
            return self._wrong("order", f"record {seq}", f"record {row.seq}")
        value = chain(self._chains[-1], row.raw)
        if value != row.chain:
            return self._wrong("chain", row.chain, value, row.raw)
        try:
            envelope, body = self._admission.check(row.raw)
        except DamagedError as wrong:
            return self._wrong("record", "as its writer signed it", wrong.what, row.raw)
        if envelope.key != row.key:
            return self._wrong("order", envelope.key, row.key, row.raw)
        wrong_body = self._named(body, row.raw) or self._signed_head(body, row.raw)
        self._admission.admit(envelope, body)
        self._chains.append(value)
        return wrong_body

    def _named(self, body: Body, raw: bytes) -> Wrong | None:
        """The blobs that a record names must be there, each as its digest says."""
        for digest, size in named_blobs(body):
            try:
                path = self._blobs.path(digest)
                found = path.stat().st_size
                if found != size:
                    return self._wrong("blob", f"{digest}, {size} bytes", f"{found} bytes", raw)
                if digest not in self._good and (is_now := file_digest(path)) != digest:
                    return self._wrong("blob", digest, is_now, raw)
            except FileNotFoundError:
                return self._wrong("blob", digest, "no such blob", raw)
            except DamagedError as wrong:
                return self._wrong("blob", "sha256:<hex>", wrong.what, raw)
            self._good.add(digest)
        return None

    def _signed_head(self, body: Body, raw: bytes) -> Wrong | None:
        """The controller signed how the log stood when it wrote: it must still stand so."""
        if not isinstance(body, Commit | Ended):
            return None
        return self._head(Head(seq=body.head_seq, chain=body.head_chain), "head", raw)

    def _head(self, head: Head, what: str, raw: bytes = b"") -> Wrong | None:
        if not 0 <= head.seq < len(self._chains):
            last = f"{len(self._chains) - 1} records"
            return self._wrong(what, f"record {head.seq} before this", last, raw)
        if self._chains[head.seq] != head.chain:
            found = f"{self._chains[head.seq]} at record {head.seq}"
            return self._wrong(what, head.chain, found, raw)
        return None

    def _wrong(self, what: str, expected: str, found: str, raw: bytes = b"") -> Wrong:
        return Wrong(
            seq=len(self._chains), kind=_kind(raw), what=what, expected=expected, found=found
        )


def _kind(raw: bytes) -> str:
    """The kind that a record says it has, however damaged it is otherwise."""
    try:
        return str(json.loads(raw)["kind"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
