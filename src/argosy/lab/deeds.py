"""From a fault to what must be done, now and later. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from argosy.core.fleet import Fleet
from argosy.spec import faults
from argosy.spec.faults import Fault


class Do(StrEnum):
    POWER_OFF = "killed"  # the words stand in the event that tells of it
    POWER_ON = "may start again"
    PREEMPT = "was given notice"
    STOP = "hangs"
    GO_ON = "goes on"
    SLOW = "is slowed"
    FULL_SPEED = "runs at full speed again"
    FILL = "has a full disk"
    FREE = "has space again"
    CUT = "is cut off"
    STALL = "hears nothing and is not heard"
    HEAL = "is linked again"
    NARROW = "has a slower link"
    WIDEN = "has its whole link again"
    LOSE = "is lost"
    BACK = "was lost and is back"


@dataclass(frozen=True, kw_only=True, slots=True)
class Deed:
    """One plug to pull or put back."""

    do: Do
    target: str  # a host, a site, or the controller
    at_s: float  # wall clock: it outlives the controller that planned it
    value: float = 0.0  # percent of speed, or Mbit/s
    why: str  # the sentence of the script


UNDOES: dict[Do, frozenset[Do]] = {
    Do.POWER_ON: frozenset({Do.POWER_OFF, Do.PREEMPT}),
    Do.GO_ON: frozenset({Do.STOP}),
    Do.FULL_SPEED: frozenset({Do.SLOW}),
    Do.FREE: frozenset({Do.FILL}),
    Do.HEAL: frozenset({Do.CUT, Do.STALL}),
    Do.WIDEN: frozenset({Do.NARROW}),
}
_LASTING: dict[type[faults.Plug], tuple[Do, Do]] = {
    faults.Hang: (Do.STOP, Do.GO_ON),
    faults.SlowHost: (Do.SLOW, Do.FULL_SPEED),
    faults.FillDisk: (Do.FILL, Do.FREE),
    faults.Cut: (Do.CUT, Do.HEAL),
    faults.Stall: (Do.STALL, Do.HEAL),
    faults.SlowLink: (Do.NARROW, Do.WIDEN),
}


def deeds(fault: Fault, fleet: Fleet, now_s: float) -> tuple[Deed, ...]:
    """In the order in which they are to be done."""
    hosts = faults.targets(fault, fleet)
    plug = fault.plug

    def over(
        targets: tuple[str, ...], do: Do, after_s: float = 0.0, value: float = 0.0
    ) -> tuple[Deed, ...]:
        at_s = now_s + after_s
        return tuple(Deed(do=do, target=t, at_s=at_s, value=value, why=fault.text) for t in targets)

    match plug:
        case faults.Kill():
            return over(hosts, Do.POWER_OFF)
        case faults.Preempt():
            return over(hosts, Do.PREEMPT) + over(hosts, Do.POWER_OFF, plug.notice_s)
        case faults.Return():  # of what is not unplugged, nothing is put back
            targets = (plug.target, *(host for host in hosts if host != plug.target))
            return tuple(deed for undo in UNDOES for deed in over(targets, undo))
        case faults.LoseController():
            return over((plug.target,), Do.LOSE) + over((plug.target,), Do.BACK)
        case faults.Hang() | faults.SlowHost() | faults.FillDisk():
            targets = hosts
        case _:
            targets = (plug.target,)
    do, undo = _LASTING[type(plug)]
    begin = over(targets, do, value=faults.measure(plug))
    return begin if plug.seconds is None else begin + over(targets, undo, plug.seconds)
