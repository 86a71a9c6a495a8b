"""A controller's lead of a run, from wherever it stands to its end."""

import asyncio
import signal
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Self

from argosy.core.errors import HostError
from argosy.core.plan import Plan
from argosy.core.records import CONTROLLER, Writer
from argosy.exchange.controller import ControllerSide
from argosy.logbook.keys import Pen, next_incarnation
from argosy.run import lock
from argosy.run import setup as setups
from argosy.run import vitals as lives
from argosy.run.desk import PREPARE_S, Desk
from argosy.run.finish import finish
from argosy.run.folder import RunFolder
from argosy.run.planning import agree_on_plan
from argosy.run.react import Terms
from argosy.run.setup import Means, Setup
from argosy.run.state import RunState
from argosy.run.supervise import Lead, supervise
from argosy.run.vitals import Vitals


async def lead(folder: RunFolder, setup: Setup, means: Means, *, stop: bool = False) -> RunState:
    """Take the lead, bring up what does not live, agree on a plan if there is none, and go on.

    A new run and a resumed one take the same way. However it ends, no process is left behind;
    only a killed controller leaves its sites at work, for the next one to find.
    """
    with lock.held(folder.lock), _Stopping(stop) as stopping:
        desk = Desk(folder, setup, means)
        try:
            taken = await stopping.unless_asked(_take_the_lead(desk))
            if taken.state.ended is None:
                stopping.follows(taken)
                end = await supervise(desk, taken)
                await finish(desk, taken.state, end)
                await _hear(desk, taken)
            return taken.state
        finally:
            await desk.close()


class _Stopping:
    """`argosy stop` sends SIGTERM: one more round, then the end as usual."""

    def __init__(self, stop: bool) -> None:
        self._stop = stop
        self._lead: Lead | None = None
        self._bringing_up: asyncio.Task[Lead] | None = None

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._asked)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)

    async def unless_asked(self, bringing_up: Coroutine[Any, Any, Lead]) -> Lead:
        """Before anybody trains there is no round to end with."""
        self._bringing_up = asyncio.create_task(bringing_up)
        try:
            return await self._bringing_up
        except asyncio.CancelledError:
            if not self._stop:
                raise
            raise HostError(
                "stopped before training began",
                hint="Nothing was begun; `argosy train` plans anew.",
            ) from None

    def follows(self, lead: Lead) -> None:
        self._lead = lead
        lead.terms = replace(lead.terms, stop=self._stop)

    def _asked(self) -> None:
        self._stop = True
        if self._lead is not None:
            self.follows(self._lead)
        elif self._bringing_up is not None:
            self._bringing_up.cancel()


async def end_what_lives(folder: RunFolder, means: Means) -> None:
    """End the processes that a killed controller has left at work."""
    with lock.held(folder.lock):
        desk = Desk(folder, setups.load(folder), means)
        await desk.provider.adopt(folder.path)
        await desk.close()


async def _take_the_lead(desk: Desk) -> Lead:
    await desk.provider.adopt(desk.folder.path)
    await desk.provider.prepare(desk.fleet, within_s=PREPARE_S)
    await desk.serve()
    entries = await desk.read_all()
    life = next_incarnation(entries, CONTROLLER, CONTROLLER)
    side = ControllerSide(Writer(site=CONTROLLER, host=CONTROLLER, incarnation=life))
    clock = desk.means.clock
    taken = Lead(state=RunState(), side=side, terms=_terms(desk), heard_s=clock())
    taken.hear(entries, clock())
    for entry in entries:
        desk.provider.heard(entry)
    desk.audience.recalled(tuple(entries))
    if taken.state.ended is not None:
        return taken

    desk.take_pen(Pen.open(desk.folder.keys(CONTROLLER, CONTROLLER), life))
    await desk.write(side.lead())
    await _hear(desk, taken)
    if not side.leading:
        raise HostError("another controller has taken the lead", where=str(desk.folder.path))
    if taken.state.plan is None:
        await agree_on_plan(desk, taken.state)
        await _hear(desk, taken)
    plan = taken.state.plan
    assert plan is not None, "agreed on above"
    taken.vitals = await _found_at_work(desk, plan.number)
    taken.terms = _terms(desk, plan)
    return taken


async def _found_at_work(desk: Desk, plan: int) -> Vitals:
    """Who lives already: the helpers, and on resume the sites that went on by themselves."""
    vitals, now_s = Vitals(), desk.means.clock()
    for host in await desk.provider.alive():
        vitals = lives.started(vitals, host, plan, now_s)
        vitals = lives.heard(vitals, host, now_s, work=False)
    return vitals


async def _hear(desk: Desk, taken: Lead) -> None:
    """Read on to the end, so that what was just written counts."""
    entries = await desk.read_all(taken.state.seq + 1)
    taken.hear(entries, desk.means.clock())
    for entry in entries:
        desk.provider.heard(entry)
    desk.audience.heard(tuple(entries))


def _terms(desk: Desk, plan: Plan | None = None) -> Terms:
    """What the user set, and what the planned hosts and links cost."""
    sites = plan.sites if plan else ()
    planned = {host.host for site in sites for host in site.hosts}
    hosts = [host for site in desk.fleet.sites for host in site.hosts if host.name in planned]
    return Terms(
        tokens=desk.job.training.tokens,
        limits=desk.job.limits,
        price_per_hour=sum(host.price_per_hour for host in hosts),
        price_per_gb=sum(desk.fleet.link(site.site).price_per_gb for site in sites),
    )
