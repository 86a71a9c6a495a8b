"""A job's model as a torch module, and its parameters as one flat vector.

What a user's own class has to keep (`module:Class`): called with tokens [n, s] (int64) it returns
logits [n, s, vocabulary], either the tensor itself or an object (or dict) with `logits` in it. Where
its constructor takes an argument `vocabulary`, it is given the tokenizer's. Losses, labels, masks
and caches are not its business; buffers are not exchanged, only floating-point parameters are.

Parameters are built in fp32 (autocast narrows the arithmetic, never the agreed model). The order of
`table` is that of `named_parameters()`: tied parameters stand once, under their first name.
"""

import contextlib
import json
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from argosy.core.errors import SpecError
from argosy.core.job import Model, ModelFromClass, ModelFromConfig, ModelFromFolder
from argosy.engine import architectures

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import Tensor, nn

Table = list[tuple[str, list[int]]]


@contextlib.contextmanager
def written_at(where: str) -> "Iterator[None]":
    """What is wrong with the job's model is said with the file and line of that section."""
    try:
        yield
    except SpecError as error:
        if where:
            error.what = f"{error.where}: {error.what}" if error.where else error.what
            error.where = where
        raise


def build(
    model: Model, vocabulary: int, *, root: "Path", config: str = "", weights: bool = True
) -> "nn.Module":
    """The job's model, initialised by torch's random state, or pretrained. In fp32, on the CPU.

    `root` is the job's folder. `config` (as `described` gives it, kept in every checkpoint) spares
    a worker the folder, which lies on the controller; `weights=False` leaves pretrained ones out.
    """
    match model:
        case ModelFromClass():
            return architectures.from_class(model, vocabulary, root)
        case ModelFromConfig() | ModelFromFolder():
            if config:
                return architectures.from_config(json.loads(config), vocabulary)
            if isinstance(model, ModelFromConfig):
                return architectures.from_config(model.config, vocabulary)
            return architectures.from_folder(root / model.folder, vocabulary, weights=weights)


def described(module: "nn.Module") -> str:
    """The transformers configuration of a module as JSON; "" for a user's own class."""
    to_dict = getattr(getattr(module, "config", None), "to_dict", None)
    return json.dumps(to_dict(), sort_keys=True) if to_dict else ""


def count(model: Model, vocabulary: int, *, root: "Path", config: str = "") -> int:
    """How many parameters the model will have, without allocating them where that is possible."""
    with torch.device("meta"):
        return size(build(model, vocabulary, root=root, config=config, weights=False))


def loss(module: "nn.Module", tokens: "Tensor") -> "Tensor":
    """Mean nats per token of predicting tokens[:, 1:] from what stands before each."""
    logits = logits_of(module, tokens[:, :-1])
    return cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def logits_of(module: "nn.Module", tokens: "Tensor") -> "Tensor":
    """[n, s, vocabulary], whatever way the module hands them out."""
    out = module(tokens)
    logits = out if isinstance(out, torch.Tensor) else _field(out)
    if not isinstance(logits, torch.Tensor):
        raise SpecError(
            f"the model returned {type(out).__name__}, expected logits",
            where=f"model: {_name(module)}",
            hint="forward(tokens) returns a tensor [n, s, vocabulary], or an object with .logits",
        )
    if logits.dim() != 3 or logits.shape[:2] != tokens.shape:
        raise SpecError(
            f"the model returned logits of shape {list(logits.shape)} for tokens of shape"
            f" {list(tokens.shape)}, expected {[*tokens.shape, 'vocabulary']}",
            where=f"model: {_name(module)}",
            hint="predict one distribution per token: forward(tokens[n, s]) -> [n, s, vocabulary]",
        )
    return logits


def check(module: "nn.Module", vocabulary: int, sequence: int) -> None:
    """Try one sequence, so that a model which does not fit the job is refused before training."""
    largest = getattr(getattr(module, "config", None), "max_position_embeddings", None)
    if isinstance(largest, int) and largest < sequence:
        raise SpecError(
            f"training.sequence is {sequence}, but the model reads {largest} tokens at most",
            where="model.config.max_position_embeddings",
            hint="make the sequence shorter or max_position_embeddings larger",
        )
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            logits = logits_of(module, torch.zeros(1, sequence, dtype=torch.int64))
    except (RuntimeError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise SpecError(
            f"the model fails on a sequence of {sequence} tokens: {architectures.said(error)}",
            where=f"model: {_name(module)}",
            hint="forward(tokens[n, s]) -> logits [n, s, vocabulary]",
        ) from error
    finally:
        module.train(training)
    if logits.shape[2] < vocabulary:
        raise SpecError(
            f"the model tells {logits.shape[2]} tokens apart, the tokenizer {vocabulary}",
            where=f"model: {_name(module)}",
            hint="give the class an argument `vocabulary`: it is filled in from the tokenizer",
        )


def table(module: "nn.Module") -> Table:
    """Name and shape of every floating-point parameter, in the order of the flat vector."""
    return [(name, list(parameter.shape)) for name, parameter in _parameters(module)]


def size(module: "nn.Module") -> int:
    return sum(parameter.numel() for _, parameter in _parameters(module))


def flat(module: "nn.Module") -> np.ndarray:
    """All parameters as one new fp32 vector."""
    vector = np.empty(size(module), np.float32)
    at = 0
    for _, parameter in _parameters(module):
        end = at + parameter.numel()
        vector[at:end] = parameter.detach().to("cpu", torch.float32).reshape(-1).numpy()
        at = end
    return vector


def load_flat(module: "nn.Module", vector: np.ndarray) -> None:
    """Write a flat vector into the parameters, each rounded to the parameter's own type."""
    assert vector.dtype == np.float32
    assert vector.shape == (size(module),), f"{vector.shape} for {size(module)} parameters"
    source = torch.from_numpy(vector if vector.flags.writeable else vector.copy())
    at = 0
    with torch.no_grad():
        for _, parameter in _parameters(module):
            end = at + parameter.numel()
            parameter.copy_(source[at:end].view(parameter.shape))
            at = end


def _parameters(module: "nn.Module") -> "Iterator[tuple[str, Tensor]]":
    for name, parameter in module.named_parameters():
        if parameter.is_floating_point():
            yield name, parameter


def _field(out: object) -> object:
    return out.get("logits") if isinstance(out, dict) else getattr(out, "logits", None)


def _name(module: "nn.Module") -> str:
    return type(getattr(module, "module", module)).__name__
