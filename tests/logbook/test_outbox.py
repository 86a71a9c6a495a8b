import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.logbook import FakeLogbook, Signing, contribution, event
from fakes.server import until

from argosy.core.errors import DamagedError, DiskError, FencedError, HostError, PolicyError
from argosy.core.records import Lead
from argosy.logbook import Logbook
from argosy.logbook.blobs import digest_of
from argosy.logbook.embedded import EmbeddedLogbook
from argosy.logbook.envelope import open_envelope
from argosy.logbook.keys import Pen
from argosy.logbook.outbox import Outbox

WAIT_S = 10.0


@pytest.fixture
def pen(tmp_path: Path) -> Pen:
    return Signing(tmp_path / "keys").pen("tokyo-1")


class Clock:
    """Every look is a millisecond later."""

    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        self.ms += 1
        return self.ms


def outbox(book: Logbook, pen: Pen) -> Outbox:
    return Outbox(book, pen, Clock(), first_pause_s=0.001)


class Watched(FakeLogbook):
    """Does something before every append, by its number."""

    def __init__(self, before: Callable[[int, bytes], None]) -> None:
        super().__init__()
        self._before = before

    def append(self, signed: bytes) -> int:
        self._before(self.appends, signed)
        return super().append(signed)


def test_posts_land_in_the_order_in_which_they_were_made(pen: Pen) -> None:
    book = FakeLogbook()
    with outbox(book, pen) as box:
        futures = [box.post(event(str(i))) for i in range(50)]
        assert [future.result(WAIT_S) for future in futures] == list(range(1, 51))

    assert [entry.counter for entry in book.read(1)] == list(range(1, 51))
    assert [entry.body for entry in book.read(1)] == [event(str(i)) for i in range(50)]


def test_the_blobs_of_a_post_are_there_before_its_record(pen: Pen) -> None:
    def there(_: int, signed: bytes) -> None:
        assert "payload" in signed.decode() or digest_of(b"payload") in book.blobs

    book = Watched(there)
    with outbox(book, pen) as box:
        done = box.post(contribution(digest_of(b"payload"), 7), [b"payload", b"more"])
        assert done.result(WAIT_S) == 1

    assert book.get(digest_of(b"more")) == b"more"


def test_a_record_says_when_it_was_posted_not_when_it_was_sent(pen: Pen) -> None:
    book = FakeLogbook()
    book.away = True
    clock = Clock()
    with Outbox(book, pen, clock, first_pause_s=0.001) as box:
        first, second = box.post(event("one")), box.post(event("two"))
        posted = clock.ms
        book.away = False
        first.result(WAIT_S)
        second.result(WAIT_S)

    assert all(entry.at_ms <= posted for entry in book.read(1))


@pytest.mark.parametrize("trouble", ["away", "full"])
def test_while_the_logbook_is_away_or_full_posts_wait_and_then_land(pen: Pen, trouble: str) -> None:
    book = FakeLogbook()
    with outbox(book, pen) as box:
        assert box.post(event("before")).result(WAIT_S) == 1
        assert box.away_since is None
        setattr(book, trouble, True)
        futures = [box.post(event(str(i)), [b"blob"]) for i in range(3)]
        until(lambda: box.away_since is not None)
        since = box.away_since
        assert isinstance(box.trouble, HostError | DiskError)
        assert box.waiting == 3
        assert not any(future.done() for future in futures)

        assert box.away_since == since  # not the newest try: the first
        setattr(book, trouble, False)
        assert [future.result(WAIT_S) for future in futures] == [2, 3, 4]
        until(lambda: box.waiting == 0)
        assert box.away_since is None
        assert box.trouble is None


def test_a_refused_record_fails_alone_and_the_next_takes_its_number(tmp_path: Path) -> None:
    signing = Signing(tmp_path / "keys")
    with EmbeddedLogbook(tmp_path / "log") as book:
        for raw in signing.opening(signing.pen()):
            book.append(raw)
        with outbox(book, signing.pen("tokyo-1")) as box:
            first = box.post(event("one"))
            refused = box.post(Lead(term=9))
            large = box.post(event("x" * 2_000_000))
            last = box.post(event("two"))

            assert first.result(WAIT_S) == 3
            assert isinstance(refused.exception(WAIT_S), DamagedError)
            assert isinstance(large.exception(WAIT_S), DamagedError)
            assert last.result(WAIT_S) == 4

        assert [entry.counter for entry in book.read(3)] == [1, 2]


def test_a_record_that_policy_refuses_fails_alone_too(pen: Pen) -> None:
    def refuse(number: int, _: bytes) -> None:
        if number == 1:
            raise PolicyError("may not go to JP")

    class Refusing(Watched):
        def append(self, signed: bytes) -> int:
            try:
                return super().append(signed)
            except PolicyError:
                self.appends += 1
                raise

    book = Refusing(refuse)
    with outbox(book, pen) as box:
        futures = [box.post(event(str(i))) for i in range(3)]
        assert futures[0].result(WAIT_S) == 1
        assert isinstance(futures[1].exception(WAIT_S), PolicyError)
        assert futures[2].result(WAIT_S) == 2


def test_a_lost_answer_leads_to_the_same_record_again(pen: Pen) -> None:
    class Forgetful(FakeLogbook):
        """Stores the record, then the line breaks."""

        def append(self, signed: bytes) -> int:
            seq = super().append(signed)
            if self.appends % 2 == 1:
                raise HostError("the line broke")
            return seq

    book = Forgetful()
    with outbox(book, pen) as box:
        futures = [box.post(event(str(i))) for i in range(5)]
        assert [future.result(WAIT_S) for future in futures] == [1, 2, 3, 4, 5]

    assert len(book.raws) == 5


def test_once_fenced_nothing_more_is_said(pen: Pen, tmp_path: Path) -> None:
    book = FakeLogbook()
    heir = Signing(tmp_path / "heir").pen("tokyo-1", incarnation=2)
    with outbox(book, pen) as box:
        assert box.post(event("one")).result(WAIT_S) == 1
        assert box.fenced is None
        book.append(heir.sign(event("heir"), 1))

        assert isinstance(box.post(event("two")).exception(WAIT_S), FencedError)
        asked = book.appends
        assert isinstance(box.post(event("three")).exception(WAIT_S), FencedError)
        assert book.appends == asked
        assert box.fenced is not None


def test_closing_sends_what_is_waiting(pen: Pen) -> None:
    book = FakeLogbook()
    box = outbox(book, pen)
    futures = [box.post(event(str(i))) for i in range(20)]

    assert box.close(within_s=WAIT_S)
    assert [future.result(0) for future in futures] == list(range(1, 21))
    assert box.close(within_s=WAIT_S)  # twice is no mistake
    with pytest.raises(AssertionError, match="closed"):
        box.post(event("late"))


def test_closing_while_the_logbook_is_away_gives_up_in_time(pen: Pen) -> None:
    book = FakeLogbook()
    book.away = True
    box = outbox(book, pen)
    futures = [box.post(event(str(i))) for i in range(3)]
    until(lambda: box.away_since is not None)

    assert not box.close(within_s=0.05)

    for future in futures:
        assert isinstance(future.exception(WAIT_S), HostError)
    assert book.raws == []


def test_a_call_that_hangs_does_not_keep_the_process(pen: Pen) -> None:
    let_go = threading.Event()

    def hang(_: int, __: bytes) -> None:
        let_go.wait(WAIT_S)

    book = Watched(hang)
    box = outbox(book, pen)
    future = box.post(event())
    second = box.post(event())

    assert not box.close(within_s=0.05)
    let_go.set()

    assert future.result(WAIT_S) == 1
    assert isinstance(second.exception(WAIT_S), HostError)


def test_a_post_that_was_cancelled_in_time_is_not_sent(pen: Pen) -> None:
    let_go = threading.Event()

    def hang(_: int, __: bytes) -> None:
        let_go.wait(WAIT_S)

    book = Watched(hang)
    with outbox(book, pen) as box:
        first, cancelled, last = (box.post(event(str(i))) for i in range(3))
        assert cancelled.cancel()
        let_go.set()
        assert (first.result(WAIT_S), last.result(WAIT_S)) == (1, 2)

    assert [open_envelope(raw).counter for raw in book.raws] == [1, 2]


def test_a_mistake_of_ours_is_told_to_who_posted(pen: Pen) -> None:
    book = FakeLogbook()
    with outbox(book, pen) as box:
        wrong = box.post(Lead(term=2**60))  # no record can hold it
        right = box.post(event())

        assert isinstance(wrong.exception(WAIT_S), AssertionError)
        assert right.result(WAIT_S) == 1
