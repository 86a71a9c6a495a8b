"""A worker whose steps somebody else takes: with the guest's own model, optimizer and data."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from argosy.core.errors import SpecError
from argosy.engine.paced import Paced
from argosy.engine.state import SiteState
from argosy.engine.weights import Weights
from argosy.engine.worker import Worker
from argosy.exchange.holdings import Holdings

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from argosy.core.plan import SitePlan
    from argosy.core.records import HostStarted
    from argosy.engine.config import Workplace
    from argosy.engine.crew import Crew, Formed
    from argosy.engine.evaluate import HeldOut
    from argosy.engine.exchange_driver import Posting
    from argosy.engine.inbox import Inbox
    from argosy.engine.loop import Loop
    from argosy.engine.step import Taken
    from argosy.logbook import Logbook


class GuestOptimizer(Paced):
    """The guest's optimizer, watched at its own steps. AdamW keeps its moments over a restart."""

    def __init__(self, weights: Weights, optimizer: object) -> None:
        """Raises SpecError for what is no torch optimizer, or one of another model's parameters."""
        inner = getattr(optimizer, "optimizer", optimizer)  # as accelerate wraps it
        if not isinstance(inner, torch.optim.Optimizer):
            raise SpecError(
                f"expected a torch.optim.Optimizer, got {type(optimizer).__name__}",
                where="argosy.Site: optimizer",
            )
        known = {id(parameter) for parameter in weights.parameters}
        trained = [p for group in inner.param_groups for p in group["params"]]
        if any(id(parameter) not in known for parameter in trained):
            raise SpecError(
                "the optimizer trains parameters that the model does not have",
                where="argosy.Site: optimizer",
                hint="make it from model.parameters() of the same model",
            )
        super().__init__(weights, inner)
        self._hooks = (
            inner.register_step_pre_hook(lambda *_: self.before_step()),
            inner.register_step_post_hook(lambda *_: self.after_step()),
        )

    def detach(self) -> None:
        """Leave the optimizer as it was found."""
        for hook in self._hooks:
            hook.remove()


class GuestTrainer:
    """Stands where the library's trainer would: nothing is evaluated, and steps come from outside."""

    held: "tuple[HeldOut, ...]" = ()

    def replan(self, plan: "SitePlan", formed: "Formed") -> None:
        """Batches are the guest's."""

    def take(self, tokens: int) -> "Taken":
        raise AssertionError(tokens)


class Guest(Worker):
    """Makes the exchange loop of a guest out of a workplace, a log, a model and an optimizer."""

    def __init__(
        self,
        place: "Workplace",
        logbook: "Logbook",
        inbox: "Inbox",
        *,
        model: "nn.Module",
        optimizer: object,
        clock: "Callable[[], float]",
    ) -> None:
        """`model` holds fp32 parameters on one device, which become views of one flat vector; the
        parameter objects stay. Raises SpecError for another model, or a site of several hosts."""
        if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
            raise SpecError(
                f"{torch.distributed.get_world_size()} processes share this loop, and a site of"
                " your own loop is one process so far",
                where="argosy.Site",
                hint="start it without torchrun; a job's own worker trains on several hosts",
            )
        module = _unwrapped(model)
        device = _device_of(module)
        super().__init__(place, logbook, inbox, clock=clock, device=device)
        hosts = self.fleet.site(place.site).hosts
        if len(hosts) > 1:
            raise SpecError(
                f"site {place.site} has {len(hosts)} hosts, and a loop of your own trains on one",
                where=place.host,
                hint="make each of them a site of its own in fleet.yaml",
            )
        self._weights = Weights(module, device)
        self.optimizer = GuestOptimizer(self._weights, optimizer)

    def loop(
        self, outbox: "Posting", crew: "Crew", started: "HostStarted", *, incarnation: int
    ) -> "Loop":
        loop = super().loop(outbox, crew, started, incarnation=incarnation)
        if loop.bench.state.counters.trained and not self.optimizer.state():
            self._tell("optimizer", "no moments of it were kept: it begins fresh")
        return loop

    def _trainer(self, plan: "SitePlan") -> "Callable[[SiteState], GuestTrainer]":  # noqa: ARG002
        return lambda _: GuestTrainer()

    def _empty(self, config: str) -> SiteState:  # noqa: ARG002 - the model is here already
        nothing = np.zeros(self._weights.vector.numel(), np.float32)
        return SiteState(
            weights=self._weights, optimizer=self.optimizer, holdings=Holdings(nothing)
        )


def _unwrapped(model: "nn.Module") -> "nn.Module":
    """Below torch.compile and DistributedDataParallel, whose parameters have other names."""
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        return _unwrapped(model.module)
    inner = getattr(model, "_orig_mod", None)
    return _unwrapped(inner) if isinstance(inner, torch.nn.Module) else model


def _device_of(module: "nn.Module") -> torch.device:
    where = "argosy.Site: model"
    floating = [p for p in module.parameters() if p.is_floating_point()]
    if not floating:
        raise SpecError("the model has no parameters", where=where)
    if any(parameter.dtype != torch.float32 for parameter in floating):
        found = sorted({str(p.dtype).removeprefix("torch.") for p in floating})
        raise SpecError(
            f"its parameters are {', '.join(found)}, and the agreed model is float32",
            where=where,
            hint="model.float() before the optimizer is made; autocast narrows the arithmetic",
        )
    devices = {parameter.device for parameter in floating}
    if len(devices) > 1:
        raise SpecError(f"its parameters lie on {len(devices)} devices", where=where)
    return devices.pop()
