"""The loops that docs/own-loop.md shows, as they stand there, beside an ordinary site.

Those of accelerate and of transformers' Trainer need the package accelerate, which Argosy does not
bring: without it their tests are skipped.
"""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from docs.pages import DOCS, blocks
from fakes.engine import Tiny, Town
from fakes.guests import BATCH, ROWS, SEQUENCE, GuestHosting, Script, loss_of
from torch import nn

from argosy.core.errors import SpecError
from argosy.core.records import Digest
from argosy.engine.callback import TrainerCallback
from argosy.engine.site import Site

SITES = ("frankfurt", "tokyo")
Batches = Iterator[torch.Tensor]


class Scored(Tiny):
    """Returns its loss too, as a Trainer expects."""

    def forward(  # type: ignore[override]
        self, tokens: torch.Tensor, labels: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        logits = super().forward(tokens)
        if labels is None:
            return {"logits": logits}
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits}


class Rows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """The rows of batches, as many as a Trainer asks for."""

    def __init__(self, batches: Batches) -> None:
        self._rows = (row for batch in batches for row in batch)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, _: int) -> dict[str, torch.Tensor]:
        row = next(self._rows)
        return {"tokens": row[:-1], "labels": row[1:]}


def shown(number: int, guests: list[GuestHosting], **names: object) -> Script:
    """A block of code of docs/own-loop.md as a guest's loop."""
    block = [block for block in blocks(DOCS / "own-loop.md") if block.info == "python"][number]
    assert block.text.startswith("import argosy\n")
    program = compile(block.text.removeprefix("import argosy\n"), block.place, "exec")

    def script(
        model: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches, _: Site
    ) -> None:
        here = SimpleNamespace(Site=guests[0].made, TrainerCallback=TrainerCallback)
        own = {"model": model, "optimizer": optimizer, "loader": batches, "loss_of": loss_of}
        exec(program, {"argosy": here, **own, "dataset": Rows(batches), **names})

    return script


def town(folder: Path) -> Town:
    made = Town(folder, sites=SITES)
    made.begin()
    made.start("frankfurt")
    return made


def assert_trained_together(run: Town, guest: GuestHosting, tokens: int) -> None:
    run.go(lambda town: town.round >= 5)
    run.drain()
    run.go(Town.finished)

    told: dict[int, set[str]] = {}
    for entry in run.said(Digest):
        assert isinstance(entry.body, Digest)
        told.setdefault(entry.body.round, set()).add(entry.body.digest)
    assert len(told) == run.round
    assert all(len(digests) == 1 for digests in told.values())
    books = run.controller.agreement.ledger()["tokyo"]
    assert books.trained == books.committed == guest.site.steps * tokens
    assert books.lost == {}
    parameter = next(guest.model.parameters())
    assert float(guest.optimizer.state[parameter]["step"]) == guest.site.steps
    assert guest.left is not None
    assert guest.left.done


def test_the_plain_loop_of_the_page(tmp_path: Path) -> None:
    run, guests = town(tmp_path), list[GuestHosting]()
    guests.append(GuestHosting(run, "tokyo", shown(0, guests)))

    assert_trained_together(run, guests[0], ROWS * (SEQUENCE + 1))


def test_the_loop_of_the_page_with_accelerate(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="accelerate is not installed: its loop is UNTESTED")
    run, guests = town(tmp_path), list[GuestHosting]()
    guests.append(GuestHosting(run, "tokyo", shown(1, guests)))

    assert_trained_together(run, guests[0], ROWS * (SEQUENCE + 1))


def test_the_trainer_of_the_page(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="Trainer needs accelerate: a real one is UNTESTED")
    from transformers import TrainingArguments

    arguments = TrainingArguments(
        output_dir=str(tmp_path / "trainer"), use_cpu=True, max_steps=10_000,
        per_device_train_batch_size=ROWS, remove_unused_columns=False, save_strategy="no",
        logging_strategy="no", report_to=[], disable_tqdm=True, lr_scheduler_type="constant",
        dataloader_pin_memory=False,
    )  # fmt: skip
    run, guests = town(tmp_path), list[GuestHosting]()
    script = shown(2, guests, arguments=arguments, batch_size=ROWS, sequence=SEQUENCE)
    guests.append(GuestHosting(run, "tokyo", script, model=Scored(257)))

    assert_trained_together(run, guests[0], BATCH)


class Counted:
    """What the callback reads and sets of a Trainer."""

    num_input_tokens_seen = 0
    should_training_stop = False


class CountingSite:
    """Lets two steps be taken."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.over = False

    def step(self, tokens: int) -> bool:
        self.told.append(tokens)
        self.over = len(self.told) == 2
        return not self.over


def test_the_callback_takes_the_trainers_own_count_of_tokens_and_stops_it() -> None:
    site, state, control = CountingSite(), Counted(), Counted()
    callback = TrainerCallback(site)  # type: ignore[arg-type]
    state.num_input_tokens_seen = 100  # of an earlier train()
    stopped = [callback.on_train_begin(None, state, control).should_training_stop]
    for seen in (132, 172):
        state.num_input_tokens_seen = seen
        stopped.append(callback.on_step_end(None, state, control).should_training_stop)

    assert site.told == [32, 40]
    assert stopped == [False, False, True]
    with pytest.raises(SpecError, match="nobody counts the tokens of a step"):
        callback.on_step_end(None, state, control)


def test_a_trainer_begun_after_the_end_of_the_run_is_told_to_stop() -> None:
    site, control = CountingSite(), Counted()
    site.over = True

    TrainerCallback(site, tokens_per_step=1).on_train_begin(None, Counted(), control)  # type: ignore[arg-type]

    assert control.should_training_stop
    assert site.told == []
