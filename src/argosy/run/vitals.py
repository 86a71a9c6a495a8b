"""What the controller notices of its processes: lives, silences, failures. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

# A process that failed is started again after 0.5, 1, 2, ... seconds, and given up when it failed
# five times within ten minutes without having worked for a while in between.
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
FAILURES_AT_MOST = 5
FAILURES_WITHIN_S = 600.0
WORKED_S = 20.0

# A host is hung when it is silent for four times the longest recent interval between two signs of
# work. Before three are known it may still be loading: weights, compilers, caches take minutes.
INTERVALS_KEPT = 8
INTERVALS_NEEDED = 3
SILENCE_FACTOR = 4.0
SHORTEST_LIMIT_S = 10.0
FIRST_LIMIT_S = 180.0
PATIENCE_WITH_HUNG = 6.0  # times the limit; then the process is ended and started again


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """How the newest process of a host ended. Code None: its status went to another parent."""

    code: int | None
    plan: int  # the plan under which it had been started
    log: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    """One host's process, as seen from here. Times are the controller's own steady clock."""

    plan: int = 0
    started_s: float | None = None  # None: no process lives
    heard_s: float | None = None  # None: nothing was heard since it started
    worked_s: float | None = None  # when it last showed that it trains
    intervals: tuple[float, ...] = ()  # between two signs of work
    failures: tuple[float, ...] = ()
    pause_until_s: float = 0.0
    exit: Exit | None = None

    @property
    def alive(self) -> bool:
        return self.started_s is not None

    @property
    def limit_s(self) -> float:
        """How long it may be silent before it counts as hung."""
        if len(self.intervals) < INTERVALS_NEEDED:
            return FIRST_LIMIT_S
        return max(SHORTEST_LIMIT_S, SILENCE_FACTOR * max(self.intervals))

    def silent_s(self, now_s: float) -> float:
        since = self.started_s if self.heard_s is None else self.heard_s
        return now_s - since if self.alive and since is not None else 0.0

    def hung(self, now_s: float) -> bool:
        return self.silent_s(now_s) > self.limit_s

    def hopelessly_hung(self, now_s: float) -> bool:
        return self.silent_s(now_s) > PATIENCE_WITH_HUNG * self.limit_s

    @property
    def given_up(self) -> bool:
        return len(self.failures) >= FAILURES_AT_MOST

    def may_start(self, now_s: float) -> bool:
        return not self.alive and not self.given_up and now_s >= self.pause_until_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Vitals:
    """The lives by name of host, and the hosts that their provider says cannot be had now."""

    lives: Mapping[str, Life] = field(default_factory=dict)
    away: frozenset[str] = frozenset()

    def of(self, host: str) -> Life:
        return self.lives.get(host, Life())

    def alive(self) -> frozenset[str]:
        return frozenset(host for host, life in self.lives.items() if life.alive)


def started(vitals: Vitals, host: str, plan: int, now_s: float) -> Vitals:
    """Its process was started, or found alive by a controller that takes over."""
    life = replace(
        vitals.of(host),
        plan=plan,
        started_s=now_s,
        heard_s=None,
        worked_s=None,
        intervals=(),
        exit=None,
    )
    return _with_life(vitals, host, life)


def heard(vitals: Vitals, host: str, now_s: float, *, work: bool) -> Vitals:
    """A record of this host was read. `work`: it shows that training goes on there."""
    life = replace(vitals.of(host), heard_s=now_s)
    if work:
        intervals = life.intervals
        if life.worked_s is not None:
            intervals = (*intervals[1 - INTERVALS_KEPT :], now_s - life.worked_s)
        life = replace(life, worked_s=now_s, intervals=intervals)
    return _with_life(vitals, host, life)


def exited(vitals: Vitals, host: str, code: int | None, log: str, now_s: float) -> Vitals:
    """Its process ended by itself. What that means, `react` says."""
    life = vitals.of(host)
    lived_s = now_s - life.started_s if life.started_s is not None else 0.0
    worked = life.worked_s is not None and lived_s >= WORKED_S
    recent = (at for at in life.failures if now_s - at < FAILURES_WITHIN_S and not worked)
    failures = (*recent, now_s)
    ended = replace(
        life,
        started_s=None,
        heard_s=None,
        failures=failures,
        pause_until_s=now_s + min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (len(failures) - 1)),
        exit=Exit(code=code, plan=life.plan, log=log),
    )
    return _with_life(vitals, host, ended)


def stopped(vitals: Vitals, host: str) -> Vitals:
    """We ended it ourselves: no failure, no pause."""
    return _with_life(
        vitals, host, replace(vitals.of(host), started_s=None, heard_s=None, exit=None)
    )


def not_had(vitals: Vitals, host: str, now_s: float, *, again_in_s: float = 2.0) -> Vitals:
    """It could not be started. A host that is away is asked for as long as the run goes on."""
    return _with_life(vitals, host, replace(vitals.of(host), pause_until_s=now_s + again_in_s))


def deaf(vitals: Vitals, now_s: float) -> Vitals:
    """The logbook could not be read until now: nobody's silence so far says anything."""
    lives = {host: _not_silent(life, now_s) for host, life in vitals.lives.items()}
    return replace(vitals, lives=lives)


def _not_silent(life: Life, now_s: float) -> Life:
    if not life.alive:
        return life
    return replace(life, started_s=now_s) if life.heard_s is None else replace(life, heard_s=now_s)


def _with_life(vitals: Vitals, host: str, life: Life) -> Vitals:
    return replace(vitals, lives={**vitals.lives, host: life})
