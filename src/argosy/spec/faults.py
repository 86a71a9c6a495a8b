"""The fault script: sentences in, plugs to pull out, and which of them are due. Pure."""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from argosy.core.errors import SpecError
from argosy.core.fleet import Fleet

FORMS = """\
kill HOST|SITE
return HOST|SITE
hang HOST|SITE [for N s]
slow HOST|SITE to N % [for N s]
slow SITE to N Mbit/s [for N s]
cut SITE [for N s]
stall SITE [for N s]
preempt HOST|SITE with N s notice
fill the disk of HOST|SITE [for N s]
lose the controller
each with: at round N | at N s"""


@dataclass(frozen=True, kw_only=True, slots=True)
class AtRound:
    """As soon as this round is committed. 0: at once."""

    round: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AtSecond:
    """So long after the run began."""

    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Kill:
    target: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Return:
    target: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Hang:
    target: str
    seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowHost:
    target: str
    percent: float
    seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowLink:
    target: str
    mbit_per_s: float
    seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    target: str
    seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Stall:
    target: str
    seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Preempt:
    target: str
    notice_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class FillDisk:
    target: str
    seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LoseController:
    target: str = "controller"


Plug = (
    Kill | Return | Hang | SlowHost | SlowLink | Cut | Stall | Preempt | FillDisk | LoseController
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    plug: Plug
    at: AtRound | AtSecond
    text: str


_NUMBER = r"\d+(?:\.\d+)?"
_SECONDS = rf"({_NUMBER}) ?s(?:ec|econds?)?"
_AT_ROUND = re.compile(r" at round (\d+)\b")
_AT_SECOND = re.compile(rf" at {_SECONDS}(?= |$)")
_FOR = re.compile(rf" for {_SECONDS}(?= |$)")
_PLUGS: tuple[tuple[re.Pattern[str], Callable[[str, float, float | None], Plug]], ...] = tuple(
    (
        re.compile(
            form.replace("NAME", r"(?P<name>[A-Za-z0-9][\w.-]*)").replace(
                "N ", rf"(?P<n>{_NUMBER}) ?"
            )
        ),
        make,
    )
    for form, make in (
        ("kill NAME", lambda name, _n, _s: Kill(target=name)),
        ("return NAME", lambda name, _n, _s: Return(target=name)),
        ("hang NAME", lambda name, _n, s: Hang(target=name, seconds=s)),
        ("slow NAME to N %", lambda name, n, s: SlowHost(target=name, percent=n, seconds=s)),
        (
            "slow NAME to N Mbit/s",
            lambda name, n, s: SlowLink(target=name, mbit_per_s=n, seconds=s),
        ),
        ("cut NAME", lambda name, _n, s: Cut(target=name, seconds=s)),
        ("stall NAME", lambda name, _n, s: Stall(target=name, seconds=s)),
        ("preempt NAME with N s notice", lambda name, n, _s: Preempt(target=name, notice_s=n)),
        ("fill the disk of NAME", lambda name, _n, s: FillDisk(target=name, seconds=s)),
        ("lose the controller", lambda _name, _n, _s: LoseController()),
    )
)
_LASTING = (Hang, SlowHost, SlowLink, Cut, Stall, FillDisk)
_OF_SITES_ONLY = (Cut, Stall, SlowLink)


def parse(text: str) -> Fault:
    """One sentence. "at" and "for" may stand in either order."""
    words = " ".join(text.split())
    rest, at = _take_time(words, text)
    rest, seconds = _take_duration(rest)
    plug = _plug(rest, seconds)
    if plug is None:
        raise _not_understood(text)
    if isinstance(plug, SlowHost) and not 0 < plug.percent < 100:
        raise _not_understood(text, "a share between 0 and 100 % is slow (to stop it: hang)")
    if isinstance(plug, SlowLink) and plug.mbit_per_s == 0:
        raise _not_understood(text, "a rate above 0 is slow (to stop it: stall)")
    if seconds is not None and not isinstance(plug, _LASTING):
        raise _not_understood(text, f'"for {seconds:g} s" has no meaning here')
    return Fault(plug=plug, at=at, text=words)


def script(fleet: Fleet) -> tuple[Fault, ...]:
    """The faults of a fleet file, each naming a host or site that is there."""
    faults = tuple(parse(text) for text in fleet.faults)
    for fault in faults:
        targets(fault, fleet)
    return faults


def targets(fault: Fault, fleet: Fleet) -> tuple[str, ...]:
    """The hosts it strikes; of a cut, stall or slow link: all of the site. () = the controller."""
    if isinstance(fault.plug, LoseController):
        return ()
    name = fault.plug.target
    for site in fleet.sites:
        if site.name == name:
            return tuple(host.name for host in site.hosts)
    hosts = [host.name for site in fleet.sites for host in site.hosts]
    if name in hosts and not isinstance(fault.plug, _OF_SITES_ONLY):
        return (name,)
    sites = ", ".join(site.name for site in fleet.sites)
    wanted = "a site" if name in hosts else "in the fleet"
    raise SpecError(
        f"{fault.text!r}: {name} is not {wanted}",
        where="faults",
        hint=f"sites: {sites}; hosts: {', '.join(hosts)}",
    )


def measure(plug: Plug) -> float:
    """How much of its speed or rate is left, in the plug's own unit; 0 where that says nothing."""
    match plug:
        case SlowHost():
            return plug.percent
        case SlowLink():
            return plug.mbit_per_s
        case _:
            return 0.0


def due(
    faults: Iterable[Fault], pulled: Collection[Fault], *, round: int, seconds: float
) -> tuple[Fault, ...]:
    """Those whose time has come and that were not pulled yet, in the order of the script.

    Rounds may be skipped by who reads late: a fault of a past round is due as well.
    """
    return tuple(f for f in faults if f not in pulled and _has_come(f.at, round, seconds))


def next_second(faults: Iterable[Fault], pulled: Collection[Fault]) -> float | None:
    """When the next fault that goes by the clock is due."""
    times = [f.at.seconds for f in faults if isinstance(f.at, AtSecond) and f not in pulled]
    return min(times, default=None)


def _has_come(at: AtRound | AtSecond, round: int, seconds: float) -> bool:
    match at:
        case AtRound():
            return round >= at.round
        case AtSecond():
            return seconds >= at.seconds


def _take_time(words: str, text: str) -> tuple[str, AtRound | AtSecond]:
    rounds, seconds = _AT_ROUND.findall(words), _AT_SECOND.findall(words)
    if not rounds and not seconds:
        raise _not_understood(text, 'it does not say when ("at round 4", "at 20 s")')
    if len(rounds) + len(seconds) > 1:
        raise _not_understood(text, "it says more than once when")
    if rounds:
        return _AT_ROUND.sub("", words), AtRound(round=int(rounds[0]))
    return _AT_SECOND.sub("", words), AtSecond(seconds=float(seconds[0]))


def _take_duration(words: str) -> tuple[str, float | None]:
    found = _FOR.search(words)
    return (_FOR.sub("", words), float(found[1])) if found else (words, None)


def _plug(rest: str, seconds: float | None) -> Plug | None:
    for pattern, make in _PLUGS:
        found = pattern.fullmatch(rest)
        if found:
            given = found.groupdict()
            return make(given.get("name", ""), float(given.get("n", 0)), seconds)
    return None


def _not_understood(text: str, why: str = "not a sentence of the fault script") -> SpecError:
    return SpecError(f"{text!r}: {why}", where="faults", hint="the forms are:\n" + FORMS)
