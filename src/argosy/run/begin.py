"""A new run: what it is made of, checked and written down before anything starts."""

import asyncio
import errno
from dataclasses import dataclass, replace
from pathlib import Path

from argosy import __version__
from argosy.cluster.whole import write_whole
from argosy.core.errors import HostError, SpecError
from argosy.core.fleet import Fleet
from argosy.core.job import Job
from argosy.core.records import CONTROLLER, Body, Roster, RunBegun, Seat
from argosy.data import files as data_files
from argosy.logbook.embedded import EmbeddedLogbook
from argosy.logbook.keys import Authority, Pen
from argosy.policy import placement
from argosy.run import folder as folders
from argosy.run import setup as setups
from argosy.run.desk import now_ms
from argosy.run.folder import RunFolder
from argosy.run.reconcile import CHECKPOINTER
from argosy.run.setup import Setup
from argosy.spec import check_together, parse_fleet, parse_job

FLEET_FILE = "fleet.yaml"


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What the user asked for, read and found possible."""

    job: Job
    fleet: Fleet
    job_text: str
    fleet_text: str
    root: Path  # the folder of the job file: relative paths in it start here
    sites: dict[str, tuple[str, ...]]  # which sources each site may train on


def read_order(job_file: Path, fleet_file: Path | None) -> Order:
    """Both files, checked one by one, together, and against the policy."""
    fleet_path = fleet_file or job_file.parent / FLEET_FILE
    job_text = _read(job_file, "argosy init writes an example")
    if not fleet_path.is_file():
        raise SpecError(
            "no fleet" if fleet_file is None else "no such fleet file",
            where=str(fleet_path),
            hint="A fleet file names the sites, their countries and hosts: put fleet.yaml beside"
            " the job file, or name one with --fleet.",
        )
    fleet_text = _read(fleet_path, "")
    job = parse_job(job_text, str(job_file))
    fleet = parse_fleet(fleet_text, str(fleet_path))
    check_together(job, fleet)
    sites = placement(job, fleet)
    root = job_file.resolve().parent
    return Order(
        job=job, fleet=fleet, job_text=job_text, fleet_text=fleet_text, root=root, sites=sites
    )


def look_for_sources(order: Order) -> None:
    """Where the sites' data lies on this machine, as in the lab: is there any? Opens nothing."""
    for name in sorted({name for sources in order.sites.values() for name in sources}):
        source = order.job.source(name)
        if not any(path.stat().st_size for path, _ in data_files.find(source, order.root)):
            raise SpecError(
                f"source {name} is empty",
                where=source.where or None,
                hint=f"{order.root / source.path} holds not one byte of text",
            )


async def make_run(order: Order, runs: Path, setup: Setup) -> tuple[RunFolder, Setup]:
    """The folder, the keys and the first two records. Until here nothing was started."""
    port = await _free_port(setup.port)
    run = folders.new_id()
    folder = folders.create(runs.resolve(), order.job.name, run)
    write_whole(folder.job, order.job_text.encode())
    write_whole(folder.fleet, order.fleet_text.encode())
    authority, seats = issue_keys(folder, run, order.fleet)
    begun = RunBegun(
        run=run,
        name=order.job.name,
        argosy=__version__,
        job=order.job_text,
        fleet=order.fleet_text,
        authority=authority.pem,
    )
    write_first_records(folder, begun, Roster(seats=seats, torch=""))
    setup = replace(setup, run=run, data=str(order.root), port=port)
    setups.save(folder, setup)  # last: with it the run can be resumed
    return folder, setup


def issue_keys(folder: RunFolder, run: str, fleet: Fleet) -> tuple[Authority, tuple[Seat, ...]]:
    """The run's own authority, and a key for everyone who may write or serve."""
    authority = Authority.make(folder.authority)
    authority.issue_server(run, folder.keys(CONTROLLER, "server"))
    places = [(CONTROLLER, host, fleet.home) for host in (CONTROLLER, CHECKPOINTER)]
    places += [(site.name, host.name, site.country) for site in fleet.sites for host in site.hosts]
    seats = tuple(
        Seat(
            site=site,
            host=host,
            country=country,
            certificate=authority.issue(run, site, host, folder.keys(site, host)),
        )
        for site, host, country in places
    )
    return authority, seats


def write_first_records(folder: RunFolder, *bodies: Body) -> None:
    """Directly into the folder: a server can tell who is who only after them."""
    pen = Pen.open(folder.keys(CONTROLLER, CONTROLLER), 1)
    with EmbeddedLogbook(folder.logbook) as logbook:
        for body in bodies:
            logbook.append(pen.sign(body, now_ms()))


def _read(path: Path, hint: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as wrong:
        raise SpecError(f"not UTF-8 at byte {wrong.start}", where=str(path)) from None
    except OSError as wrong:
        raise SpecError(
            f"cannot be read: {wrong.strerror}", where=str(path), hint=hint or None
        ) from None


async def _free_port(wanted: int) -> int:
    """`wanted`, if nobody has it; 0: any."""
    try:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", wanted)
    except OSError as problem:
        taken = problem.errno == errno.EADDRINUSE
        raise HostError(
            f"port {wanted} is taken" if taken else f"port {wanted} cannot be had: {problem}",
            where="127.0.0.1",
            hint="End the program that has it, or choose another one; without --port any is taken.",
        ) from None
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port
