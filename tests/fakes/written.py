"""A small finished run in a folder, written with real keys, and what a forger may do to it."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fakes.logbook import Signing, contribution, event

from argosy.core.records import Body, Checkpointed, Commit, Ended, Lead, Member
from argosy.logbook.blobs import BlobFolder, digest_of
from argosy.logbook.chain import GENESIS, chain
from argosy.logbook.embedded import EmbeddedLogbook
from argosy.logbook.encoding import canonical, parse
from argosy.logbook.envelope import open_envelope
from argosy.logbook.keys import Pen, read_private


@dataclass
class Written:
    """A small finished run: two sites, two rounds, a checkpoint, an end."""

    folder: Path
    signing: Signing
    raws: list[bytes]

    @property
    def blobs(self) -> BlobFolder:
        return BlobFolder(self.folder / "blobs")


def write(folder: Path) -> Written:
    """Writes it with real keys."""
    signing = Signing(folder / "keys")
    control, tokyo = signing.pen(), signing.pen("tokyo-1")
    frankfurt = signing.pen("frankfurt-1")
    with EmbeddedLogbook(folder / "log") as book:

        def say(pen: Pen, body: Body) -> None:
            book.append(pen.sign(body, book.head[0]))

        def commit(number: int) -> Commit:
            members = tuple(
                Member(site=site, n=number, tokens=10, steps=1) for site in ("frankfurt", "tokyo")
            )
            return Commit(
                fragment=0, round=number, term=1, plan=1, members=members, expired=(),
                tokens=20 * number, last=number == 2, head_seq=book.head[0],
                head_chain=book.head[1],
            )  # fmt: skip

        for raw in signing.opening(control):
            book.append(raw)
        say(control, Lead(term=1))
        for number in (1, 2):
            for pen in (tokyo, frankfurt):
                blob = f"update {number} of {pen.site}".encode()
                book.put(blob, pen.site)
                say(pen, contribution(digest_of(blob), len(blob), n=number))
            say(control, commit(number))
            say(tokyo, event(f"round {number} applied", site="tokyo"))
        book.put(b"model", "controller")
        say(control, Checkpointed(
            round=2, at_seq=8, blob=digest_of(b"model"), bytes=5, digest="", parameters=1,
            table="[]",
        ))  # fmt: skip
        say(control, Ended(
            outcome="done", rounds=2, tokens=40, head_seq=book.head[0], head_chain=book.head[1]
        ))  # fmt: skip
        raws = [row.raw for row in book.rows(1)]
    return Written(folder / "log", signing, raws)


@contextmanager
def database(folder: Path) -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(folder / "log.db", isolation_level=None)
    try:
        yield db
    finally:
        db.close()


def rewrite(written: Written, raws: list[bytes]) -> None:
    """Another log in its place, with chain and index to match: all that needs no key."""
    with database(written.folder) as db:
        db.execute("DELETE FROM records")
        value = GENESIS
        for seq, raw in enumerate(raws, 1):
            value = chain(value, raw)
            key = open_envelope(raw).key
            key += "'" * db.execute("SELECT key = ? FROM records", (key,)).fetchall().count((1,))
            db.execute("INSERT INTO records VALUES (?, ?, ?, ?)", (seq, key, value, raw))


def signed_anew(written: Written, raw: bytes, by: str, **changes: object) -> bytes:
    """The same record with some fields changed, signed with the key of the host `by`."""
    fields = parse(raw) | changes
    del fields["signature"]
    key = read_private(written.signing.keys(by) / "host.key")
    return canonical(fields | {"signature": key.sign(canonical(fields)).hex()})
