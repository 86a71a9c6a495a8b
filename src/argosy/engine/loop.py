"""The exchange around the steps of one host: rank 0 decides at every boundary, all ranks do it."""

import logging
from typing import TYPE_CHECKING

from argosy.core.records import HostEvent
from argosy.engine import ops
from argosy.engine.evaluate import evaluate
from argosy.engine.group import EpochOver
from argosy.engine.guard import Ruling
from argosy.engine.leader import Leader
from argosy.engine.meter import Meter
from argosy.engine.state import Step, stretch_of
from argosy.engine.stripes import Stripes
from argosy.exchange.outer import combine_payloads, moments_told

if TYPE_CHECKING:
    from argosy.engine.bench import Bench
    from argosy.engine.crew import Formed

log = logging.getLogger(__name__)

Exchange = (  # every operation but a step
    ops.Post | ops.Apply | ops.Withdraw | ops.Evaluate | ops.Replan | ops.RollBack | ops.Idle
    | ops.Leave
)  # fmt: skip
IDLE_S = 0.2
HEAR_S = 15.0


class Loop:
    """Goes on until the run is over, the host is asked to leave, or nobody leads any more.

    Everything but a step is done here. A step is its trainer's (`run`), or that of whoever asks
    when the next one is due (`until_step`) and tells how it went (`stepped`).
    """

    def __init__(self, bench: "Bench") -> None:
        self.bench = bench
        self.stop: str | None = None  # set by a signal: why to leave
        self.inside = False  # an epoch: where `stop` is heeded
        self._state = bench.state
        self._driver = bench.driver
        self._meter = Meter(bench.clock)
        self._stripes = Stripes(bench.logbook, bench.crew, bench.driver.send)
        self._formed: Formed | None = None
        self._leader = Leader(bench)
        self._plan = -1  # number of the plan in force here

    def run(self) -> ops.Leave:
        """Train. Whatever ends it, a snapshot of an unfinished run stays behind."""
        try:
            while isinstance(due := self.until_step(), ops.Train):
                try:
                    self.train(due)
                except EpochOver as over:
                    self._give_up(over)
        except BaseException:
            self.keep_now()
            raise
        return due

    def until_step(self) -> ops.Train | ops.Leave:
        """All there is to do before the next step, epoch after epoch; the step itself is not.

        Who leaves an unfinished run has a snapshot behind it.
        """
        while True:
            try:
                if not self.inside:
                    stands = (self._state.counters.n, self._state.counters.turn)
                    formed = self.bench.crew.form(stands, self.bench.orphan_after_s)
                    self.inside = True
                    self.enter(formed)
                due = self.turn()
            except EpochOver as over:
                self._give_up(over)
                continue
            if isinstance(due, ops.Leave) and not due.done:
                self.keep_now()
            if due is not None:
                return due

    def train(self, due: ops.Train) -> None:
        """Let the trainer take a step that is due. Raises EpochOver."""
        began = self.bench.clock()
        taken = self.bench.trainer.take(due.tokens)
        if taken.ruling is not Ruling.TAKE and self._leads:
            self._tell("nan", f"step {self._state.counters.step}: loss {taken.loss}, gradient"
                       f" norm {taken.norm}; the step is skipped")  # fmt: skip
        if taken.ruling is Ruling.ROLL_BACK:
            self._leader.back = "several steps in a row gave no number"
        self.stepped(taken.loss, taken.tokens, self.bench.clock() - began)

    def stepped(self, loss: float | None, tokens: int, compute_s: float) -> None:
        """A step was taken, which the state has counted (`SiteState.trained`) already."""
        self._meter.step(loss, tokens, compute_s)
        if self._meter.due():
            self._report()

    def enter(self, formed: "Formed") -> None:
        """Begin an epoch: the furthest state at all ranks, gradients over this group."""
        before = self._formed
        self._formed = formed
        self._stripes.flush(now=True)
        if formed.fresh:
            self._state.share(formed.group, formed.source)
        if self._leads:
            if not self._driver.lead():
                self._leader.back = "the log holds a newer post of this site than its state"
            if formed.group.size > 1 or (before is not None and before.hosts != formed.hosts):
                self._tell("regroup", f"{', '.join(formed.hosts)} train together")
        else:
            self._driver.follow()
        plan = self._driver.side.agreement.plan
        assert plan is not None, "no worker begins before the first plan"
        self._replan(int(formed.group.send(str(plan.number).encode() if self._leads else None)))

    def turn(self) -> ops.Train | ops.Leave | None:
        """One operation: rank 0's decision, done by all, but for a step, which is handed back."""
        assert self._formed is not None
        self._driver.hear()
        decided = None
        if self._leads:
            if self.bench.crew.newcomers():
                raise EpochOver("a host joins")
            self._stripes.flush()
            decided = self._leader.decide(self._plan, self.stop)
        elif self.stop:
            self.bench.crew.leave()
            return ops.Leave(reason=self.stop, done=False)
        op = ops.relayed(decided, self._formed.group)
        return op if isinstance(op, ops.Train) else self._do(op)

    @property
    def _leads(self) -> bool:
        return self._formed is not None and self._formed.group.rank == 0

    # -- doing -------------------------------------------------------------------------------------

    def _do(self, op: Exchange) -> ops.Leave | None:
        match op:
            case ops.Apply():
                self._apply(op)
            case ops.Post():
                self._post(op)
            case ops.Withdraw():
                self._state.withdraw()
            case ops.Evaluate():
                self._evaluate(op)
            case ops.Replan(plan=number):
                self._replan(number)
            case ops.RollBack():
                self._roll_back(op)
            case ops.Idle():
                if self._leads:
                    with self._meter.timing("wait"):
                        self._driver.inbox.wait(IDLE_S)
            case ops.Leave(done=done):
                return self._leave(op, done)
        return None

    def _apply(self, op: ops.Apply) -> None:
        commit = op.commit
        with self._meter.timing("apply"):
            named = [member.site for member in commit.members]
            payloads = dict(zip(named, op.payloads, strict=True))
            mean = combine_payloads(commit, payloads, self._state.parameters)
            took = Step(
                round=commit.round, committed=commit.tokens, named=op.named, expired=op.expired,
                rate=op.rate, momentum=op.momentum,
            )  # fmt: skip
            self._state.apply(took, mean)
            own = self._driver.hand.site
            others = (payload for site, payload in payloads.items() if site != own)
            self._state.optimizer.agree(moments_told(others))
            if self._leads:
                self._driver.applied(commit)

    def _post(self, op: ops.Post) -> None:
        assert self._formed is not None
        group, state, before = self._formed.group, self._state, self._state.counters
        if not state.finite():
            self._leader.back = "the local model holds values that are no numbers"
            return
        with self._meter.timing("encode"):
            mine = stretch_of(group.rank, group.size, state.parameters, op.block)
            frame = state.frame(op.codec, op.block, mine, moments=op.moments and self._leads)
            frames = group.gather(frame)
            state.posted(b"".join(frames), op.n)
        keys = [f"put/{op.n}/{before.turn}/{rank}" for rank in range(group.size)]
        if self._leads:
            self._stripes.post(self._driver.contribution(op, before, frames), frames, keys)
        elif frame:
            self._stripes.upload(keys[group.rank], frame)
        self._report()
        if self.bench.keeper.due():
            self.bench.keeper.keep(state.snapshot(self.bench.facts))

    def _evaluate(self, op: ops.Evaluate) -> None:
        assert self._formed is not None
        with self._state.agreed():
            told = [
                evaluate(self._state.weights.module, held, op.round, self._formed.group)
                for held in self.bench.trainer.held
            ]
        if self._leads:
            for evaluation in told:
                self.bench.outbox.post(evaluation)
                self._driver.evaluated.add((evaluation.round, evaluation.source))

    def _replan(self, number: int) -> None:
        """Shares and sources by one plan, the same at all ranks."""
        formed, bench, agreement = self._formed, self.bench, self._driver.side.agreement
        assert formed is not None
        deadline = bench.clock() + HEAR_S
        while number not in agreement.plans:  # the leader has heard it already
            if bench.clock() > deadline:
                raise EpochOver(f"plan {number} was not heard of within {HEAR_S:.0f} s")
            self._driver.inbox.wait(0.1)
            self._driver.hear()
        bench.trainer.replan(agreement.plans[number].site(self._driver.hand.site), formed)
        self._plan = number

    def _roll_back(self, op: ops.RollBack) -> None:
        assert self._formed is not None
        if self._leads:
            self._tell("rollback", self._leader.go_back(op.reason))
        self._leader.back = None
        self._state.share(self._formed.group, 0)

    def _leave(self, op: ops.Leave, done: bool) -> ops.Leave:
        if not done and not self._leads:
            raise EpochOver("the leader leaves")
        self._stripes.flush(now=True)
        if self._meter.due(0.0):
            self._report()
        self.bench.crew.leave()
        return op

    # -- telling -----------------------------------------------------------------------------------

    def _report(self) -> None:
        if self._leads and self.bench.metrics and self._meter.due(0.0):
            self.bench.outbox.post(self._meter.progress(self._state.counters))

    def _tell(self, what: str, detail: str) -> None:
        site, host = self._driver.hand.site, self._driver.hand.host
        log.info("%s: %s", what, detail)
        self.bench.outbox.post(HostEvent(what=what, site=site, host=host, detail=detail))

    def _give_up(self, over: EpochOver) -> None:
        self.inside = False
        log.info("the epoch is over: %s", over)
        self.bench.crew.report(str(over))

    def keep_now(self) -> None:
        """A snapshot, before going on."""
        if self._state.counters.turn:
            self.bench.keeper.keep_now(self._state.snapshot(self.bench.facts))
