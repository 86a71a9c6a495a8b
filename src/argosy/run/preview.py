"""What the plan of a job would be: its hosts are measured for real, and nothing stays behind."""

from pathlib import Path
from tempfile import TemporaryDirectory

from argosy.core.plan import Plan
from argosy.run.begin import Order, make_run
from argosy.run.desk import PREPARE_S, Desk
from argosy.run.planning import choose_plan, measure
from argosy.run.setup import Means, Setup


async def plan_only(order: Order, setup: Setup, means: Means) -> Plan:
    with TemporaryDirectory(prefix="argosy-plan-") as scratch:
        folder, made = await make_run(order, Path(scratch), setup)
        desk = Desk(folder, made, means)
        try:
            await desk.provider.prepare(desk.fleet, within_s=PREPARE_S)
            await desk.serve()
            return choose_plan(desk, await measure(desk))
        finally:
            await desk.close()
