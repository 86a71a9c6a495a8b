"""A checkpoint is exported, evaluated and asked; transformers and users can load what comes out."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from argosy.core.errors import DamagedError, DiskError, SpecError
from argosy.engine import models, tasks, tokens
from argosy.engine.checkpoint_blob import Checkpoint, pack
from argosy.engine.export import byte_tokenizer
from argosy.engine.inference import generate, score
from argosy.spec import read_job

JOB = """
version: 1
name: small
model: {model}
sources:
  - {{name: text, path: text.txt, country: DE, personal: no}}
training: {{tokens: 100000, sequence: 16, batch: 4, tokenizer: {tokenizer}}}
"""
LLAMA = (
    "{config: {model_type: llama, hidden_size: 16, num_hidden_layers: 1,"
    " num_attention_heads: 2, intermediate_size: 16}}"
)
CODE = """
import torch
from torch import nn


class Always(nn.Module):
    '''Says "abc" and ends, whatever it has read: token t is followed by t + 1, c by the end.'''

    def __init__(self, vocabulary, sure=20.0):
        super().__init__()
        self.follow = nn.Parameter(torch.zeros(vocabulary, vocabulary))
        self.sure = sure
        with torch.no_grad():
            for token in range(vocabulary):
                self.follow[token, (token + 1) % vocabulary] = sure
            self.follow[256] = 0.0
            self.follow[256, 97] = sure
            self.follow[99] = 0.0
            self.follow[99, 256] = sure

    def forward(self, tokens):
        return self.follow[tokens]
"""


def made(folder: Path, model: str = LLAMA, tokenizer: str = "bytes") -> tuple[Path, Path]:
    """A job and a checkpoint of its freshly made model."""
    job = folder / "job.yaml"
    job.write_text(JOB.format(model=model, tokenizer=tokenizer), encoding="utf-8")
    read = read_job(job)
    opened = tokens.open_tokenizer(read.training.tokenizer, folder)
    torch.manual_seed(1)
    module = models.build(read.model, opened.vocabulary, root=folder)
    a = models.flat(module)
    checkpoint = Checkpoint(
        table=tuple((name, tuple(shape)) for name, shape in models.table(module)),
        a=a,
        v=np.zeros_like(a),
        round=7,
        config=models.described(module),
    )
    (folder / "blob").write_bytes(pack(checkpoint))
    return job, folder / "blob"


def own_class(folder: Path, name: str) -> str:
    (folder / f"{name}.py").write_text(CODE, encoding="utf-8")
    return f'{{class: "{name}:Always"}}'


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, Any]]:
    assert tasks.main([str(argument) for argument in arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_an_exported_model_loads_with_transformers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoTokenizer, LlamaForCausalLM

    job, blob = made(tmp_path)
    out = tmp_path / "model"
    out.mkdir()
    (out / "README.md").write_text("the card", encoding="utf-8")

    (told,) = ask(capsys, "export", job, blob, "--out", out)

    assert told["round"] == 7
    assert (out / "README.md").read_text(encoding="utf-8") == "the card"
    assert not (tmp_path / "model.part").exists()
    assert set(told["files"]) == {path.name for path in out.iterdir()} - {"README.md"}
    model = LlamaForCausalLM.from_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(out)
    text = "Grüße, 世界!\n\n two  spaces <|end|>"
    ids = tokenizer(text)["input_ids"]
    assert ids == [*text.removesuffix("<|end|>").encode(), 256]
    assert tokenizer.decode(ids) == text
    assert tokenizer.eos_token_id == model.generation_config.eos_token_id == 256
    assert model.config.use_cache
    mine = tasks.Trained(read_job(job), blob, tmp_path).module
    seen = torch.tensor([ids[:16]])
    torch.testing.assert_close(model(seen).logits, models.logits_of(mine, seen))


def test_a_tokenizer_file_is_exported_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tokenizer.json").write_text(byte_tokenizer(), encoding="utf-8")
    job, blob = made(tmp_path, tokenizer="tokenizer.json")

    ask(capsys, "export", job, blob, "--out", tmp_path / "model")

    assert (tmp_path / "model" / "tokenizer.json").read_text(encoding="utf-8") == byte_tokenizer()
    settings = (tmp_path / "model" / "tokenizer_config.json").read_text(encoding="utf-8")
    assert "eos_token" not in json.loads(settings)


def test_a_class_of_the_user_is_exported_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, blob = made(tmp_path, own_class(tmp_path, "own_export"))
    out = tmp_path / "model"

    ask(capsys, "export", job, blob, "--out", out)

    assert list(load_file(out / "model.safetensors")) == ["follow"]
    notes = (out / "HOW_TO_LOAD.md").read_text(encoding="utf-8")
    assert "from own_export import Always" in notes
    assert "It reads bytes; token 256" in notes


def test_a_sure_model_is_scored_near_nothing_and_goes_on_as_it_must(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, blob = made(tmp_path, own_class(tmp_path, "own_sure"))
    (tmp_path / "known.txt").write_text("abc", encoding="utf-8")
    (tmp_path / "other.jsonl").write_text('{"text": "aaaa"}\n', encoding="utf-8")

    known, other = ask(
        capsys, "evaluate", job, blob, tmp_path / "known.txt", tmp_path / "other.jsonl"
    )
    (said,) = ask(capsys, "generate", job, blob, "--prompt", "a")

    # known: a, b, c and the end, each foreseen with odds of e^20 : 256
    assert (known["tokens"], known["bytes"]) == (4, 3)
    assert known["loss"] == pytest.approx(0.0, abs=1e-5)
    # other: of a, a, a, a, end only the first a is foreseen; the rest are 20 nats each
    assert other["loss"] == pytest.approx(4 / 5 * 20, rel=1e-4)
    assert other["bits_per_byte"] == pytest.approx(80 / math.log(2) / 4, rel=1e-4)
    assert said["text"] == "bc"


def test_a_long_text_is_scored_in_windows_each_token_once(tmp_path: Path) -> None:
    job, blob = made(tmp_path)
    trained = tasks.Trained(read_job(job), blob, tmp_path)
    text = "one two three four five " * 30
    stream = [256, *text.encode(), 256]

    scored = score(trained.module, trained.tokenizer, [text], 16)

    by_hand = 0.0
    for start in range(0, len(stream) - 1, 16):
        window = torch.tensor([stream[start : start + 17]])
        by_hand += float(models.loss(trained.module, window).detach()) * (window.shape[1] - 1)
    assert scored.tokens == len(stream) - 1
    assert scored.loss == pytest.approx(by_hand / scored.tokens, rel=1e-5)


def test_no_text_scores_nothing(tmp_path: Path) -> None:
    job, blob = made(tmp_path)
    trained = tasks.Trained(read_job(job), blob, tmp_path)

    scored = score(trained.module, trained.tokenizer, [], 16)

    assert (scored.tokens, scored.bytes, scored.loss) == (0, 0, 0.0)
    assert scored.bits_per_byte == math.inf


def test_the_same_seed_draws_the_same_text(tmp_path: Path) -> None:
    job, blob = made(tmp_path)
    trained = tasks.Trained(read_job(job), blob, tmp_path)

    def drawn(seed: int, temperature: float = 1.0) -> str:
        return generate(
            trained.module, trained.tokenizer, "x", tokens=20, context=16,
            temperature=temperature, seed=seed,
        )  # fmt: skip

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(1, 0.0) == drawn(2, 0.0)


def test_a_model_that_was_changed_since_is_refused(tmp_path: Path) -> None:
    job, blob = made(tmp_path, own_class(tmp_path, "own_changed"))
    changed = job.read_text(encoding="utf-8").replace("bytes", "tokenizer.json")
    job.write_text(changed, encoding="utf-8")
    larger = json.loads(byte_tokenizer())
    larger["added_tokens"].append(larger["added_tokens"][0] | {"id": 257, "content": "<|more|>"})
    (tmp_path / "tokenizer.json").write_text(json.dumps(larger), encoding="utf-8")

    with pytest.raises(SpecError, match="other parameters than its checkpoint"):
        tasks.main(["generate", str(job), str(blob), "--data", str(tmp_path)])


def test_a_missing_or_damaged_checkpoint_is_said(tmp_path: Path) -> None:
    job, blob = made(tmp_path)
    blob.write_bytes(blob.read_bytes()[:-1])
    with pytest.raises(DamagedError):
        tasks.main(["generate", str(job), str(blob)])

    blob.unlink()
    with pytest.raises(DiskError, match="No such file"):
        tasks.main(["generate", str(job), str(blob)])


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    job, blob = made(tmp_path)
    (tmp_path / "file").write_text("in the way", encoding="utf-8")

    with pytest.raises(DiskError, match="the model cannot be written"):
        tasks.main(["export", str(job), str(blob), "--out", str(tmp_path / "file" / "model")])
