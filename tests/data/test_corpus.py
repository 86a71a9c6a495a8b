import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.core.errors import PolicyError, SpecError
from argosy.core.job import Source
from argosy.core.law import Form, Policy, Rule
from argosy.core.records import Access
from argosy.data.corpus import Corpus, held_out, open_source, training
from argosy.data.order import Cursor
from argosy.data.tokens import BYTES, Coding, Counts

GERMAN = Source(
    name="german", path="de", country="DE", personal=True, held_out=0.25, where="job.yaml:12"
)
IN_THE_EU = Policy(
    rules=(
        Rule(
            effect="allow",
            forms=(Form.RAW,),
            origins=("EU",),
            destinations=("EU",),
            why="one law",
            where="job.yaml:30",
        ),
    )
)


def opened(root: Path, source: Source = GERMAN, country: str = "DE") -> Corpus:
    return open_source(source, root, site_country=country, policy=IN_THE_EU)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "de"
    folder.mkdir()
    lines = [json.dumps({"text": f"Satz {number}."}) for number in range(6)]
    (folder / "a.jsonl").write_text("\n".join(lines))
    (folder / "b.txt.gz").write_bytes(gzip.compress(b"Ein Absatz.\n\nNoch einer.\n"))
    return tmp_path


def text(tokens: np.ndarray) -> list[str]:
    """The documents in a stream of bytes."""
    ends = np.flatnonzero(tokens == 256)
    pieces = np.split(tokens, ends + 1)
    assert len(pieces[-1]) == 0, "the stream ends with an end"
    return [bytes(piece[:-1].tolist()).decode() for piece in pieces[:-1]]


# Opening


def test_an_opened_source_tells_what_was_read_and_by_which_rule(root: Path) -> None:
    corpus = opened(root, country="FR")

    a, b = (root / "de/a.jsonl").read_bytes(), (root / "de/b.txt.gz").read_bytes()
    digests = hashlib.sha256(a).digest() + hashlib.sha256(b).digest()
    record = corpus.access("train")
    assert record == Access(
        source="german",
        purpose="train",
        files=2,
        bytes=len(a) + len(b),
        digest="sha256:" + hashlib.sha256(digests).hexdigest(),
        rule=record.rule,
    )
    assert "one law" in record.rule


def test_at_home_no_rule_is_needed(root: Path) -> None:
    corpus = open_source(GERMAN, root, site_country="DE", policy=Policy())

    assert corpus.access("evaluate").rule == "stays in DE"


def test_what_no_rule_allows_is_refused_before_any_file_is_looked_at(tmp_path: Path) -> None:
    missing = tmp_path / "there is nothing here"

    with pytest.raises(PolicyError) as caught:
        open_source(GERMAN, missing, site_country="US", policy=IN_THE_EU)

    assert caught.value.where == "job.yaml:12"
    assert caught.value.what.startswith("source german may not be opened in US: ")
    assert "DE" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({}, "source german: the folder de holds no text"),
        ({"a.txt": b"", "b.jsonl": b""}, "source german is empty"),
        ({"a.txt": b" \n\n \t\n"}, "source german holds no text"),
        ({"a.txt.gz": gzip.compress(b"")}, "source german holds no text"),
        ({"a.txt": b"Ein einziger Absatz."},
         "source german is one document: nothing can be held out for evaluation"),
    ],
)  # fmt: skip
def test_a_source_with_too_little_in_it_is_refused(
    tmp_path: Path, content: dict[str, bytes], says: str
) -> None:
    (tmp_path / "de").mkdir()
    for name, raw in content.items():
        (tmp_path / "de" / name).write_bytes(raw)

    with pytest.raises(SpecError) as caught:
        opened(tmp_path).tokens(BYTES, None)

    assert (caught.value.what, caught.value.where) == (says, "job.yaml:12")
    assert caught.value.hint


def test_one_document_is_enough_when_nothing_is_to_be_held_out(tmp_path: Path) -> None:
    (tmp_path / "de").mkdir()
    (tmp_path / "de/a.txt").write_text("Ein einziger Absatz.")

    tokens = opened(tmp_path, replace(GERMAN, held_out=0.0)).tokens(BYTES, None)

    assert text(tokens.train) == ["Ein einziger Absatz."]
    assert tokens.held == Counts()


# Tokens


@pytest.mark.parametrize("cached", [True, False])
def test_each_document_is_either_trained_or_held_out(root: Path, cached: bool) -> None:
    tokens = opened(root).tokens(BYTES, root / "scratch" if cached else None)

    assert text(tokens.held_out) == ["Satz 1.", "Satz 5."]
    assert text(tokens.train) == [
        "Satz 0.", "Satz 2.", "Satz 3.", "Satz 4.", "Ein Absatz.\n\nNoch einer.",
    ]  # fmt: skip
    assert tokens.source == "german"
    assert tokens.trained == Counts(documents=5, tokens=57, bytes=52)
    assert tokens.held == Counts(documents=2, tokens=16, bytes=14)


@settings(max_examples=25)
@given(
    st.lists(st.text(st.characters(categories=["L"]), min_size=1), min_size=2, unique=True),
    st.floats(0.01, 0.9),
)
def test_nothing_held_out_is_ever_trained_and_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory, documents: list[str], fraction: float
) -> None:
    folder = tmp_path_factory.mktemp("root")
    (folder / "de").mkdir()
    lines = [json.dumps({"text": document}) for document in documents]
    (folder / "de/a.jsonl").write_text("\n".join(lines))

    tokens = opened(folder, replace(GERMAN, held_out=fraction)).tokens(BYTES, None)

    trained, held = text(tokens.train), text(tokens.held_out)
    assert not set(trained) & set(held)
    assert sorted(trained + held) == sorted(documents)


def test_tokens_are_made_once_and_then_come_from_the_cache(root: Path) -> None:
    asked: list[str] = []

    def encode(document: str) -> bytes:
        asked.append(document)
        return document.encode()

    coding = replace(BYTES, encode=encode)

    first = opened(root).tokens(coding, root / "scratch")
    again = opened(root).tokens(coding, root / "scratch")

    assert len(asked) == 7
    assert first.train.tolist() == again.train.tolist()
    assert first.held_out.tolist() == again.held_out.tolist()
    assert (first.trained, first.held) == (again.trained, again.held)


@pytest.mark.parametrize(
    ("source", "coding"),
    [
        (replace(GERMAN, held_out=0.5), BYTES),
        (GERMAN, replace(BYTES, identity="sha256:other")),
        (GERMAN, replace(BYTES, vocabulary=300)),
        (GERMAN, replace(BYTES, end=0)),
    ],
    ids=["held out", "tokenizer", "vocabulary", "end"],
)
def test_other_settings_have_another_place_in_the_cache(
    root: Path, source: Source, coding: Coding
) -> None:
    opened(root).tokens(BYTES, root / "scratch")
    opened(root, source).tokens(coding, root / "scratch")

    assert len(list((root / "scratch").glob("*.npy"))) == 2


def test_changed_files_have_another_place_in_the_cache(root: Path) -> None:
    opened(root).tokens(BYTES, root / "scratch")
    (root / "de/a.jsonl").write_text('{"text": "Neu."}\n{"text": "Alt."}\n')

    tokens = opened(root).tokens(BYTES, root / "scratch")

    assert text(tokens.train)[0] == "Neu."


def test_moving_the_folder_keeps_its_place_in_the_cache(root: Path) -> None:
    opened(root).tokens(BYTES, root / "scratch")
    (root / "de").rename(root / "deutsch")

    opened(root, replace(GERMAN, path="deutsch")).tokens(BYTES, root / "scratch")

    assert len(list((root / "scratch").glob("*.npy"))) == 1


# Sequences


def test_a_site_trains_on_all_its_sources(root: Path) -> None:
    (root / "more.txt").write_text("x" * 60 + "\n")
    more = replace(GERMAN, name="more", path="more.txt", held_out=0.0)

    data = training(
        [opened(root, each).tokens(BYTES, None) for each in (GERMAN, more)], sequence=8, seed=0
    )

    rows, _ = data.batch(Cursor(), len(data))
    assert len(data) == 7 + 7
    assert sum((row == ord("x")).all() for row in rows) == 7


def test_evaluation_reads_what_was_held_out_in_order(root: Path) -> None:
    tokens = opened(root).tokens(BYTES, None)

    rows = held_out(tokens, sequence=7).spread(100)

    assert bytes(rows[0, :7].tolist()).decode() == "Satz 1."
    assert rows.shape == (2, 8)


def test_too_little_held_out_for_one_sequence_is_said(root: Path) -> None:
    tokens = opened(root).tokens(BYTES, None)

    with pytest.raises(SpecError, match="held out is shorter than one sequence: 16 tokens, 17"):
        held_out(tokens, sequence=16)
    assert len(held_out(tokens, sequence=15)) == 1
