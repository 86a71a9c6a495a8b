"""The agreed model from the logbook alone: a checkpoint and the commits after it."""

from collections.abc import Mapping

from argosy.core.plan import Plan
from argosy.core.records import Commit
from argosy.exchange.digest import model_digest
from argosy.exchange.outer import combine_payloads, outer_step
from argosy.exchange.vectors import Vector


class Replay:
    """The agreed model and its velocity after `round`; `apply` carries both on, in place."""

    def __init__(self, a: Vector, v: Vector, round: int) -> None:
        self.a = a
        self.v = v
        self.round = round

    def apply(self, commit: Commit, plan: Plan, payloads: Mapping[str, bytes | None]) -> None:
        """Fold one counting commit; `plan` is the one that the commit names."""
        assert commit.round == self.round + 1, (commit.round, self.round)
        assert commit.plan == plan.number, (commit.plan, plan.number)
        mean = combine_payloads(commit, payloads, self.a.size)
        exchange = plan.exchange
        outer_step(self.a, self.v, mean, exchange.outer_learning_rate, exchange.outer_momentum)
        self.round = commit.round

    def digest(self) -> str:
        return model_digest(self.a)
