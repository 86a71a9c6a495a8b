"""What a run must leave when nothing went wrong."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fakes.whole import COUNTRY, LANGUAGE, SITES, argosy, counters

from argosy.core.records import Ended, Evaluation
from argosy.lab import checkers
from argosy.lab.checkers import OK, Bad
from argosy.lab.crossing import counters_agree

if TYPE_CHECKING:
    from whole.conftest import Undisturbed

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

OPENED_IN = {LANGUAGE[site]: (COUNTRY[site],) for site in SITES}
SENT_AS = {LANGUAGE[site]: ("update",) for site in SITES}


def test_it_ends_well_and_the_audit_is_ok(undisturbed: "Undisturbed") -> None:
    assert undisturbed.code == 0, undisturbed.said
    assert "audit   ok" in undisturbed.said
    assert "Traceback" not in undisturbed.said

    told = argosy("audit", "latest", "--json", cwd=undisturbed.place)

    assert told.returncode == 0, told.stderr
    proof = json.loads(told.stdout)
    last = undisturbed.entries[-1].body
    assert isinstance(last, Ended)
    assert (last.outcome, proof["ok"], proof["first_wrong"]) == ("done", True, None)
    assert proof["rounds"] == proof["replayed"] == last.rounds >= 4
    assert proof["deviations"] == proof["void"] == 0


def test_the_losses_of_all_sources_fell(undisturbed: "Undisturbed") -> None:
    told: dict[str, list[float]] = {}
    for entry in undisturbed.entries:
        if isinstance(entry.body, Evaluation):
            told.setdefault(entry.body.source, []).append(entry.body.bits_per_byte)

    assert set(told) == set(LANGUAGE.values())
    for source, losses in told.items():
        assert losses[-1] < 0.8 * losses[0], (source, losses)


def test_the_model_loads_and_knows_more_than_chance(undisturbed: "Undisturbed") -> None:
    transformers = pytest.importorskip("transformers")
    import torch

    folder = undisturbed.folder.model
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    text = (undisturbed.place / "job" / "data" / "english.txt").read_text(encoding="utf-8")
    tokens = tokenizer(text[-64:], return_tensors="pt").input_ids[:, :64]

    with torch.inference_mode():
        loss = float(model(input_ids=tokens, labels=tokens).loss)

    assert loss / 0.6931 < 6.5, "chance is 8 bits for a byte"
    assert "small-town" in (folder / "README.md").read_text(encoding="utf-8")


def test_the_report_is_one_file_that_asks_for_no_other(undisturbed: "Undisturbed") -> None:
    text = undisturbed.folder.report.read_text(encoding="utf-8")

    assert all(site in text for site in SITES)
    assert not any(f'{name}="http' in text for name in ("src", "href", "action"))


def test_all_held_the_same_model_and_no_token_was_lost(undisturbed: "Undisturbed") -> None:
    entries = undisturbed.entries

    assert checkers.same_model(entries, at_the_end=SITES) == OK
    assert checkers.no_round_twice(entries) == OK
    assert checkers.ledger_closes(entries) == OK
    assert checkers.loss_close(entries, entries) == OK


def test_every_source_was_read_at_home_only(undisturbed: "Undisturbed") -> None:
    entries = undisturbed.entries

    assert checkers.residency_kept(entries, OPENED_IN, SENT_AS) == OK
    abroad = {**OPENED_IN, "japanese": ("DE",)}
    assert isinstance(checkers.residency_kept(entries, abroad, SENT_AS), Bad)


def test_every_process_it_started_has_ended(undisturbed: "Undisturbed") -> None:
    seen = " ".join(undisturbed.working.values())

    for part in ("argosy train", "logbook.server", "checkpointer", "lab.relay", "argosy.engine "):
        assert part in seen, "who looks for what is left must have seen it at work"
    assert len(undisturbed.working) >= 7
    assert undisturbed.left == {}
    assert checkers.every_host_released(undisturbed.entries, undisturbed.left.values()) == OK
    listed = json.loads((undisturbed.folder.path / "processes.json").read_bytes())
    assert listed["processes"] == []


def test_the_relay_counted_what_the_logbook_says(undisturbed: "Undisturbed") -> None:
    folder = undisturbed.folder
    counted, before = counters(folder), counters(folder, "counters-before.json")

    assert counters_agree(undisturbed.entries, counted, before) == OK
    secret = {site: {**row, "up": row["up"] + 400_000} for site, row in counted.items()}
    assert isinstance(counters_agree(undisturbed.entries, secret, before), Bad)


def test_nothing_half_written_is_left(undisturbed: "Undisturbed") -> None:
    parts = [str(path) for path in undisturbed.folder.path.rglob("*.part")]
    private = [Path(undisturbed.folder.path / "keys"), *undisturbed.folder.path.rglob("*.key")]

    assert parts == []
    assert all(path.stat().st_mode & 0o077 == 0 for path in private)
