"""Record kinds, errors and exit codes: each has its place in the docs."""

import dataclasses
import re
from collections.abc import Iterator

import pytest
from docs.pages import DOCS, code, rows

from argosy.core import errors
from argosy.core.errors import INTERRUPTED, UserError
from argosy.core.records import KINDS
from argosy.exchange.codec import NotFinite
from argosy.logbook.admission import CONTROLLER_ONLY
from argosy.logbook.envelope import FIELDS
from argosy.logbook.wire import REFUSALS
from argosy.run.audit import Counts


def record_rows() -> dict[str, dict[str, str]]:
    return {code(row["kind"]): row for row in rows(DOCS / "logbook.md", "kind")}


def test_every_kind_of_record_is_described() -> None:
    assert list(record_rows()) == list(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kinds_fields_are_those_of_its_body(kind: str) -> None:
    outside = re.sub(r"\([^)]*\)", "", record_rows()[kind]["fields"])

    fields = re.findall(r"`(\w+)`", outside)

    assert fields == [field.name for field in dataclasses.fields(KINDS[kind])]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_says_who_may_write_it(kind: str) -> None:
    assert record_rows()[kind]["by"] == ("C" if kind in CONTROLLER_ONLY else "H")


def test_every_field_of_the_envelope_is_described() -> None:
    written = [code(row["field"]) for row in rows(DOCS / "logbook.md", "field")]

    assert [field for field in FIELDS if field not in written] == []


def test_every_refusal_of_the_server_has_its_status_there() -> None:
    said = {code(row["status"]): row["means"] for row in rows(DOCS / "logbook.md", "status")}

    for _, kind, status in REFUSALS:
        assert kind.__name__ in said[str(status)]


def test_every_count_of_the_audit_is_described() -> None:
    text = (DOCS / "logbook.md").read_text(encoding="utf-8")

    assert [f.name for f in dataclasses.fields(Counts) if f"`{f.name}`" not in text] == []


def _kinds(kind: type[UserError]) -> Iterator[type[UserError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _kinds(inner)


def test_every_error_class_stands_with_its_exit_code() -> None:
    said = {(code(row["class"]), code(row["code"])) for row in rows(DOCS / "errors.md", "code")}
    ours = [kind for kind in _kinds(UserError) if kind.__module__.startswith("argosy.")]

    assert NotFinite in ours
    assert [k for k in ours if (k.__name__, str(k.exit_code)) not in said] == []


def test_every_exit_code_stands_there() -> None:
    said = {code(row["code"]) for row in rows(DOCS / "errors.md", "code")}
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, UserError)]

    assert said == {"0", str(INTERRUPTED), *(str(k.exit_code) for k in kinds)}
