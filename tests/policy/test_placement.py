"""Which site trains on what, what may go where, and how a refusal helps."""

from dataclasses import replace

import pytest

from argosy.core.errors import PolicyError
from argosy.core.fleet import Fleet, Host, Site
from argosy.core.job import Job, ModelFromFolder, Source, Training
from argosy.core.law import Form, Policy, Rule, Verdict
from argosy.policy import TRAVELS, explain, flows, placement, site_verdict, verdict


def site(name: str, country: str) -> Site:
    return Site(name=name, country=country, hosts=(Host(name=f"{name}-1"),))


def source(name: str, country: str, *sites: str, personal: bool = False) -> Source:
    return Source(
        name=name, path=name, country=country, personal=personal, sites=sites, where="job.yaml:9"
    )


def allow(*forms: Form, origin: str, to: str, where: str = "") -> Rule:
    return Rule(effect="allow", forms=forms, origins=(origin,), destinations=(to,), where=where)


def deny(*forms: Form, origin: str, to: str, where: str = "") -> Rule:
    return replace(allow(*forms, origin=origin, to=to, where=where), effect="deny")


def job(*sources: Source, rules: tuple[Rule, ...] = ()) -> Job:
    return Job(
        name="x",
        model=ModelFromFolder(folder="m"),
        sources=sources,
        training=Training(tokens=1),
        policy=Policy(rules=rules),
    )


FRANKFURT, TOKYO, VIRGINIA = site("frankfurt", "DE"), site("tokyo", "JP"), site("virginia", "US")
FLEET = Fleet(home="DE", sites=(FRANKFURT, TOKYO, VIRGINIA), links=())
OPEN = allow(*TRAVELS, origin="*", to="*")
GERMAN = source("german", "DE", personal=True)
JAPANESE = source("japanese", "JP")


def test_each_source_is_trained_on_where_it_may_be_opened() -> None:
    placed = placement(job(GERMAN, JAPANESE, rules=(OPEN,)), FLEET)

    assert placed == {"frankfurt": ("german",), "tokyo": ("japanese",), "virginia": ()}


def test_a_source_without_wishes_goes_to_every_site_that_may_open_it() -> None:
    raw = allow(Form.RAW, origin="JP", to="DE")

    placed = placement(job(JAPANESE, rules=(OPEN, raw)), FLEET)

    assert placed == {"frankfurt": ("japanese",), "tokyo": ("japanese",), "virginia": ()}


def test_a_source_with_wishes_goes_there_and_nowhere_else() -> None:
    raw = allow(Form.RAW, origin="JP", to="*")

    placed = placement(job(source("manga", "JP", "virginia"), rules=(OPEN, raw)), FLEET)

    assert placed == {"frankfurt": (), "tokyo": (), "virginia": ("manga",)}


def test_one_country_needs_no_rule() -> None:
    fleet = Fleet(home="DE", sites=(FRANKFURT, site("berlin", "DE")), links=())

    assert placement(job(GERMAN), fleet) == {"frankfurt": ("german",), "berlin": ("german",)}


def test_a_source_without_a_lawful_site_is_refused_with_the_nearest_that_would_be_allowed() -> None:
    fleet = Fleet(home="JP", sites=(TOKYO,), links=())

    with pytest.raises(PolicyError) as caught:
        placement(job(GERMAN, rules=(OPEN,)), fleet)

    assert str(caught.value) == (
        "job.yaml:9: source 'german' (DE) may not be opened at tokyo (JP): no rule allows raw of"
        " german from DE to JP; without a rule nothing leaves\n"
        "  the nearest that would be allowed: add a site in DE; or add under policy: - {allow:"
        " [raw], from: DE, to: [JP], sources: [german], personal: yes, why: ...}"
    )
    assert caught.value.exit_code == 3


def test_a_wish_that_the_policy_forbids_is_refused_and_not_dropped() -> None:
    wished = source("german", "DE", "frankfurt", "tokyo")

    with pytest.raises(PolicyError, match="may not be opened at tokyo") as caught:
        placement(job(wished, rules=(OPEN,)), FLEET)

    assert caught.value.hint is not None
    assert "open it at frankfurt" in caught.value.hint


def test_a_rule_that_forbids_is_named_with_its_line() -> None:
    rules = (
        allow(Form.RAW, origin="DE", to="JP", where="job.yaml:30"),
        deny(Form.RAW, origin="EU", to="JP", where="job.yaml:33"),
    )
    fleet = Fleet(home="DE", sites=(TOKYO,), links=())

    with pytest.raises(
        PolicyError, match=r"rule 2 \(job.yaml:33\) forbids raw of german"
    ) as caught:
        placement(job(GERMAN, rules=rules), fleet)

    assert caught.value.hint is not None
    assert caught.value.hint.endswith("or change what rule 2 (job.yaml:33) forbids")


def test_a_site_that_the_fleet_does_not_have_is_no_place() -> None:
    with pytest.raises(PolicyError, match="opened at tokio: the fleet has no such site"):
        placement(job(source("manga", "JP", "tokio")), FLEET)


def test_an_update_must_be_free_to_reach_every_other_site_that_trains() -> None:
    home = allow(*TRAVELS, origin="JP", to="DE")

    with pytest.raises(PolicyError) as caught:
        placement(job(GERMAN, JAPANESE, rules=(home,)), FLEET)

    assert str(caught.value) == (
        "job.yaml:9: updates of source 'german' (DE) may not go to tokyo (JP): no rule allows"
        " update of german from DE to JP; without a rule nothing leaves\n"
        "  the nearest that would be allowed: add under policy: - {allow: [update, checkpoint,"
        " metric], from: DE, to: [JP], sources: [german], personal: yes, why: ...}"
    )


def test_an_update_must_be_free_to_reach_the_logbook() -> None:
    fleet = replace(FLEET, home="US")

    with pytest.raises(PolicyError, match=r"may not go to logbook \(US\)"):
        placement(job(GERMAN), fleet)


def test_a_site_that_trains_on_nothing_receives_nothing() -> None:
    assert placement(job(GERMAN), FLEET)["frankfurt"] == ("german",)


@pytest.mark.parametrize(("form", "word"), [("metric", "metrics"), ("checkpoint", "checkpoints")])
def test_metrics_and_checkpoints_need_to_cross_as_well(form: str, word: str) -> None:
    forms = [other for other in TRAVELS if other != form]
    rules = (allow(*forms, origin="*", to="*"),)

    with pytest.raises(PolicyError, match=f"^job.yaml:9: {word} of source 'german'"):
        placement(job(GERMAN, JAPANESE, rules=rules), FLEET)


def test_a_refusal_names_every_rule_in_the_way_and_the_one_that_lacks() -> None:
    rules = (
        deny(Form.UPDATE, origin="DE", to="JP", where="job.yaml:30"),
        allow(Form.METRIC, Form.CHECKPOINT, origin="DE", to="JP"),
        allow(*TRAVELS, origin="JP", to="DE"),
    )

    with pytest.raises(PolicyError, match="rule 1") as caught:
        placement(job(GERMAN, JAPANESE, rules=rules), FLEET)

    assert caught.value.hint == (
        "the nearest that would be allowed: change what rule 1 (job.yaml:30) forbids and add under"
        " policy: - {allow: [update], from: DE, to: [JP], sources: [german], personal: yes,"
        " why: ...}"
    )


def test_a_refusal_tells_of_veiled_updates_that_would_be_allowed() -> None:
    rules = (
        allow(Form.NOISED_UPDATE, origin="*", to="*"),
        allow(*TRAVELS, origin="JP", to="*"),
    )

    with pytest.raises(PolicyError) as caught:
        placement(job(GERMAN, JAPANESE, rules=rules), FLEET)

    assert caught.value.hint is not None
    assert "noised updates may go there" in caught.value.hint


def test_the_rule_that_a_refusal_offers_for_a_public_source_says_so() -> None:
    with pytest.raises(PolicyError) as caught:
        placement(job(JAPANESE, GERMAN), FLEET)

    assert caught.value.hint is not None
    assert "sources: [japanese], personal: no" in caught.value.hint


def test_flows_tell_every_form_of_every_source_in_every_country() -> None:
    wanted = job(GERMAN, JAPANESE, rules=(allow(Form.UPDATE, origin="DE", to="JP"),))

    told = flows(wanted, FLEET)

    assert len(told) == 2 * 3 * len(Form)
    places = {flow.to: flow.places for flow in told}
    assert places == {"DE": ("logbook", "frankfurt"), "JP": ("tokyo",), "US": ("virginia",)}
    crossing = [f for f in told if f.verdict.allowed and f.to != f.origin]
    assert [(f.source, f.form, f.origin, f.to) for f in crossing] == [
        ("german", Form.UPDATE, "DE", "JP")
    ]
    assert {flow.form for flow in told if flow.travels} == {"update", "metric", "checkpoint"}


def test_a_site_answers_for_all_its_sources_with_every_reason_once() -> None:
    rule = allow(Form.UPDATE, origin="*", to="JP", where="job.yaml:30")
    policy = Policy(rules=(rule,))
    french, home = source("french", "FR"), source("home", "JP")

    answer = site_verdict(policy, Form.UPDATE, [home, GERMAN, GERMAN, french], "JP")

    assert answer == Verdict(
        allowed=True,
        rule=0,
        reason="stays in JP; rule 1 (job.yaml:30) allows update of german from DE to JP;"
        " rule 1 (job.yaml:30) allows update of french from FR to JP",
    )


def test_a_site_is_refused_for_the_first_source_that_may_not_go() -> None:
    policy = Policy(rules=(allow(Form.UPDATE, origin="DE", to="US"),))

    answer = site_verdict(policy, Form.UPDATE, [GERMAN, JAPANESE], "US")

    assert answer == verdict(policy, Form.UPDATE, JAPANESE, "US")
    assert not answer.allowed


def test_a_site_without_sources_gets_no_permission() -> None:
    answer = site_verdict(Policy(rules=(OPEN,)), Form.UPDATE, [], "JP")

    assert answer == Verdict(allowed=False, rule=None, reason="no source was named to judge by")


def test_a_rules_ground_stands_in_the_verdict() -> None:
    rule = replace(OPEN, why="SCC of 3 May")

    answer = verdict(Policy(rules=(rule,)), Form.UPDATE, GERMAN, "US")

    assert answer.reason == "rule 1 allows update of german from DE to US (SCC of 3 May)"
    assert "SCC of 3 May" in explain(Policy(rules=(rule,)))[0]
