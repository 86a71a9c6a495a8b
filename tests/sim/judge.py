"""What counts in a log, read a second way: slowly, from the rules, by looking back at all that was.

The simulation holds Agreement against this. It shares no code with the exchange.
"""

from dataclasses import dataclass, field

from argosy.core.plan import Plan
from argosy.core.records import (
    CONTROLLER,
    Commit,
    Contribution,
    Crew,
    Ended,
    Entry,
    Lead,
    Planned,
)


@dataclass(slots=True)
class Verdict:
    commits: list[Entry] = field(default_factory=list)
    posts: list[Entry] = field(default_factory=list)


def judged(entries: list[Entry]) -> Verdict:
    """The commits and the contributions that count, of one fragment."""
    verdict = Verdict()
    counting = [entry for entry in entries if not _zombie(entry, entries)]
    kinds = (Contribution, Commit, Crew, Ended, Lead, Planned)
    telling = [entry for entry in counting if isinstance(entry.body, kinds)]
    for index, entry in enumerate(telling):
        before = telling[:index]
        if any(isinstance(old.body, Ended) for old in before):
            break
        plans = [old.body.plan for old in before if isinstance(old.body, Planned)]
        if isinstance(entry.body, Contribution) and plans:
            if _posts_well(entry, entry.body, before, verdict, plans[-1]):
                verdict.posts.append(entry)
        elif isinstance(entry.body, Commit) and plans:
            if _commits_well(entry, entry.body, before, verdict, plans):
                verdict.commits.append(entry)
    return verdict


def _zombie(entry: Entry, entries: list[Entry]) -> bool:
    """A newer life of its host has written before it."""
    me = entry.writer
    return any(
        old.writer.incarnation > me.incarnation and old.writer.host == me.host
        for old in entries[: entry.seq - 1]
    )


def _commits(verdict: Verdict) -> list[Commit]:
    return [entry.body for entry in verdict.commits if isinstance(entry.body, Commit)]


def _round(verdict: Verdict, seq: int) -> int:
    return sum(entry.seq < seq for entry in verdict.commits)


def _until(post: Entry, entries: list[Entry]) -> int:
    """The last round in which a post counts, by the plan under which it landed."""
    assert isinstance(post.body, Contribution)
    plans = [e.body.plan for e in entries if e.seq < post.seq and isinstance(e.body, Planned)]
    return post.body.base + plans[-1].exchange.staleness


def _settled(post: Entry, verdict: Verdict, round: int, entries: list[Entry]) -> bool:
    """Named in a round up to `round`, or expired with it."""
    assert isinstance(post.body, Contribution)
    me = (post.writer.site, post.body.n)
    named = any(me == (m.site, m.n) for c in _commits(verdict) for m in c.members)
    expired = any(me == (m.site, m.n) for c in _commits(verdict) for m in c.expired)
    return named or expired or _until(post, entries) <= round


def _posts_well(
    entry: Entry, body: Contribution, before: list[Entry], verdict: Verdict, plan: Plan
) -> bool:
    site = entry.writer.site
    mine = [post for post in verdict.posts if post.writer.site == site]
    crews = [o.body for o in before if isinstance(o.body, Crew) and o.body.site == site]
    round = len(verdict.commits)
    return (
        body.n == len(mine) + 1
        and all(_settled(post, verdict, round, before) for post in mine)
        and (not crews or crews[-1].hosts[0] == entry.writer.host)
        and body.incarnation == entry.writer.incarnation
        and body.tokens > 0
        and body.steps > 0
        and round - plan.exchange.staleness < body.base <= round
        and not any(commit.last for commit in _commits(verdict))
    )


def _commits_well(
    entry: Entry, body: Commit, before: list[Entry], verdict: Verdict, plans: list[Plan]
) -> bool:
    leads = [old for old in before if isinstance(old.body, Lead)]
    highest: Entry | None = None
    for lead in leads:
        assert isinstance(lead.body, Lead)
        if highest is None or (
            isinstance(highest.body, Lead) and lead.body.term > highest.body.term
        ):
            highest = lead
    if highest is None or not isinstance(highest.body, Lead):
        return False
    posts = {
        (p.writer.site, p.body.n): p for p in verdict.posts if isinstance(p.body, Contribution)
    }
    members = [posts.get((member.site, member.n)) for member in body.members]
    return (
        entry.writer == highest.writer
        and entry.writer.site == CONTROLLER
        and body.term == highest.body.term
        and body.plan == plans[-1].number
        and body.round == len(verdict.commits) + 1
        and not any(commit.last for commit in _commits(verdict))
        and len(members) > 0
        and len({member.site for member in body.members}) == len(members)
        and all(post is not None for post in members)
        and not any(_settled(post, verdict, body.round - 1, before) for post in members if post)
    )
