"""What of each source may be where in the fleet, form by form, with the verdict. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from argosy.core.fleet import LOGBOOK, Fleet
from argosy.core.job import Job, Source
from argosy.core.law import Form, Policy, Verdict
from argosy.policy.verdict import verdict

# What every run moves between its sites and its logbook. Raw data never travels by the logbook,
# and logs stay on their host.
TRAVELS = (Form.UPDATE, Form.METRIC, Form.CHECKPOINT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """One form of one source, in one country of the fleet: whether it may be there, and why."""

    source: str
    form: Form
    origin: str  # the source's country
    to: str
    places: tuple[str, ...]  # who stands there: sites, and "logbook"
    travels: bool  # whether a run moves this form at all
    verdict: Verdict


def flows(job: Job, fleet: Fleet) -> tuple[Flow, ...]:
    """Every source, country and form, in the order in which the files name them."""
    places = standing(fleet, tuple(site.name for site in fleet.sites))
    return tuple(flow for source in job.sources for flow in flows_of(source, job.policy, places))


def flows_of(
    source: Source, policy: Policy, places: Mapping[str, tuple[str, ...]]
) -> tuple[Flow, ...]:
    """The flows of one source into these countries."""
    return tuple(
        Flow(
            source=source.name,
            form=form,
            origin=source.country,
            to=country,
            places=standing_there,
            travels=form in TRAVELS,
            verdict=verdict(policy, form, source, country),
        )
        for country, standing_there in places.items()
        for form in Form
    )


def standing(fleet: Fleet, sites: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Country -> who of the logbook and these sites stands there."""
    places: dict[str, tuple[str, ...]] = {fleet.home: (LOGBOOK,)}
    for name in sites:
        country = fleet.site(name).country
        places[country] = (*places.get(country, ()), name)
    return places
