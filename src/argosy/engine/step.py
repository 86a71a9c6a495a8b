"""One optimizer step of a site: its batch cut over ranks and micro-batches, gradients added up."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from argosy.core.errors import SpecError
from argosy.data.order import parse_cursor
from argosy.engine import models
from argosy.engine.gradients import OwnGradients, SharedGradients
from argosy.engine.guard import Guard, Ruling
from argosy.engine.optimizer import InnerOptimizer, clip, norm_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from argosy.core.job import Training
    from argosy.core.plan import SitePlan
    from argosy.data.order import Sequences
    from argosy.engine.group import Group
    from argosy.engine.state import SiteState


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """How a step went."""

    loss: float
    norm: float
    tokens: int  # of the whole site; 0 when it was skipped
    ruling: Ruling


class Stepper:
    """Takes steps with the ranks of one epoch."""

    def __init__(
        self,
        state: "SiteState",
        sequences: "Sequences",
        training: "Training",
        *,
        group: "Group",
        share: "Share",
    ) -> None:
        assert isinstance(state.optimizer, InnerOptimizer)
        self._state = state
        self._optimizer = state.optimizer
        self._sequences = sequences
        self._training = training
        self._group = group
        self._share = share
        self._guard = Guard()
        self._device = state.weights.device
        self._narrow = narrow(training.precision, self._device)
        alone = group.size == 1
        module = state.weights.module
        self._gradients = (
            OwnGradients(module) if alone else SharedGradients(module, group, self._device)
        )

    def take(self, tokens: int) -> Taken:
        """`tokens`: the run's so far. Raises EpochOver with nothing changed but gradients."""
        training, state = self._training, self._state
        rows, cursor = self._sequences.batch(
            parse_cursor(state.counters.cursor), training.batch, self._share.rows
        )
        loss = self._backward(torch.from_numpy(rows).to(self._device))
        told = self._group.start_sum(loss.to(torch.float64))
        self._gradients.finish()
        mean = float(told.finish())
        norm = float(norm_of(state.weights))
        ruling = self._guard.rule(mean, norm)
        trained = training.batch * training.sequence
        if ruling is Ruling.TAKE:
            if training.clip_norm is not None:
                clip(state.weights, norm, training.clip_norm)
            self._optimizer.step(tokens, trained)
        else:
            trained = 0
        self._optimizer.clear()
        state.trained(trained, cursor.text())
        return Taken(loss=mean, norm=norm, tokens=trained, ruling=ruling)

    def _backward(self, tokens: "Tensor") -> "Tensor":
        """The gradient of the batch's mean loss: this rank's part of it, and of the loss."""
        self._optimizer.clear()
        pieces = torch.split(tokens, self._share.micro_batch)
        total = torch.zeros((), device=self._device)
        for index, piece in enumerate(pieces):
            weight = piece.shape[0] / self._training.batch if self._share.counts else 0.0
            if index < len(pieces) - 1:
                with self._gradients.kept_back():
                    total += self._forward_and_back(piece, weight)
            else:
                total += self._forward_and_back(piece, weight)
        return total.cpu()

    def _forward_and_back(self, tokens: "Tensor", weight: float) -> "Tensor":
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._narrow):
            loss = models.loss(self._gradients.module, tokens) * weight
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach().float()


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """What one rank does of a batch."""

    rows: slice
    micro_batch: int
    counts: bool = True  # a rank for which no row is left does one that weighs nothing


def share_of(hosts: "Sequence[str]", rank: int, plan: "SitePlan", batch: int) -> Share:
    """Rows by the measured speed of the hosts that are there now, to the nearest row."""
    planned = {host.host: host for host in plan.hosts}
    known = [planned[host].tokens_per_s for host in hosts if host in planned]
    usual = sum(known) / len(known) if known else 1.0
    speeds = [
        (planned[host].tokens_per_s if host in planned else usual) or usual or 1.0 for host in hosts
    ]
    cuts = [round(batch * sum(speeds[:index]) / sum(speeds)) for index in range(len(hosts) + 1)]
    mine = planned.get(hosts[rank]) or next(iter(planned.values()), None)
    micro = mine.micro_batch if mine is not None else batch
    if cuts[rank] == cuts[rank + 1]:
        return Share(rows=slice(0, 1), micro_batch=1, counts=False)
    return Share(rows=slice(cuts[rank], cuts[rank + 1]), micro_batch=max(1, micro))


def narrow(precision: str, device: torch.device) -> bool:
    """Whether arithmetic is done in bf16: where asked, or where the machine is made for it."""
    match precision:
        case "bf16":
            return True
        case "fp32":
            return False
        case "auto" if device.type == "cuda":
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
        case "auto":
            able = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
            return bool(able.get("avx512_bf16") or able.get("amx_bf16"))
        case other:
            raise SpecError(
                f"expected auto, fp32 or bf16, got {other!r}", where="training.precision"
            )
