"""Judges of a finished run: its records in, "ok", "bad, because" or "unknown, because" out. Pure.

They ask none of the code that made the run. What is allowed is handed in, as the test that
planted the data knows it by hand.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from argosy.core.records import (
    CONTROLLER,
    Access,
    Commit,
    Contribution,
    Digest,
    Ended,
    Entry,
    Evaluation,
    HostStarted,
    Lead,
    Progress,
    Roster,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ok:
    """It holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bad:
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unknown:
    why: str


Judgement = Ok | Bad | Unknown
OK = Ok()


def residency_kept(
    entries: Sequence[Entry],
    opened_in: Mapping[str, Collection[str]],
    sent_as: Mapping[str, Collection[str]],
) -> Judgement:
    """`opened_in`: the countries in which a source may be read; `sent_as`: the forms in which what
    was learned from it may leave."""
    country: dict[str, str] = {}
    read_at: defaultdict[str, set[str]] = defaultdict(set)
    for entry in entries:
        site = entry.writer.site
        match entry.body:
            case Roster(seats=seats):
                country |= {seat.site: seat.country for seat in seats}
            case Access(source=source):
                read_at[site].add(source)
                if country.get(site) not in opened_in.get(source, ()):
                    return Bad(why=f"seq {entry.seq}: {site} in {country.get(site)} read {source}")
            case Contribution(form=form):
                if not read_at[site]:
                    return Bad(why=f"seq {entry.seq}: {site} sent what it learned from nothing")
                for source in sorted(read_at[site]):
                    if form not in sent_as.get(source, ()):
                        return Bad(why=f"seq {entry.seq}: {site} sent {source} as {form}")
            case _:
                pass
    return OK if read_at else Unknown(why="nobody read anything")


def same_model(entries: Sequence[Entry], *, at_the_end: Collection[str] = ()) -> Judgement:
    """After each round, every site that says what it holds holds what the checkpointer replayed.

    Of the sites in `at_the_end`, each must have said so of the last round.
    """
    said: defaultdict[tuple[int, int], dict[str, str]] = defaultdict(dict)
    for entry in entries:
        if isinstance(entry.body, Digest):
            said[entry.body.fragment, entry.body.round][entry.writer.site] = entry.body.digest
    compared = False
    for (_, round), digests in sorted(said.items()):
        reference = digests.get(CONTROLLER)
        for site, digest in sorted(digests.items()):
            if reference is not None and digest != reference:
                return Bad(why=f"round {round}: {site} holds another model than the log says")
        compared |= reference is not None and len(digests) > 1
    last = max((commit.round for commit in _commits(entries)), default=0)
    for site in sorted(at_the_end):
        told = [digests for (_, round), digests in said.items() if round == last]
        if not any(site in digests and CONTROLLER in digests for digests in told):
            return Unknown(why=f"{site} or the checkpointer does not say what it held after {last}")
    return OK if compared else Unknown(why="no site's model was compared with the log's")


def no_round_twice(entries: Sequence[Entry]) -> Judgement:
    """Rounds count 1, 2, 3, ...; each contribution is named once, and only what was posted."""
    last: defaultdict[int, int] = defaultdict(int)
    posted: set[tuple[str, int, int, int, int]] = set()
    named: dict[tuple[str, int, int], int] = {}
    tokens: defaultdict[int, int] = defaultdict(int)
    for seq, site, body in _exchange(entries):
        fragment = body.fragment
        if isinstance(body, Contribution):
            posted.add((site, fragment, body.n, body.tokens, body.steps))
            continue
        if body.round != last[fragment] + 1:
            return Bad(why=f"seq {seq}: round {body.round} follows round {last[fragment]}")
        last[fragment] = body.round
        for m in body.members:
            key = (m.site, fragment, m.n)
            if (*key, m.tokens, m.steps) not in posted:
                return Bad(why=f"seq {seq}: round {body.round} names what {m.site} did not post")
            if key in named:
                both = f"rounds {named[key]} and {body.round}"
                return Bad(why=f"seq {seq}: number {m.n} of {m.site} is in {both}")
            named[key] = body.round
            tokens[fragment] += m.tokens
        if body.tokens != tokens[fragment]:
            claimed = f"{body.tokens} tokens are claimed, {tokens[fragment]} were committed"
            return Bad(why=f"seq {seq}: {claimed}")
    return OK if last else Unknown(why="no round was committed")


def ledger_closes(entries: Sequence[Entry], *, disturbed: Collection[str] = ()) -> Judgement:
    """trained = committed + pending + lost, and only sites that were killed or rolled back lose.

    When the log has ended, nothing is pending at a site that was not disturbed.
    """
    ended = any(isinstance(entry.body, Ended) for entry in entries)
    sites = sorted({e.writer.site for e in entries if isinstance(e.body, Contribution)})
    for site in sites:
        why = _wrong_in_ledger(entries, site, may_lose=site in disturbed)
        if why is None and ended and site not in disturbed:
            why = _left_over(entries, site)
        if why is not None:
            return Bad(why=why)
    return OK if sites else Unknown(why="no site posted anything")


def _wrong_in_ledger(entries: Sequence[Entry], site: str, *, may_lose: bool) -> str | None:
    committed = 0
    for seq, writer, body in _exchange(entries):
        if isinstance(body, Commit):
            committed += _tokens_of(body, site)
        elif writer == site and body.fragment == 0:
            # A site posts again only when its last post was named or has expired; and if it has
            # expired, its tokens are in this one again.
            missing = body.trained - committed - body.tokens
            if missing < 0:
                return f"seq {seq}: {site} counts {-missing} tokens twice"
            if missing > 0 and not may_lose:
                return f"seq {seq}: {site} was left alone and lost {missing} tokens"
    return None


def _tokens_of(commit: Commit, site: str) -> int:
    """From fragment 0: the others carry the same tokens."""
    return sum(m.tokens for m in commit.members if m.site == site and commit.fragment == 0)


def _left_over(entries: Sequence[Entry], site: str) -> str | None:
    committed = sum(_tokens_of(commit, site) for commit in _commits(entries))
    trained = max((p.trained for p in _progress(entries, site)), default=committed)
    if trained > committed:
        return f"the run ended, and {trained - committed} tokens of {site} were not committed"
    return None


def every_host_released(entries: Sequence[Entry], alive: Collection[str]) -> Judgement:
    """`alive`: the hosts on which something still runs, as their provider says."""
    started = {entry.writer.host for entry in entries if isinstance(entry.body, HostStarted)}
    left = sorted(started & set(alive))
    if left:
        return Bad(why=f"still at work: {', '.join(left)}")
    return OK if started else Unknown(why="no host started")


def survivors_unharmed(
    entries: Sequence[Entry],
    undisturbed: Sequence[Entry],
    survivors: Collection[str],
    *,
    from_seq: int,
    to_seq: int,
    factor: float = 1.5,
) -> Judgement:
    """No gap between two steps of a survivor, told between the two records, is longer than
    `factor` times the 99th percentile of its gaps in the undisturbed run."""
    for site in sorted(survivors):
        usual = sorted(p.longest_gap_s for p in _progress(undisturbed, site))
        around = [
            p.longest_gap_s for p in _progress(entries, site, from_seq=from_seq, to_seq=to_seq)
        ]
        if not usual or not around:
            return Unknown(why=f"{site} did not tell how it went")
        limit = factor * usual[math.ceil(0.99 * len(usual)) - 1]
        if max(around) > limit:
            return Bad(why=f"{site} stood still for {max(around):.2f} s, more than {limit:.2f} s")
    return OK if survivors else Unknown(why="nobody survived")


def loss_close(
    entries: Sequence[Entry], undisturbed: Sequence[Entry], *, within: float = 0.01
) -> Judgement:
    """The mean loss over the sources at the end is at most so much higher."""
    here, there = _final_loss(entries), _final_loss(undisturbed)
    if not here or here.keys() != there.keys():
        return Unknown(why="the two runs did not evaluate the same sources")
    ratio = sum(here.values()) / sum(there.values())
    if math.isfinite(ratio) and ratio <= 1 + within:
        return OK
    return Bad(why=f"the loss is {100 * (ratio - 1):.2f} % higher than undisturbed")


def _final_loss(entries: Sequence[Entry]) -> dict[str, float]:
    return {e.body.source: e.body.loss for e in entries if isinstance(e.body, Evaluation)}


def _progress(
    entries: Sequence[Entry], site: str, *, from_seq: int = 0, to_seq: float = math.inf
) -> Iterator[Progress]:
    for entry in entries:
        here = entry.writer.site == site and from_seq <= entry.seq <= to_seq
        if here and isinstance(entry.body, Progress):
            yield entry.body


def _exchange(entries: Sequence[Entry]) -> Iterator[tuple[int, str, Commit | Contribution]]:
    """(seq, site, body) of what counts: nothing of an older life of a host, and no commit of a
    controller that does not hold the highest term."""
    term, leader = 0, None
    newest_life: defaultdict[tuple[str, str], int] = defaultdict(int)
    for entry in entries:
        writer = entry.writer
        host = (writer.site, writer.host)
        newest_life[host] = max(newest_life[host], writer.incarnation)
        if writer.incarnation < newest_life[host]:
            continue
        match entry.body:
            case Lead() if writer.site == CONTROLLER and entry.body.term > term:
                term, leader = entry.body.term, writer
            case Commit() if entry.body.term == term and writer == leader:
                yield entry.seq, writer.site, entry.body
            case Contribution():
                yield entry.seq, writer.site, entry.body
            case _:
                pass


def _commits(entries: Sequence[Entry]) -> Iterator[Commit]:
    return (body for _, _, body in _exchange(entries) if isinstance(body, Commit))
