"""What a controller does about where its run stands. Pure: the clock is handed in.

Rounds are `exchange.ControllerSide`'s to decide; it is told here whom a round waits for.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from argosy.core.errors import HostError, PolicyError, SpecError, UserError
from argosy.core.job import Limits
from argosy.core.records import Commit, Crew, Drain, HostEvent
from argosy.exchange.controller import ControllerSide
from argosy.run.reconcile import crews
from argosy.run.state import HostState, RunState, SiteState
from argosy.run.vitals import Exit, Life, Vitals

CLOCK_OFF_MS = 60_000  # certificates bear a day, the order is by sequence: it is only worth a word
# Exit codes of a worker that another start would not change: a mistake in the specs, a refusal.
HOPELESS: dict[int | None, type[UserError]] = {2: SpecError, 3: PolicyError}
LAST_WORDS_S = 60.0  # after the last round, for the sites to say what they hold
# Once all have said it: for what else is on its way. Of machines that people start we never see
# that their processes end, and nobody should wait for that.
AFTERTHOUGHT_S = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What the user set for this run, and what it costs."""

    tokens: int
    limits: Limits
    price_per_hour: float  # of all hosts together
    price_per_gb: float  # of all links together: what one site posts, each of the others fetches
    stop: bool = False  # asked to end early


@dataclass(frozen=True, kw_only=True, slots=True)
class Append:
    body: Commit | Crew | Drain | HostEvent


@dataclass(frozen=True, kw_only=True, slots=True)
class Restart:
    """End the process of this host. That it is started again, `reconcile` sees to."""

    host: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Finish:
    outcome: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Fail:
    """The run cannot go on before somebody mended something. It can be resumed then."""

    error: type[UserError]
    what: str
    host: str | None  # whose log says more


Action = Append | Restart | Finish | Fail


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """Everything a decision may depend on."""

    state: RunState
    vitals: Vitals
    terms: Terms
    now_s: float
    heard_s: float  # when the newest record was read

    def life(self, host: str) -> Life:
        return self.vitals.of(host)

    def site_of(self, host: str) -> str:
        return next(site.name for site in self.state.sites.values() if host in site.hosts)


def react(seen: Seen, side: ControllerSide) -> tuple[Action, ...]:
    """What to do now. The state must contain everything this controller wrote before."""
    if seen.state.plan is None or seen.state.ended:
        return ()
    if failure := _failure(seen, side):
        return (failure,)
    if finish := _finish(seen, side):
        return (finish,)
    side.expect(expected(seen))
    return (*_events(seen), *_hung_too_long(seen), *_new_crews(seen), *_agreement(seen, side))


def expected(seen: Seen) -> frozenset[str]:
    """The sites whose contributions a round waits for: those that are at work.

    At first, all whose leader's process lives. Later one that comes back is waited for once it
    has said that it started: what it does before (loading, replaying) holds up nobody.
    """
    return frozenset(
        site.name
        for site in seen.state.sites.values()
        if site.crew and _at_work(seen, seen.life(site.crew.hosts[0]))
    )


def _at_work(seen: Seen, life: Life) -> bool:
    begun = seen.state.round == 0 or life.heard_s is not None
    return life.alive and begun and not life.hung(seen.now_s)


def _failure(seen: Seen, side: ControllerSide) -> Fail | None:
    if not side.leading:
        what = "another controller has taken the lead of this run"
        return Fail(error=HostError, what=what, host=None)
    for site in seen.state.sites.values():
        for host in site.hosts.values():
            if error := HOPELESS.get(_failed_with(seen, host.name)):
                what = f"{host.name} cannot do its part"
                return Fail(error=error, what=what, host=host.name)
            if other := _other_torch(seen.state, host):
                return Fail(error=HostError, what=other, host=None)
    return _nobody_left(seen)


def _nobody_left(seen: Seen) -> Fail | None:
    """A site may be lost on the way. One that never got to work would leave its sources out of
    the model without a word."""
    crewed = [site for site in seen.state.sites.values() if site.crew]
    lost = [site for site in crewed if all(seen.life(h).given_up for h in _crew(site))]
    never = [site for site in lost if site.posted_n == 0]
    if seen.state.last or not lost or not (never or len(lost) == len(crewed)):
        return None
    names = ", ".join(site.name for site in never or lost)
    what = f"{names}: every host failed again and again"
    return Fail(error=HostError, what=what, host=_crew((never or lost)[0])[0])


def _crew(site: SiteState) -> tuple[str, ...]:
    return site.crew.hosts if site.crew else ()


def _failed_with(seen: Seen, host: str) -> int | None:
    """The code with which its process failed. An end under an older plan is of no account."""
    end, plan = seen.life(host).exit, seen.state.plan
    if end is None or plan is None or end.plan < plan.number:
        return None
    return end.code


def _other_torch(state: RunState, host: HostState) -> str | None:
    wanted = state.roster.torch if state.roster else ""
    if not wanted or host.started is None or host.started.torch in ("", wanted):
        return None
    return f"{host.name} has torch {host.started.torch}, this run uses torch {wanted}"


def _finish(seen: Seen, side: ControllerSide) -> Finish | None:
    state = seen.state
    if not side.over(seen.now_s) or not state.kept:
        return None
    busy = crews(state) & seen.vitals.alive()
    if state.last and busy:
        said = all(_has_said_its_last(state, state.sites[seen.site_of(host)]) for host in busy)
        if seen.now_s - seen.heard_s < (AFTERTHOUGHT_S if said else LAST_WORDS_S):
            return None
    return Finish(outcome=state.draining.reason if state.draining else "done")


def _has_said_its_last(state: RunState, site: SiteState) -> bool:
    """What it holds after the last round, and how good that is on all that it has judged before."""
    assert state.last is not None, "asked when it is committed"
    told = {
        loss.round
        for losses in state.losses.values()
        for loss in losses[-1:]
        if loss.site == site.name
    }
    holds = site.digest is not None and site.digest.round == state.last.number
    return holds and told <= {state.last.number}


def _events(seen: Seen) -> Iterator[Append]:
    for site in seen.state.sites.values():
        for host in site.hosts.values():
            for what, detail in _noteworthy(seen, site, host):
                if what not in host.noted:
                    yield _event(what, site.name, host.name, detail)
        if site.deviates is not None and "deviates" not in site.noted:
            detail = f"its model of round {site.deviates} is not the agreed one; it reloads"
            yield _event("deviates", site.name, "", detail)


def _noteworthy(seen: Seen, site: SiteState, host: HostState) -> Iterator[tuple[str, str]]:
    if host.started and abs(host.started.clock_offset_ms) >= CLOCK_OFF_MS:
        yield "clock", _clock(host.name, host.started.clock_offset_ms)
    if seen.state.last:
        return  # they end, one after the other
    life = seen.life(host.name)
    if life.exit:
        yield "lost", _how_it_ended(host.name, life.exit)
    if life.given_up:
        yield "given up", f"{host.name} failed {len(life.failures)} times and is left out"
    if life.hung(seen.now_s) and host.name in _crew(site)[:1]:
        yield "hung", f"{host.name} has been silent for {life.silent_s(seen.now_s):.0f} s"
    elif "hung" in host.noted and life.heard_s is not None:
        yield "awake", f"{host.name} is heard again"


def _hung_too_long(seen: Seen) -> Iterator[Restart]:
    for site in seen.state.sites.values():
        for leader in _crew(site)[:1]:
            if seen.life(leader).hopelessly_hung(seen.now_s):
                yield Restart(host=leader)


def _new_crews(seen: Seen) -> Iterator[Append]:
    """A site whose leader is lost is led by the next of its hosts that lives."""
    if seen.state.last:
        return
    for site in seen.state.sites.values():
        if site.crew is None or not _lost(seen, site.crew.hosts[0]):
            continue
        able = [host for host in site.crew.hosts if _can_lead(seen, host)]
        if able:
            rest = [host for host in site.crew.hosts if host not in able]
            hosts = (*able, *rest)
            yield Append(body=Crew(site=site.name, epoch=site.crew.epoch + 1, hosts=hosts))


def _lost(seen: Seen, host: str) -> bool:
    """It ran and runs no more, or does not answer. One that is only being started is not lost."""
    life = seen.life(host)
    return life.exit is not None or life.hung(seen.now_s) or host in seen.vitals.away


def _can_lead(seen: Seen, host: str) -> bool:
    return seen.life(host).alive and not _lost(seen, host)


def _agreement(seen: Seen, side: ControllerSide) -> Iterator[Append]:
    """A drain comes before the commit that fills the measure: nobody begins another window."""
    reason = None if seen.state.draining else _enough(seen, side)
    if reason:
        yield Append(body=side.drain(reason))
    elif commit := side.decide(seen.now_s):
        yield Append(body=commit)


def _enough(seen: Seen, side: ControllerSide) -> str | None:
    """Why the run should end now. Before a limit is passed, one more round must still fit."""
    state, terms = seen.state, seen.terms
    hours = (state.active_ms / 1000 + seen.now_s - seen.heard_s) / 3600
    hours += (state.seconds_per_round or 0.0) / 3600
    moved_gb = sum(site.bytes_posted for site in state.sites.values()) / 1e9
    money = hours * terms.price_per_hour + moved_gb * terms.price_per_gb
    posted = sum(post.tokens for _, post in side.agreement.outstanding())
    if terms.stop:
        return "stopped"
    if state.tokens + posted >= terms.tokens:
        return "done"
    if terms.limits.hours is not None and hours >= terms.limits.hours:
        return "hours"
    if terms.limits.money is not None and money >= terms.limits.money:
        return "money"
    return None


def _how_it_ended(host: str, end: Exit) -> str:
    match end.code:
        case None:
            return f"{host} ended"
        case 0:
            return f"{host} left before the run was done"
        case code if code < 0:
            return f"{host} was killed (signal {-code})"
        case code:
            return f"{host} ended with status {code}"


def _clock(host: str, offset_ms: int) -> str:
    direction = "ahead" if offset_ms > 0 else "behind"
    hours, seconds = divmod(abs(offset_ms) // 1000, 3600)
    spread = f"{hours} h {seconds // 60} min" if hours else f"{seconds} s"
    return (
        f"the clock of {host} is {spread} {direction}; the order of records does not depend on it"
    )


def _event(what: str, site: str, host: str, detail: str) -> Append:
    return Append(body=HostEvent(what=what, site=site, host=host, detail=detail))
