"""What rank 0 does next: asked at every step boundary, answered from the log and the state."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from argosy.engine import ops

if TYPE_CHECKING:
    from argosy.engine.bench import Bench
    from argosy.engine.checkpoint_blob import Checkpoint
    from argosy.exchange.replay import Replay


ORPHAN_WINDOWS = 4.0  # a site is not alone before so many windows have passed


class Leader:
    """Decides for a site. `back` is why it has to go back to the agreed model, when it has."""

    def __init__(self, bench: "Bench") -> None:
        self.back: str | None = None
        self._bench = bench
        self._driver = bench.driver
        self._state = bench.state
        self._reload: Future[tuple[Checkpoint, Replay]] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reload")

    def decide(self, plan: int, stop: str | None) -> ops.Op:
        """`plan`: the number of the one in force; `stop`: why this host is asked to leave."""
        driver = self._driver
        questions = (
            self._going_back,
            self._withdrawing,
            driver.apply_op,
            lambda: self._replanning(plan),
            self._evaluating,
            lambda: self._leaving(stop),
            driver.post_op,
        )
        for ask in questions:
            if (op := ask()) is not None:
                return op
        if driver.behind() or not driver.may_train():
            return ops.Idle()
        return ops.Train(tokens=self._tokens_of_run())

    def go_back(self, reason: str) -> str:
        """The state becomes the agreed model; says what that cost."""
        driver, state = self._driver, self._state
        before = state.counters
        a, v, kept = state.holdings.a, state.holdings.v, driver.counters(before.round)
        if self._reload is not None:
            _, replay = self._reload.result()
            a, v, kept = replay.a, replay.v, driver.counters(replay.round)
            self._reload = None
        kept = replace(kept, trained=before.trained, step=before.step)
        if not driver.side.overtaken:  # else the data goes on where the other host's post ends
            kept = replace(kept, cursor=before.cursor)
        state.begin(a, v, kept)
        driver.rolled_back()
        return (
            f"{reason}; back to the agreed model of round {kept.round},"
            f" {before.tokens} tokens are lost"
        )

    def _going_back(self) -> ops.Op | None:
        driver = self._driver
        if (wrong := driver.digests.wrong) is not None:
            if self._reload is None:
                self._reload = self._thread.submit(driver.agreed)
            return ops.RollBack(reason=wrong) if self._reload.done() else ops.Idle()
        if driver.side.overtaken:
            self.back = "another host of this site has posted since"
        return ops.RollBack(reason=self.back) if self.back is not None else None

    def _withdrawing(self) -> ops.Op | None:
        return ops.Withdraw() if self._driver.withdrawn() else None

    def _replanning(self, plan: int) -> ops.Op | None:
        newest = self._driver.side.agreement.plan
        assert newest is not None
        if newest.number == plan:
            return None
        if all(site.site != self._driver.hand.site for site in newest.sites):
            return ops.Leave(reason=f"plan {newest.number} does without this site", done=False)
        return ops.Replan(plan=newest.number)

    def _evaluating(self) -> ops.Op | None:
        driver, number = self._driver, self._state.counters.round
        if not self._bench.metrics or driver.side.next() is not None:
            return None
        held = self._bench.trainer.held
        if all((number, each.source) in driver.evaluated for each in held):
            return None
        every = driver.exchange.evaluate_every
        due = number == 0 or driver.side.agreement.last() or (every > 0 and number % every == 0)
        return ops.Evaluate(round=number) if due else None

    def _leaving(self, stop: str | None) -> ops.Op | None:
        if self._driver.side.finished:
            return ops.Leave(reason="the run is over", done=True)
        silent_s = self._bench.clock() - self._driver.inbox.controller_at
        if silent_s > max(self._bench.orphan_after_s, ORPHAN_WINDOWS * self._window_s()):
            why = f"no controller has written for {silent_s:.0f} s; `argosy resume` goes on"
            return ops.Leave(reason=why, done=False)
        if stop is None:
            return None
        return self._driver.post_op(leaving=True) or ops.Leave(reason=stop, done=False)

    def _window_s(self) -> float:
        """How long a window takes, as planned: a controller has nothing to write in between."""
        plan, exchange = self._driver.side.agreement.plan, self._driver.exchange
        if exchange.window_steps is None or plan is None:
            return exchange.window_seconds or 0.0
        return exchange.window_steps * plan.site(self._driver.hand.site).seconds_per_step

    def _tokens_of_run(self) -> int:
        """Committed ones, and what all sites have trained since, as far as is known here."""
        counters, plan = self._state.counters, self._driver.side.agreement.plan
        assert plan is not None
        mine = plan.site(self._driver.hand.site).tokens_per_s
        every = sum(site.tokens_per_s for site in plan.sites)
        scale = every / mine if mine > 0 else float(len(plan.sites))
        return counters.committed + round(scale * (counters.tokens + counters.open_tokens))
