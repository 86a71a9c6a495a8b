"""Which site may join, append and fetch what: seats and policy, asked where bytes would move."""

import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from argosy.core.errors import DamagedError, HostError, PolicyError, SpecError
from argosy.core.fleet import Fleet
from argosy.core.job import Job, Source
from argosy.core.law import Form
from argosy.core.records import (
    CONTROLLER,
    Body,
    Checkpointed,
    Contribution,
    Planned,
    Roster,
    RunBegun,
    Seat,
)
from argosy.logbook.envelope import Envelope
from argosy.logbook.keys import Identity
from argosy.policy import site_verdict

ReadSpecs = Callable[[str, str], tuple[Job, Fleet]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Naming:
    """A record that names a blob: whose it is then, and in which form it may go on."""

    site: str
    form: Form
    untrained: bool  # the initial model: nothing of any source is in it


def read_specs(job: str, fleet: str) -> tuple[Job, Fleet]:
    from argosy.spec import parse_fleet, parse_job

    return parse_job(job), parse_fleet(fleet)


class Gate:
    """Folds the records, then answers. Nothing is allowed that no record and no rule allows."""

    def __init__(self, read: ReadSpecs = read_specs) -> None:
        self._read = read
        self._run = ""
        self._job: Job | None = None
        self._fleet: Fleet | None = None
        self._seats: dict[tuple[str, str], tuple[Seat, bytes]] = {}
        self._trains: dict[str, set[str]] = {}  # site -> sources, over all plans so far
        self._namings: dict[str, set[Naming]] = {}

    def hear(self, envelope: Envelope, body: Body) -> None:
        site = envelope.writer.site
        match body:
            case RunBegun():
                self._run = body.run
                self._job, self._fleet = self._specs(body)
            case Roster():
                self._seats = {
                    (s.site, s.host): (s, ssl.PEM_cert_to_DER_cert(s.certificate))
                    for s in body.seats
                }
            case Planned():
                for planned in body.plan.sites:
                    self._trains.setdefault(planned.site, set()).update(planned.sources)
            case Contribution():
                naming = Naming(site=site, form=Form(body.form), untrained=False)
                for shard in body.shards:
                    self._namings.setdefault(shard.blob, set()).add(naming)
            case Checkpointed():
                naming = Naming(site=site, form=Form.CHECKPOINT, untrained=body.round == 0)
                self._namings.setdefault(body.blob, set()).add(naming)
            case _:
                pass

    def check_seat(self, who: Identity, certificate: bytes) -> None:
        """Raises HostError unless the newest roster has a seat for this very certificate (DER)."""
        if self._run and who.run != self._run:
            raise HostError(
                f"this is the logbook of run {self._run}, not of {who.run}",
                hint="the keys are of another run",
            )
        if not self._seats:
            if who.site == CONTROLLER:
                return  # the run is only about to begin
            raise HostError("the run has no roster yet", hint="it is starting; try again soon")
        _, expected = self._seats.get((who.site, who.host), (None, b""))
        if certificate != expected:
            raise HostError(
                f"{who.site}/{who.host} has no seat in the newest roster",
                hint="the host was removed, or its key replaced; take the newest keys",
            )

    def check_writer(self, who: Identity, envelope: Envelope) -> None:
        """Raises DamagedError when one host brings the record of another."""
        writer = envelope.writer
        if (who.run, who.site, who.host) != (envelope.run, writer.site, writer.host):
            raise DamagedError(
                f"writer: {who.site}/{who.host} may not append as {writer.site}/{writer.host}"
            )

    def check_append(self, envelope: Envelope, body: Body) -> None:
        """Raises PolicyError when it comes in a form that may not come to the logbook at all."""
        site = envelope.writer.site
        match body:
            case RunBegun():
                self._specs(body)
            case Contribution():
                try:
                    form = Form(body.form)
                except ValueError:
                    raise PolicyError(f"no such form: {body.form!r}") from None
                assert self._fleet is not None
                sources = self._sources([site])
                self._ask(form, sources, self._fleet.home, f"the update of {site}")
            case _:
                pass

    def check_fetch(self, who: Identity, digest: str, owners: frozenset[str]) -> None:
        """Raises PolicyError unless the reader's site put this blob, or a rule lets it go there."""
        if who.site in owners:
            return
        # Naming a blob that one never had must not open it to others: only its owners' records do.
        namings = [n for n in self._namings.get(digest, set()) if n.site in owners]
        if not namings:
            raise PolicyError(f"blob {digest}: no record names it yet")
        country = self._seats[who.site, who.host][0].country
        refusals = []
        for naming in namings:
            if naming.untrained:
                return
            # A checkpoint holds something of every source that is trained on anywhere.
            everyone = naming.form is Form.CHECKPOINT
            sources = self._sources(self._trains if everyone else [naming.site])
            try:
                self._ask(naming.form, sources, country, f"blob {digest} of {naming.site}")
            except PolicyError as wrong:
                refusals.append(wrong)
            else:
                return
        raise refusals[0]

    def _sources(self, sites: Iterable[str]) -> list[Source]:
        """What these sites train on by any plan so far; before a plan, everything."""
        assert self._job is not None
        if not self._trains:
            return list(self._job.sources)
        names = {name for site in sites for name in self._trains.get(site, ())}
        return [source for source in self._job.sources if source.name in names]

    def _ask(self, form: Form, sources: list[Source], country: str, what: str) -> None:
        assert self._job is not None
        answer = site_verdict(self._job.policy, form, sources, country)
        if not answer.allowed:
            raise PolicyError(f"{what} may not go to {country}: {answer.reason}")

    def _specs(self, body: RunBegun) -> tuple[Job, Fleet]:
        try:
            return self._read(body.job, body.fleet)
        except SpecError as wrong:
            raise DamagedError(f"run: its job or fleet cannot be read ({wrong.what})") from None
