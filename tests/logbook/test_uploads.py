import os
import time
from pathlib import Path

import pytest

from argosy.core.errors import DamagedError, DiskError
from argosy.logbook.blobs import BlobFolder, digest_of
from argosy.logbook.uploads import UNFINISHED, OffsetError, Uploads

BLOB = bytes(range(256)) * 40
DIGEST = digest_of(BLOB)


@pytest.fixture
def blobs(tmp_path: Path) -> BlobFolder:
    return BlobFolder(tmp_path / "blobs", limit=1_000_000)


def parts(blobs: BlobFolder) -> list[Path]:
    return sorted(blobs.parts.glob("*.part"))


def test_a_blob_arrives_piece_by_piece(blobs: BlobFolder) -> None:
    upload = Uploads(blobs).begin("tokyo", DIGEST, 0, len(BLOB))

    upload.write(BLOB[:5000])
    assert not upload.finish()
    upload.write(BLOB[5000:])

    assert upload.finish()
    assert blobs.get(DIGEST) == BLOB
    assert parts(blobs) == []


def test_an_upload_goes_on_where_it_broke_off_even_at_a_new_server(blobs: BlobFolder) -> None:
    first = Uploads(blobs)
    upload = first.begin("tokyo", DIGEST, 0, len(BLOB))
    upload.write(BLOB[:5000])
    first.end(upload)

    second = Uploads(blobs)
    have = second.have("tokyo", DIGEST)
    upload = second.begin("tokyo", DIGEST, have, len(BLOB))
    upload.write(BLOB[have:])

    assert have == 5000
    assert upload.finish()
    second.end(upload)
    assert blobs.get(DIGEST) == BLOB


def test_what_one_site_has_sent_is_nothing_to_another(blobs: BlobFolder) -> None:
    uploads = Uploads(blobs)
    uploads.begin("tokyo", DIGEST, 0, len(BLOB)).write(BLOB[:5000])

    assert uploads.have("tokyo", DIGEST) == 5000
    assert uploads.have("frankfurt", DIGEST) == 0


def test_a_newer_upload_takes_the_place_of_one_that_hangs(blobs: BlobFolder) -> None:
    uploads = Uploads(blobs)
    hung = uploads.begin("tokyo", DIGEST, 0, len(BLOB))
    hung.write(BLOB[:5000])

    newer = uploads.begin("tokyo", DIGEST, 5000, len(BLOB))
    with pytest.raises(OffsetError):
        hung.write(b"garbage from a connection thought dead")
    newer.write(BLOB[5000:])
    assert newer.finish()
    with pytest.raises(OffsetError):
        hung.finish()
    uploads.end(hung)

    assert blobs.get(DIGEST) == BLOB


def test_an_upload_that_leaves_a_gap_is_told_where_to_go_on(blobs: BlobFolder) -> None:
    uploads = Uploads(blobs)
    uploads.begin("tokyo", DIGEST, 0, len(BLOB)).write(BLOB[:10])

    with pytest.raises(OffsetError) as told:
        uploads.begin("tokyo", DIGEST, 11, len(BLOB))

    assert told.value.have == 10


def test_an_upload_may_begin_again_before_its_end(blobs: BlobFolder) -> None:
    uploads = Uploads(blobs)
    uploads.begin("tokyo", DIGEST, 0, len(BLOB)).write(b"x" * 9000)

    upload = uploads.begin("tokyo", DIGEST, 0, len(BLOB))
    upload.write(BLOB)

    assert upload.finish()


def test_what_does_not_have_its_digest_is_dropped_whole(blobs: BlobFolder) -> None:
    uploads = Uploads(blobs)
    upload = uploads.begin("tokyo", DIGEST, 0, len(BLOB))
    upload.write(bytes(len(BLOB)))

    with pytest.raises(DamagedError, match="what arrived has the digest"):
        upload.finish()

    assert blobs.size(DIGEST) is None
    assert uploads.have("tokyo", DIGEST) == 0


def test_more_bytes_than_announced_are_refused(blobs: BlobFolder) -> None:
    upload = Uploads(blobs).begin("tokyo", DIGEST, 0, 10)

    with pytest.raises(DamagedError, match="more than the 10 bytes"):
        upload.write(bytes(11))


def test_a_blob_beyond_the_limit_is_refused_before_it_comes(blobs: BlobFolder) -> None:
    with pytest.raises(DamagedError, match="at most 1000000"):
        Uploads(blobs).begin("tokyo", DIGEST, 0, 1_000_001)


def test_a_site_keeps_so_many_unfinished_blobs_and_no_more(blobs: BlobFolder) -> None:
    uploads = Uploads(blobs)
    began = time.time_ns() - 10**12
    for i in range(UNFINISHED + 3):
        upload = uploads.begin("tokyo", digest_of(b"%d" % i), 0, 100)
        upload.write(b"some")
        uploads.end(upload)
        os.utime(upload.part, ns=(began + i, began + i))
    uploads.end(uploads.begin("frankfurt", digest_of(b"f"), 0, 100))

    assert len(parts(blobs)) == UNFINISHED + 1
    assert uploads.have("tokyo", digest_of(b"0")) == 0
    assert uploads.have("tokyo", digest_of(b"3")) == 4


def test_a_disk_that_does_not_take_it_is_a_disk_error(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("in the way")

    with pytest.raises(DiskError, match="cannot write"):
        Uploads(BlobFolder(tmp_path / "blobs")).begin("tokyo", DIGEST, 0, 1)
