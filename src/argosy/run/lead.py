"""A controller's lead of a run, from wherever it stands to its end."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from argosy.core.errors import HostError
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
from argosy.run.state import RunState, fold, state_of
from argosy.run.supervise import Lead, supervise


async def lead(folder: RunFolder, setup: Setup, means: Means, *, stop: bool = False) -> RunState:
    """Take the lead, bring up what does not live, agree on a plan if there is none, and go on.

    A new run and a resumed one take the same way. However it ends, no process is left behind;
    only a killed controller leaves its sites at work, for the next one to find.
    """
    with lock.held(folder.lock):
        desk = Desk(folder, setup, means)
        try:
            taken = await _take_the_lead(desk, stop=stop)
            if taken.state.ended is None:
                with _asked_to_stop(taken):
                    end = await supervise(desk, taken)
                await finish(desk, taken.state, end)
                await _hear(desk, taken)
            return taken.state
        finally:
            await desk.close()


async def end_what_lives(folder: RunFolder, means: Means) -> None:
    """End the processes that a killed controller has left at work."""
    with lock.held(folder.lock):
        desk = Desk(folder, setups.load(folder), means)
        await desk.provider.adopt(folder.path)
        await desk.close()


async def _take_the_lead(desk: Desk, *, stop: bool) -> Lead:
    await desk.provider.adopt(desk.folder.path)
    await desk.provider.prepare(desk.fleet, within_s=PREPARE_S)
    await desk.serve()
    entries = await desk.read_all()
    life = next_incarnation(entries, CONTROLLER, CONTROLLER)
    side = ControllerSide(Writer(site=CONTROLLER, host=CONTROLLER, incarnation=life))
    clock = desk.means.clock
    taken = Lead(state=state_of(entries), side=side, terms=_terms(desk, stop=stop), heard_s=clock())
    for entry in entries:
        side.hear(entry, clock())
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
    for host in await desk.provider.alive():
        taken.vitals = lives.started(taken.vitals, host, plan.number, clock())
    taken.terms = _terms(desk, stop=stop, state=taken.state)
    return taken


async def _hear(desk: Desk, taken: Lead) -> None:
    """Read on to the end, so that what was just written counts."""
    entries = await desk.read_all(taken.state.seq + 1)
    for entry in entries:
        taken.state = fold(taken.state, entry)
        taken.side.hear(entry, desk.means.clock())
        desk.provider.heard(entry)
    desk.audience.heard(tuple(entries))


def _terms(desk: Desk, *, stop: bool, state: RunState | None = None) -> Terms:
    """What the user set, and what the planned hosts and links cost."""
    plan = state.plan if state else None
    planned = {host.host for site in plan.sites for host in site.hosts} if plan else set()
    hosts = [host for site in desk.fleet.sites for host in site.hosts if host.name in planned]
    sites = [site.site for site in plan.sites] if plan else []
    return Terms(
        tokens=desk.job.training.tokens,
        limits=desk.job.limits,
        price_per_hour=sum(host.price_per_hour for host in hosts),
        price_per_gb=sum(desk.fleet.link(site).price_per_gb for site in sites),
        stop=stop,
    )


@contextmanager
def _asked_to_stop(taken: Lead) -> Iterator[None]:
    """`argosy stop` sends SIGTERM: one more round, then the end as usual."""
    loop = asyncio.get_running_loop()

    def drain() -> None:
        taken.terms = replace(taken.terms, stop=True)

    with suppress(NotImplementedError):
        loop.add_signal_handler(signal.SIGTERM, drain)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGTERM)
