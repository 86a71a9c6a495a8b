"""What is done with a checkpoint after, or beside, training; in a process that may load torch.

    python -m argosy.engine.tasks export   JOB CHECKPOINT --data ROOT --out FOLDER
    python -m argosy.engine.tasks evaluate JOB CHECKPOINT --data ROOT FILE ...
    python -m argosy.engine.tasks generate JOB CHECKPOINT --data ROOT --prompt TEXT

JOB is the run's job.yaml, CHECKPOINT the blob that a `checkpoint` record names, ROOT the folder
that the paths in the job are relative to. Answers are JSON lines on stdout.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.core.errors import DiskError, SpecError
from argosy.engine.process import exit_code_of, say

if TYPE_CHECKING:
    from torch import nn

    from argosy.core.job import Job
    from argosy.engine.tokens import Tokenizer


class Trained:
    """A checkpoint, opened: the module with its agreed parameters."""

    def __init__(self, job: "Job", checkpoint: Path, root: Path) -> None:
        from argosy.engine import models, tokens
        from argosy.engine.checkpoint_blob import unpack

        try:
            blob = checkpoint.read_bytes()
        except OSError as error:
            raise DiskError(
                f"the checkpoint cannot be read: {error.strerror}", where=str(checkpoint)
            ) from error
        opened = unpack(blob, where=str(checkpoint))
        self.job = job
        self.round = opened.round
        self.tokenizer: Tokenizer = tokens.open_tokenizer(job.training.tokenizer, root)
        with models.written_at(job.model_where):
            self.module: nn.Module = models.build(
                job.model, self.tokenizer.vocabulary, root=root, config=opened.config, weights=False
            )
        found = tuple((name, tuple(shape)) for name, shape in models.table(self.module))
        if found != opened.table:
            raise SpecError(
                "the job's model has other parameters than its checkpoint",
                where=f"model of {job.name}",
                hint="the model's code or folder was changed since the run; put the old one back",
            )
        models.load_flat(self.module, opened.a)
        self.module.eval()


def export(trained: Trained, out: Path) -> None:
    from argosy.engine.export import export as write

    files = write(trained.module, trained.job, trained.tokenizer, out)
    say(event="exported", round=trained.round, folder=str(out), files=files)


def evaluate(trained: Trained, paths: list[Path], text_field: str) -> None:
    from argosy.core.job import Source
    from argosy.data.files import documents, examine, find
    from argosy.engine.inference import score

    for path in paths:
        named = Source(name=str(path), path=str(path), country="", personal=True)
        texts = (
            document
            for file, name in find(named, Path())
            for document in documents(examine(file, name), text_field)
        )
        scored = score(trained.module, trained.tokenizer, texts, trained.job.training.sequence)
        say(
            event="evaluated",
            round=trained.round,
            file=str(path),
            loss=scored.loss,
            bits_per_byte=scored.bits_per_byte,
            tokens=scored.tokens,
            bytes=scored.bytes,
        )


def generate(trained: Trained, chosen: argparse.Namespace) -> None:
    from argosy.engine.inference import generate as go_on

    text = go_on(
        trained.module,
        trained.tokenizer,
        chosen.prompt,
        tokens=chosen.tokens,
        context=trained.job.training.sequence,
        temperature=chosen.temperature,
        seed=chosen.seed,
    )
    say(event="generated", round=trained.round, prompt=chosen.prompt, text=text)


def main(arguments: list[str]) -> int:
    from argosy.spec import read_job

    chosen = _parser().parse_args(arguments)
    root = chosen.data or chosen.job.parent
    trained = Trained(read_job(chosen.job), chosen.checkpoint, root)
    match chosen.task:
        case "export":
            export(trained, chosen.out)
        case "evaluate":
            evaluate(trained, chosen.files, chosen.text_field)
        case _:
            generate(trained, chosen)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m argosy.engine.tasks")
    tasks = parser.add_subparsers(dest="task", required=True)
    for name in ("export", "evaluate", "generate"):
        task = tasks.add_parser(name)
        task.add_argument("job", type=Path)
        task.add_argument("checkpoint", type=Path)
        task.add_argument("--data", type=Path, help="default: the folder of the job")
        match name:
            case "export":
                task.add_argument("--out", type=Path, required=True)
            case "evaluate":
                task.add_argument("files", type=Path, nargs="+", help="or folders, of text")
                task.add_argument("--text-field", default="text", help="the key of a .jsonl line")
            case _:
                task.add_argument("--prompt", default="")
                task.add_argument("--tokens", type=int, default=200)
                task.add_argument("--temperature", type=float, default=0.8)
                task.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(exit_code_of(main, sys.argv[1:]))
