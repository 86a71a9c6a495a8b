"""Which hosts of a site train together now: one alone, or the fixed ranks of torchrun.

Crews that lose and take in hosts are in store_crew.
"""

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from argosy.core.errors import HostError
from argosy.engine.group import Alone, EpochGroup, Rules
from argosy.engine.watch import ASK_EVERY_S

if TYPE_CHECKING:
    from argosy.engine.group import Group
    from argosy.engine.watch import StoreClient

Standing = tuple[int, int]  # the newest post a state contains, and the operations done to it


@dataclass(frozen=True, kw_only=True, slots=True)
class Formed:
    """One epoch: its group, who is in it, and whose state all take."""

    group: "Group"
    hosts: tuple[str, ...]
    source: int  # the rank whose state counts
    fresh: bool  # somebody must take it over
    name: str = ""


class Crew(Protocol):
    """How a host finds those it trains with."""

    def leads(self, within_s: float) -> bool: ...
    def form(self, standing: Standing, within_s: float) -> Formed: ...
    def over(self) -> str | None: ...
    def report(self, reason: str) -> None: ...
    def newcomers(self) -> bool: ...
    def note(self, key: str) -> None: ...
    def noted(self, key: str) -> bool: ...
    def leave(self) -> None: ...
    def close(self) -> None: ...


class SoloCrew:
    """The one host of a site."""

    def __init__(self, host: str) -> None:
        self._host = host

    def leads(self, within_s: float) -> bool:  # noqa: ARG002 - nobody to wait for
        return True

    def form(self, standing: Standing, within_s: float) -> Formed:  # noqa: ARG002 - nobody to wait for
        return Formed(group=Alone(), hosts=(self._host,), source=0, fresh=False)

    def over(self) -> str | None:
        return None

    def report(self, reason: str) -> None:
        raise AssertionError(reason)

    def newcomers(self) -> bool:
        return False

    def note(self, key: str) -> None:
        raise AssertionError(key)

    def noted(self, key: str) -> bool:
        raise AssertionError(key)

    def leave(self) -> None:
        """Nobody to tell."""

    def close(self) -> None:
        """Nothing is open."""


class FixedCrew:
    """Under plain torchrun: the ranks it started, on the store it gave. It restarts all of them."""

    def __init__(self, hosts: tuple[str, ...], rank: int, store: "StoreClient", address: str,
                 *, cuda: bool = False) -> None:  # fmt: skip
        self._hosts = hosts
        self._rank = rank
        self._store = store
        self._cuda = cuda
        self._failed: str | None = None
        self._rules = Rules(self.over, within_s=60.0, address=address)

    def leads(self, within_s: float) -> bool:  # noqa: ARG002 - torchrun has decided it
        return self._rank == 0

    def form(self, standing: Standing, within_s: float) -> Formed:
        if self._failed is not None:
            raise HostError(f"a rank was lost: {self._failed}", hint="torchrun starts all again")
        self._store.set(f"here/{self._hosts[self._rank]}", json.dumps(standing))
        deadline = time.monotonic() + within_s
        came = [self._standing(host, deadline) for host in self._hosts]
        group: Group = Alone()
        if len(self._hosts) > 1:
            store = self._store.prefixed("group")
            group = EpochGroup(store, self._rank, len(self._hosts), self._rules, cuda=self._cuda)
        return Formed(group=group, hosts=self._hosts, source=came.index(max(came)), fresh=True)

    def over(self) -> str | None:
        return self._failed

    def report(self, reason: str) -> None:
        self._failed = reason

    def newcomers(self) -> bool:
        return False

    def note(self, key: str) -> None:
        self._store.set(f"note/{key}", "1")

    def noted(self, key: str) -> bool:
        return self._store.get(f"note/{key}") is not None

    def leave(self) -> None:
        """torchrun sees the process end."""

    def close(self) -> None:
        """The store is torchrun's."""

    def _standing(self, host: str, deadline: float) -> list[int]:
        while (told := self._store.get(f"here/{host}")) is None:
            if time.monotonic() > deadline:
                raise HostError("did not come in time", where=host)
            time.sleep(ASK_EVERY_S)
        standing: list[int] = json.loads(told)
        return standing
