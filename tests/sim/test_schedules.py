"""Thousands of seeded schedules of faults: messages lost, late and repeated, processes killed and
frozen, two controllers, the logbook away. What must hold is in run.py; the seed tells the story:
`Run(seed).play()`."""

import os

import pytest
from sim.run import Run
from sim.sites import SiteProcess

from argosy.exchange.agreement import Agreement
from argosy.exchange.holdings import Holdings
from argosy.exchange.site import SiteSide
from argosy.exchange.vectors import Vector

SCHEDULES = int(os.environ.get("ARGOSY_SCHEDULES", "2000"))
PARTS = 8


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_schedule_of_faults_forks_the_model_or_counts_a_step_twice(part: int) -> None:
    for seed in range(part, SCHEDULES, PARTS):
        run = Run(seed)

        run.play()

        try:
            run.check()
        except AssertionError as wrong:
            raise AssertionError(f"schedule {seed}: {wrong}") from wrong


def test_the_schedules_are_rough_enough_to_mean_something() -> None:
    """Counted over a hundred of them: voids of many kinds, lost tokens, expiry, late naming."""
    reasons: set[str] = set()
    lost: set[str] = set()
    lives = late = ended = 0
    for seed in range(100):
        run = Run(seed)
        run.play()
        agreement = Agreement()
        for entry in run.world.server.entries:
            agreement.hear(entry)
        reasons |= {
            " ".join(word for word in why.split() if word.isalpha()) for _, why in agreement.void
        }
        lost |= {reason for ledger in agreement.ledger().values() for reason in ledger.lost}
        lives += len(run.processes)
        posts = [
            p
            for _, c in agreement.commits[0]
            for m in c.members
            if (p := agreement.post(m.site, m.n))
        ]
        late += sum(post.named is not None and post.named > post.body.base + 1 for post in posts)
        ended += agreement.last()

    assert len(reasons) >= 6, reasons
    assert lost == {"killed", "rolled back"}
    assert lives > 400, lives
    assert late > 50, late
    assert ended > 80, ended  # not those whose sites are all gone


class TrustingSide(SiteSide):
    """Takes any post with the right number for its own."""

    def resume(self, *, base: int, newest: int, open: int | None, mark: str = "") -> bool:  # noqa: ARG002
        return super().resume(base=base, newest=newest, open=open)


class StubbornSide(SiteSide):
    """Keeps its difference although the log holds a newer post of its site."""

    def resume(self, *, base: int, newest: int, open: int | None, mark: str = "") -> bool:  # noqa: ARG002
        landed = self.agreement.newest_n(self.site)
        return super().resume(base=base, newest=max(newest, landed), open=open)


class LeftBehind(Holdings):
    """Forgets that an open p moves with the model."""

    def _carry(self, local: Vector, mean: Vector, lr: float, momentum: float) -> None:
        p = None if self.p is None else self.p.copy()
        super()._carry(local, mean, lr, momentum)
        self.p = p


class TrustingProcess(SiteProcess):
    side_type = TrustingSide


class StubbornProcess(SiteProcess):
    side_type = StubbornSide


class LeftBehindProcess(SiteProcess):
    holdings_type = LeftBehind


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mistake", [TrustingProcess, StubbornProcess, LeftBehindProcess])
def test_a_planted_mistake_is_found(mistake: type[SiteProcess]) -> None:
    def survives(seed: int) -> bool:
        run = Run(seed, mistake)
        try:
            run.play()
            run.check()
        except AssertionError:
            return False
        return True

    assert not all(survives(seed) for seed in range(400))
