"""job.md and fleet.md name every key, with its default; what they show can be read."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from docs.pages import DOCS, Block, blocks, code, pages, rows

from argosy import spec
from argosy.core.errors import PolicyError
from argosy.policy import explain, placement
from argosy.spec.document import document
from argosy.spec.faults import FORMS, parse
from argosy.spec.fleet_file import _RESERVED, FleetKeys
from argosy.spec.job_keys import JobKeys

# What a key is checked within: a job and a fleet of the keys that must be there.
JOB = {
    "version": "version: 1\n",
    "name": "name: example\n",
    "model": "model: {config: {model_type: llama}}\n",
    "sources": "sources: [{name: german, path: data/de, country: DE, personal: yes}]\n",
    "training": "training: {tokens: 1M}\n",
}
FLEET = {
    "version": "version: 1\n",
    "home": "home: DE\n",
    "sites": "sites:\n  tokyo: {country: JP, link: {mbit_per_s: 9, rtt_ms: 9}, hosts: {tokyo-1: {}}}\n"
    "  frankfurt: {country: DE, link: {mbit_per_s: 9, rtt_ms: 9}, hosts: {a: {}}}\n",
}
STARS = {"sites": "SITE", "hosts": "HOST"}  # what the page calls a name that the user chooses

Key = tuple[bool, Any]  # required?, default


def schema_keys(kind: str) -> dict[str, Key]:
    whole = spec.schema(kind)
    return dict(_keys(whole, whole, ""))


def _keys(part: dict[str, Any], whole: dict[str, Any], at: str) -> Iterator[tuple[str, Key]]:
    if "$ref" in part:
        part = whole["$defs"][part["$ref"].rsplit("/", 1)[1]]
    for arm in part.get("anyOf", []):
        yield from _keys(arm, whole, at)
    for name, inner in part.get("properties", {}).items():
        path = f"{at}.{name}" if at else name
        yield path, (name in part.get("required", ()), inner.get("default"))
        yield from _keys(inner, whole, path)
    if "items" in part:
        yield from _keys(part["items"], whole, f"{at}[]")
    if isinstance(part.get("additionalProperties"), dict):
        star = STARS.get(at.rsplit(".", 1)[-1], "*")
        yield from _keys(part["additionalProperties"], whole, f"{at}.{star}")


@pytest.mark.parametrize("kind", ["job", "fleet"])
def test_a_page_has_every_key_of_its_file_and_no_other(kind: str) -> None:
    written = [code(row["key"]) for row in rows(DOCS / f"{kind}.md", "key")]

    assert sorted(written) == sorted(schema_keys(kind))


@pytest.mark.parametrize("kind", ["job", "fleet"])
def test_a_page_says_what_is_taken_when_a_key_is_left_out(kind: str) -> None:
    keys = schema_keys(kind)
    for row in rows(DOCS / f"{kind}.md", "key"):
        required, default = keys[code(row["key"])]
        said = row["left out"]
        assert (said == "required") == required, row["key"]
        match default:
            case None | "":
                assert required or not code(said), row["key"]
            case bool():
                assert said == f"`{'yes' if default else 'no'}`", row["key"]
            case list() if not default and not code(said):
                assert said, row["key"]  # in words: what no entry means
            case str():
                assert said == f"`{default}`", row["key"]
            case _:
                assert json.loads(code(said)) == default, row["key"]


def test_the_fault_sentences_of_the_page_are_those_that_the_lab_reads() -> None:
    shown = [
        code(row["sentence"]).replace("\\|", "|") for row in rows(DOCS / "fleet.md", "sentence")
    ]
    forms = [line for line in FORMS.splitlines() if not line.startswith("each")]

    bare = [text.replace(" for N s", "").replace(" at round N", "") for text in shown]

    assert bare == [form.replace(" [for N s]", "") for form in forms]
    for text in shown:
        parse(text.replace("HOST|SITE", "tokyo").replace("SITE", "tokyo").replace("N ", "4 ")
              .replace("round N", "round 4"))  # fmt: skip


def examples() -> list[Block]:
    return [
        block for page in pages() for block in blocks(page) if block.info.split()[:1] == ["yaml"]
    ]


@pytest.mark.parametrize("block", examples(), ids=lambda block: block.place)
def test_every_example_of_a_file_can_be_read(block: Block) -> None:
    data = document(block.text, block.place).data
    assert isinstance(data, dict)
    fleet = data.keys() <= FleetKeys.model_fields.keys()
    assert fleet or data.keys() <= JobKeys.model_fields.keys()
    text = block.text
    if block.info == "yaml fragment":
        text = "".join(t for key, t in (FLEET if fleet else JOB).items() if key not in data) + text
    else:
        assert block.info == "yaml"

    read = spec.parse_fleet(text) if fleet else spec.parse_job(text)

    for sentence in getattr(read, "faults", ()):
        parse(sentence)


def shown(name: str) -> str:
    """A message that policy.md shows, marked by a comment above its block."""
    text = (DOCS / "policy.md").read_text(encoding="utf-8")
    return text.split(f"<!-- refusal: {name} -->\n```text\n", 1)[1].split("```", 1)[0].strip("\n")


RULES = {
    "none": " []",
    "deny": """
  - {allow: [update, metric, checkpoint], from: "*", to: "*"}
  - {deny: update, from: EU, to: US, personal: yes, why: the works council said no}""",
    "wish": """
  - {allow: [update, metric, checkpoint], from: "*", to: "*"}""",
    "masked": """
  - {allow: [masked update, metric, checkpoint], from: EU, to: US, personal: yes}
  - {allow: [update, metric, checkpoint], from: US, to: EU}""",
}


def worked() -> tuple[str, str]:
    job, fleet = (block.text for block in blocks(DOCS / "policy.md") if block.info == "yaml")
    return job, fleet


def test_the_worked_example_passes_and_its_rules_read_as_shown() -> None:
    job, fleet = worked()
    read = spec.parse_job(job)

    assert placement(read, spec.parse_fleet(fleet)) == {
        "frankfurt": ("german",),
        "virginia": ("english",),
    }
    assert "\n".join(explain(read.policy)) == shown("passes")


@pytest.mark.parametrize("name", RULES)
def test_a_refusal_reads_as_shown(name: str) -> None:
    job, fleet = worked()
    job = job.split("policy:")[0] + "policy:" + RULES[name] + "\n"
    if name == "wish":
        job = job.replace("personal: yes}", "personal: yes, sites: [virginia]}", 1)

    with pytest.raises(PolicyError) as refused:
        placement(spec.parse_job(job), spec.parse_fleet(fleet))

    assert f"argosy: {refused.value}" == shown(name)


def test_the_names_that_are_taken_are_those_of_the_page() -> None:
    text = " ".join((DOCS / "fleet.md").read_text(encoding="utf-8").split())
    taken = text.split("Taken are ", 1)[1].split(".", 1)[0]

    assert sorted(taken.replace("`", "").replace(" and ", ", ").split(", ")) == sorted(_RESERVED)
