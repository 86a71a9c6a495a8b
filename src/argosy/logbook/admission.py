"""Who may write what, folded record by record: the store asks it before, the auditor after."""

from dataclasses import dataclass

from argosy.core.errors import DamagedError, FencedError
from argosy.core.records import CONTROLLER, Body, Roster, RunBegun, Seat, Writer
from argosy.logbook.envelope import Envelope, check_name, open_envelope
from argosy.logbook.keys import Identity, check_certificate, check_signature, fingerprint

RECORD_LIMIT = 1024 * 1024  # bytes; a roster of a thousand hosts needs about 700 KiB

CONTROLLER_ONLY = frozenset(
    {"run", "lead", "roster", "crew", "plan", "commit", "drain", "checkpoint", "end"}
)
BESIDE_CONTROLLER = frozenset({"checkpoint"})  # of these, what its helpers may write too


@dataclass(frozen=True, kw_only=True, slots=True)
class Hand:
    """Where a host stands in its own numbering."""

    incarnation: int
    counter: int
    sha256: str  # of its newest record


class Admission:
    """What the records so far say about the next: its run, its seats, and every host's numbering.

    `check` decides and changes nothing; `admit` takes the record in once it is stored.
    """

    def __init__(self, authority: str | None = None) -> None:
        self.run = ""
        self.authority = authority  # PEM; when given, the run record must name the same
        self.seats: dict[tuple[str, str], Seat] = {}
        self.seq = 0
        self._hands: dict[tuple[str, str], Hand] = {}
        self._first: Envelope | None = None  # the run record, until the roster brings its key
        self._leads = ""  # the controller's host: it began the run

    def check(self, raw: bytes) -> tuple[Envelope, Body]:
        """Raises DamagedError (FencedError for an older life of the host) when it may not stand."""
        if len(raw) > RECORD_LIMIT:
            raise DamagedError(f"record: {len(raw)} bytes, at most {RECORD_LIMIT}")
        envelope = open_envelope(raw)
        body = envelope.decode()
        if self.seq == 0:
            self._check_first(envelope, body)
        else:
            if envelope.run != self.run:
                raise DamagedError(f"run: this is {self.run}, the record is of {envelope.run}")
            self._check_writer(envelope, body)
        self._check_order(envelope)
        return envelope, body

    def admit(self, envelope: Envelope, body: Body) -> None:
        writer = envelope.writer
        if isinstance(body, RunBegun):
            self.run, self.authority, self._first = body.run, body.authority, envelope
            self._leads = writer.host
        elif isinstance(body, Roster):
            self.seats = {(seat.site, seat.host): seat for seat in body.seats}
            self._first = None
        self._hands[writer.site, writer.host] = Hand(
            incarnation=writer.incarnation, counter=envelope.counter, sha256=envelope.sha256
        )
        self.seq += 1

    def hand(self, site: str, host: str) -> Hand | None:
        return self._hands.get((site, host))

    def _check_first(self, envelope: Envelope, body: Body) -> None:
        if not isinstance(body, RunBegun):
            raise DamagedError(f"{envelope.kind}: the first record of a logbook is the run record")
        if envelope.writer.site != CONTROLLER:
            raise DamagedError(f"run: only the controller begins one, not {envelope.writer.site}")
        if body.run != envelope.run or not body.run:
            raise DamagedError(f"run: the envelope says {envelope.run!r}, the body {body.run!r}")
        found = fingerprint(body.authority)
        if self.authority is not None and fingerprint(self.authority) != found:
            raise DamagedError("run: names another certificate authority than expected")

    def _check_writer(self, envelope: Envelope, body: Body) -> None:
        """Its seat, its signature, and whether that seat may write such a record."""
        writer = envelope.writer
        if isinstance(body, RunBegun):
            raise DamagedError("run: a logbook has one run record, its first")
        if isinstance(body, Roster):
            self._check_roster(envelope, body)
        seat = self._seat(writer, body)
        check_signature(envelope.signature, envelope.signed, seat.certificate)
        if envelope.kind in CONTROLLER_ONLY and writer.site != CONTROLLER:
            raise DamagedError(f"{envelope.kind}: only the controller may write it")
        if self._first is not None:
            self._check_second(seat)
        if envelope.kind in CONTROLLER_ONLY - BESIDE_CONTROLLER and writer.host != self._leads:
            raise DamagedError(
                f"{envelope.kind}: only the controller may write it, not {writer.host}"
            )

    def _seat(self, writer: Writer, body: Body) -> Seat:
        seats = self.seats
        if self._first is not None:
            if not isinstance(body, Roster):
                raise DamagedError("the second record of a logbook is the roster")
            seats = {(seat.site, seat.host): seat for seat in body.seats}
        seat = seats.get((writer.site, writer.host))
        if seat is None:
            raise DamagedError(f"roster: no seat for {writer.site}/{writer.host}")
        return seat

    def _check_second(self, seat: Seat) -> None:
        """The roster has brought the controller's certificate: the run record must be its too."""
        assert self._first is not None
        if (self._first.writer.site, self._first.writer.host) != (seat.site, seat.host):
            raise DamagedError("roster: the first one is written by who began the run")
        check_signature(self._first.signature, self._first.signed, seat.certificate)

    def _check_roster(self, envelope: Envelope, roster: Roster) -> None:
        assert self.authority is not None
        names = [(seat.site, seat.host) for seat in roster.seats]
        if len(set(names)) != len(names):
            raise DamagedError("roster: two seats for one host")
        if (envelope.writer.site, envelope.writer.host) not in names:
            raise DamagedError("roster: its writer has no seat in it")
        for seat in roster.seats:
            check_name(seat.site)
            check_name(seat.host)
            who = Identity(run=self.run, site=seat.site, host=seat.host)
            check_certificate(seat.certificate, self.authority, who)

    def _check_order(self, envelope: Envelope) -> None:
        writer = envelope.writer
        name = f"{writer.site}/{writer.host}"
        hand = self._hands.get((writer.site, writer.host))
        if hand is not None and writer.incarnation < hand.incarnation:
            raise FencedError(
                f"fenced: {name} writes as incarnation {hand.incarnation} now, "
                f"this is {writer.incarnation}",
                hint="read the logbook again and begin a new incarnation",
            )
        counter, prev = 0, ""
        if hand is not None and writer.incarnation == hand.incarnation:
            counter, prev = hand.counter, hand.sha256
        if envelope.counter <= counter:
            raise DamagedError(
                f"counter: {name} has already written its record {envelope.counter}, otherwise"
            )
        if envelope.counter != counter + 1:
            raise DamagedError(
                f"counter: the next record of {name} is {counter + 1}, this is {envelope.counter}"
            )
        if envelope.prev != prev:
            raise DamagedError(f"prev: {name} signs after another record than its newest here")
