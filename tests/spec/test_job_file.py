"""job.yaml as a Job."""

from dataclasses import replace

import pytest

from argosy.core.errors import SpecError
from argosy.core.fleet import Fleet, Host, Site
from argosy.core.job import (
    Exchange,
    Job,
    Limits,
    ModelFromClass,
    ModelFromConfig,
    ModelFromFolder,
    Source,
    StepWindow,
    TimeWindow,
    Training,
)
from argosy.core.law import Form, Policy, Rule
from argosy.spec import check_together, parse_job

SHORTEST = """\
version: 1
name: tiny
model: {folder: weights}
sources:
  - {name: a, path: a.txt, country: DE, personal: no}
training: {tokens: 10_000}
"""

LONGEST = """\
version: 1
name: all
model:
  class: my_models:TinyViT
  arguments: {width: 64, deep: yes}
sources:
  - name: german
    path: data/german
    country: DE
    personal: yes
    sensitive: yes
    sites: [frankfurt, berlin, frankfurt]
    text_field: body
    held_out: 0.1
training:
  tokens: 2.5M
  sequence: 64
  batch: 4
  learning_rate: 1e-3
  min_learning_rate_ratio: 0
  warmup_fraction: 0.01
  weight_decay: 0
  betas: [0.8, 0.99]
  clip_norm: null
  optimizer: sgd
  precision: bf16
  seed: 7
  tokenizer: tokenizer.json
  evaluate_every: 2
exchange:
  window: {seconds: 2 min}
  codec: int8
  delay: 0
  outer_learning_rate: 1
  outer_momentum: 0
  staleness: 3
  checkpoint_every: 9
limits: {money: 5.50 EUR, hours: 90 min}
policy:
  - allow: update
    from: EU
    to: "*"
    personal: yes
    why: consent
  - deny: [raw, noised update]
    from: [DE, NO]
    to: [US]
    sensitive: no
    sources: [german]
"""


def with_line(old: str, new: str) -> Job:
    assert old in SHORTEST
    return parse_job(SHORTEST.replace(old, new))


def test_what_is_left_out_is_as_the_nouns_have_it() -> None:
    job = parse_job(SHORTEST)

    assert job == Job(
        name="tiny",
        model=ModelFromFolder(folder="weights"),
        sources=(Source(name="a", path="a.txt", country="DE", personal=False),),
        training=Training(tokens=10_000),
    )


def test_every_key_arrives_where_it_belongs() -> None:
    job = parse_job(LONGEST, "my/job.yaml")

    assert job.model == ModelFromClass(
        target="my_models:TinyViT", arguments={"width": 64, "deep": True}
    )
    assert job.sources == (
        Source(
            name="german",
            path="data/german",
            country="DE",
            personal=True,
            sensitive=True,
            sites=("frankfurt", "berlin"),
            text_field="body",
            held_out=0.1,
        ),
    )
    assert job.training == Training(
        tokens=2_500_000,
        sequence=64,
        batch=4,
        learning_rate=1e-3,
        min_learning_rate_ratio=0.0,
        warmup_fraction=0.01,
        weight_decay=0.0,
        betas=(0.8, 0.99),
        clip_norm=None,
        optimizer="sgd",
        precision="bf16",
        seed=7,
        tokenizer="tokenizer.json",
        evaluate_every=2,
    )
    assert job.exchange == Exchange(
        window=TimeWindow(seconds=120.0),
        codec="int8",
        delay=0,
        outer_learning_rate=1.0,
        outer_momentum=0.0,
        staleness=3,
        checkpoint_every=9,
    )
    assert job.limits == Limits(money=5.5, currency="EUR", hours=1.5)
    assert job.policy == Policy(
        rules=(
            Rule(
                effect="allow",
                forms=(Form.UPDATE,),
                origins=("EU",),
                destinations=("*",),
                personal=True,
                why="consent",
                where="my/job.yaml:40",
            ),
            Rule(
                effect="deny",
                forms=(Form.RAW, Form.NOISED_UPDATE),
                origins=("DE", "NO"),
                destinations=("US",),
                sensitive=False,
                sources=("german",),
                where="my/job.yaml:45",
            ),
        )
    )


def test_a_source_remembers_its_line() -> None:
    assert parse_job(LONGEST, "my/job.yaml").sources[0].where == "my/job.yaml:7"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{folder: weights}", ModelFromFolder(folder="weights")),
        ("my_models:Tiny", ModelFromClass(target="my_models:Tiny")),
        ("{class: 'a.b:C'}", ModelFromClass(target="a.b:C")),
        (
            "{config: {model_type: gpt2, n_layer: 2}}",
            ModelFromConfig(config={"model_type": "gpt2", "n_layer": 2}),
        ),
    ],
)
def test_a_model_comes_in_three_kinds(written: str, meant: object) -> None:
    assert with_line("{folder: weights}", written).model == meant


@pytest.mark.parametrize(
    ("written", "tokens"),
    [
        ("5000", 5_000),
        ("20_000", 20_000),
        ("2e6", 2_000_000),
        ("2M", 2_000_000),
        ("1.5 M tokens", 1_500_000),
        ("300k", 300_000),
        ("1B", 10**9),
        ("9000 tokens", 9_000),
    ],
)
def test_many_tokens_can_be_written_in_short(written: str, tokens: int) -> None:
    assert with_line("10_000", written).training.tokens == tokens


@pytest.mark.parametrize(
    ("written", "window"),
    [
        ("{steps: 30}", StepWindow(steps=30)),
        ("{seconds: 20}", TimeWindow(seconds=20.0)),
        ("{seconds: 20 s}", TimeWindow(seconds=20.0)),
        ("{seconds: 500ms}", TimeWindow(seconds=0.5)),
        ("{seconds: 1.5 min}", TimeWindow(seconds=90.0)),
        ("null", None),
    ],
)
def test_a_window_counts_steps_or_time(written: str, window: object) -> None:
    job = parse_job(f"{SHORTEST}exchange: {{window: {written}}}\n")

    assert job.exchange.window == window


def test_yes_and_no_may_be_shouted_or_quoted() -> None:
    assert with_line("personal: no", "personal: YES").sources[0].personal is True
    assert with_line("personal: no", "personal: 'no'").sources[0].personal is False


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("tokens: 10_000", "tokens: 1e400", "training.tokens: expected a whole number"),
        (
            "tokens: 10_000",
            "tokens: 5000.5",
            "training.tokens: expected a whole number, got 5000.5",
        ),
        ("tokens: 10_000", "tokens: yes", "training.tokens: expected a whole number, got yes"),
        ("tokens: 10_000", "tokens: [1]", "training.tokens: expected a whole number, got a list"),
        ("tokens: 10_000", "tokens: 0", "training.tokens: expected at least 1, got 0"),
        ("{tokens: 10_000}", "ten", "training: expected keys and values, got 'ten'"),
        ("{tokens: 10_000}", "", "training: expected keys and values, got nothing"),
        ("10_000}", "10_000, betas: [1, 0]}", "training.betas[1]: expected less than 1, got 1"),
        (
            "10_000}",
            "10_000, betas: [0, 0, 0]}",
            "training.betas: expected at most 2 entries, got 3",
        ),
        ("10_000}", "10_000, weight_decay: 1e999}", "training.weight_decay: expected a finite"),
        ("10_000}", "10_000, weight_decay: .inf}", "training.weight_decay: expected a number, got"),
        ("10_000}", "10_000, tokenizer: ''}", "training.tokenizer: expected text, got ''"),
        ("10_000}", "10_000, tokenizer: 12}", "training.tokenizer: expected text, got 12"),
        ("path: a.txt", "path: {}", "sources[a].path: expected text, got keys and values"),
        ("name: a,", "name: 7,", "sources[1].name: expected text, got 7"),
        ("name: a,", "name: ../../etc,", "sources[../../etc].name: expected a name of letters"),
        (
            "name: a,",
            f"name: {'x' * 64},",
            f"sources[{'x' * 64}].name: expected a name of letters",
        ),
        ("country: DE", "country: 49", "sources[a].country: expected text, got 49"),
        ("{folder: weights}", "{folder: w, arguments: {}}", "model: arguments go with class only"),
        ("{folder: weights}", "{config: {}}", "model.config: expected at least 1 entry, got 0"),
        ("{folder: weights}", "12", "model: expected keys and values, got 12"),
        ("tiny", "&a", "anchors"),
    ],
)
def test_a_wrong_value_is_answered_with_what_was_expected(old: str, new: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        with_line(old, new)

    assert caught.value.what.startswith(says)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("exchange: {delay: 2}", "exchange.delay: expected at most 1, got 2"),
        ("exchange: {delay: yes}", "exchange.delay: expected a whole number, got yes"),
        ("exchange: {window: {}}", "exchange.window: expected exactly one of steps and seconds"),
        (
            "exchange: {window: {seconds: x}}",
            "exchange.window.seconds: expected a number, alone or",
        ),
        ("exchange: {window: {seconds: 1e400 s}}", "exchange.window.seconds: expected a finite"),
        ("exchange: {codec: 8}", "exchange.codec: expected 'fp32', 'int8', 'int4' or 'ternary'"),
        ("limits: {money: lots}", "limits.money: expected an amount such as 5 or '5 USD', got"),
        ("limits: {money: yes}", "limits.money: expected an amount such as 5 or '5 USD', got yes"),
        ("limits: {money: -1}", "limits.money: expected at least 0, got -1"),
        ("limits: {hours: 0}", "limits.hours: expected more than 0, got 0"),
        ("policy: [{allow: update, from: no, to: US}]", "policy[1].from[1]: expected a country or"),
        ("policy: [{allow: update, from: 1, to: US}]", "policy[1].from: expected a list, got 1"),
        ("policy: [{allow: update, from: [1], to: US}]", "policy[1].from[1]: expected text, got 1"),
        ("policy: [{allow: [], from: EU, to: US}]", "policy[1].allow: expected at least 1 entry"),
        ("policy: [{from: EU, to: US}]", "policy[1]: expected exactly one of allow and deny"),
        (
            "policy: [{allow: masked_update, from: EU, to: US}]",
            "policy[1].allow[1]: expected 'raw'",
        ),
        ("policy: allow", "policy: expected a list, got 'allow'"),
        ("polcy: []", "unknown key 'polcy', did you mean 'policy'?"),
    ],
)
def test_a_wrong_line_in_an_optional_section_is_answered_too(line: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_job(f"{SHORTEST}{line}\n")

    assert caught.value.what.startswith(says)
    assert caught.value.where == "job.yaml:7"


def test_several_mistakes_are_told_at_once_the_first_of_the_file_as_headline() -> None:
    text = SHORTEST.replace("name: tiny", "nome: tiny").replace("DE", "XX").replace("10_000", "ten")

    with pytest.raises(SpecError) as caught:
        parse_job(text)

    assert str(caught.value) == (
        "job.yaml:2: unknown key 'nome', did you mean 'name'?\n"
        "  also job.yaml:5: sources[a].country: expected a country, got 'XX': write an ISO 3166"
        " code such as DE, JP or US\n"
        "  also job.yaml:6: training.tokens: expected a whole number, or one with k, M or B, got"
        " 'ten'"
    )


def test_a_flood_of_mistakes_is_cut_short() -> None:
    text = SHORTEST + "".join(f"key{number}: 1\n" for number in range(20))

    with pytest.raises(SpecError) as caught:
        parse_job(text)

    assert caught.value.hint is not None
    assert caught.value.hint.endswith("and 14 more")
    assert len(caught.value.hint.splitlines()) == 7


def test_long_values_are_not_repeated_in_full() -> None:
    with pytest.raises(SpecError) as caught:
        with_line("country: DE", f"country: {'x' * 300}")

    assert len(caught.value.what) < 420


@pytest.mark.parametrize("text", ["[1, 2]", "just words", "12", "yes"])
def test_a_file_of_another_shape_is_told_what_was_expected(text: str) -> None:
    with pytest.raises(SpecError, match=r"^job.yaml:1: expected keys and values, got "):
        parse_job(text)


def test_an_empty_mapping_lacks_its_version() -> None:
    with pytest.raises(SpecError, match="expected `version: 1` as the first key, got nothing"):
        parse_job("{}")


FLEET = Fleet(
    home="DE",
    sites=(Site(name="frankfurt", country="DE", hosts=(Host(name="f"),)),),
    links=(),
    currency="EUR",
)


def test_a_job_and_its_fleet_must_speak_of_the_same_sites_and_money() -> None:
    job = parse_job(LONGEST, "job.yaml")
    here = replace(job, sources=(replace(job.sources[0], sites=("frankfurt",)),))

    check_together(here, FLEET)
    check_together(replace(here, limits=Limits(money=5.0)), replace(FLEET, currency="JPY"))
    with pytest.raises(
        SpecError, match=r"job.yaml:7: source 'german': the fleet has no site 'berl"
    ):
        check_together(job, FLEET)
    with pytest.raises(SpecError, match=r"limits.money is in EUR, the fleet's prices are in USD"):
        check_together(here, replace(FLEET, currency="USD"))
