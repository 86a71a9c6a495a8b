"""JSON Schema for editors: it accepts what spec accepts, and says what every key is for."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from argosy.core.errors import SpecError
from argosy.spec import KINDS, schema
from argosy.spec.document import document

CASES = Path(__file__).parents[1] / "cases" / "spec"


def problems(kind: str, path: Path) -> list[str]:
    data = document(path.read_text(encoding="utf-8"), path.name).data
    validator = jsonschema.Draft202012Validator(schema(kind))
    return [error.message for error in validator.iter_errors(data)]


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_schema_and_accepts_the_good_file(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(kind))

    assert problems(kind, CASES / "good" / f"{kind}.yaml") == []


@pytest.mark.parametrize(
    "case",
    ["job-misspelt-key", "job-missing-key", "job-unknown-codec", "job-unknown-country",
     "job-neither-yes-nor-no", "job-unknown-bloc", "fleet-misspelt-key", "fleet-no-hosts"],
)  # fmt: skip
def test_an_editor_underlines_what_spec_would_refuse(case: str) -> None:
    assert problems(case.partition("-")[0], CASES / f"{case}.yaml")


def properties(node: Any) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    if isinstance(node, dict):
        found += list(node.get("properties", {}).items())
        for value in node.values():
            found += properties(value)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_says_what_it_is_for(kind: str) -> None:
    told = properties(schema(kind))

    assert len(told) > 15
    assert [name for name, details in told if not details.get("description")] == []


def test_another_kind_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(SpecError, match="expected job or fleet, got 'jobs', did you mean 'job'"):
        schema("jobs")
