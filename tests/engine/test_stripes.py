"""What the training thread waits for when a stripe is uploaded: nothing."""

import threading
from collections.abc import Sequence

from fakes.logbook import FakeLogbook, contribution

from argosy.core.errors import DamagedError
from argosy.core.records import Contribution
from argosy.engine.stripes import PATIENCE_S, Stripes, patience_s

WITHIN_S = 10.0


class SlowLogbook(FakeLogbook):
    """An upload ends when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.began = threading.Event()

    def put(self, blob: bytes) -> str:
        self.began.set()
        assert self.go_on.wait(WITHIN_S)
        return super().put(blob)


class Notes:
    """Of a crew, only what its members tell each other."""

    def __init__(self) -> None:
        self.told: set[str] = set()
        self.news = threading.Event()

    def note(self, key: str) -> None:
        self.told.add(key)
        self.news.set()

    def noted(self, key: str) -> bool:
        return key in self.told


class Sent:
    def __init__(self) -> None:
        self.posts: list[tuple[Contribution, Sequence[bytes]]] = []

    def __call__(self, body: Contribution, frames: Sequence[bytes]) -> None:
        self.posts.append((body, frames))


BODY = contribution("sha256:" + "0" * 64, 1)


def stripes(logbook: FakeLogbook, notes: Notes, sent: Sent) -> Stripes:
    return Stripes(logbook, notes, sent)  # type: ignore[arg-type]  # two of a crew's methods


def test_an_upload_does_not_hold_the_training_thread() -> None:
    logbook, notes = SlowLogbook(), Notes()

    stripes(logbook, notes, Sent()).upload("put/1/0/1", b"a stripe")  # returns while it is put

    assert logbook.began.wait(WITHIN_S)
    assert not notes.told
    logbook.go_on.set()
    assert notes.news.wait(WITHIN_S)
    assert notes.told == {"put/1/0/1"}
    assert list(logbook.blobs.values()) == [b"a stripe"]


def test_a_post_waits_for_the_stripes_of_others_without_holding_anyone() -> None:
    notes, sent = Notes(), Sent()
    mine = stripes(SlowLogbook(), notes, sent)

    mine.post(BODY, [b"own", b"other"], ["k0", "k1"])
    mine.flush()
    assert sent.posts == []
    notes.note("k1")
    mine.flush()

    assert sent.posts == [(BODY, [b"own"])]


def test_who_leaves_sends_what_is_missing_itself() -> None:
    sent = Sent()
    mine = stripes(SlowLogbook(), Notes(), sent)

    mine.post(BODY, [b"own", b"other", b""], ["k0", "k1", "k2"])
    mine.flush(now=True)

    assert sent.posts == [(BODY, [b"own", b"other"])]


def test_a_stripe_that_is_refused_is_not_said_to_be_there() -> None:
    class Refusing(FakeLogbook):
        def __init__(self) -> None:
            super().__init__()
            self.asked = threading.Event()

        def put(self, blob: bytes) -> str:
            self.asked.set()
            raise DamagedError(f"blob: {len(blob)} bytes are too many")

    logbook, notes = Refusing(), Notes()
    stripes(logbook, notes, Sent()).upload("k1", b"a stripe")

    assert logbook.asked.wait(WITHIN_S)
    assert not notes.told


def test_a_large_stripe_may_take_longer_before_it_is_sent_twice() -> None:
    """1 MB/s is 8 Mbit/s."""
    assert patience_s(0) == PATIENCE_S
    assert patience_s(300_000_000) == PATIENCE_S + 300.0
