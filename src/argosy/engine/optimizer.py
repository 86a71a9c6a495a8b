"""The inner optimizer of a site, and its rate by global tokens."""

import math
from typing import TYPE_CHECKING

import torch

from argosy.core.errors import SpecError
from argosy.engine.paced import Paced

if TYPE_CHECKING:
    from torch import Tensor

    from argosy.core.job import Training
    from argosy.engine.weights import Weights


class InnerOptimizer(Paced):
    """AdamW or plain SGD over the parameters of a site, at the rate the run stands at."""

    def __init__(self, weights: "Weights", training: "Training") -> None:
        self._training = training
        super().__init__(weights, _made(weights, training))

    def step(self, tokens: int, step_tokens: int) -> None:
        """One update from the gradients that lie there; `tokens` are the run's, before it."""
        rate = self._training.learning_rate * factor(tokens, step_tokens, self._training)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self.before_step()
        self._optimizer.step()
        self.after_step()


def _made(weights: "Weights", training: "Training") -> torch.optim.Optimizer:
    matrices = [p for p in weights.parameters if p.dim() >= 2]
    others = [p for p in weights.parameters if p.dim() < 2]  # norms and biases
    groups = [
        {"params": matrices, "weight_decay": training.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    match training.optimizer:
        case "adamw":
            return torch.optim.AdamW(
                groups, lr=training.learning_rate, betas=training.betas, fused=True
            )
        case "sgd":
            return torch.optim.SGD(groups, lr=training.learning_rate)
        case other:
            raise SpecError(f"expected adamw or sgd, got {other!r}", where="training.optimizer")


def factor(tokens: int, step_tokens: int, training: "Training") -> float:
    """What the learning rate is multiplied by: linear warm-up, then a cosine, by global tokens."""
    warmup = training.warmup_fraction * training.tokens
    reached = tokens + step_tokens
    if reached < warmup:
        return reached / warmup
    rest = max(1.0, training.tokens - warmup)
    done = min(1.0, max(0.0, (tokens - warmup) / rest))
    floor = training.min_learning_rate_ratio
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * done))


def norm_of(weights: "Weights") -> "Tensor":
    """The gradients' norm over all parameters. NaN or Inf anywhere shows here."""
    norms = [p.grad.norm() for p in weights.parameters if p.grad is not None]
    return torch.stack(norms).norm() if norms else torch.zeros(())


def clip(weights: "Weights", norm: float, limit: float) -> None:
    """Shorten the gradients to `limit` when they are longer."""
    if norm > limit:
        for parameter in weights.parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(limit / (norm + 1e-6))
