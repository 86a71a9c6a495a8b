"""What holds for any policy, source and movement."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from argosy.core.job import Source
from argosy.core.law import Form, Policy, Rule
from argosy.policy import site_verdict, verdict
from argosy.policy.placement import remedy

COUNTRIES = ("DE", "FR", "NO", "JP", "US")
PLACES = (*COUNTRIES, "EU", "EEA", "*")
NAMES = ("a", "b")

forms = st.sampled_from(Form)
countries = st.sampled_from(COUNTRIES)
some_places = st.lists(st.sampled_from(PLACES), min_size=1, max_size=3).map(tuple)
maybe = st.sampled_from((None, True, False))
rules = st.builds(
    Rule,
    effect=st.sampled_from(("allow", "deny")),
    forms=st.lists(forms, min_size=1, max_size=4).map(tuple),
    origins=some_places,
    destinations=some_places,
    personal=maybe,
    sensitive=maybe,
    sources=st.lists(st.sampled_from(NAMES), max_size=1).map(tuple),
)
policies = st.builds(Policy, rules=st.lists(rules, max_size=6).map(tuple))
sources = st.builds(
    Source,
    name=st.sampled_from(NAMES),
    path=st.just("x"),
    country=countries,
    personal=st.booleans(),
    sensitive=st.booleans(),
)


@given(forms, sources, countries)
def test_without_rules_exactly_what_stays_at_home_is_allowed(
    form: Form, source: Source, to: str
) -> None:
    assert verdict(Policy(), form, source, to).allowed is (to == source.country)


@given(policies, forms, sources)
def test_no_policy_forbids_what_stays_at_home(policy: Policy, form: Form, source: Source) -> None:
    assert verdict(policy, form, source, source.country).allowed


@given(policies, forms, sources, countries, rules)
def test_one_more_denial_never_allows_more(
    policy: Policy, form: Form, source: Source, to: str, rule: Rule
) -> None:
    stricter = Policy(rules=(*policy.rules, replace(rule, effect="deny")))

    if verdict(stricter, form, source, to).allowed:
        assert verdict(policy, form, source, to).allowed


@given(policies, forms, sources, countries)
def test_the_order_of_rules_changes_no_answer(
    policy: Policy, form: Form, source: Source, to: str
) -> None:
    turned = Policy(rules=policy.rules[::-1])

    assert verdict(policy, form, source, to).allowed is verdict(turned, form, source, to).allowed


@given(policies, forms, sources, countries)
def test_a_form_that_no_rule_names_does_not_leave(
    policy: Policy, form: Form, source: Source, to: str
) -> None:
    silent = Policy(rules=tuple(rule for rule in policy.rules if form not in rule.forms))

    assert verdict(silent, form, source, to).allowed is (to == source.country)


@given(policies, forms, st.lists(sources, max_size=4), countries)
def test_a_site_may_send_only_what_every_one_of_its_sources_allows(
    policy: Policy, form: Form, held: list[Source], to: str
) -> None:
    answer = site_verdict(policy, form, held, to)

    every = bool(held) and all(verdict(policy, form, source, to).allowed for source in held)
    assert answer.allowed is every
    assert answer.reason


@given(policies, sources, st.lists(st.tuples(forms, countries), min_size=1, max_size=5))
def test_the_remedy_that_a_refusal_offers_does_help(
    policy: Policy, source: Source, wanted: list[tuple[Form, str]]
) -> None:
    refused = [way for way in wanted if not verdict(policy, way[0], source, way[1]).allowed]

    offered = remedy(policy, source, refused)

    kept = [rule for i, rule in enumerate(policy.rules) if i not in offered.in_the_way]
    changed = Policy(rules=(*kept, *([offered.missing] if offered.missing else [])))
    assert all(verdict(changed, form, source, to).allowed for form, to in refused)


@given(policies, sources, st.lists(st.tuples(forms, countries), min_size=1, max_size=5))
def test_the_remedy_adds_no_rule_that_is_not_needed(
    policy: Policy, source: Source, wanted: list[tuple[Form, str]]
) -> None:
    allowed = [way for way in wanted if verdict(policy, way[0], source, way[1]).allowed]

    assert remedy(policy, source, allowed).missing is None
