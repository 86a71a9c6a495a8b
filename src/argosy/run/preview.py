"""What the plan of a job would be: its hosts are measured for real, and nothing stays behind."""

import shutil
from pathlib import Path
from tempfile import mkdtemp

from argosy.core.errors import UserError
from argosy.core.plan import Plan
from argosy.run.begin import Order, make_run
from argosy.run.desk import PREPARE_S, Desk
from argosy.run.planning import choose_plan, measure
from argosy.run.setup import Means, Setup


async def plan_only(order: Order, setup: Setup, means: Means) -> Plan:
    """Raises what measuring and planning raise. Logs that such an error names stay, all else goes."""
    scratch = Path(mkdtemp(prefix="argosy-plan-"))
    kept: Path | None = None
    try:
        return await _planned(order, setup, means, scratch)
    except UserError as failed:
        kept = scratch if str(scratch) in str(failed) else None
        raise
    finally:
        for path in [scratch] if kept is None else scratch.glob("*/keys"):
            shutil.rmtree(path, ignore_errors=True)


async def _planned(order: Order, setup: Setup, means: Means, scratch: Path) -> Plan:
    folder, made = await make_run(order, scratch, setup)
    desk = Desk(folder, made, means)
    try:
        await desk.provider.prepare(desk.fleet, within_s=PREPARE_S)
        await desk.serve()
        return choose_plan(desk, await measure(desk))
    finally:
        await desk.close()
