"""The YAML that a spec may use, and the lines of its keys."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.core.errors import SpecError
from argosy.spec.document import document


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("yes", True),
        ("No", False),
        ("true", True),
        ("off", False),
        ("NO", "NO"),
        ("ON", "ON"),
        ("YES", "YES"),
        ("'yes'", "yes"),
        ("", None),
        ("~", None),
        ("null", None),
        ("'null'", "null"),
        ("12", 12),
        ("-3", -3),
        ("010", 10),
        ("2_000_000", 2_000_000),
        ("3e-3", 0.003),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e6", 1e6),
        ("'12'", "12"),
        ("12:30", "12:30"),
        ("2026-11-30", "2026-11-30"),
        ("0x10", "0x10"),
        (".inf", ".inf"),
        ("1 2", "1 2"),
        ("9" * 60, 1e60),
        ("[a, 1]", ["a", 1]),
        ("{a: {b: no}}", {"a": {"b": False}}),
        ("|\n  two\n  lines", "two\nlines"),
    ],
)
def test_a_value_means_what_a_person_reads(written: str, meant: object) -> None:
    assert document(f"key: {written}", "x").data == {"key": meant}


def test_keys_are_words_whatever_they_look_like() -> None:
    assert document("no: 1\n1: 2\nnull: 3", "x").data == {"no": 1, "1": 2, "null": 3}


def test_every_key_and_entry_has_its_line() -> None:
    page = document("a: 1\nb:\n  - c: 2\n    d: 3\n  - 4\n", "job.yaml")

    assert page.lines == {
        (): 1,
        ("a",): 1,
        ("b",): 2,
        ("b", 0): 3,
        ("b", 0, "c"): 3,
        ("b", 0, "d"): 4,
        ("b", 1): 5,
    }
    assert page.place(("b", 0, "d")) == "job.yaml:4"


def test_a_key_that_is_not_there_is_placed_at_the_section_where_it_would_stand() -> None:
    page = document("a: 1\nb:\n  c: 2\n", "job.yaml")

    assert page.place(("b", "missing", "deeper")) == "job.yaml:2"
    assert page.place(("missing",)) == "job.yaml:1"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\nb: &x [1]\n", 2, "anchors and aliases (& and *) are not used here"),
        ("a: 1\nb: *x\n", 2, "anchors and aliases (& and *) are not used here"),
        ("a: 1\nb: !!python/object:os.system x\n", 2, "tags (tag:yaml.org,2002:python/object:os"),
        ("a: !secret x\n", 1, "tags (!secret) are not used here"),
        ("a: " + "[" * 100_000, 1, "nested more than 32 levels deep"),
        ("a: [" + "1, " * 30_000 + "]", 1, "more than 20,000 values"),
        ("a: 1\n---\nb: 1\n", 2, "not YAML: expected one document, got a second one"),
        ("a: 1\nb: \x00\n", 2, "expected text, got the control character U+0000"),
        ("a: 1\nb: c: d\n", 2, "not YAML: mapping values are not allowed here"),
        ("a: 'open\n", 2, "not YAML: found unexpected end of stream"),
        ("a: [1, 2\nb: 3\n", 2, "not YAML: expected ',' or ']', but got"),
        ("a: 1\nb 2\n", 3, "not YAML: could not find expected ':'"),
        ("a: 1\n  b: 2\n", 2, "not YAML: mapping values are not allowed here"),
        ("a:\n  b: 1\n c: 2\n", 3, "not YAML: expected <block end>"),
        ("a: @x\n", 1, "not YAML: found character '@' that cannot start any token"),
        ("? [a]\n: 1\n", 1, "expected a word as key"),
        ("a:\n  b: 1\n  b: 2\n", 3, "the key 'b' is given twice"),
    ],
)
def test_what_a_spec_does_not_need_is_refused_by_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        document(text, "job.yaml")

    assert caught.value.where == f"job.yaml:{line}"
    assert caught.value.what.startswith(says)


@given(st.text(alphabet="ab1: -[]{}'\"\n\t#&*!|>%@`,?~\\\x85\x00é", max_size=40))
def test_no_text_at_all_makes_the_reader_fail_otherwise_than_by_its_own_error(text: str) -> None:
    with suppress(SpecError):
        assert document(text, "x").lines
