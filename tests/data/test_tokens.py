import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.core.errors import SpecError
from argosy.data.tokens import BYTES, Coding, encoded, is_held_out

texts = st.lists(st.text(st.characters(codec="utf-8"), min_size=1), max_size=30)


def coding(encode: object, vocabulary: int = 300) -> Coding:
    assert callable(encode)
    return Coding(identity="test", vocabulary=vocabulary, end=1, encode=encode)


@given(texts)
def test_bytes_are_tokens_and_the_end_stands_after_each_document(documents: list[str]) -> None:
    parts = list(encoded(documents, BYTES, 0.0))

    for text, (held, size, array) in zip(documents, parts, strict=True):
        assert array.tolist() == [*text.encode(), 256]
        assert (held, size) == (False, len(text.encode()))


def test_a_list_of_tokens_counts_as_the_bytes_of_its_text() -> None:
    words = {"guten": 7, "Tag": 299}

    [(held, size, array)] = encoded(
        ["guten Tag"], coding(lambda text: [words[word] for word in text.split()]), 0.0
    )

    assert (held, size, array.tolist()) == (False, 9, [7, 299, 1])


def test_a_document_may_have_no_token_but_its_end() -> None:
    [(_, _, array)] = encoded(["?"], coding(lambda _: []), 0.0)

    assert array.tolist() == [1]


@pytest.mark.parametrize(("vocabulary", "kind"), [(65_536, "<u2"), (65_537, "<u4")])
def test_tokens_take_as_few_bytes_as_the_vocabulary_allows(vocabulary: int, kind: str) -> None:
    largest = vocabulary - 1

    [(_, _, array)] = encoded(["x"], coding(lambda _: [largest], vocabulary), 0.0)

    assert array.dtype == np.dtype(kind)
    assert array.tolist() == [largest, 1]


@pytest.mark.parametrize("token", [300, 70_000, -1])
def test_a_token_that_the_model_does_not_know_is_refused(token: int) -> None:
    with pytest.raises(SpecError, match="vocabulary has 300"):
        list(encoded(["x"], coding(lambda _: [5, token]), 0.0))


@given(st.floats(0.0, 1.0), st.integers(0, 400))
def test_of_every_beginning_the_right_share_is_held_out(fraction: float, count: int) -> None:
    held = sum(is_held_out(index, fraction) for index in range(count))

    assert abs(held - fraction * count) < 1 + 1e-3


@pytest.mark.parametrize("fraction", [0.001, 0.02, 0.3, 0.5, 0.75])
def test_two_documents_are_enough_to_train_on_one_and_hold_out_the_other(fraction: float) -> None:
    assert [is_held_out(index, fraction) for index in range(2)] == [False, True]


def test_what_is_held_out_is_spread_evenly() -> None:
    assert [index for index in range(250) if is_held_out(index, 0.02)] == [1, 51, 101, 151, 201]
    assert not any(is_held_out(index, 0.0) for index in range(250))
