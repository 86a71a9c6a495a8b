"""A site's process: the real SiteSide and Holdings, driven as the engine drives them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from fakes.exchange import contribution, progress, rollback, started
from sim.world import Process, World

from argosy.core.records import Commit, Entry, HostStarted, Shard, Writer
from argosy.exchange.holdings import Holdings
from argosy.exchange.outer import combine_payloads
from argosy.exchange.payload import join, mark
from argosy.exchange.replay import Replay
from argosy.exchange.site import SiteSide

if TYPE_CHECKING:
    from collections.abc import Callable

    from argosy.exchange.vectors import Vector

SIZE = 7
TOKENS = 10  # per step
_chance = np.random.default_rng(0)
INITIAL: Vector = _chance.standard_normal(SIZE).astype(np.float32)
STEPS: Vector = (_chance.standard_normal((997, SIZE)) / 50).astype(np.float32)


def moved_by(step: int) -> Vector:
    """What one step of training subtracts from the local model."""
    vector: Vector = STEPS[step % len(STEPS)]
    return vector


@dataclass(slots=True)
class Carried:
    """What a site carries, and what its snapshots keep. Steps are known by their global number,
    so that a judge can tell where each went."""

    holdings: Holdings
    local: Vector
    unposted: list[int] = field(default_factory=list)
    posted: list[int] = field(default_factory=list)  # in the open post
    base: int = 0
    newest: int = 0
    open: int | None = None
    mark: str = ""  # of the newest post
    trained: int = 0

    def copy(self) -> Carried:
        arrays = {name: array.copy() for name, array in self.holdings.to_arrays().items()}
        return replace(
            self,
            holdings=type(self.holdings).from_arrays(arrays),
            local=self.local.copy(),
            unposted=list(self.unposted),
            posted=list(self.posted),
        )


Payloads = dict[str, bytes | None]


class Truth:
    """What really happened, beside what the log says."""

    def __init__(self) -> None:
        self.steps = 0
        self.in_posts: dict[tuple[Writer, int], list[int]] = {}  # by the record's writer, counter
        self.models: dict[int, bytes] = {0: INITIAL.tobytes()}
        self._means: dict[Commit, Vector] = {}
        self.disturbed: set[str] = set()  # sites that were killed or rolled back

    def mean(self, commit: Commit, payloads: Callable[[Commit], Payloads]) -> Vector:
        """Pure, so worked out once for all sites. (Replay does not look here.)"""
        if commit not in self._means:
            self._means[commit] = combine_payloads(commit, payloads(commit), SIZE)
        return self._means[commit]

    def step(self) -> int:
        self.steps += 1
        return self.steps

    def holds(self, round: int, a: Vector) -> None:
        """Every site that has reached a round holds the same model, to the bit."""
        known = self.models.setdefault(round, a.tobytes())
        assert known == a.tobytes(), f"another model of round {round}"


Disk = dict[str, Carried]  # per host: its newest snapshot


class SiteProcess(Process):
    side_type = SiteSide
    holdings_type = Holdings

    def __init__(self, world: World, writer: Writer, disk: Disk, truth: Truth) -> None:
        self.side = self.side_type(writer.site)
        self.carried: Carried | None = None  # None until it has taken up work
        self._disk = disk
        self._truth = truth
        self._resumed: int | None = None  # what its HostStarted says
        self._pace_s = world.random.choice((0.5, 0.5, 1.0, 2.0))
        super().__init__(world, writer)
        self.greedy = True

    @property
    def at_work(self) -> bool:
        """Alive, and it has taken up work. (One that no crew ever names waits on.)"""
        return self.alive and self.carried is not None

    def heard(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.side.hear(entry)
            if isinstance(entry.body, HostStarted) and entry.writer == self.writer:
                self.greedy = False
        agreement = self.side.agreement
        if self._resumed is None and agreement.plan is not None:
            self._announce()
        crew = agreement.crews.get(self.writer.site)
        leads = crew is not None and crew.hosts[0] == self.writer.host
        if self.carried is None and not self.greedy and leads:
            self._take_up()

    def _announce(self) -> None:
        """What this life brings: the snapshot's tokens if it fits what the log says so far."""
        agreement, site = self.side.agreement, self.writer.site
        snapshot = self._disk.get(self.writer.host)
        fits = snapshot is not None and agreement.newest_n(site) <= snapshot.newest
        self._resumed = snapshot.trained if fits and snapshot else agreement.kept(site)
        self.post(started(self._resumed))

    def _take_up(self) -> None:
        """Past its own HostStarted and the crew that names it: older lives are fenced."""
        assert self._resumed is not None
        snapshot = self._disk.get(self.writer.host)
        if snapshot is not None and self.side.resume(
            base=snapshot.base, newest=snapshot.newest, open=snapshot.open, mark=snapshot.mark
        ):
            self.carried = replace(snapshot.copy(), trained=self._resumed)
        else:
            round = self.side.agreement.round()
            replay = self._replayed()
            self.side.begin(round)
            self.carried = Carried(
                holdings=self.holdings_type(replay.a, replay.v),
                local=replay.a.copy(),
                base=round,
                newest=self.side.agreement.newest_n(self.writer.site),
                trained=self._resumed,
            )
        self._turn()

    def _replayed(self) -> Replay:
        replay = Replay(INITIAL.copy(), np.zeros_like(INITIAL), 0)
        for _, commit in self.side.agreement.commits[0]:
            replay.apply(commit, self.side.agreement.plans[commit.plan], self._payloads(commit))
            self._truth.holds(commit.round, replay.a)
        return replay

    # -- one turn at a step boundary ---------------------------------------------------------------

    def _turn(self) -> None:
        carried, world = self.carried, self.world
        assert carried is not None
        if world.happens(world.chances.kill):
            self.kill()
            return
        if world.happens(world.chances.freeze):
            self.freeze(world.random.uniform(2, 15))
        self._withdraw(carried)
        self._apply(carried)
        if self.side.finished:
            return
        if self.side.overtaken or world.happens(world.chances.roll_back):
            self._begin_again(carried)
        self._post_if_due(carried)
        if self.side.may_train(self._windows(carried), len(carried.unposted)):
            self._train(carried)
        self._report(carried)
        self.mine(world.random.uniform(0.7, 1.4) * self._pace_s, self._turn)

    def _windows(self, carried: Carried) -> float:
        plan = self.side.agreement.plan
        assert plan is not None
        assert plan.exchange.window_steps is not None
        return len(carried.unposted) / plan.exchange.window_steps

    def _withdraw(self, carried: Carried) -> None:
        """A post that turned out void, or never got to the log: its difference is still here."""
        if carried.open is not None and self.side.open is None:
            carried.holdings.expire()
            self._unpost(carried)

    def _unpost(self, carried: Carried) -> None:
        carried.unposted = carried.posted + carried.unposted
        carried.posted, carried.open = [], None

    def _apply(self, carried: Carried) -> None:
        while (apply := self.side.next()) is not None:
            if self.world.happens(0.3):
                return  # its blobs are still on their way
            commit = apply.commit
            exchange = self.side.agreement.plans[commit.plan].exchange
            mean = self._truth.mean(commit, self._payloads)
            if apply.expired:
                carried.holdings.expire()
                self._unpost(carried)
            carried.holdings.apply(
                carried.local,
                mean,
                exchange.outer_learning_rate,
                exchange.outer_momentum,
                named=apply.named,
            )
            if apply.named:
                carried.posted, carried.open = [], None
            self.side.applied(apply)
            carried.base = commit.round
            self._truth.holds(commit.round, carried.holdings.a)
            self._check_progress(carried)

    def _check_progress(self, carried: Carried) -> None:
        """However commits came, l differs from a by exactly the steps that no commit has taken."""
        steps = [moved_by(step) for step in carried.posted + carried.unposted]
        expected = np.sum(steps, axis=0) if steps else np.zeros(SIZE)
        assert np.abs(carried.holdings.a - carried.local - expected).max() < 1e-4

    def _payloads(self, commit: Commit) -> Payloads:
        posts = [self.side.agreement.post(one.site, one.n) for one in commit.members]
        return {post.site: join(post.body, self.world.server.blobs) for post in posts if post}

    def _begin_again(self, carried: Carried) -> None:
        """Overtaken, or a NaN that would not go away: back to the agreed model."""
        self._truth.disturbed.add(self.writer.site)
        self.post(rollback(self.writer.site))
        carried.holdings.reset()
        np.copyto(carried.local, carried.holdings.a)
        carried.unposted, carried.posted, carried.open = [], [], None
        self.side.begin(self.side.base)
        carried.newest, carried.mark = self.side.next_n - 1, ""

    def _post_if_due(self, carried: Carried) -> None:
        due = self._windows(carried) >= 1 or self.side.should_drain
        if not due or not carried.unposted or not self.side.can_post():
            return
        n, final = self.side.next_n, self.side.should_drain
        plan = self.side.agreement.plan
        assert plan is not None
        payload = carried.holdings.post(carried.local, plan.exchange.codec)
        blob = f"sha256:{hashlib.sha256(payload).hexdigest()}"
        body = contribution(
            n,
            self.side.base,
            tokens=TOKENS * len(carried.unposted),
            steps=len(carried.unposted),
            trained=carried.trained,
            incarnation=self.writer.incarnation,
            final=final,
            shards=(Shard(parameter="*", start=0, stop=SIZE, blob=blob, bytes=len(payload)),),
        )
        carried.posted, carried.unposted = carried.unposted, []
        carried.open = carried.newest = n
        carried.mark = mark(payload)
        self.side.posted(body)
        self.post(body, {blob: payload})
        self._truth.in_posts[self.writer, self._counter] = list(carried.posted)

    def _train(self, carried: Carried) -> None:
        step = self._truth.step()
        carried.local -= moved_by(step)
        carried.unposted.append(step)
        carried.trained += TOKENS

    def _report(self, carried: Carried) -> None:
        if self.world.random.random() < 0.15:
            self.post(progress(carried.trained))
        if self.world.random.random() < 0.15:
            self._disk[self.writer.host] = carried.copy()
