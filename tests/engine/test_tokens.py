"""Bytes and tokenizer files: text goes in and comes out again."""

import math
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from argosy.core.errors import SpecError
from argosy.engine.tokens import (
    ByteTokenizer,
    bits_per_byte,
    bytes_per_token,
    coding,
    open_tokenizer,
)


def word_file(path: Path, *words: str) -> str:
    """A tokenizer.json that knows a few words, and cuts long texts unless it is told not to."""
    vocabulary = {word: index for index, word in enumerate(("?", *words))}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="?"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.enable_truncation(2)
    made.save(str(path / "words.json"))
    return "words.json"


@given(st.text())
def test_any_text_survives_bytes(text: str) -> None:
    tokenizer = ByteTokenizer()
    tokens = tokenizer.encode(text)

    assert tokenizer.decode([*tokens, tokenizer.end]) == text
    assert tokenizer.byte_count([*tokens, tokenizer.end]) == len(text.encode())
    assert all(token < tokenizer.end for token in tokens)


def test_half_a_character_is_shown_as_such() -> None:
    assert ByteTokenizer().decode([0xE6, 0x97]) == "\N{REPLACEMENT CHARACTER}"


def test_bytes_are_the_default_and_need_no_file(tmp_path: Path) -> None:
    tokenizer = open_tokenizer("bytes", tmp_path)

    assert (tokenizer.vocabulary, tokenizer.end) == (257, 256)
    assert bytes(coding(tokenizer).encode("é")) == b"\xc3\xa9"


def test_a_file_without_an_end_gets_one_more_token(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(word_file(tmp_path, "ship", "sea"), tmp_path)

    assert tokenizer.encode("ship sea sea rock") == [1, 2, 2, 0]
    assert (tokenizer.end, tokenizer.vocabulary) == (3, 4)
    assert tokenizer.decode([1, 2, 3]) == "ship sea"
    assert tokenizer.byte_count([1, 2, 3]) == 8


def test_a_file_s_own_end_of_document_is_used(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(word_file(tmp_path, "<|endoftext|>", "sea"), tmp_path)

    assert (tokenizer.end, tokenizer.vocabulary) == (1, 3)
    assert coding(tokenizer).identity == tokenizer.identity
    assert tokenizer.identity.startswith("sha256:")


def test_a_missing_or_broken_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no tokenizer file words\.json"):
        open_tokenizer("words.json", tmp_path)

    (tmp_path / "words.json").write_text("[]", encoding="utf-8")
    with pytest.raises(SpecError, match=r"words\.json is not a tokenizer\.json"):
        open_tokenizer("words.json", tmp_path)


def test_bits_per_byte_do_not_depend_on_the_tokenizer() -> None:
    tokenizer = ByteTokenizer()

    assert bytes_per_token(tokenizer, [65, 66, 67, tokenizer.end]) == 0.75
    assert bytes_per_token(tokenizer, []) == 0.0
    assert bits_per_byte(math.log(2), 1.0) == pytest.approx(1.0)
    assert bits_per_byte(4 * math.log(2), 4.0) == pytest.approx(1.0)
    assert bits_per_byte(1.0, 0.0) == math.inf
