"""From hosts that answer to a plan that was agreed to: measure, plan, ask, write down."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from argosy.cluster.provider import Exit
from argosy.cluster.whole import write_whole
from argosy.core.errors import HostError, NoPlan, SpecError
from argosy.core.fleet import Fleet, Host, Link
from argosy.core.plan import HostFacts, Plan
from argosy.core.records import Checkpointed, Crew, Planned, Roster
from argosy.planner import plan as choose
from argosy.policy import placement
from argosy.run.desk import LOOK_EVERY_S, Desk
from argosy.run.folder import point_latest_at
from argosy.run.reconcile import CHECKPOINTER
from argosy.run.state import RunState
from argosy.run.together import together

CALIBRATE_S = 300.0
UNWEIGHED_GB = 1e6


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    facts: tuple[HostFacts, ...]
    links: tuple[Link, ...]
    parameters: int

    @property
    def torch(self) -> str:
        """The one version of all hosts. Two of them would not compute the same."""
        hosts = {fact.torch: fact.host for fact in self.facts if fact.torch}
        if len(hosts) > 1:
            told = ", ".join(f"torch {torch} on {host}" for torch, host in sorted(hosts.items()))
            raise HostError(
                f"the hosts have different versions of torch: {told}",
                hint="Install the same version everywhere (constraints.txt), then train again.",
            )
        return next(iter(hosts), "")


async def agree_on_plan(desk: Desk, state: RunState) -> None:
    """Measure the hosts, plan, ask the user, and write plan and crews into the logbook."""
    measured = await measure(desk)
    torch = measured.torch
    chosen = choose_plan(desk, measured)
    write_plan(desk, chosen)
    if not desk.audience.planned(desk.job, desk.fleet, chosen):
        raise NoPlan("the plan was not agreed to", hint="Nothing was started.")
    assert state.roster is not None, "a run begins with its roster"
    records: list[Roster | Planned | Crew] = []
    if torch and torch != state.roster.torch:
        records.append(replace(state.roster, torch=torch))
    records.append(Planned(plan=chosen, reason="first plan"))
    for site in chosen.sites:
        hosts = tuple(host.host for host in site.hosts)
        records.append(Crew(site=site.site, epoch=1, hosts=hosts))
    await desk.write(*records)
    point_latest_at(desk.folder)


def choose_plan(desk: Desk, measured: Measured) -> Plan:
    return choose(
        desk.job,
        desk.fleet,
        facts=measured.facts,
        links=measured.links,
        placement=placement(desk.job, desk.fleet),
        parameters=measured.parameters,
    )


def write_plan(desk: Desk, chosen: Plan) -> None:
    write_whole(desk.folder.plan, json.dumps(asdict(chosen), indent=1).encode())


async def measure(desk: Desk, *, within_s: float = CALIBRATE_S) -> Measured:
    """Every host that may train measures itself and its way to the logbook, all at once."""
    placed = placement(desk.job, desk.fleet)
    trains = [host for site in desk.fleet.sites if placed[site.name] for host in site.hosts]
    if desk.setup.declared:
        facts = tuple(_declared(desk, host) for host in trains)
        return Measured(facts=facts, links=(), parameters=await _parameters(desk, within_s))
    desk.audience.say(f"Measuring {len(trains)} hosts with the job's own model ...")
    hosts = [host.name for host in trains]
    try:
        async with asyncio.timeout(within_s):
            await together(*(_start(desk, host) for host in hosts))
            ends = await desk.ends(set(hosts))
    except TimeoutError:
        raise HostError(
            f"the hosts were not measured within {within_s:.0f} s",
            hint="See calibrate.txt of each host in the run's folder, under sites/.",
        ) from None
    told = {host: _told(desk, ends[host]) for host in hosts}
    return Measured(
        facts=tuple(HostFacts(**told[host]["facts"]) for host in hosts),
        links=_links(desk.fleet, told),
        parameters=int(told[hosts[0]]["parameters"]),
    )


async def _start(desk: Desk, host: str) -> None:
    """The measuring process of a host; its worker.json is the one that the worker will have."""
    worker = desk.write_worker(host)
    program = [desk.means.python, "-m", "argosy.engine.calibrate", str(worker)]
    log = _log(desk, host)
    log.unlink(missing_ok=True)
    await desk.provider.start(
        host,
        [*program, "--job", str(desk.folder.job)],
        log=log,
        env=desk.means.env,
        within_s=CALIBRATE_S,
    )


def _told(desk: Desk, end: Exit) -> dict[str, Any]:
    """The one line that matters of what a measuring process said."""
    for line in reversed(_log(desk, end.host).read_text(encoding="utf-8").splitlines()):
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and told.get("event") == "calibrated":
            return told
    failed = HostError("the measurement failed", where=end.host)
    raise desk.why_ended(end.host, failed, log=_log(desk, end.host))


def _links(fleet: Fleet, told: Mapping[str, Mapping[str, Any]]) -> tuple[Link, ...]:
    """A site's link is as its best-placed host found it; its price is the declared one."""
    links: dict[str, Link] = {}
    for host, said in told.items():
        probed = said.get("link")
        if probed is None:
            continue
        site = fleet.site_of(host).name
        found = replace(
            fleet.link(site),
            mbit_per_s=min(probed["up_mbit"], probed["down_mbit"]),
            rtt_ms=probed["rtt_ms"],
            measured=True,
        )
        if site not in links or found.mbit_per_s > links[site].mbit_per_s:
            links[site] = found
    return tuple(links.values())


def _log(desk: Desk, host: str) -> Path:
    return desk.log(host).with_name("calibrate.txt")


def _declared(desk: Desk, host: Host) -> HostFacts:
    """What the user says of a host. Its memory is not weighed unless he says that, too."""
    if host.tokens_per_s is None:
        raise SpecError(
            f"the speed of {host.name} is not declared",
            where=host.where or desk.fleet_name,
            hint="Write tokens_per_s for every host, or leave --declared away to measure it.",
        )
    return HostFacts(
        host=host.name,
        tokens_per_s=host.tokens_per_s,
        micro_batch=desk.job.training.batch,
        peak_memory_gb=0.0,
        memory_gb=host.memory_gb or UNWEIGHED_GB,
        cores=host.cores,
        gpus=host.gpus,
    )


async def _parameters(desk: Desk, within_s: float) -> int:
    """How large the model is, from the checkpointer: it makes the initial one."""
    await desk.start(CHECKPOINTER)
    deadline_s = desk.means.clock() + within_s
    while True:
        for entry in await desk.read_all():
            if isinstance(entry.body, Checkpointed):
                return entry.body.parameters
        ended = CHECKPOINTER not in await desk.provider.alive()
        if ended or desk.means.clock() > deadline_s:
            failed = HostError("the initial model could not be made", where=CHECKPOINTER)
            raise desk.why_ended(CHECKPOINTER, failed)
        await asyncio.sleep(LOOK_EVERY_S)
