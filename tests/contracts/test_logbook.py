"""What every logbook does. A backend is added by one more maker in MAKERS, and then passes this.

A maker is a function `(Signing, folder) -> context manager of Open`: `book(host)` is the logbook as
that host reaches it, with the host's own keys.
"""

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes.logbook import Signing, contribution, event
from fakes.server import RunningServer

from argosy.core.errors import DamagedError, FencedError, PolicyError
from argosy.core.records import CONTROLLER, Lead, RunBegun
from argosy.logbook import Logbook
from argosy.logbook.admission import RECORD_LIMIT
from argosy.logbook.blobs import digest_of
from argosy.logbook.chain import GENESIS, chain
from argosy.logbook.embedded import EmbeddedLogbook
from argosy.logbook.server import Serving

Book = Callable[[str], Logbook]


@dataclass
class Open:
    """One run's logbook, opened by its controller, with keys for Frankfurt and Tokyo."""

    signing: Signing
    book: Book


@contextlib.contextmanager
def embedded(signing: Signing, folder: Path) -> Iterator[Open]:
    with EmbeddedLogbook(folder) as book:
        yield Open(signing, lambda _host: book)


@contextlib.contextmanager
def remote(signing: Signing, folder: Path) -> Iterator[Open]:
    with (
        RunningServer(Serving(folder=folder, keys=signing.folder / "server")) as server,
        contextlib.ExitStack() as clients,
    ):
        yield Open(signing, lambda host: clients.enter_context(server.client(signing.keys(host))))


MAKERS = {"embedded": embedded, "remote": remote}


@pytest.fixture(params=MAKERS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    signing = Signing(tmp_path / "keys")
    with MAKERS[request.param](signing, tmp_path / "logbook") as opened:
        book = opened.book(CONTROLLER)
        for raw in signing.opening(signing.pen()):
            book.append(raw)
        yield opened


def all_of(book: Logbook) -> list[bytes]:
    raws: list[bytes] = []
    while batch := book.read(len(raws) + 1):
        raws += [entry.raw for entry in batch]
    return raws


def test_records_are_numbered_from_one_in_the_order_of_their_appends(run: Open) -> None:
    book, pen = run.book("tokyo-1"), run.signing.pen("tokyo-1")

    seqs = [book.append(pen.sign(event(str(i)), i)) for i in range(3)]

    assert seqs == [3, 4, 5]
    assert [entry.seq for entry in book.read(1)] == [1, 2, 3, 4, 5]


def test_what_is_read_is_byte_for_byte_what_was_signed(run: Open) -> None:
    book, pen = run.book("tokyo-1"), run.signing.pen("tokyo-1")
    raw = pen.sign(event("Grüße aus 東京"), 7)

    book.append(raw)
    (entry,) = book.read(3)

    assert entry.raw == raw
    assert entry.body == event("Grüße aus 東京")
    assert (entry.writer.site, entry.writer.host, entry.writer.incarnation) == (
        "tokyo", "tokyo-1", 1,
    )  # fmt: skip
    assert (entry.counter, entry.at_ms, entry.kind) == (1, 7, "event")


def test_every_entry_carries_the_chain_of_all_records_up_to_it(run: Open) -> None:
    book, pen = run.book("tokyo-1"), run.signing.pen("tokyo-1")
    for i in range(3):
        book.append(pen.sign(event(str(i)), i))

    value = GENESIS
    for entry in book.read(1):
        value = chain(value, entry.raw)
        assert entry.chain == value


def test_reading_from_the_middle_gives_the_same_entries(run: Open) -> None:
    book, pen = run.book("tokyo-1"), run.signing.pen("tokyo-1")
    for i in range(5):
        book.append(pen.sign(event(str(i)), i))

    assert run.book("frankfurt-1").read(4) == book.read(1)[3:]


def test_reading_beyond_the_end_gives_nothing(run: Open) -> None:
    assert run.book("tokyo-1").read(3) == []
    assert run.book("tokyo-1").read(1000) == []


def test_a_long_log_is_read_in_batches_until_nothing_comes(run: Open) -> None:
    book, pen = run.book("tokyo-1"), run.signing.pen("tokyo-1")
    raws = [pen.sign(event("x" * 900_000), i) for i in range(6)]
    for raw in raws:
        book.append(raw)

    assert all_of(run.book("frankfurt-1"))[2:] == raws


def test_a_waiting_reader_wakes_when_a_record_is_appended(run: Open) -> None:
    reader, writer = run.book("frankfurt-1"), run.book("tokyo-1")
    pen = run.signing.pen("tokyo-1")
    heard: list[str] = []

    def wait() -> None:
        heard.extend(entry.kind for entry in reader.read(3, wait_s=20.0))

    waiting = threading.Thread(target=wait)
    waiting.start()
    writer.append(pen.sign(event(), 1))
    waiting.join(10.0)

    assert heard == ["event"]


def test_a_wait_in_vain_ends(run: Open) -> None:
    assert run.book("tokyo-1").read(3, wait_s=0.05) == []


def test_the_same_record_again_gets_the_same_seq_and_lands_once(run: Open) -> None:
    book, pen = run.book("tokyo-1"), run.signing.pen("tokyo-1")
    raws = [pen.sign(event(str(i)), i) for i in range(3)]
    seqs = [book.append(raw) for raw in raws]

    assert [book.append(raw) for raw in raws] == seqs
    assert len(book.read(1)) == 5


def test_other_bytes_under_the_same_number_are_refused(run: Open) -> None:
    book = run.book("tokyo-1")
    book.append(run.signing.pen("tokyo-1").sign(event("one"), 1))

    with pytest.raises(DamagedError, match="already written"):
        book.append(run.signing.pen("tokyo-1").sign(event("two"), 1))


def test_a_writer_may_not_skip_a_number(run: Open) -> None:
    book, pen = run.book("tokyo-1"), run.signing.pen("tokyo-1")
    pen.sign(event("never appended"), 1)

    with pytest.raises(DamagedError, match="next record of tokyo/tokyo-1 is 1"):
        book.append(pen.sign(event(), 2))


def test_a_record_signed_after_another_than_the_newest_is_refused(run: Open) -> None:
    book = run.book("tokyo-1")
    first, other = run.signing.pen("tokyo-1"), run.signing.pen("tokyo-1")
    book.append(first.sign(event("one"), 1))
    other.sign(event("other"), 1)

    with pytest.raises(DamagedError, match="prev"):
        book.append(other.sign(event("two"), 2))


def test_an_older_life_of_a_host_is_fenced(run: Open) -> None:
    book = run.book("tokyo-1")
    zombie, heir = run.signing.pen("tokyo-1", 1), run.signing.pen("tokyo-1", 2)
    book.append(zombie.sign(event("before"), 1))
    book.append(heir.sign(event("after"), 2))

    with pytest.raises(FencedError, match="incarnation 2"):
        book.append(zombie.sign(event("late"), 3))
    assert book.append(heir.sign(event("on"), 4)) == 5


def test_a_changed_byte_is_refused(run: Open) -> None:
    book, pen = run.book("tokyo-1"), run.signing.pen("tokyo-1")
    raw = pen.sign(event("three"), 1)

    with pytest.raises(DamagedError, match="signature"):
        book.append(raw.replace(b"three", b"seven"))
    assert book.append(raw) == 3


def test_a_site_may_not_write_what_only_the_controller_may(run: Open) -> None:
    book, pen = run.book("tokyo-1"), run.signing.pen("tokyo-1")

    with pytest.raises(DamagedError, match="only the controller"):
        book.append(pen.sign(Lead(term=9), 1))


def test_a_run_begins_once(run: Open) -> None:
    book, pen = run.book(CONTROLLER), run.signing.pen(incarnation=2)

    with pytest.raises(DamagedError, match="one run record"):
        book.append(pen.sign(run.signing.begun(), 1))


def test_a_host_without_a_seat_may_not_write(run: Open, tmp_path: Path) -> None:
    stranger = Signing(tmp_path / "other")
    book = run.book("tokyo-1")

    with pytest.raises(DamagedError):
        book.append(stranger.pen("tokyo-1").sign(event(), 1))


def test_a_record_beyond_the_limit_is_refused(run: Open) -> None:
    book, pen = run.book("tokyo-1"), run.signing.pen("tokyo-1")

    with pytest.raises(DamagedError, match="at most"):
        book.append(pen.sign(event("x" * RECORD_LIMIT), 1))


def test_no_bytes_at_all_are_refused(run: Open) -> None:
    for raw in (b"", b"{}", b"[]", b"\xff", b'{"v":1}'):
        with pytest.raises(DamagedError):
            run.book("tokyo-1").append(raw)


def test_a_refusal_stores_nothing(run: Open) -> None:
    book, pen = run.book("tokyo-1"), run.signing.pen("tokyo-1")
    before = book.read(1)

    with pytest.raises(DamagedError):
        book.append(pen.sign(Lead(term=9), 1))

    assert book.read(1) == before


@pytest.mark.parametrize("size", [0, 1, 65_536, 1_048_576, 1_048_577, 9_000_001])
def test_a_blob_is_got_as_it_was_put(run: Open, size: int) -> None:
    book = run.book("tokyo-1")
    blob = (b"0123456789abcdef" * (size // 16 + 1))[:size]

    digest = book.put(blob)

    assert digest == digest_of(blob)
    assert book.get(digest) == blob


def test_a_blob_put_twice_is_one(run: Open) -> None:
    book = run.book("tokyo-1")

    assert book.put(b"twice") == book.put(b"twice")
    assert book.get(digest_of(b"twice")) == b"twice"


LARGE = random.Random(3).randbytes(6_000_001)  # so large that it is carried in ranges


def test_many_putting_one_blob_at_once_all_get_it(run: Open) -> None:
    """Hosts of one site, hosts of another, and threads of one host."""
    hosts = ("tokyo-1", "tokyo-1", "frankfurt-1", CONTROLLER)
    books = [run.book(host) for host in hosts]
    digests: list[str] = []

    def put(book: Logbook) -> None:
        digests.append(book.put(LARGE))
        assert book.get(digests[0]) == LARGE

    threads = [threading.Thread(target=put, args=(book,)) for book in books]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)

    assert digests == [digest_of(LARGE)] * len(hosts)


def test_who_gets_a_blob_while_it_is_put_gets_it_whole_or_not_at_all(run: Open) -> None:
    reader, writer = run.book("tokyo-1"), run.book("tokyo-1")
    digest, seen = digest_of(LARGE), []
    putting = threading.Thread(target=writer.put, args=(LARGE,))

    putting.start()
    while putting.is_alive():
        try:
            seen.append(reader.get(digest))
        except (DamagedError, PolicyError):  # not there yet
            seen.append(b"")
    putting.join()

    assert set(seen) <= {b"", LARGE}
    assert reader.get(digest) == LARGE


def test_many_get_a_large_blob_at_once(run: Open) -> None:
    book = run.book("tokyo-1")
    digest = book.put(LARGE)
    got: list[bool] = []

    threads = [
        threading.Thread(target=lambda: got.append(book.get(digest) == LARGE)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)

    assert got == [True] * 4


def test_a_contribution_may_name_a_blob_only_once_it_is_there(run: Open) -> None:
    book, pen = run.book("tokyo-1"), run.signing.pen("tokyo-1")
    raw = pen.sign(contribution(digest_of(b"payload"), 7), 1)

    with pytest.raises(DamagedError, match="named before it was put"):
        book.append(raw)
    book.put(b"payload")

    assert book.append(raw) == 3


def test_a_contribution_must_say_the_true_size_of_its_blob(run: Open) -> None:
    book, pen = run.book("tokyo-1"), run.signing.pen("tokyo-1")
    digest = book.put(b"payload")

    with pytest.raises(DamagedError, match="it has 7"):
        book.append(pen.sign(contribution(digest, 8), 1))


def test_another_site_gets_the_blob_that_a_contribution_names(run: Open) -> None:
    book, pen = run.book("tokyo-1"), run.signing.pen("tokyo-1")
    digest = book.put(b"payload")
    book.append(pen.sign(contribution(digest, 7), 1))

    assert run.book("frankfurt-1").get(digest) == b"payload"


def test_what_is_no_digest_is_refused(run: Open) -> None:
    for digest in ("", "sha256:abc", "sha256:../../../etc/passwd", "md5:" + "0" * 64):
        with pytest.raises(DamagedError):
            run.book("tokyo-1").get(digest)


def test_many_writers_at_once_all_land_in_one_order(run: Open) -> None:
    hosts = ("tokyo-1", "frankfurt-1")

    def write(host: str) -> None:
        book, pen = run.book(host), run.signing.pen(host)
        for i in range(10):
            book.append(pen.sign(event(f"{host} {i}"), i))

    writers = [threading.Thread(target=write, args=(host,)) for host in hosts]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(20.0)

    entries = run.book(CONTROLLER).read(3)
    assert [entry.seq for entry in entries] == list(range(3, 23))
    for host in hosts:
        assert [e.counter for e in entries if e.writer.host == host] == list(range(1, 11))
    assert not any(isinstance(entry.body, RunBegun) for entry in entries)
