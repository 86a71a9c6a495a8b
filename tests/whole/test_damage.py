"""A finished run of real processes, harmed in one place: the audit says which."""

import contextlib
import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fakes.whole import argosy

from argosy.core.records import Checkpointed, Contribution, Entry
from argosy.logbook import open_log
from argosy.logbook.blobs import BlobFolder
from argosy.logbook.chain import GENESIS, chain
from argosy.logbook.encoding import canonical, parse
from argosy.logbook.keys import read_private
from argosy.logbook.verify import Head, Wrong, first_wrong
from argosy.run.audit import audit
from argosy.run.folder import RunFolder

if TYPE_CHECKING:
    from whole.conftest import Undisturbed

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

EVERY_KIND = (
    "run", "roster", "lead", "plan", "crew", "start", "access", "contribution", "commit", "drain",
    "checkpoint", "digest", "progress", "evaluation", "end",
)  # fmt: skip
BYTES_EACH = 3  # places in a record that are tried


@pytest.fixture
def copy(undisturbed: "Undisturbed", tmp_path: Path) -> RunFolder:
    """What an auditor needs of a run: its logbook, and the authority that he knows."""
    folder = RunFolder(tmp_path / undisturbed.folder.name)
    shutil.copytree(undisturbed.folder.logbook, folder.logbook)
    shutil.copytree(undisturbed.folder.path / "keys", folder.path / "keys")
    shutil.copy(undisturbed.folder.job, folder.job)
    with changing(folder) as db:
        db.execute("PRAGMA journal_mode = DELETE")  # one file to harm
    return folder


@contextlib.contextmanager
def changing(folder: RunFolder) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(folder.logbook / "log.db")) as db:
        yield db
        db.commit()


def write(folder: RunFolder, seq: int, raw: bytes, *, chained: bool) -> None:
    """Another record in place of one; `chained`: with a chain made to match, to the end."""
    with changing(folder) as db:
        db.execute("UPDATE records SET raw = ? WHERE seq = ?", (raw, seq))
        if chained:
            value = GENESIS
            for number, row in db.execute("SELECT seq, raw FROM records ORDER BY seq").fetchall():
                value = chain(value, row)
                db.execute("UPDATE records SET chain = ? WHERE seq = ?", (value, number))


def named(folder: RunFolder) -> Wrong:
    found = audit(folder)
    assert not found.ok, "nobody noticed"
    assert found.first_wrong is not None
    return found.first_wrong


def one_of(entries: list[Entry], kind: str) -> Entry:
    there = [entry for entry in entries if entry.kind == kind]
    assert there, f"a whole run holds a record of the kind {kind}"
    return there[len(there) // 2]


def test_the_copy_is_ok_before_it_is_harmed(copy: RunFolder) -> None:
    assert audit(copy).ok


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_one_changed_byte_of_a_record_is_named(
    undisturbed: "Undisturbed", copy: RunFolder, kind: str
) -> None:
    entry, chance = one_of(undisturbed.entries, kind), random.Random(kind)
    places = [chance.randrange(len(entry.raw)) for _ in range(BYTES_EACH)]
    for at in places:
        harmed = bytearray(entry.raw)
        harmed[at] ^= 1 << chance.randrange(8)
        write(copy, entry.seq, bytes(harmed), chained=False)

        wrong = named(copy)

        assert (wrong.seq, wrong.what) == (entry.seq, "chain"), (at, wrong)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_one_changed_byte_with_a_chain_made_to_match_is_named_by_the_signature(
    undisturbed: "Undisturbed", copy: RunFolder, kind: str
) -> None:
    entry = one_of(undisturbed.entries, kind)
    plain = entry.raw.decode()
    at = plain.index('"at_ms":') + len('"at_ms":')
    harmed = plain[:at] + str((int(plain[at]) % 9) + 1) + plain[at + 1 :]
    write(copy, entry.seq, harmed.encode(), chained=True)

    wrong = named(copy)

    # The run record is signed by the controller, whose key only the roster brings.
    where = {1: 2}.get(entry.seq, entry.seq)
    assert (wrong.seq, wrong.what) == (where, "record"), wrong
    assert "signature" in wrong.found


@pytest.mark.parametrize("kind", ["contribution", "checkpoint"])
def test_one_changed_byte_of_a_blob_is_named(
    undisturbed: "Undisturbed", copy: RunFolder, kind: str
) -> None:
    entry = one_of(undisturbed.entries, kind)
    path = BlobFolder(copy.logbook / "blobs").path(blob_in(entry))
    harmed = bytearray(path.read_bytes())
    harmed[len(harmed) // 2] ^= 4
    path.write_bytes(harmed)

    wrong = named(copy)

    assert (wrong.seq, wrong.kind, wrong.what) == (entry.seq, kind, "blob")
    assert wrong.expected == blob_in(entry)


def blob_in(entry: Entry) -> str:
    match entry.body:
        case Contribution(shards=(shard, *_)):
            return shard.blob
        case Checkpointed(blob=blob):
            return blob
        case _:
            raise AssertionError(entry.kind)


@pytest.mark.parametrize("cut", [1, 1000])
def test_a_blob_that_is_cut_short_or_gone_is_named(
    undisturbed: "Undisturbed", copy: RunFolder, cut: int
) -> None:
    entry = one_of(undisturbed.entries, "contribution")
    path = BlobFolder(copy.logbook / "blobs").path(blob_in(entry))
    path.write_bytes(path.read_bytes()[:-cut])
    assert (named(copy).seq, named(copy).what) == (entry.seq, "blob")

    path.unlink()

    assert (named(copy).seq, named(copy).found) == (entry.seq, "no such blob")


@pytest.mark.parametrize("kind", ["contribution", "progress", "digest"])
def test_a_record_signed_anew_by_another_site_is_named(
    undisturbed: "Undisturbed", copy: RunFolder, kind: str
) -> None:
    entry = next(
        e for e in undisturbed.entries if e.kind == kind and e.writer.site == "tokyo" and e.counter
    )
    key = read_private(copy.keys("frankfurt", "frankfurt-1") / "host.key")
    fields = parse(entry.raw)
    del fields["signature"]
    fields["signature"] = key.sign(canonical(fields)).hex()
    write(copy, entry.seq, canonical(fields), chained=True)

    wrong = named(copy)

    assert (wrong.seq, wrong.kind, wrong.what) == (entry.seq, kind, "record")
    assert "not made with the key of tokyo/tokyo-1" in wrong.found


def test_a_record_taken_out_is_named(undisturbed: "Undisturbed", copy: RunFolder) -> None:
    entry = one_of(undisturbed.entries, "evaluation")
    with changing(copy) as db:
        db.execute("DELETE FROM records WHERE seq = ?", (entry.seq,))
    assert (named(copy).seq, named(copy).what) == (entry.seq, "order")

    with changing(copy) as db:  # and the later ones moved up, with a chain to match
        rows = db.execute("SELECT key, raw FROM records ORDER BY seq").fetchall()
        db.execute("DELETE FROM records")
        value = GENESIS
        for seq, (key, raw) in enumerate(rows, start=1):
            value = chain(value, raw)
            db.execute("INSERT INTO records VALUES (?, ?, ?, ?)", (seq, key, value, raw))

    wrong = named(copy)

    assert wrong.seq >= entry.seq, "its writer's next record, or the next signed head, misses it"
    assert wrong.what in ("record", "head")


def test_a_tail_that_was_cut_off_is_missed_by_who_knows_a_later_head(
    undisturbed: "Undisturbed", copy: RunFolder
) -> None:
    last = undisturbed.entries[-1]
    known = (Head(seq=last.seq, chain=last.chain),)
    assert first_wrong(copy.logbook, heads=known) is None
    with changing(copy) as db:
        db.execute("DELETE FROM records WHERE seq > ?", (last.seq - 5,))

    wrong = first_wrong(copy.logbook, heads=known)

    assert wrong is not None
    assert (wrong.seq, wrong.what) == (last.seq - 4, "tail")


def test_damage_to_the_database_file_is_reported(copy: RunFolder) -> None:
    path = copy.logbook / "log.db"
    whole, chance = path.read_bytes(), random.Random(5)
    with contextlib.closing(open_log(copy.logbook)) as log:
        before = [row.raw for row in log.rows()]
    unharmed = 0
    for page in chance.sample(range(len(whole) // 4096), 6):
        harmed = bytearray(whole)
        harmed[page * 4096 : page * 4096 + 64] = chance.randbytes(64)
        path.write_bytes(harmed)

        found = audit(copy)

        if found.ok:  # a page that holds nothing: then nothing may read otherwise
            with contextlib.closing(open_log(copy.logbook)) as log:
                assert [row.raw for row in log.rows()] == before
            unharmed += 1
    assert unharmed < 6


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
        lambda path: path.write_bytes(b"not a database at all" * 1000),
        lambda path: path.unlink(),
    ],
    ids=["half of it", "something else", "nothing"],
)
def test_the_command_says_what_is_wrong_and_ends_with_6(
    copy: RunFolder, harm: Callable[[Path], object]
) -> None:
    harm(copy.logbook / "log.db")

    told = argosy("audit", str(copy.path), "--json", cwd=copy.path)

    assert told.returncode == 6, told
    assert "Traceback" not in told.stderr
    proof = json.loads(told.stdout)
    assert proof["ok"] is False
    assert proof["first_wrong"]["what"] == "file"
