"""The inner optimizer of a site, its rate by global tokens, and its state as flat vectors."""

import math
from typing import TYPE_CHECKING

import torch

from argosy.core.errors import SpecError
from argosy.exchange.moments import paces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from argosy.core.job import Training
    from argosy.engine.weights import Weights
    from argosy.exchange.vectors import Vector

SLOTS = ("exp_avg", "exp_avg_sq")
SQUARES = SLOTS[1]
SAMPLE_STEPS = 8  # between two looks at the second moments
SAMPLE_WEIGHT = 0.25  # of a look: a row's mean reaches back about 30 steps


class InnerOptimizer:
    """AdamW or plain SGD over the parameters of a site, at the rate the run stands at."""

    def __init__(self, weights: "Weights", training: "Training") -> None:
        self._weights = weights
        self._training = training
        self._optimizer = self._made()
        self._steps = 0
        self._moments: Tensor | None = None  # per row, smoothed
        self._paces: Tensor | None = None  # per row; None: 1

    def step(self, tokens: int, step_tokens: int) -> None:
        """One update from the gradients that lie there; `tokens` are the run's, before it."""
        rate = self._training.learning_rate * factor(tokens, step_tokens, self._training)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        before = self._weights.vector.clone() if self._paces is not None else None
        self._optimizer.step()
        if before is not None:
            self._at_own_pace(before)
        if self._steps % SAMPLE_STEPS == 0:
            self._look()
        self._steps += 1

    def moments(self) -> "Vector | None":
        """The mean second moment of each row (exchange.moments), lately; None before a step."""
        return None if self._moments is None else self._moments.numpy()

    def agree(self, others: "Sequence[Vector]") -> None:
        """What the other sites of a round have told of their second moments: from here on a row
        moves at this site as it would if all sites divided by the same size."""
        own = self.moments()
        fitting = [other for other in others if own is not None and other.size == own.size]
        if own is None or not fitting:
            self._paces = None
        else:
            self._paces = torch.from_numpy(paces(own, fitting)).to(self._weights.device)

    def clear(self) -> None:
        self._optimizer.zero_grad(set_to_none=True)

    def reset(self) -> None:
        """Forget every moment, as after a rollback."""
        self._optimizer = self._made()
        self._steps, self._moments, self._paces = 0, None, None

    def state(self) -> dict[str, "Tensor"]:
        """Its moments as flat CPU vectors in the table's order; empty before the first step."""
        states = [self._optimizer.state.get(p, {}) for p in self._weights.parameters]
        if not any(SLOTS[0] in state for state in states):
            return {}
        out: dict[str, Tensor] = {}
        for slot in SLOTS:
            pieces = [
                state[slot].reshape(-1).cpu() if slot in state else torch.zeros(p.numel())
                for p, state in zip(self._weights.parameters, states, strict=True)
            ]
            out[slot] = torch.cat(pieces)
        steps = [float(state.get("step", 0.0)) for state in states]
        out["step"] = torch.tensor(steps, dtype=torch.float32)
        out["taken"] = torch.tensor([float(self._steps)])  # ranks share fp32
        for name, rows in (("moments", self._moments), ("paces", self._paces)):
            if rows is not None:
                out[name] = rows.cpu()
        return out

    def load(self, state: dict[str, "Tensor"]) -> None:
        """Take over what `state` gave, here or on another host."""
        self.reset()
        if not state:
            return
        for slot in SLOTS:
            pieces = self._weights.split(state[slot].to(self._weights.device))
            for parameter, piece in zip(self._weights.parameters, pieces, strict=True):
                self._optimizer.state[parameter][slot] = piece.clone()
        for parameter, steps in zip(self._weights.parameters, state["step"], strict=True):
            self._optimizer.state[parameter]["step"] = steps.to(parameter.device, copy=True)
        self._steps = int(state["taken"])
        self._moments = state.get("moments")
        told = state.get("paces")
        self._paces = None if told is None else told.to(self._weights.device)

    def _look(self) -> None:
        """Take the second moments as they are now into the rows' means."""
        pieces = [
            self._optimizer.state[p][SQUARES].view(rows_of(p), -1).mean(1)
            for p in self._weights.parameters
            if SQUARES in self._optimizer.state.get(p, {})
        ]
        if len(pieces) < len(self._weights.parameters):
            return  # no AdamW, or a parameter that no gradient has reached yet
        now = torch.cat(pieces).cpu()
        self._moments = now if self._moments is None else self._moments.lerp(now, SAMPLE_WEIGHT)

    def _at_own_pace(self, before: "Tensor") -> None:
        """Shorten or lengthen the step that was just taken, row by row."""
        assert self._paces is not None
        parameters = self._weights.parameters
        cut = torch.split(self._paces, [rows_of(p) for p in parameters])
        for parameter, old, pace in zip(parameters, self._weights.split(before), cut, strict=True):
            new = parameter.data.view(pace.numel(), -1)
            torch.lerp(old.view(pace.numel(), -1), new, pace[:, None], out=new)

    def _made(self) -> torch.optim.Optimizer:
        training = self._training
        matrices = [p for p in self._weights.parameters if p.dim() >= 2]
        others = [p for p in self._weights.parameters if p.dim() < 2]  # norms and biases
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


def rows_of(parameter: "Tensor") -> int:
    return parameter.shape[0] if parameter.dim() >= 2 else parameter.numel()


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
