"""A new run: what it is made of, checked and written down before anything starts."""

import asyncio
import errno
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from argosy import __version__
from argosy.cluster.whole import write_whole
from argosy.core.errors import HostError, SpecError
from argosy.core.fleet import Fleet
from argosy.core.job import Job
from argosy.core.law import Form
from argosy.core.records import CONTROLLER, Body, Roster, RunBegun, Seat
from argosy.data.survey import survey
from argosy.logbook.embedded import EmbeddedLogbook
from argosy.logbook.keys import Authority, Pen
from argosy.policy import placement, verdict
from argosy.run import folder as folders
from argosy.run import setup as setups
from argosy.run.desk import EVERYWHERE, now_ms
from argosy.run.folder import RunFolder
from argosy.run.reconcile import CHECKPOINTER
from argosy.run.setup import Setup
from argosy.spec import check_together, parse_fleet, parse_job, text

FLEET_FILE = "fleet.yaml"


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What the user asked for, read and found possible."""

    job: Job
    fleet: Fleet
    job_text: str
    fleet_text: str
    job_file: Path  # as typed
    fleet_file: Path
    root: Path  # the folder of the job file: relative paths in it start here
    sites: dict[str, tuple[str, ...]]  # which sources each site may train on


def read_order(job_file: Path, fleet_file: Path | None) -> Order:
    """Both files, checked one by one, together, and against the policy."""
    fleet_path = fleet_file or job_file.parent / FLEET_FILE
    job_text = text.read(job_file)
    if not fleet_path.is_file():
        raise SpecError(
            "no fleet" if fleet_file is None else "no such fleet file",
            where=str(fleet_path),
            hint="A fleet file names the sites, their countries and hosts: put fleet.yaml beside"
            " the job file, or name one with --fleet.",
        )
    fleet_text = text.read(fleet_path)
    job = parse_job(job_text, str(job_file))
    fleet = parse_fleet(fleet_text, str(fleet_path))
    check_together(job, fleet)
    sites = placement(job, fleet)
    root = job_file.resolve().parent
    return Order(
        job=job,
        fleet=fleet,
        job_text=job_text,
        fleet_text=fleet_text,
        job_file=job_file,
        fleet_file=fleet_path,
        root=root,
        sites=sites,
    )


def look_at_sources(order: Order, *, here: bool) -> list[str]:
    """Read the sources before anything is started; a line for each that was not looked at.

    `here`: the sites' data lies on this machine, as in the lab, so all of it must be there. Else it
    lies at the sites: what happens to be here as well, and may be opened in this country, is read.
    Raises SpecError, with paths as the user's own shell would name them.
    """
    unseen = []
    for name in sorted({name for sources in order.sites.values() for name in sources}):
        source = order.job.source(name)
        shown = replace(source, path=str(order.job_file.parent / source.path))
        if not here and not Path(shown.path).exists():
            unseen.append(f"source {name} lies at its site and was not looked at")
        elif not here and not verdict(order.job.policy, Form.RAW, source, order.fleet.home).allowed:
            unseen.append(f"source {name} may not be opened in {order.fleet.home}: not looked at")
        else:
            survey(shown, Path(), sequence=order.job.training.sequence)
    return unseen


async def make_run(order: Order, runs: Path, setup: Setup) -> tuple[RunFolder, Setup]:
    """The folder, the keys and the first two records. Until here nothing was started."""
    port = await _free_port(setup.port, EVERYWHERE if setup.url else "127.0.0.1")
    run = folders.new_id()
    folder = folders.create(runs.resolve(), order.job.name, run)
    try:
        setup = _fill(folder, order, replace(setup, run=run, port=port))
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    return folder, setup


def _fill(folder: RunFolder, order: Order, setup: Setup) -> Setup:
    """Texts, keys and first records; last how the run is set up."""
    write_whole(folder.job, order.job_text.encode())
    write_whole(folder.fleet, order.fleet_text.encode())
    authority, seats = issue_keys(folder, setup.run, order.fleet)
    begun = RunBegun(
        run=setup.run,
        name=order.job.name,
        argosy=__version__,
        job=order.job_text,
        fleet=order.fleet_text,
        authority=authority.pem,
    )
    write_first_records(folder, begun, Roster(seats=seats, torch=""))
    setup = replace(
        setup,
        data=str(order.root),
        job_file=str(order.job_file),
        fleet_file=str(order.fleet_file),
    )
    setups.save(folder, setup)  # with it the run can be resumed
    return setup


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


async def _free_port(wanted: int, host: str) -> int:
    """`wanted`, if nobody has it; 0: any."""
    try:
        server = await asyncio.start_server(lambda *_: None, host, wanted)
    except OSError as problem:
        taken = problem.errno == errno.EADDRINUSE
        raise HostError(
            f"port {wanted} is taken" if taken else f"port {wanted} cannot be had: {problem}",
            where=host,
            hint="End the program that has it, or choose another one; without --port any is taken.",
        ) from None
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port
