"""A controller's process: the real ControllerSide, driven as the run drives it."""

from collections.abc import Callable

from fakes.exchange import crew
from sim.world import Process, World

from argosy.core.plan import Plan
from argosy.core.records import CONTROLLER, Ended, Entry, HostStarted, Planned, Writer
from argosy.exchange.controller import ControllerSide

Living = Callable[[], list[str]]


class ControllerProcess(Process):
    def __init__(
        self, world: World, incarnation: int, plans: list[Plan], living: Living, tokens: int
    ) -> None:
        writer = Writer(site=CONTROLLER, host=CONTROLLER, incarnation=incarnation)
        self.side = ControllerSide(writer, low_s=1.0, high_s=20.0)
        self._plans = plans
        self._living = living
        self._tokens = tokens
        self._term: int | None = None  # what its lead said
        self._started: dict[str, str] = {}  # site -> the host that started last
        self._said: set[object] = set()  # what was posted once and is not posted again
        super().__init__(world, writer)
        self.greedy = True
        self.mine(0.1, self._turn)

    def heard(self, entries: list[Entry]) -> None:
        for entry in entries:
            if isinstance(entry.body, HostStarted) and entry.seq > self.side.agreement.seq:
                self._started[entry.writer.site] = entry.writer.host
            self.side.hear(entry, self.world.now)

    def _turn(self) -> None:
        world, agreement = self.world, self.side.agreement
        self.mine(0.8, self._turn)
        if world.happens(world.chances.kill):
            self.kill()
        elif world.happens(world.chances.freeze):
            self.freeze(world.random.uniform(2, 15))
        elif self._term is None:
            if agreement.seq == len(world.server.entries):  # heard to its end
                lead = self.side.lead()
                self._term = lead.term
                self.post(lead)
        elif self.side.leading:
            self._lead()
        elif agreement.term >= self._term or agreement.replaced(self.writer):
            self.kill()  # another leads

    def _lead(self) -> None:
        agreement = self.side.agreement
        if agreement.ended is not None:
            return
        self._plan()
        for site, host in self._started.items():
            known = agreement.crews.get(site)
            if known is None or known.hosts[0] != host:
                epoch = known.epoch + 1 if known else 1
                self._once((site, epoch), crew(site, host, epoch=epoch))
        self.side.expect(self._living())
        if agreement.tokens() >= self._tokens and agreement.draining is None:
            self._once("drain", self.side.drain("done"))
        commit = self.side.decide(self.world.now)
        if commit is not None:
            self.post(commit)
        elif self.side.over(self.world.now):
            self._once("ended", self._ended())

    def _plan(self) -> None:
        """The first plan, and another one later, where this schedule has one."""
        known = self.side.agreement.plan
        if known is None:
            self._once("plan", Planned(plan=self._plans[0], reason="first plan"))
        elif known.number < len(self._plans) and self.side.agreement.round() >= 3:
            self._once(known.number, Planned(plan=self._plans[known.number], reason="slower link"))

    def _once(self, what: object, body: object) -> None:
        if what not in self._said:
            self._said.add(what)
            self.post(body)  # type: ignore[arg-type]

    def _ended(self) -> Ended:
        agreement = self.side.agreement
        return Ended(
            outcome="done",
            rounds=agreement.round(),
            tokens=agreement.tokens(),
            head_seq=agreement.seq,
            head_chain=agreement.chain,
        )
