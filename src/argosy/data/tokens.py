"""Documents to one token stream for training and one that only evaluation sees. Pure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from argosy.core.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

_MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Coding:
    """How text becomes tokens."""

    identity: str  # another one whenever `encode` changes: the digest of a tokenizer file
    vocabulary: int  # every token is below
    end: int  # stands after each document
    encode: "Callable[[str], Sequence[int]]"  # without `end`; bytes are quicker than a list

    @property
    def dtype(self) -> "np.dtype[Any]":
        return np.dtype("<u2" if self.vocabulary <= 1 << 16 else "<u4")


BYTES = Coding(identity="bytes", vocabulary=257, end=256, encode=str.encode)


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How much a part of a source is. `bytes` are those of the text as UTF-8, without ends."""

    documents: int = 0
    tokens: int = 0
    bytes: int = 0

    def and_one_more(self, *, tokens: int, size: int) -> "Counts":
        """With a further document of so many tokens and bytes."""
        return Counts(
            documents=self.documents + 1, tokens=self.tokens + tokens, bytes=self.bytes + size
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tokens:
    """A source as tokens. Arrays may lie in a file mapped into memory, read-only."""

    source: str
    train: "NDArray[Any]"
    held_out: "NDArray[Any]"
    trained: Counts
    held: Counts


def is_held_out(index: int, fraction: float) -> bool:
    """Whether the document at this position is for evaluation only.

    Spread evenly, the second document first: two documents are enough for both parts, and the
    share of any beginning of a source is right within one document.
    """
    part = round(fraction * _MILLION)
    offset = max(_MILLION - 2 * part, 0)
    return ((index + 1) * part + offset) // _MILLION > (index * part + offset) // _MILLION


def encoded(
    documents: "Iterable[str]", coding: Coding, held_out: float
) -> "Iterator[tuple[bool, int, NDArray[Any]]]":
    """Per document: is it held out, the bytes of its text, its tokens with the end after them."""
    for index, text in enumerate(documents):
        ids = coding.encode(text)
        wide = np.frombuffer(ids, np.uint8) if isinstance(ids, bytes) else np.asarray(ids, np.int64)
        if len(wide) and not 0 <= int(wide.min()) <= int(wide.max()) < coding.vocabulary:
            raise SpecError(
                f"the tokenizer gave {wide.max()} and {wide.min()}, the model's vocabulary has "
                f"{coding.vocabulary}",
                where="training.tokenizer",
                hint="name the tokenizer that belongs to the model",
            )
        array = np.empty(len(wide) + 1, coding.dtype)
        array[:-1] = wide
        array[-1] = coding.end
        size = len(ids) if isinstance(ids, bytes) else len(text.encode())
        yield is_held_out(index, held_out), size, array
