"""The example that ships: its texts, its licences, its two files."""

from pathlib import Path

import pytest

from argosy import policy, spec
from argosy.core.errors import PolicyError
from argosy.core.job import Job, ModelFromConfig
from argosy.core.law import Form
from argosy.data.corpus import held_out, open_source, training
from argosy.data.tokens import BYTES
from argosy.spec import faults

ROOT = Path(__file__).parents[2] / "examples/three-continents"
HOMES = {"german": "DE", "japanese": "JP", "english": "US"}


@pytest.fixture
def job() -> Job:
    return spec.read_job(ROOT / "job.yaml")


def text(job: Job, name: str) -> str:
    corpus = open_source(job.source(name), ROOT, site_country=HOMES[name], policy=job.policy)
    return "\n\n".join(corpus.documents())


def test_each_language_stays_at_the_site_in_its_country(job: Job) -> None:
    fleet = spec.read_fleet(ROOT / "fleet.yaml")
    spec.check_together(job, fleet)

    placed = policy.placement(job, fleet)

    assert placed == {"frankfurt": ("german",), "tokyo": ("japanese",), "virginia": ("english",)}
    assert {site.name: site.country for site in fleet.sites} == {
        "frankfurt": "DE", "tokyo": "JP", "virginia": "US",
    }  # fmt: skip
    assert fleet.home == "DE"
    assert len(fleet.site("virginia").hosts) == 2


def test_german_is_personal_and_only_what_was_learned_from_it_leaves_the_eu(job: Job) -> None:
    german = job.source("german")

    for form in Form:
        allowed = policy.verdict(job.policy, form, german, "US").allowed
        assert allowed == (form in {Form.UPDATE, Form.CHECKPOINT, Form.METRIC})
    assert german.personal
    assert policy.verdict(job.policy, Form.RAW, german, "FR").allowed
    assert all(rule.why for rule in job.policy.rules)


def test_without_the_rule_on_updates_the_job_is_refused_with_the_rule_that_is_missing(
    job: Job,
) -> None:
    lines = (ROOT / "job.yaml").read_text().splitlines(keepends=True)
    start = next(number for number, line in enumerate(lines) if "to: [JP, US]" in line) + 3
    assert "allow: [update" in lines[start]
    without = spec.parse_job("".join(lines[:start] + lines[start + 5 :]))
    assert len(without.policy.rules) == len(job.policy.rules) - 1

    with pytest.raises(PolicyError, match="german"):
        policy.placement(without, spec.read_fleet(ROOT / "fleet.yaml"))


def test_tokyo_is_lost_and_returns_in_the_middle(job: Job) -> None:
    fleet = spec.read_fleet(ROOT / "fleet.yaml")

    lost, back = faults.script(fleet)

    assert lost.plug == faults.Kill(target="tokyo-1")
    assert back.plug == faults.Return(target="tokyo-1")


@pytest.mark.parametrize(
    ("name", "sign", "least"),
    [("german", "äöüß", 0.01), ("japanese", "のはをに", 0.05), ("english", "th", 0.05)],
)
def test_each_text_is_long_enough_and_in_its_language(
    job: Job, name: str, sign: str, least: float
) -> None:
    got = text(job, name)

    assert len(got.encode()) >= 800_000
    assert sum(got.count(letter) for letter in sign) / len(got) > least
    assert (ROOT / "data" / f"{name}.txt.gz").stat().st_size < 500_000


@pytest.mark.parametrize("name", HOMES)
def test_no_text_holds_an_address_or_a_paragraph_twice(job: Job, name: str) -> None:
    got = text(job, name)

    assert "://" not in got
    assert "@debian" not in got
    paragraphs = got.split("\n\n")
    assert len(paragraphs) == len(set(paragraphs))


def test_no_paragraph_stands_in_two_languages(job: Job) -> None:
    german, english = (
        {part for part in text(job, name).split("\n\n") if len(part) > 80}
        for name in ("german", "english")
    )

    assert not german & english


def test_source_and_licence_of_every_text_are_named() -> None:
    told = (ROOT / "data/SOURCES.md").read_text()

    for path in (ROOT / "data").glob("*.gz"):
        assert f"`{path.name}`" in told
    assert "CC BY-SA 3.0" in told
    assert "Raphaël Hertzog and Roland Mas" in told
    licence = (ROOT / "data/LICENSE-CC-BY-SA-3.0").read_text()
    assert licence.startswith("Creative Commons Attribution-ShareAlike 3.0 Unported")


@pytest.mark.parametrize("name", HOMES)
def test_there_is_enough_to_train_on_and_to_evaluate(job: Job, name: str) -> None:
    corpus = open_source(job.source(name), ROOT, site_country=HOMES[name], policy=job.policy)
    tokens = corpus.tokens(BYTES, None)
    sequence = job.training.sequence

    data = training([tokens], sequence=sequence, seed=job.training.seed)

    assert len(data) > 6_000
    assert len(held_out(tokens, sequence=sequence)) > 100
    assert isinstance(job.model, ModelFromConfig)
    assert job.training.tokens / 3 < 1.5 * tokens.trained.tokens, "read once, or a little more"
