"""`train`, `plan`, `resume`, `stop`: the commands that lead a run."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from argosy.cli import show
from argosy.cli.afterwards import leave_report
from argosy.cli.audience import Lines, Live
from argosy.cli.program import program
from argosy.cluster.manual import ManualProvider
from argosy.cluster.provider import Provider
from argosy.core.errors import HostError, SpecError
from argosy.core.fleet import Fleet
from argosy.core.records import HostEvent
from argosy.lab.provider import LabProvider
from argosy.run import begin, preview
from argosy.run import stop as stopping
from argosy.run.folder import RunFolder, find
from argosy.run.lead import end_what_lives, lead
from argosy.run.resume import read_state, refuse_what_is_over
from argosy.run.resume import resume as take_over
from argosy.run.setup import Audience, Means, Setup, connect
from argosy.run.unbegun import forget_unbegun

STOP_NOW_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Wishes:
    """The options that say how a run is led."""

    lab: bool
    yes: bool = False
    declared: bool = False
    url: str = ""
    port: int = 0


def train(job: Path, fleet: Path | None, runs: Path, wishes: Wishes) -> None:
    order = _order("train", job, fleet, wishes)
    setup = Setup(lab=wishes.lab, port=wishes.port, url=wishes.url, declared=wishes.declared)

    folder = asyncio.run(_train(order, runs, setup, yes=wishes.yes))
    leave_report(folder)


async def _train(order: begin.Order, runs: Path, setup: Setup, *, yes: bool) -> RunFolder:
    folder, made = await begin.make_run(order, runs, setup)
    print(f"run {show.nearby(folder.path)}")
    watching = audience(yes=yes)
    await _watched(lead(folder, made, means(watching)), folder, watching)
    return folder


def _order(command: str, job: Path, fleet: Path | None, wishes: Wishes) -> begin.Order:
    """Files and sources, found good before anything is made or started."""
    order = begin.read_order(job, fleet)
    if not (wishes.lab or wishes.declared):
        raise SpecError(
            "nothing to measure the hosts with",
            where=command,
            hint="--lab measures on this machine; --declared believes the speeds in the fleet file.",
        )
    for line in begin.look_at_sources(order, here=wishes.lab):
        print(line, file=sys.stderr)
    return order


async def _watched(leading: Awaitable[object], folder: RunFolder, watching: Audience) -> None:
    try:
        await leading
    except BaseException as why:
        watching.close()
        unbegun = forget_unbegun(folder, why)
        if isinstance(why, asyncio.CancelledError):
            resume = f"Go on with: {program()} resume {folder.name}"
            after = "It had not begun, and leaves nothing." if unbegun else resume
            print(f"\nNothing runs any more. {after}", file=sys.stderr)
        raise
    finally:
        watching.close()


def plan(job: Path, fleet: Path | None, wishes: Wishes, *, as_json: bool) -> None:
    order = _order("plan", job, fleet, wishes)
    setup = Setup(lab=wishes.lab, declared=wishes.declared)
    heard = Lines(yes=True, out=sys.stderr)
    made = asyncio.run(preview.plan_only(order, setup, means(heard)))
    if as_json:
        print(json.dumps(asdict(made)))
    else:
        print("\n".join(show.plan_lines(order.job, order.fleet, made)))


def resume(name: str, runs: Path, *, yes: bool, stop: bool = False) -> None:
    folder = find(runs, name)
    refuse_what_is_over(folder)
    watching = audience(yes=yes)
    asyncio.run(_watched(take_over(folder, means(watching), stop=stop), folder, watching))
    leave_report(folder)


def stop(name: str, runs: Path, *, now: bool) -> None:
    folder = find(runs, name)
    if not stopping.ask_to_stop(folder, now=now):
        if read_state(folder).ended is not None:
            print(f"{folder.name} has ended already")
        elif now:
            asyncio.run(end_what_lives(folder, means(Lines(yes=True))))
            print(
                f"{folder.name}: nothing runs any more. Go on with: {program()} resume {folder.name}"
            )
        else:
            print(f"{folder.name} has no controller; this one takes the lead for the last round")
            resume(name, runs, yes=True, stop=True)
        return
    if not now:
        print(f"{folder.name}: its controller ends the run with one more round")
        return
    if not stopping.wait_until_ended(folder, within_s=STOP_NOW_S):
        raise HostError(
            f"the controller did not end within {STOP_NOW_S:.0f} s", where=str(folder.path)
        )
    print(f"{folder.name}: stopped. Go on with: {program()} resume {folder.name}")


def means(audience: Audience) -> Means:
    """The world as a controller may touch it."""
    env = dict(os.environ) | {"PYTHONUNBUFFERED": "1"}

    def provider(
        folder: RunFolder, fleet: Fleet, setup: Setup, tell: Callable[[HostEvent], None]
    ) -> Provider:
        if setup.lab:
            return LabProvider(folder.path, fleet, setup.port, env=env, tell=tell)
        url = setup.url or setup.server_url
        return ManualProvider(folder.path, fleet, url, say=audience.say)

    return Means(
        python=sys.executable, env=env, provider=provider, audience=audience, connect=connect
    )


def audience(*, yes: bool) -> Audience:
    return Live(yes=yes) if sys.stdout.isatty() else Lines(yes=yes)
