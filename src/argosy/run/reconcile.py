"""Which processes should live, and what is to be done so that they do. Pure."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from argosy.run.state import RunState
from argosy.run.vitals import Vitals

LOGBOOK = "logbook"  # the server; it and the checkpointer run beside the controller
CHECKPOINTER = "checkpointer"
HELPERS = (LOGBOOK, CHECKPOINTER)


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    host: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    host: str


def wanted(state: RunState, vitals: Vitals, now_s: float) -> frozenset[str]:
    """Who should live now. A host that pauses after a failure, or is away, is not asked for."""
    if state.ended:
        return frozenset()
    hosts = {LOGBOOK}
    if state.plan:
        hosts |= crews(state)
        if not (state.last and state.kept):
            hosts.add(CHECKPOINTER)
    return frozenset(h for h in hosts if vitals.of(h).alive or _may_start(state, vitals, h, now_s))


def crews(state: RunState) -> frozenset[str]:
    """The hosts that train."""
    return frozenset(host for site in state.sites.values() if site.crew for host in site.crew.hosts)


def reconcile(want: AbstractSet[str], have: AbstractSet[str]) -> tuple[Start | Stop, ...]:
    """From have to want: ends before starts, and the helpers first, since the others need them."""
    ends = sorted(have - want)
    starts = sorted(want - have, key=lambda host: (host != LOGBOOK, host not in HELPERS, host))
    return (*(Stop(host=host) for host in ends), *(Start(host=host) for host in starts))


def _may_start(state: RunState, vitals: Vitals, host: str, now_s: float) -> bool:
    if host in vitals.away or (state.last and host not in HELPERS):
        return False  # after the last round there is nothing left to train
    return vitals.of(host).may_start(now_s)
