"""Where a run stands, computed from its records alone. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from argosy.core.plan import Plan
from argosy.core.records import (
    CONTROLLER,
    Access,
    Checkpointed,
    Commit,
    Contribution,
    Crew,
    Digest,
    Drain,
    Ended,
    Entry,
    Evaluation,
    HostEvent,
    HostStarted,
    Lead,
    Planned,
    Progress,
    Roster,
    RunBegun,
    Unknown,
)

# A gap in the records longer than this was a pause of the run (the controller was away and the
# sites had nothing to say): it costs neither hours nor money.
LONGEST_SILENCE_MS = 60_000
RATE_OVER_ROUNDS = 8
KEPT_DIGESTS = 64  # rounds; a site that lags further behind is judged when it has caught up


@dataclass(frozen=True, kw_only=True, slots=True)
class HostState:
    """One host as its own records show it."""

    name: str
    incarnation: int = 0  # 0: it has not started yet
    started: HostStarted | None = None
    heard_seq: int = 0
    noted: frozenset[str] = frozenset()  # events about it since it last started


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteState:
    name: str
    country: str
    hosts: Mapping[str, HostState] = field(default_factory=dict)
    crew: Crew | None = None
    progress: Progress | None = None  # the newest
    trained: int = 0  # tokens ever trained, as its newest record says
    posted_n: int = 0  # its newest contribution
    committed_tokens: int = 0
    bytes_posted: int = 0
    digest: Digest | None = None
    deviates: int | None = None  # the round since which its model is not the agreed one
    noted: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    number: int
    seq: int
    plan: int
    members: tuple[str, ...]
    tokens: int  # committed up to and including this round
    at_ms: int
    active_ms: int  # how long the run had been at work
    last: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    round: int
    site: str
    nats: float
    bits_per_byte: float
    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One line for a person: what happened where."""

    seq: int
    at_ms: int
    what: str
    site: str
    host: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunState:
    run: RunBegun | None = None
    seq: int = 0
    chain: str = ""
    began_ms: int = 0
    at_ms: int = 0  # the newest record's time, on the logbook's clock
    active_ms: int = 0
    term: int = 0
    lives: int = 0  # the controller's newest incarnation
    roster: Roster | None = None
    plan: Plan | None = None
    why_planned: str = ""
    sites: Mapping[str, SiteState] = field(default_factory=dict)
    rounds: tuple[Round, ...] = ()
    losses: Mapping[str, tuple[Loss, ...]] = field(default_factory=dict)
    checkpoint: Checkpointed | None = None
    reference: Mapping[int, str] = field(default_factory=dict)  # round -> the agreed model's digest
    events: tuple[Event, ...] = ()
    draining: Drain | None = None
    ended: Ended | None = None
    offsets: Mapping[tuple[str, str], int] = field(default_factory=dict)  # clocks of the hosts

    @property
    def round(self) -> int:
        return self.rounds[-1].number if self.rounds else 0

    @property
    def tokens(self) -> int:
        return self.rounds[-1].tokens if self.rounds else 0

    @property
    def last(self) -> Round | None:
        """The drain round, once it is committed."""
        return self.rounds[-1] if self.rounds and self.rounds[-1].last else None

    @property
    def kept(self) -> bool:
        """Whether the model of the newest round is safe in a checkpoint."""
        return self.checkpoint is not None and self.checkpoint.round >= self.round

    @property
    def tokens_per_s(self) -> float | None:
        """Committed tokens per second over the newest rounds; None before there are two."""
        if len(self.rounds) < 2:
            return None
        early, late = self.rounds[max(0, len(self.rounds) - 1 - RATE_OVER_ROUNDS)], self.rounds[-1]
        passed_ms = late.active_ms - early.active_ms
        return (late.tokens - early.tokens) / passed_ms * 1000 if passed_ms > 0 else None

    @property
    def seconds_per_round(self) -> float | None:
        if len(self.rounds) < 2:
            return None
        early, late = self.rounds[max(0, len(self.rounds) - 1 - RATE_OVER_ROUNDS)], self.rounds[-1]
        return (late.active_ms - early.active_ms) / 1000 / (late.number - early.number)

    def seconds_left(self, tokens: int) -> float | None:
        """How long until `tokens` are committed, at the newest rounds' pace."""
        if self.last:
            return 0.0
        pace = self.tokens_per_s
        return max(0, tokens - self.tokens) / pace if pace else None


def fold(state: RunState, entry: Entry) -> RunState:
    """The state one record later. Commits count by rule 6; `exchange.Agreement` judges members."""
    at_ms = _time(state, entry)
    step = min(max(0, at_ms - state.at_ms), LONGEST_SILENCE_MS) if state.seq else 0
    heard = replace(
        state,
        seq=entry.seq,
        chain=entry.chain,
        began_ms=state.began_ms or at_ms,
        at_ms=max(state.at_ms, at_ms),
        active_ms=state.active_ms + step,
    )
    return _fold_body(_heard_writer(heard, entry), entry)


def state_of(entries: Iterable[Entry]) -> RunState:
    state = RunState()
    for entry in entries:
        state = fold(state, entry)
    return state


def _time(state: RunState, entry: Entry) -> int:
    """When it was written, on the logbook's clock. A host whose clock is not known moves nothing."""
    if entry.writer.site == CONTROLLER:
        return entry.at_ms
    if isinstance(entry.body, HostStarted):
        return entry.at_ms - entry.body.clock_offset_ms
    offset = state.offsets.get((entry.writer.site, entry.writer.host))
    return state.at_ms if offset is None else entry.at_ms - offset


def _fold_body(state: RunState, entry: Entry) -> RunState:  # noqa: C901, PLR0911, PLR0912 - one line a kind
    writer = entry.writer
    match entry.body:
        case RunBegun() as run:
            return replace(state, run=run)
        case Lead(term=term):
            return replace(state, term=max(state.term, term))
        case Roster() as roster:
            return _fold_roster(state, roster)
        case Crew() as crew:
            return _at_site(state, crew.site, crew=crew)
        case Planned(plan=plan, reason=reason):
            return replace(state, plan=plan, why_planned=reason)
        case HostStarted() as started:
            return _fold_start(state, entry, started)
        case HostEvent() as event:
            return _fold_event(state, entry, event)
        case Contribution() as post:
            return _fold_post(state, writer.site, post)
        case Commit() as commit:
            return _fold_commit(state, entry, commit)
        case Drain() as drain:
            return replace(state, draining=state.draining or drain)
        case Checkpointed() as checkpoint:
            return _fold_checkpoint(state, checkpoint)
        case Digest() as digest:
            return _fold_digest(state, writer.site, digest)
        case Progress() as progress:
            return _fold_progress(state, writer.site, progress)
        case Evaluation() as seen:
            return _fold_evaluation(state, writer.site, seen)
        case Ended() as ended:
            return replace(state, ended=ended)
        case Access() | Unknown():
            return state
        case _:  # pragma: no cover - mypy proves that nothing is left
            assert_never(entry.body)


def _heard_writer(state: RunState, entry: Entry) -> RunState:
    writer = entry.writer
    if writer.site == CONTROLLER:
        lives = max(state.lives, writer.incarnation if writer.host == CONTROLLER else 0)
        return replace(state, lives=lives)
    site = state.sites.get(writer.site)
    if site is None or writer.host not in site.hosts:
        return state
    return _at_host(state, writer.site, writer.host, heard_seq=entry.seq)


def _fold_roster(state: RunState, roster: Roster) -> RunState:
    sites = dict(state.sites)
    for seat in roster.seats:
        if seat.site == CONTROLLER:
            continue
        known = sites.get(seat.site, SiteState(name=seat.site, country=seat.country))
        hosts = {seat.host: HostState(name=seat.host)} | dict(known.hosts)
        sites[seat.site] = replace(known, country=seat.country, hosts=hosts)
    return replace(state, roster=roster, sites=sites)


def _fold_start(state: RunState, entry: Entry, started: HostStarted) -> RunState:
    site, host = entry.writer.site, entry.writer.host
    if site not in state.sites or host not in state.sites[site].hosts:
        return state
    state = replace(state, offsets={**state.offsets, (site, host): started.clock_offset_ms})
    incarnation = entry.writer.incarnation
    return _at_host(state, site, host, incarnation=incarnation, started=started, noted=frozenset())


def _fold_event(state: RunState, entry: Entry, event: HostEvent) -> RunState:
    seen = Event(
        seq=entry.seq,
        at_ms=state.at_ms,
        what=event.what,
        site=event.site,
        host=event.host,
        detail=event.detail,
    )
    state = replace(state, events=(*state.events, seen))
    site = state.sites.get(event.site)
    if site is None:
        return state
    if event.host in site.hosts:
        noted = site.hosts[event.host].noted
        noted = noted - {"hung"} if event.what == "awake" else noted | {event.what}
        return _at_host(state, event.site, event.host, noted=noted)
    return _at_site(state, event.site, noted=site.noted | {event.what})


def _fold_post(state: RunState, name: str, post: Contribution) -> RunState:
    site = state.sites.get(name)
    if site is None:
        return state
    return _at_site(
        state,
        name,
        posted_n=max(site.posted_n, post.n),
        trained=post.trained,
        bytes_posted=site.bytes_posted + sum(shard.bytes for shard in post.shards),
    )


def _fold_commit(state: RunState, entry: Entry, commit: Commit) -> RunState:
    void = commit.term < state.term or commit.round != state.round + 1 or state.last is not None
    if void:
        return state
    made = Round(
        number=commit.round,
        seq=entry.seq,
        plan=commit.plan,
        members=tuple(member.site for member in commit.members),
        tokens=commit.tokens,
        at_ms=state.at_ms,
        active_ms=state.active_ms,
        last=commit.last,
    )
    for member in commit.members:
        if member.site in state.sites:
            tokens = state.sites[member.site].committed_tokens + member.tokens
            state = _at_site(state, member.site, committed_tokens=tokens)
    return replace(state, rounds=(*state.rounds, made))


def _fold_checkpoint(state: RunState, checkpoint: Checkpointed) -> RunState:
    older = state.checkpoint is not None and state.checkpoint.round > checkpoint.round
    return replace(
        state,
        checkpoint=state.checkpoint if older else checkpoint,
        reference=_with_digest(state.reference, checkpoint.round, checkpoint.digest),
    )


def _with_digest(known: Mapping[int, str], number: int, digest: str) -> Mapping[int, str]:
    kept = sorted({**known, number: digest}.items())
    return dict(kept[-KEPT_DIGESTS:])


def _fold_digest(state: RunState, name: str, digest: Digest) -> RunState:
    if name == CONTROLLER:
        reference = _with_digest(state.reference, digest.round, digest.digest)
        state = replace(state, reference=reference)
        for site in state.sites.values():
            if site.digest and site.digest.round == digest.round:
                state = _judge(state, site.name, site.digest)
        return state
    if name not in state.sites:
        return state
    return _judge(_at_site(state, name, digest=digest), name, digest)


def _judge(state: RunState, name: str, digest: Digest) -> RunState:
    """The reference is replay from a checkpoint, never a vote."""
    agreed = state.reference.get(digest.round)
    site = state.sites[name]
    if agreed is None:
        return state
    if agreed == digest.digest:
        return _at_site(state, name, deviates=None, noted=site.noted - {"deviates"})
    return _at_site(state, name, deviates=site.deviates or digest.round)


def _fold_progress(state: RunState, name: str, progress: Progress) -> RunState:
    if name not in state.sites:
        return state
    return _at_site(state, name, progress=progress, trained=progress.trained)


def _fold_evaluation(state: RunState, name: str, seen: Evaluation) -> RunState:
    loss = Loss(
        round=seen.round,
        site=name,
        nats=seen.loss,
        bits_per_byte=seen.bits_per_byte,
        tokens=seen.tokens,
    )
    told = (*state.losses.get(seen.source, ()), loss)
    return replace(state, losses={**state.losses, seen.source: told})


def _at_site(state: RunState, name: str, **changes: object) -> RunState:
    if name not in state.sites:
        return state
    changed = replace(state.sites[name], **changes)  # type: ignore[arg-type]
    return replace(state, sites={**state.sites, name: changed})


def _at_host(state: RunState, name: str, host: str, **changes: object) -> RunState:
    site = state.sites[name]
    changed = replace(site.hosts[host], **changes)  # type: ignore[arg-type]
    return _at_site(state, name, hosts={**site.hosts, host: changed})
