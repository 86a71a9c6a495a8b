"""What a training loop works with, laid out by the worker."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from argosy.core.job import Training
    from argosy.core.plan import SitePlan
    from argosy.data.order import Sequences
    from argosy.engine.crew import Crew
    from argosy.engine.evaluate import HeldOut
    from argosy.engine.exchange_driver import ExchangeDriver, Posting
    from argosy.engine.snapshot import Keeper
    from argosy.engine.state import SiteState
    from argosy.logbook import Logbook


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Materials:
    """What a site trains on and what it evaluates on."""

    sources: tuple[str, ...]
    sequences: "Sequences"
    held: "tuple[HeldOut, ...]"


@dataclass(kw_only=True, slots=True, eq=False)
class Bench:
    """Everything a loop works with, made by the worker."""

    training: "Training"
    state: "SiteState"
    materials: Materials
    driver: "ExchangeDriver"
    crew: "Crew"
    logbook: "Logbook"
    outbox: "Posting"
    keeper: "Keeper"
    open_materials: "Callable[[SitePlan], Materials]"
    clock: "Callable[[], float]"
    orphan_after_s: float
    metrics: bool = True  # whether policy lets metrics go to the logbook
    facts: "Mapping[str, str]" = field(default_factory=dict)  # what snapshots say beside counters
