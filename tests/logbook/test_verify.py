import hashlib
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.logbook import Signing
from fakes.written import Written, database, rewrite, signed_anew, write

from argosy.core.errors import DamagedError
from argosy.core.records import Lead
from argosy.logbook import open_log
from argosy.logbook.blobs import digest_of
from argosy.logbook.chain import GENESIS, chain
from argosy.logbook.embedded import EmbeddedLogbook
from argosy.logbook.encoding import parse
from argosy.logbook.envelope import open_envelope
from argosy.logbook.keys import Authority
from argosy.logbook.verify import Head, Wrong, first_wrong


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write(tmp_path_factory.mktemp("run"))


@pytest.fixture
def written(original: Written, tmp_path: Path) -> Written:
    """A copy to damage."""
    shutil.copytree(original.folder, tmp_path / "log")
    return replace(original, folder=tmp_path / "log")


def named(wrong: Wrong | None) -> tuple[int, str, str]:
    assert wrong is not None
    return wrong.seq, wrong.kind, wrong.what


def test_a_log_as_it_was_written_is_whole(original: Written) -> None:
    assert first_wrong(original.folder) is None
    assert first_wrong(original.folder, authority=original.signing.authority.pem) is None


def test_a_log_that_is_being_written_is_whole_so_far(tmp_path: Path) -> None:
    signing = Signing(tmp_path / "keys")
    with EmbeddedLogbook(tmp_path / "log") as book:
        pen = signing.pen()
        for raw in signing.opening(pen):
            book.append(raw)
        assert first_wrong(tmp_path / "log") is None
        book.append(pen.sign(Lead(term=1), 3))
        assert first_wrong(tmp_path / "log") is None


def test_one_changed_byte_in_any_record_is_named(written: Written) -> None:
    chance = random.Random(5)
    for seq, raw in enumerate(written.raws, 1):
        for at in {0, len(raw) - 1, *(chance.randrange(len(raw)) for _ in range(8))}:
            changed = bytearray(raw)
            changed[at] ^= 1 << chance.randrange(8)
            with database(written.folder) as db:
                db.execute("UPDATE records SET raw = ? WHERE seq = ?", (bytes(changed), seq))
                wrong = first_wrong(written.folder)
                db.execute("UPDATE records SET raw = ? WHERE seq = ?", (raw, seq))

            assert wrong is not None
            assert (wrong.seq, wrong.what) == (seq, "chain")
            assert wrong.expected != wrong.found


def test_a_changed_byte_with_a_chain_to_match_is_named_by_its_signature(
    written: Written,
) -> None:
    chance = random.Random(6)
    for seq, raw in enumerate(written.raws, 1):
        text = raw.decode()
        digits = [i for i, sign in enumerate(text) if sign.isdigit()]
        at = chance.choice(digits)
        other = str((int(text[at]) + 1) % 9 + 1)
        changed = (text[:at] + other + text[at + 1 :]).encode()
        try:
            open_envelope(changed)
        except Exception:  # noqa: BLE001 - no longer a record at all: another test's business
            continue
        rewrite(written, [*written.raws[: seq - 1], changed, *written.raws[seq:]])

        wrong = first_wrong(written.folder)

        assert wrong is not None
        # The first two records are believed only once the second has brought the key.
        assert wrong.seq == (2 if seq == 1 else seq)
        assert wrong.what == "record"


def test_one_changed_byte_in_any_blob_is_named(written: Written) -> None:
    for path in [p for p in (written.folder / "blobs").rglob("*") if p.is_file()]:
        good = path.read_bytes()
        changed = bytearray(good)
        changed[-1] ^= 1
        path.write_bytes(bytes(changed))
        wrong = first_wrong(written.folder)
        path.write_bytes(good)

        assert wrong is not None
        assert wrong.what == "blob"
        assert wrong.expected == f"sha256:{path.name}"
        assert wrong.found == digest_of(bytes(changed))
        assert path.name in written.raws[wrong.seq - 1].decode()


def test_a_blob_that_is_missing_or_cut_is_named(written: Written) -> None:
    path = written.blobs.path(digest_of(b"model"))
    path.write_bytes(b"mode")
    wrong = first_wrong(written.folder)
    assert named(wrong) == (12, "checkpoint", "blob")
    assert wrong is not None
    assert "4 bytes" in wrong.found

    path.unlink()
    assert named(first_wrong(written.folder)) == (12, "checkpoint", "blob")


def test_a_record_signed_anew_with_another_sites_key_is_named(written: Written) -> None:
    forged = signed_anew(written, written.raws[3], "frankfurt-1")
    rewrite(written, [*written.raws[:3], forged, *written.raws[4:]])

    wrong = first_wrong(written.folder)

    assert named(wrong) == (4, "contribution", "record")
    assert wrong is not None
    assert "not made with the key of tokyo/tokyo-1" in wrong.found


def test_a_record_given_to_another_site_with_its_key_is_named(written: Written) -> None:
    """Tokyo's contribution under Frankfurt's name: then Frankfurt's own no longer fit."""
    forged = signed_anew(
        written, written.raws[3], "frankfurt-1", site="frankfurt", host="frankfurt-1"
    )
    rewrite(written, [*written.raws[:3], forged, *written.raws[4:]])

    assert named(first_wrong(written.folder)) == (5, "contribution", "record")


def test_a_commit_written_by_a_site_is_named(written: Written) -> None:
    forged = signed_anew(
        written, written.raws[5], "tokyo-1", site="tokyo", host="tokyo-1", counter=2,
        prev=open_envelope(written.raws[3]).sha256,
    )  # fmt: skip
    rewrite(written, [*written.raws[:5], forged, *written.raws[6:]])

    wrong = first_wrong(written.folder)

    assert named(wrong) == (6, "commit", "record")
    assert wrong is not None
    assert "only the controller" in wrong.found


@pytest.mark.parametrize("seq", range(1, 13))  # the last one is the test of the tail
def test_a_record_that_was_taken_out_is_missed(written: Written, seq: int) -> None:
    rewrite(written, written.raws[: seq - 1] + written.raws[seq:])

    assert first_wrong(written.folder) is not None


@pytest.mark.parametrize("seq", range(1, 13))
def test_two_records_that_changed_places_are_missed(written: Written, seq: int) -> None:
    raws = list(written.raws)
    raws[seq - 1], raws[seq] = raws[seq], raws[seq - 1]
    rewrite(written, raws)

    assert first_wrong(written.folder) is not None


def test_a_hole_in_the_numbers_is_named(written: Written) -> None:
    with database(written.folder) as db:
        db.execute("DELETE FROM records WHERE seq = 5")

    wrong = first_wrong(written.folder)

    assert wrong == Wrong(seq=5, kind="", what="order", expected="record 5", found="record 6")


def test_a_log_that_ends_before_a_head_known_from_elsewhere_lacks_its_tail(
    written: Written,
) -> None:
    value = GENESIS
    for raw in written.raws:
        value = chain(value, raw)
    head = Head(seq=len(written.raws), chain=value)
    assert first_wrong(written.folder, heads=(head,)) is None
    rewrite(written, written.raws[:-2])
    assert first_wrong(written.folder) is None  # nothing in it says that there was more

    wrong = first_wrong(written.folder, heads=(head,))

    assert named(wrong) == (12, "", "tail")
    assert wrong is not None
    assert (wrong.expected, wrong.found) == ("record 13 before this", "11 records")


def test_a_head_known_from_elsewhere_with_another_chain_is_named(written: Written) -> None:
    wrong = first_wrong(written.folder, heads=(Head(seq=3, chain="ab" * 32),))

    assert wrong is not None
    assert (wrong.what, wrong.expected) == ("tail", "ab" * 32)


@pytest.mark.parametrize("seq", [4, 5])
def test_a_last_record_cut_off_before_a_signed_head_is_missed(written: Written, seq: int) -> None:
    """A site's newest record is tied to nothing of its own: the head in the commit ties it."""
    keep = [raw for raw in written.raws[:6] if raw != written.raws[seq - 1]]
    rewrite(written, keep)

    wrong = first_wrong(written.folder)

    assert named(wrong) == (5, "commit", "head")
    assert wrong is not None
    assert (wrong.expected, wrong.found) == ("record 5 before this", "4 records")


def test_a_signed_head_with_another_chain_is_named(written: Written) -> None:
    fields = parse(written.raws[-1])
    body = fields["body"] | {"head_chain": "cd" * 32}
    rewrite(written, [*written.raws[:-1], signed_anew(written, written.raws[-1], "controller",
            body=body)])  # fmt: skip

    wrong = first_wrong(written.folder)

    assert named(wrong) == (13, "end", "head")
    assert wrong is not None
    assert wrong.expected == "cd" * 32


def test_a_log_forged_as_a_whole_fails_against_the_authority_that_is_known(
    original: Written, tmp_path: Path
) -> None:
    forger = Signing(tmp_path / "keys")
    with EmbeddedLogbook(tmp_path / "log") as book:
        for raw in forger.opening(forger.pen()):
            book.append(raw)
    assert first_wrong(tmp_path / "log") is None

    wrong = first_wrong(tmp_path / "log", authority=original.signing.authority.pem)

    assert named(wrong) == (1, "run", "record")
    assert wrong is not None
    assert "another certificate authority" in wrong.found


def test_a_log_with_an_authority_that_did_not_issue_its_keys_is_named(
    written: Written, tmp_path: Path
) -> None:
    other = Authority.make(tmp_path / "other")
    body = parse(written.raws[0])["body"] | {"authority": other.pem}
    run = signed_anew(written, written.raws[0], "controller", body=body)
    roster = signed_anew(
        written, written.raws[1], "controller", prev=hashlib.sha256(run).hexdigest()
    )
    rewrite(written, [run, roster])

    wrong = first_wrong(written.folder)

    assert named(wrong) == (2, "roster", "record")
    assert wrong is not None
    assert "not issued by the authority of this run" in wrong.found


@pytest.mark.parametrize("records", [0, 1])
def test_a_log_without_its_roster_proves_nothing(written: Written, records: int) -> None:
    rewrite(written, written.raws[:records])

    wrong = first_wrong(written.folder)

    assert wrong is not None
    assert (wrong.what, wrong.found) == ("tail", f"{records} records")


def test_an_index_that_says_otherwise_is_named(written: Written) -> None:
    with database(written.folder) as db:
        db.execute("UPDATE records SET key = 'x' WHERE seq = 4")

    assert named(first_wrong(written.folder)) == (4, "contribution", "order")


def test_what_is_wrong_is_said_in_json() -> None:
    wrong = Wrong(seq=3, kind="commit", what="head", expected="a", found="b")

    assert json.loads(json.dumps(wrong.to_json())) == {
        "seq": 3, "kind": "commit", "what": "head", "expected": "a", "found": "b",
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["shards"][0].update(blob="sha256:../x"),
        lambda body: body["shards"][0].update(bytes=1),
        lambda body: body["shards"][0].update(blob="sha256:" + "0" * 64),
    ],
    ids=["name", "size", "absent"],
)
def test_a_contribution_that_names_what_is_not_there_is_named(
    written: Written, change: Callable[[dict[str, object]], None]
) -> None:
    """The store would not have taken it; another one may have."""
    body = parse(written.raws[3])["body"]
    change(body)
    rewrite(written, [*written.raws[:3], signed_anew(written, written.raws[3], "tokyo-1",
            body=body)])  # fmt: skip

    assert named(first_wrong(written.folder)) == (4, "contribution", "blob")


def test_a_database_with_a_hole_in_it_is_said_to_be_damaged(written: Written) -> None:
    path = written.folder / "log.db"
    whole = path.read_bytes()
    page = int.from_bytes(whole[16:18], "big")
    path.write_bytes(whole[:page] + bytes(len(whole) - page))

    reader = open_log(written.folder)

    with pytest.raises(DamagedError, match="damaged"):
        reader.entries()
    reader.close()
