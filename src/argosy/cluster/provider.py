"""The seam to whoever lends the machines: a desk, people, a cloud."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from argosy.core.fleet import Fleet
from argosy.core.records import Entry


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """What runs on a host, or beside the controller. A machine we cannot look into has no pid."""

    host: str
    pid: int | None
    started: str  # with the pid, an identity that no other process can have
    log: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """A process that has ended. Told once."""

    host: str
    code: int | None  # -9: by SIGKILL; None: its status went to another parent, or is far away
    log: Path

    @property
    def ok(self) -> bool:
        """Known to have ended well. Not to know is not to have ended well."""
        return self.code == 0

    def __str__(self) -> str:
        match self.code:
            case None:
                return f"{self.host} ended; its status is not known"
            case code if code < 0:
                return f"{self.host} ended by signal {-code}"
            case code:
                return f"{self.host} ended with status {code}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What a worker's file needs to know of the host it will run on."""

    address: str  # where hosts of the same site reach it
    store_port: int  # its own on that address; 0: the worker takes any
    threads: int
    scratch: Path


class Provider(Protocol):
    """Lends hosts. Names outside the fleet ("logbook") run beside the controller.

    Every implementation passes tests/contracts/test_provider.py.
    """

    async def prepare(self, fleet: Fleet, *, within_s: float) -> None:
        """Make hosts and links ready, once, before anything starts."""
        ...

    def url(self, site: str) -> str:
        """Where the hosts of this site reach the logbook. Stays the same for the whole run."""
        ...

    def place(self, host: str) -> Place: ...

    async def start(
        self, host: str, argv: list[str], *, log: Path, env: Mapping[str, str], within_s: float
    ) -> Process:
        """Start a program there. `env` is its whole environment.

        A host that runs already is left alone. HostError when it does not run within the time.
        """
        ...

    async def alive(self) -> dict[str, Process]: ...

    def exits(self) -> tuple[Exit, ...]:
        """What has ended by itself since this was last asked, each once."""
        ...

    def away(self) -> frozenset[str]:
        """Hosts that cannot be had now: do not try to start them."""
        ...

    def heard(self, entry: Entry) -> None:
        """The run tells each record it reads, so that a provider learns who joined and how far
        the run is."""
        ...

    async def stop(self, host: str, *, within_s: float) -> Exit | None:
        """Ask it to end, and make it end after `within_s`. None: it was not running."""
        ...

    async def adopt(self, run_folder: Path) -> dict[str, Process]:
        """Find again what an earlier controller of this run started and what still runs."""
        ...

    async def release(self, *, within_s: float) -> tuple[Exit, ...]:
        """Stop everything and give the hosts back. Not calling it leaves the sites at work."""
        ...
