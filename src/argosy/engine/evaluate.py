"""The loss of the model on what the site's sources hold back, over a bounded number of tokens."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from argosy.core.records import Evaluation
from argosy.data.corpus import held_out
from argosy.engine import models

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from argosy.data.tokens import Tokens
    from argosy.engine.group import Group

TOKENS = 8192  # per source: some 4 % of a round of 30 steps in the demo, the same ones every time
ROWS = 32  # sequences per forward pass


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HeldOut:
    """What one source holds back, as far as evaluations look at it."""

    source: str
    windows: "NDArray[np.int64]"  # [n, sequence + 1], evenly spread over what is held back
    bytes_per_token: float


def held_of(tokens: "Tokens", sequence: int, limit: int = TOKENS) -> HeldOut | None:
    """None for a source that holds nothing back."""
    if not tokens.held.tokens:
        return None
    windows = held_out(tokens, sequence=sequence).spread(max(1, limit // sequence))
    return HeldOut(
        source=tokens.source,
        windows=windows,
        bytes_per_token=tokens.held.bytes / tokens.held.tokens,
    )


def evaluate(module: "nn.Module", held: HeldOut, number: int, group: "Group") -> Evaluation:
    """The ranks share the windows; the sums are the same at all of them."""
    device = next(module.parameters()).device
    mine = torch.from_numpy(held.windows[group.rank :: group.size])
    sums = torch.zeros(2, dtype=torch.float64)
    was_training = module.training
    module.eval()
    with torch.inference_mode():
        for rows in torch.split(mine, ROWS):
            count = rows.shape[0] * (rows.shape[1] - 1)
            mean = float(models.loss(module, rows.to(device)))
            sums += torch.tensor([mean * count, count], dtype=torch.float64)
    module.train(was_training)
    total, tokens = (float(value) for value in group.start_sum(sums).finish())
    loss = total / tokens
    return Evaluation(
        round=number,
        source=held.source,
        loss=loss,
        tokens=int(tokens),
        bits_per_byte=loss / math.log(2) / held.bytes_per_token,
    )
