"""How mistakes are put into words."""

from typing import Annotated

import pytest
from pydantic import Field, ValidationError

from argosy.spec.document import Document
from argosy.spec.mistakes import Mistake, found, refuse, show, suggest
from argosy.spec.words import Keys


class EvenKeys(Keys):
    pairs: list[Annotated[int, Field(multiple_of=2)]] = Field(description="of shoes")


def test_a_complaint_that_has_no_words_of_ours_keeps_the_libraries_own() -> None:
    with pytest.raises(ValidationError) as caught:
        EvenKeys.model_validate({"pairs": [2, 3]})

    [mistake] = found(caught.value, EvenKeys)

    assert mistake == Mistake(
        path=("pairs", 1), what="Input should be a multiple of 2", hint="pairs = of shoes"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "nothing"),
        (True, "yes"),
        (False, "no"),
        ({"a": 1}, "keys and values"),
        ([1], "a list"),
        ("x" * 60, f"'{'x' * 60}'"),
        ("x" * 61, f"'{'x' * 57}...'"),
        (1.5, "1.5"),
    ],
)
def test_a_value_is_shown_as_the_file_would_have_it(value: object, shown: str) -> None:
    assert show(value) == shown


def test_a_suggestion_looks_past_capitals_and_is_silent_when_nothing_is_near() -> None:
    assert suggest("MBIT/S", ["Mbit/s", "GB/s"]) == ", did you mean 'Mbit/s'?"
    assert suggest("sources", ["policy"]) == ""


def test_an_entry_of_a_list_without_a_name_is_counted_from_one() -> None:
    page = Document(where="x", data={"a": [{"name": 3}, {"name": "b"}]}, lines={(): 1})

    said = [refuse(page, [Mistake(path=("a", i, "k"), what="bad")]).what for i in (0, 1, 2)]

    assert said == ["a[1].k: bad", "a[b].k: bad", "a[3].k: bad"]
