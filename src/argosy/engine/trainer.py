"""Who takes the steps between two exchanges: Argosy itself, with the job's sources and optimizer."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from argosy.data.order import Cursor
from argosy.engine.step import Stepper, share_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from argosy.core.job import Training
    from argosy.core.plan import SitePlan
    from argosy.data.order import Sequences
    from argosy.engine.crew import Formed
    from argosy.engine.evaluate import HeldOut
    from argosy.engine.state import SiteState
    from argosy.engine.step import Taken


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Materials:
    """What a site trains on and what it evaluates on."""

    sources: tuple[str, ...]
    sequences: "Sequences"
    held: "tuple[HeldOut, ...]"


class Trainer(Protocol):
    """What the loop asks of whoever trains."""

    @property
    def held(self) -> "tuple[HeldOut, ...]":
        """What the agreed model is evaluated on."""
        ...

    def replan(self, plan: "SitePlan", formed: "Formed") -> None:
        """Take up a plan, with the ranks of this epoch."""
        ...

    def take(self, tokens: int) -> "Taken":
        """One optimizer step; `tokens` are the run's so far. Raises EpochOver."""
        ...


class OwnTrainer:
    """Steps over the sources of the plan."""

    def __init__(
        self,
        training: "Training",
        state: "SiteState",
        materials: "Materials",
        *,
        open_materials: "Callable[[SitePlan], Materials]",
    ) -> None:
        self._training = training
        self._state = state
        self._materials = materials
        self._open = open_materials
        self._stepper: Stepper | None = None

    @property
    def held(self) -> "tuple[HeldOut, ...]":
        return self._materials.held

    def replan(self, plan: "SitePlan", formed: "Formed") -> None:
        if plan.sources != self._materials.sources:
            self._materials = self._open(plan)
            # the old position is of another order
            self._state.counters = replace(self._state.counters, cursor=Cursor().text())
        share = share_of(formed.hosts, formed.group.rank, plan, self._training.batch)
        self._stepper = Stepper(
            self._state, self._materials.sequences, self._training, group=formed.group, share=share
        )

    def take(self, tokens: int) -> "Taken":
        assert self._stepper is not None
        return self._stepper.take(tokens)
