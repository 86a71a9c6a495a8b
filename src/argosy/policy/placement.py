"""Which site trains on which sources, or the refusal and what would be allowed instead. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.core.errors import PolicyError
from argosy.core.fleet import Fleet, Site
from argosy.core.job import Job, Source
from argosy.core.law import Form, Policy, Rule, Verdict
from argosy.policy.flows import Flow, flows_of, standing
from argosy.policy.verdict import speaks_of, verdict
from argosy.policy.words import rule_name, series, things


def placement(job: Job, fleet: Fleet) -> dict[str, tuple[str, ...]]:
    """Site -> the sources that it trains on; a site without any has an empty tuple.

    Raises PolicyError when a source has no site that may open it, when it is wished to a site
    that may not, or when what a run must move (policy.TRAVELS) may not reach the logbook or
    another site that trains.
    """
    placed = {source.name: _sites(source, job.policy, fleet) for source in job.sources}
    result = {
        site.name: tuple(s.name for s in job.sources if site.name in placed[s.name])
        for site in fleet.sites
    }
    places = standing(fleet, tuple(name for name, sources in result.items() if sources))
    for source in job.sources:
        refused = [
            flow
            for flow in flows_of(source, job.policy, places)
            if flow.travels and not flow.verdict.allowed
        ]
        if refused:
            raise _no_way(source, job.policy, refused)
    return result


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """The least change to a policy that lets something go."""

    in_the_way: tuple[int, ...]  # rules that forbid it
    missing: Rule | None  # the rule to add; None: once nothing is in the way, another allows it


def remedy(policy: Policy, source: Source, wanted: Sequence[tuple[Form, str]]) -> Remedy:
    """What would have to change so that each of these refused forms may go to its country."""
    allowing = Policy(rules=tuple(rule for rule in policy.rules if rule.effect == "allow"))
    unspoken = [
        (form, country)
        for form, country in wanted
        if not verdict(allowing, form, source, country).allowed
    ]
    missing = Rule(
        effect="allow",
        forms=tuple(dict.fromkeys(form for form, _ in unspoken)),
        origins=(source.country,),
        destinations=tuple(dict.fromkeys(country for _, country in unspoken)),
        personal=source.personal,
        sources=(source.name,),
    )
    in_the_way = tuple(
        index
        for index, rule in enumerate(policy.rules)
        if rule.effect == "deny" and any(speaks_of(rule, f, source, to) for f, to in wanted)
    )
    return Remedy(
        in_the_way=in_the_way,
        missing=missing if unspoken else None,
    )


def _sites(source: Source, policy: Policy, fleet: Fleet) -> tuple[str, ...]:
    """Where the source may be opened. What was wished must be allowed, all of it."""
    answers = {site.name: verdict(policy, Form.RAW, source, site.country) for site in fleet.sites}
    allowed = tuple(name for name, answer in answers.items() if answer.allowed)
    unknown = [name for name in source.sites if name not in answers]
    if unknown:
        raise PolicyError(
            f"source {source.name!r} is to be opened at {series(unknown)}: the fleet has no such"
            " site",
            where=source.where or None,
            hint=f"the fleet's sites: {', '.join(answers)}",
        )
    forbidden = [name for name in source.sites if not answers[name].allowed]
    if forbidden:
        site = fleet.site(forbidden[0])
        raise _no_home(source, policy, [site], answers[site.name], allowed)
    if not allowed:
        raise _no_home(source, policy, fleet.sites, answers[fleet.sites[0].name], ())
    return source.sites or allowed


def _no_home(
    source: Source,
    policy: Policy,
    sites: Sequence[Site],
    answer: Verdict,
    allowed: tuple[str, ...],
) -> PolicyError:
    names = series([f"{site.name} ({site.country})" for site in sites])
    choices = [
        f"open it at {series(allowed)}" if allowed else f"add a site in {source.country}",
        _change(policy, source, [(Form.RAW, sites[0].country)]),
    ]
    return PolicyError(
        f"source {source.name!r} ({source.country}) may not be opened at {names}: {answer.reason}",
        where=source.where or None,
        hint=f"the nearest that would be allowed: {'; or '.join(choices)}",
    )


def _no_way(source: Source, policy: Policy, refused: Sequence[Flow]) -> PolicyError:
    first = refused[0]
    choices = [_change(policy, source, [(flow.form, flow.to) for flow in refused])]
    if first.form is Form.UPDATE:
        veiled = [
            things(form)
            for form in (Form.MASKED_UPDATE, Form.NOISED_UPDATE)
            if verdict(policy, form, source, first.to).allowed
        ]
        choices += [f"{series(veiled)} may go there, once the job makes such"] if veiled else []
    return PolicyError(
        f"{things(first.form)} of source {source.name!r} ({source.country}) may not go to"
        f" {series(first.places)} ({first.to}): {first.verdict.reason}",
        where=source.where or None,
        hint=f"the nearest that would be allowed: {'; or '.join(choices)}",
    )


def _change(policy: Policy, source: Source, wanted: Sequence[tuple[Form, str]]) -> str:
    change = remedy(policy, source, wanted)
    named = [rule_name(index, policy.rules[index]) for index in change.in_the_way]
    steps = [f"change what {series(named)} forbids"] if named else []
    steps += [f"add under policy: {_as_written(change.missing)}"] if change.missing else []
    return series(steps)


def _as_written(rule: Rule) -> str:
    forms = ", ".join(rule.forms)
    personal = "yes" if rule.personal else "no"
    return (
        f"- {{allow: [{forms}], from: {rule.origins[0]}, to: [{', '.join(rule.destinations)}],"
        f" sources: [{', '.join(rule.sources)}], personal: {personal}, why: ...}}"
    )
