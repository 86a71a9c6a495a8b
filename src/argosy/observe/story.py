"""What happened in a run, told from its logbook: the numbers every page shows. Pure."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from argosy.core.records import (
    CONTROLLER,
    Access,
    Checkpointed,
    Commit,
    Contribution,
    Crew,
    Ended,
    Entry,
    Evaluation,
    HostEvent,
    HostStarted,
    Planned,
    Progress,
    Roster,
    RunBegun,
)
from argosy.exchange.agreement import Agreement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from argosy.core.plan import Plan
    from argosy.exchange.ledger import Ledger

BYTES_PER_FP32 = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """One moment on the time line."""

    at_ms: int
    site: str
    host: str
    what: str
    text: str

    @property
    def words(self) -> str:
        """In one phrase, with nothing said twice."""
        return worded(self.what, self.text)


def worded(what: str, text: str) -> str:
    """ "lost: its process was killed", but "tokyo-1 returned" as it is."""
    return text if what in text else f"{what}: {text}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    """One incarnation of a host, from its start to its last sign of life.

    A host that does not lead its site writes little: it lives as long as the site it trains with
    writes, until it is told to be lost.
    """

    site: str
    host: str
    incarnation: int
    from_ms: int
    to_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    number: int
    at_ms: int
    members: tuple[str, ...]
    tokens: int  # in this round
    last: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteStory:
    site: str
    country: str
    hosts: tuple[str, ...]
    sources: tuple[str, ...]
    trained: int
    committed: int
    pending: int
    lost: tuple[tuple[str, int], ...]
    rounds_in: int
    payload_up: int  # bytes of the blobs it posted
    payload_down: int  # bytes of the others' blobs that commits named
    model_down: int  # the model that each host leading the site began from, counted apart
    counted_up: int | None  # by the relay, everything included; None without one
    counted_down: int | None
    allreduce_each_way: int  # a ring all-reduce of fp32 gradients for the same tokens
    longest_gap_s: float
    waited_s: float
    computed_s: float
    tokens_per_s: float  # as the site last told
    last_ms: int  # its last record


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    run: str = ""
    name: str = ""
    outcome: str = "running"
    from_ms: int = 0
    to_ms: int = 0
    parameters: int = 0
    tokens: int = 0
    plan: "Plan | None" = None
    sites: tuple[SiteStory, ...] = ()
    rounds: tuple[Round, ...] = ()
    losses: tuple[
        tuple[str, tuple[tuple[int, float], ...]], ...
    ] = ()  # source -> (round, bits/byte)
    training: tuple[tuple[str, tuple[tuple[int, float], ...]], ...] = ()  # site -> (tokens, nats)
    marks: tuple[Mark, ...] = ()
    lives: tuple[Life, ...] = ()
    accesses: tuple[tuple[str, str, Access], ...] = ()  # site, host, what was opened
    records: int = 0

    @property
    def seconds(self) -> float:
        return max(0, self.to_ms - self.from_ms) / 1000


@dataclass(slots=True)
class _Notes:
    """What one pass over the log gathers."""

    begun: RunBegun | None = None
    plan: "Plan | None" = None
    ended: Ended | None = None
    parameters: int = 0
    model_bytes: int = 0
    countries: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, dict[str, None]] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    trainers: dict[str, set[tuple[str, int]]] = field(default_factory=dict)  # who led a site
    posts: dict[tuple[str, int, int], Contribution] = field(default_factory=dict)
    progress: dict[str, list[tuple[int, Progress]]] = field(default_factory=dict)
    losses: dict[str, dict[int, float]] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    lives: dict[tuple[str, str, int], tuple[int, int]] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)  # host -> incarnation, until it is lost
    crews: dict[str, tuple[str, ...]] = field(default_factory=dict)
    accesses: list[tuple[str, str, Access]] = field(default_factory=list)
    at_of_seq: dict[int, int] = field(default_factory=dict)


def tell(
    entries: "Iterable[Entry]", counters: "Mapping[str, tuple[int, int]] | None" = None
) -> Story:
    """The story of a run from its records; `counters` gives bytes (up, down) a relay counted."""
    notes, agreement, first, last, count = _Notes(), Agreement(), 0, 0, 0
    for entry in entries:
        agreement.hear(entry)
        if isinstance(entry.body, HostStarted):
            notes.offsets[entry.writer.host] = entry.body.clock_offset_ms
        at_ms = entry.at_ms - notes.offsets.get(entry.writer.host, 0)
        notes.at_of_seq[entry.seq] = at_ms
        first, last, count = first or at_ms, max(last, at_ms), count + 1
        _note(notes, entry, at_ms)

    commits = agreement.commits.get(0, [])
    steps = _synchronous_steps(commits, notes)
    ledger = agreement.ledger()
    sites = tuple(
        _site(site, notes, commits, ledger.get(site), (counters or {}).get(site), steps)
        for site in notes.countries
        if site != CONTROLLER
    )
    return Story(
        run=notes.begun.run if notes.begun else "",
        name=notes.begun.name if notes.begun else "",
        outcome=notes.ended.outcome if notes.ended else "running",
        from_ms=first,
        to_ms=last,
        parameters=notes.parameters,
        tokens=commits[-1][1].tokens if commits else 0,
        plan=notes.plan,
        sites=sites,
        rounds=_rounds(commits, notes),
        losses=tuple((name, tuple(sorted(by.items()))) for name, by in notes.losses.items()),
        training=tuple(
            (site, tuple((p.trained, p.loss) for _, p in seen))
            for site, seen in notes.progress.items()
        ),
        marks=tuple(notes.marks),
        lives=tuple(
            Life(site=s, host=h, incarnation=i, from_ms=a, to_ms=b)
            for (s, h, i), (a, b) in notes.lives.items()
        ),
        accesses=tuple(notes.accesses),
        records=count,
    )


def _note(notes: _Notes, entry: Entry, at_ms: int) -> None:
    writer = entry.writer
    if writer.site != CONTROLLER:
        _note_life(notes, entry, at_ms)
    match entry.body:
        case RunBegun() as begun:
            notes.begun = begun
        case Planned(plan=plan):
            notes.plan, notes.parameters = plan, plan.parameters
        case Roster(seats=seats):
            notes.countries.update({seat.site: seat.country for seat in seats})
            for seat in seats:
                notes.hosts.setdefault(seat.site, {})[seat.host] = None
        case Checkpointed() as checkpoint:
            notes.parameters = checkpoint.parameters
            notes.model_bytes = notes.model_bytes or checkpoint.bytes
        case HostStarted():
            word = "started" if writer.incarnation == 1 else "returned"
            _mark(notes, entry, at_ms, word, f"{writer.host} {word}")
        case Contribution() as post:
            notes.posts[(writer.site, post.fragment, post.n)] = post
        case Ended() as ended:
            notes.ended = ended
        case _:
            _note_measures(notes, entry, at_ms)


def _note_life(notes: _Notes, entry: Entry, at_ms: int) -> None:
    writer = entry.writer
    if isinstance(entry.body, Contribution | Progress | Evaluation):  # its leader's word
        notes.trainers.setdefault(writer.site, set()).add((writer.host, writer.incarnation))
    notes.newest[writer.host] = writer.incarnation
    for host in {writer.host, *notes.crews.get(writer.site, ())} & notes.newest.keys():
        life = (writer.site, host, notes.newest[host])
        notes.lives[life] = (notes.lives.get(life, (at_ms, at_ms))[0], at_ms)


def _note_measures(notes: _Notes, entry: Entry, at_ms: int) -> None:
    match entry.body:
        case HostEvent(what=what, detail=detail, site=site, host=host):
            notes.marks.append(Mark(at_ms=at_ms, site=site, host=host, what=what, text=detail))
            if what == "lost":
                notes.newest.pop(host, None)
        case Progress() as progress:
            notes.progress.setdefault(entry.writer.site, []).append((at_ms, progress))
        case Evaluation() as seen:
            notes.losses.setdefault(seen.source, {})[seen.round] = seen.bits_per_byte
        case Access() as access:
            notes.accesses.append((entry.writer.site, entry.writer.host, access))
        case Crew(site=site, epoch=epoch, hosts=hosts):
            notes.crews[site] = hosts
            if epoch > 1:
                words = f"{site} trains with {', '.join(hosts)}"
                _mark(notes, entry, at_ms, "regroup", words, site)
        case _:
            pass


def _mark(
    notes: _Notes, entry: Entry, at_ms: int, what: str, text: str, site: str | None = None
) -> None:
    notes.marks.append(
        Mark(
            at_ms=at_ms,
            site=site or entry.writer.site,
            host=entry.writer.host if site is None else "",
            what=what,
            text=text,
        )
    )


def _rounds(commits: list[tuple[int, Commit]], notes: _Notes) -> tuple[Round, ...]:
    return tuple(
        Round(
            number=commit.round,
            at_ms=notes.at_of_seq[seq],
            members=tuple(member.site for member in commit.members),
            tokens=sum(member.tokens for member in commit.members),
            last=commit.last,
        )
        for seq, commit in commits
    )


def _synchronous_steps(commits: list[tuple[int, Commit]], notes: _Notes) -> float:
    """Optimizer steps of synchronous training over the same sites that see the same tokens."""
    members = [m for _, commit in commits for m in commit.members if m.steps]
    sites = max(1, len([site for site in notes.countries if site != CONTROLLER]))
    if not members:
        return 0.0
    tokens_per_step = sum(m.tokens for m in members) / sum(m.steps for m in members)
    return sum(m.tokens for m in members) / (tokens_per_step * sites)


def _site(
    site: str,
    notes: _Notes,
    commits: list[tuple[int, Commit]],
    ledger: "Ledger | None",
    counted: tuple[int, int] | None,
    steps: float,
) -> SiteStory:
    sizes = {key: sum(shard.bytes for shard in post.shards) for key, post in notes.posts.items()}
    named = [(m.site, c.fragment, m.n) for _, c in commits for m in c.members]
    progress = [p for _, p in notes.progress.get(site, [])]
    plan = next((s for s in notes.plan.sites if s.site == site), None) if notes.plan else None
    n = max(1, len(notes.countries) - 1)
    return SiteStory(
        site=site,
        country=notes.countries[site],
        hosts=tuple(notes.hosts.get(site, {})),
        sources=plan.sources if plan else (),
        trained=ledger.trained if ledger else 0,
        committed=ledger.committed if ledger else 0,
        pending=ledger.pending if ledger else 0,
        lost=tuple(sorted(ledger.lost.items())) if ledger else (),
        rounds_in=sum(1 for key in named if key[0] == site),
        payload_up=sum(size for key, size in sizes.items() if key[0] == site),
        payload_down=sum(sizes.get(key, 0) for key in named if key[0] != site),
        model_down=notes.model_bytes * len(notes.trainers.get(site, ())),
        counted_up=counted[0] if counted else None,
        counted_down=counted[1] if counted else None,
        allreduce_each_way=int(2 * (n - 1) / n * BYTES_PER_FP32 * notes.parameters * steps),
        longest_gap_s=max((p.longest_gap_s for p in progress), default=0.0),
        waited_s=sum(p.wait_s for p in progress),
        computed_s=sum(p.compute_s for p in progress),
        tokens_per_s=progress[-1].tokens_per_s if progress else 0.0,
        last_ms=max((to for (s, _, _), (_, to) in notes.lives.items() if s == site), default=0),
    )
