"""Logbooks for tests: one in memory, one-line entries without keys, and a run with real keys."""

import hashlib
import threading
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from argosy.core.errors import DamagedError, DiskError, FencedError, HostError
from argosy.core.records import (
    CONTROLLER,
    Body,
    Contribution,
    Entry,
    HostEvent,
    Roster,
    RunBegun,
    Seat,
    Shard,
    Unknown,
    Writer,
)
from argosy.logbook.admission import CONTROLLER_ONLY
from argosy.logbook.chain import GENESIS
from argosy.logbook.encoding import KIND_OF, canonical, encode_body
from argosy.logbook.envelope import entry_of, open_envelope
from argosy.logbook.keys import Authority, Pen

RUN = "0198c0de-0000-7000-8000-000000000001"

Said = Body | tuple[str, Body] | tuple[str, str, Body] | tuple[Writer, Body]


def entries(*said: Said, site: str = "frankfurt") -> list[Entry]:
    """A log of these bodies, with no keys: entries(Lead(term=1), ("tokyo", contribution), ...).

    A bare body is written by the controller if only the controller may write it, else by `site`.
    Before it may stand a site, a site and a host, or a whole Writer.
    """
    book = FakeLogbook()
    for item in said:
        book.say(item, site=site)
    return book.read(1)


class FakeLogbook:
    """The four verbs in memory; checks order and fence, not signatures. `away`, `full` break it."""

    def __init__(self) -> None:
        self.away = False
        self.full = False
        self.raws: list[bytes] = []
        self.blobs: dict[str, bytes] = {}
        self.appends = 0  # how often append was called, refused calls included
        self._entries: list[Entry] = []
        self._last: dict[tuple[str, str], Entry] = {}
        self._news = threading.Condition()

    def append(self, signed: bytes) -> int:
        with self._news:
            self.appends += 1
            self._break()
            if signed in self.raws:
                return self.raws.index(signed) + 1
            envelope = open_envelope(signed)
            writer = envelope.writer
            last = self._last.get((writer.site, writer.host))
            if last is not None and writer.incarnation < last.writer.incarnation:
                raise FencedError(f"fenced: {writer.host} has begun anew")
            same_life = last is not None and last.writer == writer
            counter = last.counter if last is not None and same_life else 0
            if envelope.counter != counter + 1:
                raise DamagedError(f"counter: expected {counter + 1}, found {envelope.counter}")
            before = self._entries[-1].chain if self._entries else GENESIS
            entry = entry_of(len(self.raws) + 1, before, signed)
            self.raws.append(signed)
            self._entries.append(entry)
            self._last[writer.site, writer.host] = entry
            self._news.notify_all()
            return entry.seq

    def read(self, from_seq: int, wait_s: float = 0.0) -> list[Entry]:
        with self._news:
            self._break(full=False)
            if wait_s > 0:
                self._news.wait_for(lambda: len(self._entries) >= from_seq, wait_s)
            return self._entries[max(1, from_seq) - 1 :]

    def put(self, blob: bytes) -> str:
        self._break()
        digest = "sha256:" + hashlib.sha256(blob).hexdigest()
        self.blobs[digest] = bytes(blob)
        return digest

    def get(self, digest: str) -> bytes:
        self._break(full=False)
        if digest not in self.blobs:
            raise DamagedError(f"blob {digest}: not in this logbook")
        return self.blobs[digest]

    def say(self, said: Said, *, site: str = "frankfurt") -> int:
        """Append a body as if its writer had signed it."""
        writer, body = _who(said, site)
        last = self._last.get((writer.site, writer.host))
        same_life = last is not None and last.writer == writer
        kind, plain = encode_body(body)
        fields = {
            "v": 1, "kind": kind, "run": RUN, "site": writer.site, "host": writer.host,
            "incarnation": writer.incarnation,
            "counter": last.counter + 1 if last is not None and same_life else 1,
            "prev": hashlib.sha256(last.raw).hexdigest() if last and same_life else "",
            "at_ms": 1_700_000_000_000 + 1000 * len(self.raws),
            "body": plain, "signature": "00" * 64,
        }  # fmt: skip
        return self.append(canonical(fields))

    def _break(self, *, full: bool = True) -> None:
        if self.away:
            raise HostError("the logbook cannot be reached")
        if self.full and full:
            raise DiskError("the logbook's disk is full")


def _who(said: Said, site: str) -> tuple[Writer, Body]:
    if not isinstance(said, tuple):
        kind = said.kind if isinstance(said, Unknown) else KIND_OF[type(said)]
        if kind in CONTROLLER_ONLY:
            return Writer(site=CONTROLLER, host=CONTROLLER, incarnation=1), said
        return Writer(site=site, host=f"{site}-1", incarnation=1), said
    if isinstance(said[0], Writer):
        return said[0], said[-1]
    host = said[1] if len(said) == 3 else f"{said[0]}-1"
    return Writer(site=said[0], host=host, incarnation=1), said[-1]


COUNTRIES = {"frankfurt": "DE", "tokyo": "JP", "virginia": "US", CONTROLLER: "DE"}


@dataclass
class Signing:
    """A run with a real authority and real keys in a folder: what the real logbooks need."""

    folder: Path
    job: str = ""
    fleet: str = ""
    run: str = RUN
    at: datetime | None = None  # when the keys are issued; now, if not said
    seats: list[Seat] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.authority = Authority.make(self.folder / "ca", at=self.at)
        self.authority.issue_server(self.run, self.folder / "server", at=self.at)
        self.seat(CONTROLLER, CONTROLLER)
        for site in ("frankfurt", "tokyo"):
            self.seat(site, f"{site}-1")

    def seat(self, site: str, host: str) -> Path:
        """Issue a key and give it a seat in the roster to come; its keys folder."""
        folder = self.keys(host)
        certificate = self.authority.issue(self.run, site, host, folder, at=self.at)
        country = COUNTRIES.get(site, "DE")
        self.seats.append(Seat(site=site, host=host, country=country, certificate=certificate))
        return folder

    def keys(self, host: str) -> Path:
        return self.folder / "hosts" / host

    def pen(self, host: str = CONTROLLER, incarnation: int = 1) -> Pen:
        return Pen.open(self.keys(host), incarnation)

    def begun(self) -> RunBegun:
        return RunBegun(
            run=self.run, name="test", argosy="0.1.0", job=self.job, fleet=self.fleet,
            authority=self.authority.pem,
        )  # fmt: skip

    def roster(self) -> Roster:
        return Roster(seats=tuple(self.seats), torch="")

    def opening(self, pen: Pen) -> list[bytes]:
        """The first two records of a log, signed by the controller."""
        return [pen.sign(self.begun(), 1), pen.sign(self.roster(), 2)]


def event(detail: str = "", *, site: str = "frankfurt") -> HostEvent:
    """A body that any seat may write."""
    return HostEvent(what="fault", site=site, host="", detail=detail)


def contribution(blob: str, size: int, *, form: str = "update", n: int = 1) -> Contribution:
    """A contribution with one blob."""
    shard = Shard(parameter="*", start=0, stop=4, blob=blob, bytes=size)
    return Contribution(
        fragment=0, n=n, base=0, tokens=10, steps=1, trained=10 * n, codec="fp32", form=form,
        rule="by test", cursor="{}", incarnation=1, shards=(shard,),
    )  # fmt: skip
