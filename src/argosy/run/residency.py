"""What crossed a border in a run, judged again by the job's own rules. Pure but for the specs."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from argosy.core.law import Form, Verdict
from argosy.core.records import (
    CONTROLLER,
    Access,
    Checkpointed,
    Contribution,
    Entry,
    Evaluation,
    Planned,
    Progress,
    Roster,
    RunBegun,
)
from argosy.logbook.verify import Wrong
from argosy.policy import site_verdict, verdict
from argosy.spec import parse_fleet, parse_job

if TYPE_CHECKING:
    from argosy.core.fleet import Fleet
    from argosy.core.job import Job, Source


class Residency:
    """Hears records in order; the first that no rule allows is wrong.

    Where a source was opened decides what is in a site's updates, whatever the plan said. A record
    reaches the logbook and every site that trains, since all of them read it.
    """

    def __init__(self) -> None:
        self._job: Job | None = None
        self._fleet: Fleet | None = None
        self._countries: dict[str, str] = {}
        self._trained: dict[str, set[str]] = {}  # site -> the sources in its updates
        self._sites: set[str] = set()  # that train, so that read
        self._known: dict[tuple[Form, frozenset[str], str], Verdict] = {}

    def hear(self, entry: Entry) -> Wrong | None:  # noqa: C901, PLR0911 - one case a kind
        site = entry.writer.site
        match entry.body:
            case RunBegun(job=job, fleet=fleet):
                self._job, self._fleet = parse_job(job), parse_fleet(fleet)
            case Roster(seats=seats):
                self._countries = {seat.site: seat.country for seat in seats}
                return self._seats(entry)
            case Planned(plan=plan):
                for planned in plan.sites:
                    self._sites.add(planned.site)
                    self._trained.setdefault(planned.site, set()).update(planned.sources)
                    for name in planned.sources:
                        if wrong := self._judge(entry, Form.RAW, [name], [planned.site]):
                            return wrong
            case Access(source=name, purpose=purpose):
                if purpose == "train":
                    self._trained.setdefault(site, set()).add(name)
                return self._judge(entry, Form.RAW, [name], [site])
            case Contribution(form=form):
                return self._travels(entry, form, self._trained.get(site, ()))
            case Progress() | Evaluation() if site != CONTROLLER:
                return self._travels(entry, Form.METRIC, self._trained.get(site, ()))
            case Checkpointed(round=number) if number > 0:
                everything = set().union(*self._trained.values())
                return self._travels(entry, Form.CHECKPOINT, everything)
            case _:
                pass
        return None

    def _seats(self, entry: Entry) -> Wrong | None:
        """A host's country is the one that the user wrote, not one that it claims."""
        assert self._fleet is not None, "the run record comes first"
        declared = {site.name: site.country for site in self._fleet.sites}
        declared[CONTROLLER] = self._fleet.home
        for site, country in self._countries.items():
            if declared.get(site) != country:
                expected = f"{site} in {declared.get(site, 'no country: it is not in the fleet')}"
                return _wrong(entry, expected, f"{site} in {country}")
        return None

    def _travels(self, entry: Entry, form: str, names: Iterable[str]) -> Wrong | None:
        if form not in list(Form):
            return _wrong(entry, "a form that is known", form)
        return self._judge(entry, Form(form), names, (CONTROLLER, *sorted(self._sites)))

    def _judge(
        self, entry: Entry, form: Form, names: Iterable[str], to: Iterable[str]
    ) -> Wrong | None:
        sources = frozenset(names)
        for country in dict.fromkeys(self._countries.get(site, "?") for site in to):
            answer = self._verdict(form, sources, country)
            if not answer.allowed:
                what = ", ".join(sorted(sources)) or "no source"
                return _wrong(entry, f"{form} of {what} allowed in {country}", answer.reason)
        return None

    def _verdict(self, form: Form, names: frozenset[str], country: str) -> Verdict:
        key = (form, names, country)
        if key not in self._known:
            self._known[key] = self._ask(form, names, country)
        return self._known[key]

    def _ask(self, form: Form, names: frozenset[str], country: str) -> Verdict:
        assert self._job is not None, "the run record comes first"
        sources = {source.name: source for source in self._job.sources}
        strangers = sorted(names - sources.keys())
        if strangers:
            reason = f"the job has no source {strangers[0]}"
            return Verdict(allowed=False, rule=None, reason=reason)
        chosen: Iterator[Source] = (sources[name] for name in sorted(names))
        if form is Form.RAW:
            return verdict(self._job.policy, form, next(chosen), country)
        return site_verdict(self._job.policy, form, chosen, country)


def _wrong(entry: Entry, expected: str, found: str) -> Wrong:
    return Wrong(seq=entry.seq, kind=entry.kind, what="residency", expected=expected, found=found)
