"""What counts in a log, read a second way: slowly, from the rules, by looking back at all that was.

The simulation holds Agreement against this. It shares no code with the exchange.
"""

from dataclasses import dataclass, field

from argosy.core.plan import Plan
from argosy.core.records import (
    CONTROLLER,
    Body,
    Commit,
    Contribution,
    Crew,
    Ended,
    Entry,
    Lead,
    Planned,
    Writer,
)


@dataclass(slots=True)
class Verdict:
    commits: list[Entry] = field(default_factory=list)
    posts: list[Entry] = field(default_factory=list)


def judged(entries: list[Entry]) -> Verdict:
    """The commits and the contributions that count, of one fragment."""
    verdict = Verdict()
    telling = [
        entry
        for entry in entries
        if not _replaced(entry, entries) and _may_say(entry.writer, entry.body)
    ]
    for index, entry in enumerate(telling):
        before = telling[:index]
        if any(isinstance(old.body, Ended) for old in before):
            break
        plans = [old.body.plan for old in before if isinstance(old.body, Planned)]
        match entry.body:
            case Contribution() as body if plans and _posts_well(entry, body, before, verdict):
                verdict.posts.append(entry)
            case Commit() as body if plans and _commits_well(entry, body, before, verdict):
                verdict.commits.append(entry)
            case _:
                pass
    return verdict


def _may_say(writer: Writer, body: Body) -> bool:
    if isinstance(body, Lead | Planned | Crew | Ended | Commit):
        return writer.site == CONTROLLER
    return isinstance(body, Contribution)


def _replaced(entry: Entry, entries: list[Entry]) -> bool:
    """A newer life of its host has written before it."""
    me = entry.writer
    return any(
        old.writer.incarnation > me.incarnation
        and (old.writer.site, old.writer.host) == (me.site, me.host)
        for old in entries[: entry.seq - 1]
    )


def _commits(verdict: Verdict) -> list[Commit]:
    return [entry.body for entry in verdict.commits if isinstance(entry.body, Commit)]


def _spoken_of(commit: Commit) -> list[tuple[str, int]]:
    members = [(member.site, member.n) for member in commit.members]
    return members + [(expired.site, expired.n) for expired in commit.expired]


def _plan_at(seq: int, before: list[Entry]) -> Plan:
    return [e.body.plan for e in before if e.seq < seq and isinstance(e.body, Planned)][-1]


def _until(post: Entry, before: list[Entry]) -> int:
    """The last round in which a post counts, by the plan under which it landed."""
    assert isinstance(post.body, Contribution)
    return post.body.base + _plan_at(post.seq, before).exchange.staleness


def _settled(post: Entry, verdict: Verdict, before: list[Entry]) -> bool:
    """Named, or expired: told so or too old for the next round."""
    assert isinstance(post.body, Contribution)
    me = (post.writer.site, post.body.n)
    told = any(me in _spoken_of(commit) for commit in _commits(verdict))
    return told or _until(post, before) <= len(verdict.commits)


def _posts_well(entry: Entry, body: Contribution, before: list[Entry], verdict: Verdict) -> bool:
    site = entry.writer.site
    mine = [post for post in verdict.posts if post.writer.site == site]
    crews = [o.body for o in before if isinstance(o.body, Crew) and o.body.site == site]
    round = len(verdict.commits)
    return (
        body.n == len(mine) + 1
        and all(_settled(post, verdict, before) for post in mine)
        and (not crews or crews[-1].hosts[0] == entry.writer.host)
        and body.incarnation == entry.writer.incarnation
        and body.tokens > 0
        and body.steps > 0
        and round - _plan_at(entry.seq, before).exchange.staleness < body.base <= round
        and not any(commit.last for commit in _commits(verdict))
    )


def _leader(before: list[Entry]) -> tuple[int, Writer] | None:
    """The first to have led under the highest term."""
    leads = [(old.body.term, old) for old in before if isinstance(old.body, Lead)]
    terms = [term for term, _ in leads if term > 0]
    if not terms:
        return None
    return max(terms), next(old.writer for term, old in leads if term == max(terms))


def _commits_well(entry: Entry, body: Commit, before: list[Entry], verdict: Verdict) -> bool:
    posts = {
        (p.writer.site, p.body.n): p for p in verdict.posts if isinstance(p.body, Contribution)
    }
    spoken_of = [posts.get(one) for one in _spoken_of(body)]
    said = [
        post.body.tokens == member.tokens and post.body.steps == member.steps
        for member in body.members
        if (post := posts.get((member.site, member.n))) and isinstance(post.body, Contribution)
    ]
    so_far = _commits(verdict)[-1].tokens if verdict.commits else 0
    return (
        _leader(before) == (body.term, entry.writer)
        and body.plan == _plan_at(entry.seq, before).number
        and body.round == len(verdict.commits) + 1
        and not any(commit.last for commit in _commits(verdict))
        and len(body.members) > 0
        and len({site for site, _ in _spoken_of(body)}) == len(spoken_of)
        and all(post is not None and not _settled(post, verdict, before) for post in spoken_of)
        and all(said)
        and body.tokens == so_far + sum(member.tokens for member in body.members)
    )
