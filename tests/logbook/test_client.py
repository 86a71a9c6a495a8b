import random
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fakes.logbook import Signing, event
from fakes.server import RunningServer, Wire, gate_for, job

from argosy.core.errors import DamagedError, HostError
from argosy.core.records import CONTROLLER
from argosy.logbook import open_log
from argosy.logbook.admission import RECORD_LIMIT
from argosy.logbook.blobs import BlobFolder, digest_of
from argosy.logbook.chain import GENESIS, chain
from argosy.logbook.client import RemoteLogbook, wall_ms
from argosy.logbook.connection import Patience
from argosy.logbook.embedded import EmbeddedLogbook
from argosy.logbook.gate import Gate
from argosy.logbook.keys import Identity
from argosy.logbook.server import Serving

BLOB = random.Random(1).randbytes(3_000_000)


@pytest.fixture
def signing(tmp_path: Path) -> Signing:
    return Signing(tmp_path / "keys")


@pytest.fixture
def serving(tmp_path: Path, signing: Signing) -> Serving:
    with EmbeddedLogbook(tmp_path / "log") as book:
        for raw in signing.opening(signing.pen()):
            book.append(raw)
    return Serving(folder=tmp_path / "log", keys=tmp_path / "keys" / "server")


@pytest.fixture
def server(serving: Serving) -> Iterator[RunningServer]:
    with RunningServer(serving) as running:
        yield running


def once(limit: int) -> Callable[[int], int | None]:
    """Cut the first connection after so many bytes."""
    return lambda connection: limit if connection == 0 else None


def through(
    wire: Wire, signing: Signing, *, within_s: float = 20.0, lanes: int = 1
) -> RemoteLogbook:
    return RemoteLogbook(wire.url, signing.keys("tokyo-1"), within_s=within_s, lanes=lanes)


def test_an_upload_goes_on_after_a_cut_and_sends_nothing_twice(
    server: RunningServer, signing: Signing
) -> None:
    with Wire(server.port, cut_up=once(2_000_000)) as wire, through(wire, signing) as book:
        digest = book.put(BLOB)

        assert wire.connections == 2
        assert len(BLOB) < wire.up < len(BLOB) + 400_000
        assert book.get(digest) == BLOB


def test_a_download_goes_on_after_a_cut_and_fetches_nothing_twice(
    server: RunningServer, signing: Signing
) -> None:
    with server.client(signing.keys("tokyo-1")) as direct:
        digest = direct.put(BLOB)
    with Wire(server.port, cut_down=once(2_000_000)) as wire, through(wire, signing) as book:
        assert book.get(digest) == BLOB
        assert wire.connections == 2
        assert len(BLOB) < wire.down < len(BLOB) + 400_000


def test_a_line_that_breaks_again_and_again_still_moves_a_blob(
    server: RunningServer, signing: Signing
) -> None:
    with (
        Wire(server.port, cut_up=lambda _: 700_000, cut_down=lambda _: 500_000) as wire,
        through(wire, signing, within_s=3.0) as book,
    ):
        assert book.get(book.put(BLOB)) == BLOB
        assert wire.connections >= 9


@pytest.mark.parametrize("part", range(3))
def test_an_append_whose_answer_is_lost_lands_once(
    server: RunningServer, signing: Signing, part: int
) -> None:
    """The first connection is cut at ever later places: handshake, request, answer."""
    pen = signing.pen("tokyo-1")
    cuts = list(range(60, 3600, 120))[part::3]
    for i, cut in enumerate(cuts):
        with Wire(server.port, cut_down=once(cut)) as wire, through(wire, signing) as book:
            assert book.append(pen.sign(event(str(i)), i)) == 3 + i

    with server.client(signing.keys("tokyo-1")) as book:
        assert len(book.read(1)) == 2 + len(cuts)


def test_a_read_that_is_cut_is_asked_again(server: RunningServer, signing: Signing) -> None:
    pen = signing.pen("tokyo-1")
    with server.client(signing.keys("tokyo-1")) as direct:
        for i in range(20):
            direct.append(pen.sign(event("x" * 5000), i))
    with Wire(server.port, cut_down=once(60_000)) as wire, through(wire, signing) as book:
        assert [entry.seq for entry in book.read(1)] == list(range(1, 23))


def test_a_logbook_that_is_away_is_a_host_error_after_a_while(
    server: RunningServer, signing: Signing
) -> None:
    with server.client(signing.keys("tokyo-1"), within_s=0.4) as book:
        server.stop()
        began = time.monotonic()
        with pytest.raises(HostError, match="cannot be reached") as away:
            book.append(signing.pen("tokyo-1").sign(event(), 1))

    assert 0.3 < time.monotonic() - began < 5.0
    assert away.value.where == server.url
    assert away.value.exit_code == 4


def test_a_call_goes_through_once_the_logbook_is_back(
    server: RunningServer, signing: Signing
) -> None:
    got: list[int] = []
    with server.client(signing.keys("tokyo-1")) as book:
        server.stop()
        raw = signing.pen("tokyo-1").sign(event(), 1)
        calling = threading.Thread(target=lambda: got.append(book.append(raw)))
        calling.start()
        with server.again():
            calling.join(15.0)

    assert got == [3]


def test_a_blob_that_comes_damaged_is_fetched_again(serving: Serving, signing: Signing) -> None:
    class Mending(Gate):
        """Its disk reads the blob wrong the first time."""

        fetches = 0

        def check_fetch(self, who: Identity, digest: str, owners: frozenset[str]) -> None:
            super().check_fetch(who, digest, owners)
            self.fetches += 1
            good = self.fetches > 1
            BlobFolder(serving.folder / "blobs").path(digest).write_bytes(
                b"payload" if good else b"payloaf"
            )

    gate = Mending(gate_for(job())._read)
    with RunningServer(serving, gate) as server, server.client(signing.keys("tokyo-1")) as book:
        assert book.get(book.put(b"payload")) == b"payload"
        assert gate.fetches == 2


def test_a_blob_that_stays_damaged_is_an_error_that_names_it(
    serving: Serving, server: RunningServer, signing: Signing
) -> None:
    with server.client(signing.keys("tokyo-1")) as book:
        digest = book.put(b"payload")
        BlobFolder(serving.folder / "blobs").path(digest).write_bytes(b"payloaf")

        with pytest.raises(DamagedError, match="fetched twice") as damaged:
            book.get(digest)
    assert digest in damaged.value.what


def test_a_part_that_went_bad_on_the_servers_disk_is_sent_anew(
    serving: Serving, server: RunningServer, signing: Signing
) -> None:
    parts = serving.folder / "blobs" / "parts"

    def spoil(connection: int) -> int | None:
        if connection == 1:
            (part,) = parts.glob("*.part")
            part.write_bytes(bytes(part.stat().st_size))
        return 2_000_000 if connection == 0 else None

    with Wire(server.port, cut_up=spoil) as wire, through(wire, signing) as book:
        assert book.get(book.put(BLOB)) == BLOB


def test_a_record_too_large_is_refused_before_it_is_sent(
    server: RunningServer, signing: Signing
) -> None:
    with server.client(signing.keys("tokyo-1")) as book, pytest.raises(DamagedError, match="most"):
        book.append(bytes(RECORD_LIMIT + 1))


def test_the_keys_of_another_run_are_said_at_once(server: RunningServer, tmp_path: Path) -> None:
    other = Signing(tmp_path / "other")
    began = time.monotonic()

    with (
        server.client(other.keys("tokyo-1"), within_s=20.0) as book,
        pytest.raises(HostError, match="no trust") as wrong,
    ):
        book.read(1)

    assert time.monotonic() - began < 5.0
    assert "must be of this run" in (wrong.value.hint or "")


def test_a_server_that_is_not_the_logbook_is_not_believed(
    serving: Serving, signing: Signing
) -> None:
    """Another host of the run has its certificate from the same authority."""
    false = replace(serving, keys=signing.keys("frankfurt-1"))
    with (
        RunningServer(false) as server,
        server.client(signing.keys("tokyo-1")) as book,
        pytest.raises(HostError, match="no trust"),
    ):
        book.read(1)


def test_a_key_that_is_not_of_its_authority_is_said_before_anything_is_sent(
    signing: Signing, tmp_path: Path
) -> None:
    keys = signing.keys("tokyo-1")
    shutil.copy(Signing(tmp_path / "other").keys("tokyo-1") / "ca.pem", keys / "ca.pem")

    with pytest.raises(HostError, match="was not issued by") as wrong:
        RemoteLogbook("https://127.0.0.1:1", keys)
    assert wrong.value.where == str(keys)


def test_a_key_that_does_not_fit_its_certificate_is_said(signing: Signing) -> None:
    keys = signing.keys("tokyo-1")
    shutil.copy(signing.keys("frankfurt-1") / "host.key", keys / "host.key")

    with pytest.raises(HostError, match="cannot use these keys"):
        RemoteLogbook("https://127.0.0.1:1", keys)


@pytest.mark.parametrize("hours", [-23, -1, 1, 23])
def test_a_clock_that_is_off_by_hours_does_not_keep_a_host_away(tmp_path: Path, hours: int) -> None:
    """The run's keys are issued by a clock that is off; the hosts' clocks are right."""
    at = datetime.now(UTC) + timedelta(hours=hours)
    signing = Signing(tmp_path / "keys", at=at)
    serving = Serving(folder=tmp_path / "log", keys=tmp_path / "keys" / "server")
    with RunningServer(serving) as server, server.client(signing.keys(CONTROLLER)) as book:
        assert [book.append(raw) for raw in signing.opening(signing.pen())] == [1, 2]


@pytest.mark.parametrize("off_ms", [-3_600_000, 0, 3_600_000])
def test_a_clock_that_is_off_is_reported(
    server: RunningServer, signing: Signing, off_ms: int
) -> None:
    with RemoteLogbook(
        server.url, signing.keys("tokyo-1"), now_ms=lambda: wall_ms() + off_ms
    ) as book:
        assert abs(book.clock_offset_ms() - off_ms) < 500


def test_the_link_is_measured_in_both_directions(server: RunningServer, signing: Signing) -> None:
    with server.client(signing.keys("tokyo-1")) as book:
        rtt_ms, up, down = book.probe()

    assert 0 < rtt_ms < 1000
    assert up > 1
    assert down > 1


def test_threads_may_share_a_client(server: RunningServer, signing: Signing) -> None:
    pen = signing.pen("tokyo-1")
    with server.client(signing.keys("tokyo-1")) as book:
        for i in range(30):
            book.append(pen.sign(event(str(i)), i))
        got: list[list[int]] = []

        def work(number: int) -> None:
            blob = bytes([number]) * 100_000
            assert book.get(book.put(blob)) == blob
            got.append([entry.seq for entry in book.read(number + 1)])

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30.0)

    assert sorted(got) == [list(range(i + 1, 33)) for i in range(8)]


def forge(folder: Path, seq: int, old: bytes, new: bytes) -> None:
    """Change a record as one could who holds the server: with a chain to match, but no keys."""
    db = sqlite3.connect(folder / "log.db", isolation_level=None)
    value = GENESIS
    rows = db.execute("SELECT seq, raw FROM records ORDER BY seq").fetchall()
    for at, raw in rows:
        changed = raw.replace(old, new) if at == seq else raw
        assert at != seq or changed != raw
        value = chain(value, changed)
        db.execute("UPDATE records SET raw = ?, chain = ? WHERE seq = ?", (changed, value, at))
    db.close()


def test_a_reader_does_not_believe_a_server_that_forges_a_record(
    serving: Serving, signing: Signing
) -> None:
    with EmbeddedLogbook(serving.folder) as store:
        store.append(signing.pen("tokyo-1").sign(event("lost 3 tokens"), 1))
    forge(serving.folder, 3, b"lost 3", b"lost 9")

    with (
        RunningServer(serving) as server,
        server.client(signing.keys("frankfurt-1")) as book,
        pytest.raises(DamagedError, match="record 3: signature"),
    ):
        book.read(3)


def test_a_reader_notices_that_the_log_was_set_back(
    serving: Serving, signing: Signing, tmp_path: Path
) -> None:
    shutil.copytree(serving.folder, tmp_path / "earlier")
    pen = signing.pen("tokyo-1")
    with RunningServer(serving) as server:
        reader = server.client(signing.keys("frankfurt-1"))
        with server.client(signing.keys("tokyo-1")) as book:
            book.append(pen.sign(event("before"), 1))
        assert len(reader.read(1)) == 3
    shutil.rmtree(serving.folder)
    shutil.copytree(tmp_path / "earlier", serving.folder)
    with server.again() as again, reader, again.client(signing.keys("tokyo-1")) as book:
        other = signing.pen("tokyo-1")
        for i in range(2):
            book.append(other.sign(event("another past"), i))

        with pytest.raises(DamagedError, match="record 3: the logbook serves another one"):
            reader.read(4)
        with pytest.raises(DamagedError, match="another one"):
            reader.read(3)
    log = open_log(serving.folder)
    assert len(log.entries()) == 4
    log.close()


def test_an_answer_of_no_logbook_is_said(server: RunningServer, signing: Signing) -> None:
    with (
        server.client(signing.keys("tokyo-1")) as book,
        pytest.raises(HostError, match="unexpected answer 404"),
    ):
        book._connection.ask("GET", "/nothing/here")


def test_patience_ends_and_progress_renews_it() -> None:
    patience = Patience(within_s=0.0)
    patience.renew()
    assert patience.pause_s() is None

    patience = Patience(within_s=1000.0)
    patience.renew()
    pauses = [patience.pause_s() for _ in range(12)]
    assert all(pause is not None and 0 < pause <= 3.0 for pause in pauses)
    assert patience.tries == 12
    patience.renew()
    assert patience.tries == 0


def test_a_digest_of_another_form_is_refused_without_asking(signing: Signing) -> None:
    with RemoteLogbook("https://127.0.0.1:1", signing.keys("tokyo-1"), within_s=0.1) as book:
        with pytest.raises(DamagedError, match="is not sha256"):
            book.get("sha256:xyz")
        with pytest.raises(HostError):
            book.get(digest_of(b"x"))
