"""Pulls plugs when they are due, by the script, and puts back what was to last a while.

Where the script stands is written before each deed: a controller that comes back after
`lose the controller` does not lose itself again, and ends the hang that another one began.
"""

import asyncio
import json
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from argosy.cluster.whole import write_whole
from argosy.core.errors import DamagedError
from argosy.core.fleet import Fleet
from argosy.core.records import CONTROLLER, Commit, Entry, HostEvent
from argosy.lab.deeds import UNDOES, Deed, Do, deeds
from argosy.spec import faults

_BEAT_S = 0.1  # a slowed host works for a share of each


class Desk(Protocol):
    """What the plugs are on: the processes and links of a lab."""

    def signal(self, host: str, number: signal.Signals) -> bool: ...

    def limit_files(self, host: str, *, full: bool) -> None: ...

    async def order(self, **order: Any) -> None:
        """To the relay."""
        ...

    def lose_controller(self) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How far the script is, and what is unplugged now."""

    began_s: float  # wall clock
    pulled: tuple[str, ...] = ()
    todo: tuple[Deed, ...] = ()
    in_force: tuple[Deed, ...] = ()

    def struck(self, *by: Do) -> frozenset[str]:
        return frozenset(deed.target for deed in self.in_force if deed.do in by)


class Plugs:
    """Make it inside a running event loop; `watch` is the task that pulls."""

    def __init__(
        self,
        file: Path,
        fleet: Fleet,
        desk: Desk,
        *,
        tell: Callable[[HostEvent], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file = file
        self._fleet = fleet
        self._script = faults.script(fleet)
        self._desk = desk
        self._tell = tell
        self._clock = clock
        self._round = 0
        self._woken = asyncio.Event()
        self._beats: dict[str, asyncio.Task[None]] = {}  # of slowed hosts
        self.standing = _read(file) or Standing(began_s=clock())

    @property
    def away(self) -> frozenset[str]:
        """Hosts without power, or about to lose it."""
        return self.standing.struck(Do.POWER_OFF, Do.PREEMPT)

    @property
    def full(self) -> frozenset[str]:
        return self.standing.struck(Do.FILL)

    def link_orders(self) -> list[dict[str, Any]]:
        """What a new relay must be told, to be as the old one was."""
        return [link_order(deed) for deed in self.standing.in_force if deed.do in _ORDERS]

    def heard(self, entry: Entry) -> None:
        if isinstance(entry.body, Commit) and entry.body.round > self._round:
            self._round = entry.body.round
            self._woken.set()

    async def watch(self) -> None:
        """Until it is cancelled. Where nothing is due, it sleeps."""
        self._keep()
        for deed in self.standing.in_force:
            if deed.do is Do.SLOW:
                self._begin_beat(deed)
        try:
            while True:
                self._woken.clear()
                wait_s = await self.turn()
                try:
                    await asyncio.wait_for(self._woken.wait(), wait_s)
                except TimeoutError:
                    continue
        finally:
            for host in list(self._beats):
                self._end_beat(host)

    async def turn(self) -> float | None:
        """Do all that is due; then, how long until something is, unless a round comes first."""
        for fault in faults.due(
            self._script,
            self._pulled(),
            round=self._round,
            seconds=self._clock() - self.standing.began_s,
        ):
            planned = deeds(fault, self._fleet, self._clock())
            self._keep(
                pulled=(*self.standing.pulled, fault.text), todo=self.standing.todo + planned
            )
        for deed in self.standing.todo:
            if deed.at_s <= self._clock() and deed in self.standing.todo:
                self._keep(todo=tuple(other for other in self.standing.todo if other != deed))
                await self._do(deed)
        return self._next_s()

    def _next_s(self) -> float | None:
        times = [deed.at_s for deed in self.standing.todo]
        by_clock = faults.next_second(self._script, self._pulled())
        if by_clock is not None:
            times.append(self.standing.began_s + by_clock)
        return max(0.0, min(times) - self._clock()) if times else None

    def _pulled(self) -> list[faults.Fault]:
        return [fault for fault in self._script if fault.text in self.standing.pulled]

    async def _do(self, deed: Deed) -> None:
        undone = [
            old
            for old in self.standing.in_force
            if old.target == deed.target and old.do in UNDOES.get(deed.do, ())
        ]
        if deed.do in UNDOES and not undone:
            return
        in_force = tuple(old for old in self.standing.in_force if old not in undone)
        if any(deed.do in undoable for undoable in UNDOES.values()):
            in_force = (*in_force, deed)
        # Who returns within the notice is not switched off after it.
        moot = (deed.target, UNDOES.get(deed.do, frozenset()))
        todo = tuple(d for d in self.standing.todo if d.target != moot[0] or d.do not in moot[1])
        self._keep(in_force=in_force, todo=todo)
        if deed.do is Do.LOSE:
            self._say(deed)  # there is no afterwards
        if deed.do in _ORDERS:
            await self._desk.order(**link_order(deed))
        else:
            self._do_to_process(deed)
        if deed.do is not Do.LOSE:
            self._say(deed)

    def _do_to_process(self, deed: Deed) -> None:
        match deed.do:
            case Do.SLOW:
                self._begin_beat(deed)
            case Do.FULL_SPEED:
                self._end_beat(deed.target)
            case Do.FILL | Do.FREE:
                self._desk.limit_files(deed.target, full=deed.do is Do.FILL)
            case Do.LOSE:
                self._desk.lose_controller()
            case do if do in _SIGNALS:
                self._desk.signal(deed.target, _SIGNALS[do])
            case _:  # to have power again, or to be back, is no more than to be told so
                return

    def _begin_beat(self, slow: Deed) -> None:
        self._end_beat(slow.target)
        beat = self._beat(slow.target, slow.value)
        self._beats[slow.target] = asyncio.get_running_loop().create_task(beat)

    def _end_beat(self, host: str) -> None:
        beat = self._beats.pop(host, None)
        if beat is not None:
            beat.cancel()
            self._desk.signal(host, signal.SIGCONT)

    async def _beat(self, host: str, percent: float) -> None:
        work_s = _BEAT_S * percent / 100
        while True:
            self._desk.signal(host, signal.SIGSTOP)
            await asyncio.sleep(_BEAT_S - work_s)
            self._desk.signal(host, signal.SIGCONT)
            await asyncio.sleep(work_s)

    def _say(self, deed: Deed) -> None:
        hosts = {host.name: site.name for site in self._fleet.sites for host in site.hosts}
        site = hosts.get(deed.target, deed.target)
        self._tell(
            HostEvent(
                what="fault",
                site=CONTROLLER if deed.do in (Do.LOSE, Do.BACK) else site,
                host=deed.target if deed.target in hosts else "",
                detail=f"{deed.target} {deed.do} (fault script: {deed.why})",
            )
        )

    def _keep(self, **changes: Any) -> None:
        self.standing = replace(self.standing, **changes)
        write_whole(self._file, json.dumps(asdict(self.standing), indent=1).encode())


def link_order(deed: Deed) -> dict[str, Any]:
    """What the relay must hear for a deed to a link."""
    order = {"do": _ORDERS[deed.do], "site": deed.target}
    return {**order, "mbit_per_s": deed.value} if deed.do is Do.NARROW else order


_ORDERS = {
    Do.CUT: "cut",
    Do.STALL: "stall",
    Do.HEAL: "heal",
    Do.NARROW: "link",
    Do.WIDEN: "link",
}
_SIGNALS = {
    Do.POWER_OFF: signal.SIGKILL,
    Do.PREEMPT: signal.SIGTERM,
    Do.STOP: signal.SIGSTOP,
    Do.GO_ON: signal.SIGCONT,
}


def _read(file: Path) -> Standing | None:
    try:
        plain = json.loads(file.read_bytes())
        return Standing(
            began_s=plain["began_s"],
            pulled=tuple(plain["pulled"]),
            todo=tuple(Deed(**{**row, "do": Do(row["do"])}) for row in plain["todo"]),
            in_force=tuple(Deed(**{**row, "do": Do(row["do"])}) for row in plain["in_force"]),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as problem:
        raise DamagedError(
            "where the fault script stands cannot be read",
            where=str(file),
            hint="remove the file: the script begins anew",
        ) from problem
