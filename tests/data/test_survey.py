"""What a source is refused for before anything is started is what training would refuse it for."""

from dataclasses import replace
from pathlib import Path

import pytest

from argosy.core.errors import SpecError
from argosy.core.job import Source
from argosy.core.law import Policy
from argosy.data.corpus import held_out, open_source, training
from argosy.data.survey import survey
from argosy.data.tokens import BYTES, Counts

LINES = Source(name="german", path="de.jsonl", country="DE", personal=False, where="job.yaml:7")


def lines(folder: Path, *texts: str) -> None:
    (folder / "de.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))


def train_on(folder: Path, sequence: int) -> None:
    tokens = open_source(LINES, folder, site_country="DE", policy=Policy()).tokens(BYTES, None)
    training([tokens], sequence=sequence, seed=0)
    held_out(tokens, sequence=sequence)


def test_a_source_is_counted_in_bytes_and_ends_of_documents(tmp_path: Path) -> None:
    lines(tmp_path, "abc", "defgh", "ij")

    found = survey(LINES, tmp_path, sequence=4)

    assert found.trained == Counts(documents=2, tokens=7, bytes=5)
    assert found.held == Counts(documents=1, tokens=6, bytes=5), "the second is held out first"


@pytest.mark.parametrize(
    ("texts", "sequence", "says"),
    [
        ((), 4, "source german is empty"),
        (("  ",), 4, "source german holds no text"),
        (("a long document",), 4, "source german is one document"),
        (("abc", "a long document"), 4, "source german: shorter than one sequence: 4 bytes"),
        (("a long document", "abc"), 4, "source german: what is held out is shorter"),
    ],
)
def test_what_is_too_little_is_refused_with_the_line_of_the_job_as_training_refuses_it(
    tmp_path: Path, texts: tuple[str, ...], sequence: int, says: str
) -> None:
    lines(tmp_path, *texts)

    with pytest.raises(SpecError) as refused:
        survey(LINES, tmp_path, sequence=sequence)

    assert refused.value.what.startswith(says)
    assert refused.value.where == "job.yaml:7"
    with pytest.raises(SpecError):
        train_on(tmp_path, sequence)


def test_who_holds_nothing_out_needs_one_document_only(tmp_path: Path) -> None:
    lines(tmp_path, "a long document")

    found = survey(replace(LINES, held_out=0.0), tmp_path, sequence=15)

    assert (found.trained.tokens, found.held.tokens) == (16, 0)


def test_a_line_that_is_wrong_is_named(tmp_path: Path) -> None:
    (tmp_path / "de.jsonl").write_text('{"text": "good"}\n{"words": "bad"}\n')

    with pytest.raises(SpecError, match="no field 'text'") as refused:
        survey(LINES, tmp_path, sequence=2)

    assert refused.value.where == "de.jsonl:2"
