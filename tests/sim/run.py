"""One run under one schedule of faults, and what must be true of it."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from fakes.exchange import plan
from sim.controllers import ControllerProcess
from sim.judge import judged
from sim.sites import INITIAL, TOKENS, Disk, SiteProcess, Truth
from sim.world import World

from argosy.core.records import Commit, Contribution, Writer
from argosy.exchange.agreement import Agreement
from argosy.exchange.ledger import UNEXPLAINED
from argosy.exchange.payload import join
from argosy.exchange.replay import Replay

SITES = ("berlin", "lima", "osaka")


class Run:
    """Three sites, a controller or two, and whoever starts them again."""

    def __init__(self, seed: int, process: type[SiteProcess] = SiteProcess) -> None:
        self._process = process
        self.world = world = World(seed)
        chance = world.random.choice
        self.truth = Truth()
        self.processes: list[SiteProcess] = []
        self.controllers: list[ControllerProcess] = []
        self._disks: dict[str, Disk] = {site: {} for site in SITES}
        self._current: dict[str, SiteProcess] = {}
        self._gone: set[str] = set()  # sites that never come back
        self._lives: Counter[str] = Counter()
        self._ended = False
        self._tokens = chance((100, 250, 500))
        settings: dict[str, Any] = {
            "codec": chance(("fp32", "fp32", "int8")),
            "delay": chance((0, 1, 1)),
            "staleness": chance((1, 2, 3, 8)),
            "window_steps": chance((1, 2, 3)),
        }
        self._plans = [plan(*SITES, **settings)]
        if chance((False, False, True)):
            other = settings | {"staleness": chance((1, 4)), "outer_learning_rate": 0.5}
            self._plans.append(plan(*SITES, number=2, **other))
        self._lead()
        for site in SITES[: chance((2, 3, 3))]:
            self._start(site)
        world.later(0.0, self._supervise)

    def play(self) -> None:
        self.world.run(lambda: self._ended)

    # -- the fleet ---------------------------------------------------------------------------------

    def _lead(self) -> None:
        self._lives["controller"] += 1
        living = ControllerProcess(
            self.world, self._lives["controller"], self._plans, self._living, self._tokens
        )
        self.controllers.append(living)

    def _start(self, site: str) -> None:
        """A new life, mostly on the same host."""
        host = f"{site}-{2 if self.world.happens(0.2) else 1}"
        self._lives[host] += 1
        writer = Writer(site=site, host=host, incarnation=self._lives[host])
        process = self._process(self.world, writer, self._disks[site], self.truth)
        self._current[site] = process
        self.processes.append(process)

    def _living(self) -> list[str]:
        return [site for site, process in self._current.items() if process.alive]

    def _supervise(self) -> None:
        """Start again what is dead, and sometimes what only seems dead: then there are two."""
        world = self.world
        world.later(1.0, self._supervise)
        self._ended = self._over()
        for site, process in self._current.items():
            dead = not process.alive
            if dead or (process.frozen and world.happens(0.2)):
                self.truth.disturbed.add(site)
                if dead and world.happens(0.05) and len(self._gone) < len(self._current) - 1:
                    self._gone.add(site)
                if site not in self._gone and not world.happens(0.4):
                    self._start(site)
        leads = any(controller.alive for controller in self.controllers)
        if (not leads and not world.happens(0.4)) or world.happens(0.005):
            self._lead()

    def _over(self) -> bool:
        ended = any(c.side.agreement.ended for c in self.controllers)
        return ended and all(p.side.finished for p in self.processes if p.at_work)

    # -- what must be true -------------------------------------------------------------------------

    def check(self) -> None:
        agreement = self._checked_ledger()
        self._check_end(agreement)
        self._check_counting(agreement)
        self._check_model(agreement)

    def _check_end(self, agreement: Agreement) -> None:
        """Faults have stopped, so it has ended; whoever is at work has reached the last round."""
        assert agreement.ended is not None, "no end in sight"
        for process in self.processes:
            if process.at_work:
                assert process.side.base == agreement.round(), process.writer

    def _check_counting(self, agreement: Agreement) -> None:
        """A second reader finds the same commits and posts; no step of training counts twice."""
        verdict = judged(self.world.server.entries)
        rounds = [entry.body.round for entry in verdict.commits if isinstance(entry.body, Commit)]
        assert rounds == list(range(1, agreement.round() + 1))
        assert [entry.seq for entry in verdict.commits] == [seq for seq, _ in agreement.commits[0]]
        steps = Counter(step for _, step in self._committed(agreement))
        assert not [step for step, times in steps.items() if times > 1], "counted twice"
        last = [commit.last for _, commit in agreement.commits[0]]
        assert not any(last[:-1])

    def _committed(self, agreement: Agreement) -> Iterable[tuple[str, int]]:
        for _, commit in agreement.commits[0]:
            for member in commit.members:
                post = agreement.post(member.site, member.n)
                assert post is not None
                entry = self.world.server.entries[post.seq - 1]
                for step in self.truth.in_posts[entry.writer, entry.counter]:
                    yield member.site, step

    def _check_model(self, agreement: Agreement) -> None:
        """The agreed model is a function of the log: replay gives what the sites held."""
        replay = Replay(INITIAL.copy(), np.zeros_like(INITIAL), 0)
        for _, commit in agreement.commits[0]:
            posts = [agreement.post(member.site, member.n) for member in commit.members]
            payloads = {
                post.site: join(post.body, self.world.server.blobs) for post in posts if post
            }
            replay.apply(commit, agreement.plans[commit.plan], payloads)
            self.truth.holds(replay.round, replay.a)

    def _checked_ledger(self) -> Agreement:
        """Closes for every prefix; at the end it says what really became of the tokens."""
        agreement = Agreement()
        for entry in self.world.server.entries:
            agreement.hear(entry)
            for site, ledger in agreement.ledger().items():
                assert ledger.trained == ledger.committed + ledger.pending + sum(
                    ledger.lost.values()
                )
                assert ledger.pending >= 0
                assert all(tokens > 0 for tokens in ledger.lost.values())
                assert UNEXPLAINED not in ledger.lost, site
        committed = Counter(site for site, _ in self._committed(agreement))
        for site, ledger in agreement.ledger().items():
            assert ledger.committed == TOKENS * committed[site]
            if site not in self.truth.disturbed:
                assert not ledger.lost
        return agreement


def contributions(run: Run) -> int:
    return sum(isinstance(entry.body, Contribution) for entry in run.world.server.entries)
