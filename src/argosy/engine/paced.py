"""A torch optimizer whose rows move at the pace the sites agreed on, its state as flat vectors."""

from typing import TYPE_CHECKING

import torch

from argosy.exchange.moments import paces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from argosy.engine.weights import Weights
    from argosy.exchange.vectors import Vector

SLOTS = ("exp_avg", "exp_avg_sq")
SQUARES = SLOTS[1]
SAMPLE_STEPS = 8  # between two looks at the second moments
SAMPLE_WEIGHT = 0.25  # of a look: a row's mean reaches back about 30 steps


class Paced:
    """What the exchange asks of an optimizer over the parameters of a site.

    Only AdamW's moments (`exp_avg`, `exp_avg_sq`, `step`) are told, kept and carried over; any
    other optimizer works, at its own pace and without memory of an earlier life.
    """

    def __init__(self, weights: "Weights", optimizer: torch.optim.Optimizer) -> None:
        self._weights = weights
        self._optimizer = optimizer
        self._steps = 0
        self._moments: Tensor | None = None  # per row, smoothed
        self._paces: Tensor | None = None  # per row; None: 1
        self._before: Tensor | None = None  # the vector, while a step is taken

    def before_step(self) -> None:
        self._before = self._weights.vector.clone() if self._paces is not None else None

    def after_step(self) -> None:
        if self._before is not None:
            self._at_own_pace(self._before)
            self._before = None
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
        """Drop the gradients."""
        self._optimizer.zero_grad(set_to_none=True)

    def reset(self) -> None:
        """Forget every moment, as after a rollback."""
        self._optimizer.state.clear()
        self._steps, self._moments, self._paces = 0, None, None

    def state(self) -> dict[str, "Tensor"]:
        """Its moments as flat CPU vectors in the table's order; empty before the first step."""
        states = [self._optimizer.state.get(p, {}) for p in self._weights.parameters]
        begun = [state for state in states if state]
        if not begun or any(set(state) != {"step", *SLOTS} for state in begun):
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
        if not state or not self._takes_moments():
            return
        places = self._step_devices()
        slots = [self._weights.split(state[name].to(self._weights.device)) for name in SLOTS]
        for parameter, steps, *moments in zip(
            self._weights.parameters, state["step"], *slots, strict=True
        ):
            if parameter in places and float(steps):  # else it begins with its first gradient
                held = self._optimizer.state[parameter]
                held["step"] = steps.to(places[parameter], copy=True)
                held.update(
                    (name, piece.clone()) for name, piece in zip(SLOTS, moments, strict=True)
                )
        self._steps = int(state["taken"])
        self._moments = state.get("moments")
        told = state.get("paces")
        self._paces = None if told is None else told.to(self._weights.device)

    def _takes_moments(self) -> bool:
        groups = self._optimizer.param_groups
        return all("betas" in group and not group.get("amsgrad") for group in groups)

    def _step_devices(self) -> "dict[Tensor, torch.device]":
        """Of each parameter that is trained, where torch wants its count of steps."""
        there = torch.device("cpu")
        return {
            parameter: parameter.device if group.get("fused") or group.get("capturable") else there
            for group in self._optimizer.param_groups
            for parameter in group["params"]
        }

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


def rows_of(parameter: "Tensor") -> int:
    return parameter.shape[0] if parameter.dim() >= 2 else parameter.numel()
