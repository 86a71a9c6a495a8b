"""What a site opens, what it may say of it, and how it is evaluated."""

import json
import math
from pathlib import Path

import pytest
import torch
from fakes.engine import Tiny, Town

from argosy.core.records import Access
from argosy.data.corpus import open_source
from argosy.data.tokens import BYTES
from argosy.engine.evaluate import evaluate, held_of
from argosy.engine.group import Alone
from argosy.engine.materials import Openings
from argosy.spec import parse_fleet, parse_job


def openings(town: Town, site: str) -> Openings:
    return Openings(parse_job(town.job()), parse_fleet(town.fleet()), town.place(site))


def pass_by(access: Access) -> None:
    """Nobody keeps the record here."""


def refuse(what: str, detail: str) -> None:
    raise AssertionError(f"{what}: {detail}")


def test_an_opening_is_written_down_before_anything_is_tokenised(tmp_path: Path) -> None:
    town = Town(tmp_path, sites=("tokyo",))
    noted: list[tuple[Access, bool]] = []

    def write_down(access: Access) -> None:
        noted.append((access, (tmp_path / "scratch/tokyo/tokens").exists()))

    made = openings(town, "tokyo").open(town.planned(1).site("tokyo"), write_down, refuse)

    ((access, tokens_there),) = noted
    assert (access.source, access.purpose, access.files) == ("tokyo", "train", 1)
    assert not tokens_there
    assert (tmp_path / "scratch/tokyo/tokens").exists()
    assert made.sources == ("tokyo",)
    assert [held.source for held in made.held] == ["tokyo"]


def test_without_room_for_tokens_they_stay_in_memory_and_that_is_said(tmp_path: Path) -> None:
    town = Town(tmp_path, sites=("tokyo",))
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch/tokyo").write_text("in the way")
    said: list[str] = []

    made = openings(town, "tokyo").open(
        town.planned(1).site("tokyo"), pass_by, lambda *event: said.append(event[0])
    )

    assert said == ["disk"]
    assert len(made.sequences) > 0


def test_a_source_that_holds_nothing_back_is_not_evaluated(tmp_path: Path) -> None:
    town = Town(tmp_path, sites=("tokyo",), held_out=0.0)

    made = openings(town, "tokyo").open(town.planned(1).site("tokyo"), pass_by, refuse)

    assert made.held == ()


def test_a_tokenizer_of_the_job_is_used_for_reading(tmp_path: Path) -> None:
    town = Town(tmp_path, sites=("tokyo",), training={"tokenizer": "words.json"})
    vocabulary = {"a": 0, "b": 1, "<unk>": 2, "</s>": 3}
    (tmp_path / "data/words.json").write_text(
        json.dumps(
            {
                "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
                "normalizer": None, "pre_tokenizer": {"type": "Whitespace"},
                "post_processor": None, "decoder": None,
                "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
            }
        )
    )  # fmt: skip
    (tmp_path / "data/tokyo.txt").write_text("a b a b a b\n\n" * 2000)

    opened = openings(town, "tokyo")
    made = opened.open(town.planned(1).site("tokyo"), pass_by, refuse)

    assert opened.tokenizer.vocabulary == 4
    assert int(made.sequences.window(0).max()) <= 3


def test_a_model_that_knows_nothing_needs_log2_of_the_vocabulary_bits(tmp_path: Path) -> None:
    town = Town(tmp_path, sites=("tokyo",))
    job = parse_job(town.job())
    corpus = open_source(
        job.source("tokyo"), tmp_path / "data", site_country="JP", policy=job.policy
    )
    tokens = corpus.tokens(BYTES, None)
    held = held_of(tokens, 8, limit=400)
    assert held is not None
    module = Tiny(257)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()

    told = evaluate(module, held, 3, Alone())

    assert told.tokens == 400
    assert told.loss == pytest.approx(math.log(257), abs=1e-5)
    per_byte = math.log2(257) * tokens.held.tokens / tokens.held.bytes
    assert told.bits_per_byte == pytest.approx(per_byte, rel=1e-5)
    assert module.training
