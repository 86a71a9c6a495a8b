"""Leads a lab run as `argosy train --lab --yes` does, where a test has put props on the stage.

    python -m fakes.backstage lead JOB RUNS PROPS

The props (a JSON file) may say `bodies`: a folder into which the logbook's server writes the
decrypted body of every request; and `clocks`: by how many seconds a host's clock is wrong. They
are put in place by the controller's own means: it is handed another program as its Python.
"""

import asyncio
import json
import os
import runpy
import stat
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

SERVER = "argosy.logbook.server"
WORKER = "argosy.engine"


def main(arguments: list[str]) -> None:
    match arguments:
        case ["lead", job, runs, props]:
            lead(Path(job), Path(runs), Path(props))
        case ["play", props, "-m", str(module), *rest]:
            play(json.loads(Path(props).read_bytes()), module, rest)
        case _:
            raise SystemExit(f"not understood: {arguments}")


def lead(job: Path, runs: Path, props: Path) -> None:
    """`argosy train JOB --lab --yes --declared`, but for the Python of its processes."""
    from argosy.cli import train as way
    from argosy.cli.afterwards import leave_report
    from argosy.cli.audience import Lines
    from argosy.run import begin
    from argosy.run.folder import RunFolder
    from argosy.run.lead import lead as take_the_lead
    from argosy.run.setup import Setup

    python = props.with_name("python")
    python.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m fakes.backstage play "{props}" "$@"\n'
    )
    python.chmod(python.stat().st_mode | stat.S_IXUSR)

    async def whole() -> RunFolder:
        order = begin.read_order(job, None)
        folder, setup = await begin.make_run(order, runs, Setup(lab=True, declared=True))
        means = replace(way.means(Lines(yes=True)), python=str(python))
        await take_the_lead(folder, setup, means)
        return folder

    leave_report(asyncio.run(whole()))


def play(props: dict[str, Any], module: str, rest: list[str]) -> None:
    """One process of the run, with its props if it has any."""
    if module == SERVER and props.get("bodies"):
        _serve(Path(props["bodies"]), rest)
    elif module == WORKER and (wrong_s := props.get("clocks", {}).get(Path(rest[-1]).parent.name)):
        _shift_clock(wrong_s)
        sys.argv = [module, *rest]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        os.execv(sys.executable, [sys.executable, "-m", module, *rest])


def _serve(bodies: Path, arguments: list[str]) -> None:
    import signal

    from argosy.lab.canary import Recorder
    from argosy.logbook import server

    bodies.mkdir(parents=True, exist_ok=True)
    recorders: list[Recorder] = []

    def around(app: Any) -> Recorder:
        recorders.append(Recorder(app))
        return recorders[0]

    async def until_told() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await server.serve(server._serving(arguments), stop, lambda _: None, around=around)

    asyncio.run(until_told())
    for number, body in enumerate(recorders[0].bodies):
        (bodies / f"{os.getpid()}-{number:06d}").write_bytes(body)


def _shift_clock(by_s: float) -> None:
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + by_s
    time.time_ns = lambda: now_ns() + int(by_s * 1e9)


if __name__ == "__main__":
    main(sys.argv[1:])
