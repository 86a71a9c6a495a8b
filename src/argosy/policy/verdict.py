"""The verdict on one movement: by its own country, by a rule, or by default no. Pure."""

from collections.abc import Iterable

from argosy.catalog import expand
from argosy.core.job import Source
from argosy.core.law import Form, Policy, Rule, Verdict
from argosy.policy.words import rule_name


def verdict(policy: Policy, form: Form, source: Source, to_country: str) -> Verdict:
    """May what was made of `source` go to `to_country` in this form?

    What stays in the source's own country may always stay. Otherwise any rule that denies beats
    every rule that allows, however specific, and without a rule nothing leaves. A rule speaks of
    the forms that it names and of no other: who allows raw has not thereby allowed updates.
    """
    if to_country == source.country:
        return Verdict(allowed=True, rule=None, reason=f"stays in {to_country}")
    speaking = [
        (index, rule)
        for index, rule in enumerate(policy.rules)
        if speaks_of(rule, form, source, to_country)
    ]
    way = f"{form} of {source.name} from {source.country} to {to_country}"
    for effect, verb in (("deny", "forbids"), ("allow", "allows")):
        for index, rule in speaking:
            if rule.effect == effect:
                why = f" ({rule.why})" if rule.why else ""
                reason = f"{rule_name(index, rule)} {verb} {way}{why}"
                return Verdict(allowed=effect == "allow", rule=index, reason=reason)
    return Verdict(
        allowed=False, rule=None, reason=f"no rule allows {way}; without a rule nothing leaves"
    )


def site_verdict(policy: Policy, form: Form, sources: Iterable[Source], to_country: str) -> Verdict:
    """May what a site made of all its sources go there? The first refusal, or every reason.

    Without a source there is nothing to judge by, so the answer is no.
    """
    reasons: list[str] = []
    deciding: int | None = None
    for source in sources:
        answer = verdict(policy, form, source, to_country)
        if not answer.allowed:
            return answer
        reasons.append(answer.reason)
        deciding = answer.rule if deciding is None else deciding
    if not reasons:
        return Verdict(allowed=False, rule=None, reason="no source was named to judge by")
    return Verdict(allowed=True, rule=deciding, reason="; ".join(dict.fromkeys(reasons)))


def speaks_of(rule: Rule, form: Form, source: Source, to_country: str) -> bool:
    """Whether the rule is about this movement at all."""
    return (
        form in rule.forms
        and (not rule.sources or source.name in rule.sources)
        and rule.personal in (None, source.personal)
        and rule.sensitive in (None, source.sensitive)
        and any(source.country in expand(origin) for origin in rule.origins)
        and any(to_country in expand(destination) for destination in rule.destinations)
    )
