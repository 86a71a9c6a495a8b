"""What can be asked of a trained model: how well it predicts a text, and how a text goes on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from argosy.engine import models
from argosy.engine.tokens import bits_per_byte

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch import nn

    from argosy.engine.tokens import Tokenizer

ROWS = 16  # sequences per forward pass


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    loss: float  # nats per token, ends of documents included
    bits_per_byte: float
    tokens: int
    bytes: int


def score(
    module: "nn.Module", tokenizer: "Tokenizer", documents: "Iterable[str]", sequence: int
) -> Score:
    """Over all of the text, in windows of `sequence`; each document begins after an end."""
    stream = [tokenizer.end]
    size = 0
    for document in documents:
        stream += [*tokenizer.encode(document), tokenizer.end]
        size += len(document.encode())
    total, count = 0.0, 0
    module.eval()
    with torch.inference_mode():
        for batch in _windows(stream, sequence):
            predicted = batch.shape[0] * (batch.shape[1] - 1)
            total += float(models.loss(module, batch)) * predicted
            count += predicted
    loss = total / count if count else 0.0
    return Score(
        loss=loss,
        bits_per_byte=bits_per_byte(loss, size / count if count else 0.0),
        tokens=count,
        bytes=size,
    )


def generate(  # noqa: PLR0913 - what a person may turn when asking
    module: "nn.Module",
    tokenizer: "Tokenizer",
    prompt: str,
    *,
    tokens: int,
    context: int,
    temperature: float = 0.0,
    seed: int = 0,
) -> str:
    """How the prompt goes on, until `tokens` are made or the document ends.

    Temperature 0 takes the likeliest token each time. At most `context` tokens are looked back on.
    """
    random = torch.Generator().manual_seed(seed)
    stream = [tokenizer.end, *tokenizer.encode(prompt)]
    start = len(stream)
    module.eval()
    with torch.inference_mode():
        while len(stream) - start < tokens:
            seen = torch.tensor([stream[-context:]])
            logits = models.logits_of(module, seen)[0, -1, : tokenizer.vocabulary].float()
            token = _drawn(logits, temperature, random)
            if token == tokenizer.end:
                break
            stream.append(token)
    return tokenizer.decode(stream[start:])


def _drawn(logits: torch.Tensor, temperature: float, random: torch.Generator) -> int:
    if temperature <= 0:
        return int(logits.argmax())
    weights = torch.softmax(logits / temperature, 0)
    return int(torch.multinomial(weights, 1, generator=random))


def _windows(stream: list[int], sequence: int) -> "Iterator[torch.Tensor]":
    """Windows that overlap by one token, so that each is predicted once; the last may be short."""
    whole = (len(stream) - 1) // sequence
    for first in range(0, whole, ROWS):
        rows = range(first, min(first + ROWS, whole))
        yield torch.tensor([stream[r * sequence : (r + 1) * sequence + 1] for r in rows])
    rest = stream[whole * sequence :]
    if len(rest) > 1:
        yield torch.tensor([rest])
