"""Whether there is enough readable text in a source to train on, told by reading it once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from argosy.core.errors import SpecError
from argosy.data import files
from argosy.data.corpus import require_text
from argosy.data.tokens import BYTES, Counts, encoded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from argosy.core.job import Source


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """The two parts of a source. Tokens are bytes and ends: no tokenizer makes more of a text."""

    trained: Counts
    held: Counts


def survey(source: "Source", root: "Path", *, sequence: int) -> Survey:
    """Reads every byte of the source and keeps none. Raises SpecError for what training would."""
    found = tuple(files.examine(path, name) for path, name in files.find(source, root))
    count = {False: Counts(), True: Counts()}
    for held, size, tokens in encoded(_documents(found, source), BYTES, source.held_out):
        count[held] = count[held].and_one_more(tokens=len(tokens), size=size)
    require_text(source, found, count[False], count[True])
    _require_a_sequence(source, "", count[False], sequence, "add text")
    if source.held_out:
        part = "what is held out is "
        _require_a_sequence(source, part, count[True], sequence, "add text, raise held_out")
    return Survey(trained=count[False], held=count[True])


def _documents(found: "tuple[files.TextFile, ...]", source: "Source") -> "Iterator[str]":
    for file in found:
        yield from files.documents(file, source.text_field)


def _require_a_sequence(
    source: "Source", part: str, counted: Counts, sequence: int, remedy: str
) -> None:
    if counted.tokens <= sequence:
        raise SpecError(
            f"source {source.name}: {part}shorter than one sequence: {counted.tokens} bytes and ends"
            f" of documents, {sequence + 1} tokens are needed",
            where=source.where or None,
            hint=f"{remedy}, or lower training.sequence",
        )
