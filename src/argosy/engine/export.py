"""The trained model as a folder that others can load: transformers, or the user's own class."""

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.core.errors import DiskError
from argosy.core.job import ModelFromClass
from argosy.engine import models
from argosy.engine.tokens import BYTES, FileTokenizer

if TYPE_CHECKING:
    from torch import nn

    from argosy.core.job import Job
    from argosy.engine.tokens import Tokenizer

END = "<|end|>"  # the name of the end of a document in a vocabulary of bytes
NOTES = "HOW_TO_LOAD.md"

FOR_TRANSFORMERS = """# Load this model

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained(".")
tokenizer = AutoTokenizer.from_pretrained(".")
```

Each document it was trained on begins after `{end}` (token {end_id}); so should a prompt.
"""

FOR_A_CLASS = """# Load this model

`model.safetensors` holds the parameters of `{target}`, which is your own code:

```python
import torch
from safetensors.torch import load_file
from {module} import {name}

model = {name}({arguments})
model.load_state_dict(load_file("model.safetensors"), strict=False)  # buffers are not in it
```

It reads {tokenizer}; token {end_id} stands between two documents.
"""


def export(module: "nn.Module", job: "Job", tokenizer: "Tokenizer", out: Path) -> list[str]:
    """Write the model into `out`, whole or not at all; what else lies there stays. File names."""
    part = out.with_name(f"{out.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        if isinstance(job.model, ModelFromClass):
            _write_class(module, job.model, tokenizer, part)
        else:
            _write_transformers(module, tokenizer, part)
        return _move(part, out)
    except OSError as error:
        raise DiskError(
            f"the model cannot be written: {error.strerror or error}", where=str(out)
        ) from error


def _write_transformers(module: "nn.Module", tokenizer: "Tokenizer", folder: Path) -> None:
    from transformers import GenerationConfig
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    config = module.config
    config.use_cache = True  # type: ignore[union-attr]
    for token in ("bos_token_id", "eos_token_id"):
        if getattr(config, token, None) is None:
            setattr(config, token, tokenizer.end)
    module.generation_config = GenerationConfig(  # type: ignore[assignment, no-untyped-call]
        bos_token_id=tokenizer.end, eos_token_id=tokenizer.end, pad_token_id=tokenizer.end
    )
    module.save_pretrained(folder)  # type: ignore[operator]
    end = _write_tokenizer(tokenizer, folder)
    _write(folder / NOTES, FOR_TRANSFORMERS.format(end=end, end_id=tokenizer.end))


def _write_tokenizer(tokenizer: "Tokenizer", folder: Path) -> str:
    """tokenizer.json for AutoTokenizer; the name of its end of a document."""
    if isinstance(tokenizer, FileTokenizer):
        shutil.copyfile(tokenizer.path, folder / "tokenizer.json")
        end = tokenizer.end_name
    else:
        _write(folder / "tokenizer.json", byte_tokenizer())
        end = END
    settings: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
    }
    if end:
        settings |= {"bos_token": end, "eos_token": end}
    _write(folder / "tokenizer_config.json", json.dumps(settings, indent=2) + "\n")
    return end


def byte_tokenizer() -> str:
    """A tokenizer.json whose token n is the byte n, and whose token 256 ends a document."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {character: byte for byte, character in enumerate(_byte_characters())}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(END, special=True, normalized=False)])
    return str(made.to_str(pretty=True))


def _byte_characters() -> list[str]:
    """The printable character that byte-level tokenizers write for each byte (since GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte if byte in plain else 256 + others.index(byte)) for byte in range(256)]


def _write_class(
    module: "nn.Module", model: ModelFromClass, tokenizer: "Tokenizer", folder: Path
) -> None:
    from safetensors.torch import save_file

    parameters = dict(module.named_parameters())
    named = {name: parameters[name].detach().contiguous() for name, _ in models.table(module)}
    save_file(named, folder / "model.safetensors", metadata={"format": "pt"})
    where, _, name = model.target.partition(":")
    arguments = ", ".join(f"{key}={value!r}" for key, value in model.arguments.items())
    notes = FOR_A_CLASS.format(
        target=model.target,
        module=where,
        name=name,
        arguments=arguments,
        tokenizer="bytes" if tokenizer.name == BYTES else f"tokens of {tokenizer.name}",
        end_id=tokenizer.end,
    )
    _write(folder / NOTES, notes)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _move(part: Path, out: Path) -> list[str]:
    """Each file synced, then renamed to its place; config.json last, since loaders begin there."""
    out.mkdir(parents=True, exist_ok=True)
    names = sorted((path.name for path in part.iterdir()), key=lambda name: name == "config.json")
    for name in names:
        with (part / name).open("rb") as written:
            os.fsync(written.fileno())
        (part / name).chmod(0o644)  # safetensors are written for their owner's eyes only
        (part / name).replace(out / name)
    part.rmdir()
    return names
