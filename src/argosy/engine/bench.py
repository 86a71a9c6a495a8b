"""What an exchange loop works with, laid out by the worker."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from argosy.engine.crew import Crew
    from argosy.engine.exchange_driver import ExchangeDriver, Posting
    from argosy.engine.snapshot import Keeper
    from argosy.engine.state import SiteState
    from argosy.engine.trainer import Trainer
    from argosy.logbook import Logbook


@dataclass(kw_only=True, slots=True, eq=False)
class Bench:
    """Everything a loop works with, made by the worker."""

    state: "SiteState"
    trainer: "Trainer"
    driver: "ExchangeDriver"
    crew: "Crew"
    logbook: "Logbook"
    outbox: "Posting"
    keeper: "Keeper"
    clock: "Callable[[], float]"
    orphan_after_s: float
    metrics: bool = True  # whether policy lets metrics go to the logbook
    facts: "Mapping[str, str]" = field(default_factory=dict)  # what snapshots say beside counters
