"""One life of a worker: read the log, open what may be read here, catch up, stand ready to train."""

import json
import logging
import platform
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from argosy import __version__
from argosy.core.errors import DamagedError, HostError
from argosy.core.job import ModelFromFolder
from argosy.core.records import HostEvent, HostStarted, RunBegun
from argosy.engine import models
from argosy.engine.bench import Bench
from argosy.engine.catch_up import Checkpoints
from argosy.engine.exchange_driver import CATCH_UP_S, ExchangeDriver, Hand
from argosy.engine.loop import Loop
from argosy.engine.materials import Openings
from argosy.engine.optimizer import InnerOptimizer
from argosy.engine.snapshot import Keeper, Snapshot, load
from argosy.engine.state import SiteState, counters_in, moments_in
from argosy.engine.trainer import OwnTrainer
from argosy.engine.weights import Weights
from argosy.exchange.holdings import Holdings
from argosy.spec import parse_fleet, parse_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from argosy.core.plan import SitePlan
    from argosy.core.records import Access
    from argosy.engine.config import Workplace
    from argosy.engine.crew import Crew
    from argosy.engine.exchange_driver import Posting
    from argosy.engine.inbox import Inbox
    from argosy.engine.trainer import Materials, Trainer
    from argosy.exchange.agreement import Agreement
    from argosy.logbook import Logbook

log = logging.getLogger(__name__)

READ_S = 300.0  # the whole log, over a slow link
APPEND_S = 300.0  # a record that must stand before training
HEAR_S = 0.1


class Worker:
    """Makes a training loop out of a workplace and a log."""

    def __init__(
        self,
        place: "Workplace",
        logbook: "Logbook",
        inbox: "Inbox",
        *,
        clock: "Callable[[], float]" = time.monotonic,
        device: torch.device | None = None,
    ) -> None:
        self.place = place
        self.device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.history = inbox.take_all(READ_S)
        self._logbook = logbook
        self._inbox = inbox
        self._clock = clock
        begun = next((e.body for e in self.history if isinstance(e.body, RunBegun)), None)
        if begun is None or begun.run != place.run:
            raise DamagedError(f"not the log of run {place.run}", where=place.url)
        self.job = parse_job(begun.job)
        self.fleet = parse_fleet(begun.fleet)
        self._openings = Openings(self.job, self.fleet, place)
        self._outbox: Posting

    def loop(
        self, outbox: "Posting", crew: "Crew", started: HostStarted, *, incarnation: int
    ) -> Loop:
        """Begin this life in the log, catch up with the run, and lay out all that training needs.

        `started` lacks what only the log and the snapshot know: the tokens that are resumed.
        """
        place, self._outbox = self.place, outbox
        hand = Hand(site=place.site, host=place.host, incarnation=incarnation, rule="")
        checkpoints = Checkpoints(self._logbook, lambda detail: self._tell("checkpoint", detail))
        driver = ExchangeDriver(hand, self._inbox, outbox, checkpoints, clock=self._clock)
        for entry in self.history:
            driver.hear_one(entry)
        plan = self._plan(driver)
        driver.hand = replace(hand, rule=self._openings.rule(plan))
        snapshot, complaints = self._snapshot()
        self._begin(driver, started, snapshot)
        for complaint in complaints:
            self._tell("checkpoint", complaint)
        trained_by = self._trainer(plan)
        state, config = self._state(driver, checkpoints, snapshot, leads=crew.leads(CATCH_UP_S))
        driver.attach(state)
        return Loop(
            Bench(
                state=state,
                trainer=trained_by(state),
                driver=driver,
                crew=crew,
                logbook=self._logbook,
                outbox=outbox,
                keeper=Keeper(
                    place.scratch, self._clock, lambda error: self._tell("disk", str(error))
                ),
                clock=self._clock,
                orphan_after_s=place.orphan_after_s,
                metrics=self._openings.metrics(plan),
                facts={"run": place.run, "config": config},
            )
        )

    def _trainer(self, plan: "SitePlan") -> "Callable[[SiteState], Trainer]":
        """Open what the plan names; who trains on it is made once there is a state to train."""

        def opened(new: "SitePlan") -> "Materials":
            return self._openings.open(new, self._write_down, self._tell)

        materials = opened(plan)
        return lambda state: OwnTrainer(self.job.training, state, materials, open_materials=opened)

    # -- what the log says -------------------------------------------------------------------------

    def _plan(self, driver: ExchangeDriver) -> "SitePlan":
        def planned() -> "SitePlan | None":
            plan = driver.side.agreement.plan
            sites = plan.sites if plan is not None else ()
            return next((site for site in sites if site.site == self.place.site), None)

        self._await(driver, lambda: planned() is not None, "a plan for this site")
        plan = planned()
        assert plan is not None
        return plan

    def _await(self, driver: ExchangeDriver, there: "Callable[[], bool]", what: str) -> None:
        deadline = self._clock() + self.place.orphan_after_s
        while not there():
            if self._clock() > deadline:
                raise HostError(
                    f"waited {self.place.orphan_after_s:.0f} s for {what}",
                    where=self.place.host,
                    hint="is the controller running? `argosy resume` starts it again",
                )
            self._inbox.wait(HEAR_S)
            driver.hear()

    def _snapshot(self) -> tuple[Snapshot | None, list[str]]:
        """This host's own snapshot of this run, if there is one that is whole."""
        snapshot, complaints = load(self.place.scratch)
        if snapshot is not None and snapshot.facts.get("run") != self.place.run:
            snapshot = None
        return snapshot, complaints

    def _fits(self, agreement: "Agreement", snapshot: Snapshot | None) -> bool:
        """Rule 8: a snapshot goes on only if the log holds no newer post of this site."""
        if snapshot is None:
            return False
        counters = counters_in(snapshot)
        newest = agreement.newest_n(self.place.site)
        return counters.n >= newest and counters.round <= agreement.round()

    # -- beginning ---------------------------------------------------------------------------------

    def _begin(
        self, driver: ExchangeDriver, started: HostStarted, snapshot: Snapshot | None
    ) -> None:
        """This life's first record, heard: from here on older lives of the host are fenced."""
        agreement = driver.side.agreement
        resumed = agreement.kept(self.place.site)
        if snapshot is not None and self._fits(agreement, snapshot):
            resumed = counters_in(snapshot).trained
        seq = self._outbox.post(replace(started, resumed_tokens=resumed)).result(APPEND_S)
        self._await(driver, lambda: agreement.seq >= seq, "its own first record")

    def _state(
        self,
        driver: ExchangeDriver,
        checkpoints: Checkpoints,
        snapshot: Snapshot | None,
        *,
        leads: bool,
    ) -> tuple[SiteState, str]:
        """From the snapshot, from the logbook, or empty: then another host hands it over."""
        agreement = driver.side.agreement
        fits = self._fits(agreement, snapshot)
        config = str(snapshot.facts.get("config", "")) if snapshot is not None else ""
        if fits and snapshot is not None:
            state = self._empty(config)
            try:
                state.restore(snapshot)
            except DamagedError as error:
                self._tell("checkpoint", f"{error.what}; the logbook's model is used")
            else:
                return state, config
        if not leads and (config or not isinstance(self.job.model, ModelFromFolder)):
            return self._empty(config), config
        self._await(driver, lambda: checkpoints.any, "the first model, by the checkpointer")
        checkpoint, replay = driver.agreed()
        state = self._empty(checkpoint.config)
        if json.loads(checkpoint.table_json) != [
            list(row) for row in models.table(state.weights.module)
        ]:
            raise DamagedError(
                "the job's model has other parameters here than in the checkpoint",
                where=self.place.host,
                hint="are argosy, transformers and the model's code the same on all hosts?",
            )
        moments = moments_in(snapshot) if snapshot is not None else None
        state.begin(replay.a, replay.v, driver.counters(replay.round), moments)
        return state, checkpoint.config

    def _empty(self, config: str) -> SiteState:
        training = self.job.training
        torch.manual_seed(training.seed)
        vocabulary = self._openings.tokenizer.vocabulary
        with models.written_at(self.job.model_where):
            module = models.build(
                self.job.model, vocabulary, root=self.place.data, config=config, weights=False
            )
        weights = Weights(module.train(), self.device)
        optimizer = InnerOptimizer(weights, training)
        nothing = np.zeros(weights.vector.numel(), np.float32)
        return SiteState(weights=weights, optimizer=optimizer, holdings=Holdings(nothing))

    # -- telling -----------------------------------------------------------------------------------

    def _write_down(self, access: "Access") -> None:
        self._outbox.post(access).result(APPEND_S)

    def _tell(self, what: str, detail: str) -> None:
        log.warning("%s: %s", what, detail)
        site, host = self.place.site, self.place.host
        self._outbox.post(HostEvent(what=what, site=site, host=host, detail=detail))


def started(address: str, *, store_port: int = 0, clock_offset_ms: int = 0) -> HostStarted:
    """What this process says of itself."""
    return HostStarted(
        address=address,
        store_port=store_port,
        torch=torch.__version__,
        python=platform.python_version(),
        argosy=__version__,
        clock_offset_ms=clock_offset_ms,
        resumed_tokens=0,
    )
