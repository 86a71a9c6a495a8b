import json
import os
import time
from pathlib import Path

import pytest

from argosy.core.errors import DamagedError, DiskError
from argosy.logbook.blobs import BlobFolder, digest_of
from argosy.logbook.uploads import STRETCHES, UNFINISHED, OffsetError, Uploads

BLOB = bytes(range(256)) * 40
DIGEST = digest_of(BLOB)
SIZE = len(BLOB)
MOST_BYTES = 100_000


class Owned:
    """Who asks for a digest after it was verified."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@pytest.fixture
def own() -> Owned:
    return Owned()


@pytest.fixture
def blobs(tmp_path: Path) -> BlobFolder:
    return BlobFolder(tmp_path / "blobs", limit=1_000_000)


@pytest.fixture
def uploads(blobs: BlobFolder) -> Uploads:
    return Uploads(blobs, most_bytes=MOST_BYTES)


def parts(blobs: BlobFolder) -> list[Path]:
    return sorted(blobs.parts.glob("*.part"))


def bring(uploads: Uploads, start: int, stop: int, *, site: str = "tokyo") -> None:
    """A request that brings these bytes of BLOB and ends without asking whether it is whole."""
    upload = uploads.begin(site, DIGEST, (start, stop), SIZE)
    upload.write(BLOB[start:stop])
    uploads.end(upload)


def test_a_blob_arrives_piece_by_piece(uploads: Uploads, blobs: BlobFolder, own: Owned) -> None:
    upload = uploads.begin("tokyo", DIGEST, (0, SIZE), SIZE)

    upload.write(BLOB[:5000])
    assert not upload.finish(own)
    upload.write(BLOB[5000:])

    assert own.times == 0
    assert upload.finish(own)
    assert own.times == 1
    assert blobs.get(DIGEST) == BLOB
    assert list(blobs.parts.iterdir()) == []


def test_ranges_come_in_any_order_and_side_by_side(
    uploads: Uploads, blobs: BlobFolder, own: Owned
) -> None:
    cuts = [(7000, SIZE), (0, 3000), (3000, 7000)]
    ranges = [uploads.begin("tokyo", DIGEST, cut, SIZE) for cut in cuts]
    for at in range(0, 4000, 500):  # each a little, in turn
        for upload, (start, stop) in zip(ranges, cuts, strict=True):
            upload.write(BLOB[start + at : min(start + at + 500, stop)])

    assert ranges[1].finish(own)
    for other in (ranges[0], ranges[2]):
        with pytest.raises(OffsetError):
            other.finish(own)  # its client asks, and is told that it is done
    assert blobs.get(DIGEST) == BLOB


def test_what_is_missing_is_told_range_by_range(uploads: Uploads) -> None:
    assert uploads.standing("tokyo", DIGEST).missing is None

    bring(uploads, 100, 200)
    bring(uploads, 500, 700)

    standing = uploads.standing("tokyo", DIGEST)
    assert standing.have == 0
    assert standing.missing == ((0, 100), (200, 500), (700, SIZE))
    bring(uploads, 0, 150)
    assert uploads.standing("tokyo", DIGEST).have == 200


def test_an_upload_goes_on_where_it_broke_off_even_at_a_new_server(
    uploads: Uploads, blobs: BlobFolder, own: Owned
) -> None:
    bring(uploads, 0, 5000)
    bring(uploads, 6000, 8000)

    second = Uploads(blobs, most_bytes=MOST_BYTES)
    standing = second.standing("tokyo", DIGEST)
    assert standing.missing == ((5000, 6000), (8000, SIZE))
    bring(second, 5000, 6000)
    upload = second.begin("tokyo", DIGEST, (8000, SIZE), SIZE)
    upload.write(BLOB[8000:])

    assert upload.finish(own)
    second.end(upload)
    assert blobs.get(DIGEST) == BLOB


@pytest.mark.parametrize("note", [b"", b"{", b"[1]", b'{"of": "x", "have": 3}', None])
def test_a_part_without_its_note_is_sent_anew(
    uploads: Uploads, blobs: BlobFolder, note: bytes | None
) -> None:
    bring(uploads, 0, 5000)
    (part,) = parts(blobs)
    path = part.with_suffix(".have")
    path.unlink() if note is None else path.write_bytes(note)

    assert Uploads(blobs, most_bytes=MOST_BYTES).standing("tokyo", DIGEST).missing is None
    assert parts(blobs) == []


def test_a_note_that_says_more_than_the_file_holds_is_not_believed(
    uploads: Uploads, blobs: BlobFolder
) -> None:
    bring(uploads, 0, 5000)
    (part,) = parts(blobs)
    told = {"of": SIZE, "have": [[0, 3000], [4000, 6000], [9, 3]]}
    part.with_suffix(".have").write_text(json.dumps(told))

    standing = Uploads(blobs, most_bytes=MOST_BYTES).standing("tokyo", DIGEST)

    assert standing.missing == ((3000, SIZE),)


def test_what_one_site_has_sent_is_nothing_to_another(uploads: Uploads) -> None:
    bring(uploads, 0, 5000)

    assert uploads.standing("tokyo", DIGEST).have == 5000
    assert uploads.standing("frankfurt", DIGEST).missing is None


def test_two_requests_that_bring_the_same_bytes_do_no_harm(
    uploads: Uploads, blobs: BlobFolder, own: Owned
) -> None:
    hung = uploads.begin("tokyo", DIGEST, (0, SIZE), SIZE)
    hung.write(BLOB[:5000])
    newer = uploads.begin("tokyo", DIGEST, (4000, SIZE), SIZE)
    newer.write(BLOB[4000:])

    hung.write(b"?" * 5000)  # all of it is there already: nothing is written twice
    assert newer.finish(own)
    with pytest.raises(OffsetError):
        hung.write(BLOB[-1:])
    with pytest.raises(OffsetError):
        hung.finish(own)
    uploads.end(hung)
    uploads.end(newer)

    assert blobs.get(DIGEST) == BLOB


def test_what_does_not_have_its_digest_is_dropped_whole(
    uploads: Uploads, blobs: BlobFolder, own: Owned
) -> None:
    bring(uploads, 0, 5000)
    upload = uploads.begin("tokyo", DIGEST, (5000, SIZE), SIZE)
    upload.write(bytes(SIZE - 5000))

    with pytest.raises(DamagedError, match="what arrived has the digest"):
        upload.finish(own)
    uploads.end(upload)

    assert own.times == 0
    assert blobs.size(DIGEST) is None
    assert uploads.standing("tokyo", DIGEST).missing is None
    assert list(blobs.parts.iterdir()) == []


def test_bytes_that_changed_on_the_disk_since_are_noticed(
    uploads: Uploads, blobs: BlobFolder, own: Owned
) -> None:
    bring(uploads, 0, 5000)
    (part,) = parts(blobs)
    part.write_bytes(bytes(5000))
    uploads.standing("tokyo", DIGEST)  # as a client asks that comes back
    upload = uploads.begin("tokyo", DIGEST, (5000, SIZE), SIZE)
    upload.write(BLOB[5000:])

    with pytest.raises(DamagedError, match="what arrived"):
        upload.finish(own)


def test_more_bytes_than_announced_are_refused(uploads: Uploads) -> None:
    upload = uploads.begin("tokyo", DIGEST, (0, 10), SIZE)

    with pytest.raises(DamagedError, match="more than the 10 bytes"):
        upload.write(bytes(11))


@pytest.mark.parametrize("stretch", [(5, 4), (0, SIZE + 1), (SIZE + 1, SIZE + 1)])
def test_a_range_outside_its_blob_is_refused(uploads: Uploads, stretch: tuple[int, int]) -> None:
    with pytest.raises(DamagedError, match="no bytes"):
        uploads.begin("tokyo", DIGEST, stretch, SIZE)


def test_a_blob_beyond_the_limit_is_refused_before_it_comes(uploads: Uploads) -> None:
    with pytest.raises(DamagedError, match="at most 1000000"):
        uploads.begin("tokyo", DIGEST, (0, 10), 1_000_001)


def test_a_blob_cannot_have_two_sizes_at_once(uploads: Uploads) -> None:
    other = uploads.begin("tokyo", DIGEST, (0, 10), SIZE)
    with pytest.raises(DamagedError, match="by another request"):
        uploads.begin("tokyo", DIGEST, (0, 10), SIZE - 1)
    uploads.end(other)

    uploads.end(uploads.begin("tokyo", DIGEST, (0, 10), SIZE - 1))
    assert uploads.standing("tokyo", DIGEST).missing == ((0, SIZE - 1),)


def test_a_site_keeps_so_many_unfinished_blobs_and_no_more(
    uploads: Uploads, blobs: BlobFolder
) -> None:
    began = time.time_ns() - 10**12
    for i in range(UNFINISHED + 3):
        upload = uploads.begin("tokyo", digest_of(b"%d" % i), (0, 100), 100)
        upload.write(b"some")
        uploads.end(upload)
        os.utime(upload.part.path, ns=(began + i, began + i))
    uploads.end(uploads.begin("frankfurt", digest_of(b"f"), (0, 100), 100))

    assert len(parts(blobs)) == UNFINISHED + 1
    assert uploads.standing("tokyo", digest_of(b"0")).have == 0
    assert uploads.standing("tokyo", digest_of(b"3")).have == 4


def test_a_site_keeps_so_many_unfinished_bytes_and_no_more(uploads: Uploads) -> None:
    """100,000 of them: what has come, and what requests under way have announced."""
    first, second = digest_of(b"first"), digest_of(b"second")
    upload = uploads.begin("tokyo", first, (0, 60_000), 60_000)
    upload.write(bytes(50_000))
    uploads.end(upload)

    held = uploads.begin("tokyo", second, (0, 60_000), 60_000)  # the older one makes room
    assert uploads.standing("tokyo", first).missing is None
    with pytest.raises(DiskError, match="more unfinished uploads than"):
        uploads.begin("tokyo", first, (0, 60_000), 60_000)
    with pytest.raises(DiskError):  # even of the same blob
        uploads.begin("tokyo", second, (0, 60_000), 60_000)
    uploads.end(uploads.begin("frankfurt", first, (0, 60_000), 60_000))
    uploads.end(held)

    uploads.end(uploads.begin("tokyo", first, (0, 60_000), 60_000))


def test_a_blob_in_crumbs_is_refused(uploads: Uploads) -> None:
    """What it takes to remember them is bounded as well."""
    total = 3 * STRETCHES
    for i in range(STRETCHES):
        upload = uploads.begin("tokyo", DIGEST, (2 * i, 2 * i + 1), total)
        upload.write(b"x")
        uploads.end(upload)

    with pytest.raises(DamagedError, match="separate pieces"):
        uploads.begin("tokyo", DIGEST, (total - 1, total), total)
    assert len(uploads.standing("tokyo", DIGEST).missing or ()) == STRETCHES


def test_a_disk_that_does_not_take_it_is_a_disk_error(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("in the way")

    with pytest.raises(DiskError, match="cannot write"):
        Uploads(BlobFolder(tmp_path / "blobs"), most_bytes=MOST_BYTES).begin(
            "tokyo", DIGEST, (0, 1), 1
        )
