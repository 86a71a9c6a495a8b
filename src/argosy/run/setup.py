"""How a run was set up: what the next controller of the same run must know, kept in its folder."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from argosy.cluster.provider import Provider
from argosy.cluster.whole import write_whole
from argosy.core.errors import DamagedError, SpecError
from argosy.core.fleet import Fleet
from argosy.core.job import Job
from argosy.core.plan import Plan
from argosy.core.records import Entry, HostEvent
from argosy.logbook import Logbook
from argosy.logbook.client import RemoteLogbook
from argosy.run.folder import RunFolder

FILE = "controller.json"
ANSWER_S = 10.0  # the server is beside the controller: silence means that it is gone


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    run: str = ""  # its id
    lab: bool  # hosts are processes on this desk; else people start them
    data: str = ""  # the data root of the lab's hosts: the folder of the job file
    port: int = 0  # of the logbook's server, for the whole run
    url: str = ""  # where sites reach the logbook; "": on this machine
    declared: bool = False  # speeds come from the fleet file, nothing is calibrated
    job_file: str = ""  # as the user typed it: how messages call it
    fleet_file: str = ""

    @property
    def server_url(self) -> str:
        return f"https://127.0.0.1:{self.port}"


class Audience(Protocol):
    """Who watches a run. Nothing it does may take long."""

    def say(self, line: str) -> None:
        """Something happened that no record tells."""
        ...

    def planned(self, job: Job, fleet: Fleet, plan: Plan) -> bool:
        """Show the plan; whether the run may begin."""
        ...

    def recalled(self, entries: tuple[Entry, ...]) -> None:
        """What stood in the logbook before this controller took the lead."""
        ...

    def heard(self, entries: tuple[Entry, ...]) -> None:
        """What is new in the logbook."""
        ...

    def close(self) -> None:
        """Nothing more is to come."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Means:
    """What the command line hands to a controller: the world it may touch."""

    python: str
    env: Mapping[str, str]  # the whole environment of the processes it starts
    provider: "MakeProvider"
    audience: Audience
    connect: "Callable[[Setup, Path], Logbook]"  # with the keys of the controller
    clock: Callable[[], float] = time.monotonic


class MakeProvider(Protocol):
    """Who lends the hosts of a run. `tell` writes into the logbook what the provider did to them."""

    def __call__(
        self, folder: RunFolder, fleet: Fleet, setup: Setup, tell: Callable[[HostEvent], None]
    ) -> Provider: ...


def connect(setup: Setup, keys: Path) -> Logbook:
    """To the run's own server, which stands on this machine."""
    return RemoteLogbook(setup.server_url, keys, within_s=ANSWER_S)


def save(folder: RunFolder, setup: Setup) -> None:
    text = json.dumps({"version": 1, **asdict(setup)}, indent=1)
    write_whole(folder.path / FILE, text.encode(), mode=0o600)


def load(folder: RunFolder) -> Setup:
    path = folder.path / FILE
    try:
        found = json.loads(path.read_bytes())
        return Setup(**{name: found[name] for name in Setup.__dataclass_fields__ if name in found})
    except FileNotFoundError:
        raise SpecError(
            "this run was not set up to its end, so there is nothing to resume",
            where=str(folder.path),
            hint="Begin it anew with `argosy train`.",
        ) from None
    except (ValueError, TypeError) as problem:
        raise DamagedError("cannot be read", where=str(path)) from problem
