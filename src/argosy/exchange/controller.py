"""The controller's side of the exchange: when a round is committed, and with whom. Pure.

    side = ControllerSide(writer)         hear the log to its end, append side.lead(), hear on
    side.hear(entry, now_s)               every record, its own too; then side.leading is true
    side.expect(sites)                    the sites with a live crew, whenever that changes
    commit = side.decide(now_s)           append it; None: nothing to commit now
    side.over(now_s)                      nothing more will be committed: append Ended
    side.next_wake(now_s)                 when to ask both again if no record comes

Everything but the patience is folded from the log: a controller that died goes on in its next
life, or in another process, under the next term. What its old life still has on its way is void.
"""

from collections.abc import Iterable

from argosy.core.records import (
    Commit,
    Contribution,
    Drain,
    Entry,
    Lead,
    Member,
    Planned,
    Writer,
)
from argosy.exchange.agreement import Agreement
from argosy.exchange.fragment import Post
from argosy.exchange.patience import Patience


class ControllerSide:
    """Decides the rounds of one fragment, as long as its lead counts."""

    def __init__(
        self, writer: Writer, *, fragment: int = 0, low_s: float = 2.0, high_s: float = 300.0
    ) -> None:
        self.agreement = Agreement()
        self._writer = writer
        self._fragment = fragment
        self._high_s = high_s
        self._patience = Patience(low_s, high_s)
        self._told: frozenset[str] | None = None  # the sites to expect
        self._in_flight = False  # a commit is on its way: never two rounds at once
        self._opened_s: float | None = None  # since when the next round has somebody to name
        self._quiet_s = 0.0  # when the last commit or the drain was heard

    @property
    def leading(self) -> bool:
        """This life's lead counts, and neither another controller nor another life has come."""
        agreement = self.agreement
        return agreement.leader == self._writer and not agreement.replaced(self._writer)

    @property
    def patience_s(self) -> float:
        return self._patience.seconds

    def lead(self) -> Lead:
        """To append before anything else, once the log has been heard to its end. Should another
        lead come between, this one is void: `leading` stays false; lead again or give way."""
        return Lead(term=self.agreement.term + 1)

    def drain(self, reason: str) -> Drain:
        """To append when every site shall post what it has, for the last round."""
        return Drain(term=self.agreement.term, reason=reason)

    def expect(self, sites: Iterable[str]) -> None:
        """The sites with a live crew: a round waits for these. Till told: all that the plan has."""
        self._told = frozenset(sites)

    def hear(self, entry: Entry, now_s: float) -> None:
        agreement = self.agreement
        if not agreement.hear(entry):
            return
        match entry.body:
            case Planned() if agreement.plan is entry.body.plan:
                self._patience.planned(entry.body.plan)
            case Drain():
                self._quiet_s = now_s
            case Contribution(fragment=self._fragment) as body:
                self._posted(entry, body, now_s)
            case Commit(fragment=self._fragment) as commit:
                if entry.writer == self._writer:
                    self._in_flight = False
                if agreement.commits[self._fragment][-1:] == [(entry.seq, commit)]:
                    self._committed(commit, now_s)
            case _:
                pass

    def decide(self, now_s: float) -> Commit | None:
        """The commit to append now. Each is returned once: then it is on its way until heard."""
        deadline_s = self._deadline_s()
        if deadline_s is None or (self._waited_for() and now_s < deadline_s):
            return None
        self._in_flight = True
        return self._commit()

    def next_wake(self, now_s: float) -> float | None:
        """When `decide` or `over` may answer otherwise though nothing has been heard; None: never.
        A time that has passed already means now."""
        deadline_s = self._deadline_s()
        if deadline_s is None and self._dried_up():
            deadline_s = self._quiet_s + self._high_s
        return None if deadline_s is None else max(now_s, deadline_s)

    def over(self, now_s: float) -> bool:
        """Nothing more will be committed: the last round is, or a drain has nobody left who posts.
        Then append Ended."""
        if self.agreement.last(self._fragment):
            return True
        patient = self._waited_for() and now_s < self._quiet_s + self._high_s
        return self._dried_up() and not patient

    # -- what is known -----------------------------------------------------------------------------

    def _open_posts(self) -> list[Post]:
        return self.agreement.open_posts(self._fragment)

    def _expected(self) -> frozenset[str]:
        plan = self.agreement.plan
        if self._told is None and plan is not None:
            return frozenset(site.site for site in plan.sites)
        return self._told or frozenset()

    def _waited_for(self) -> set[str]:
        """Expected sites that have nothing in the round yet and will still post."""
        missing = self._expected() - {post.site for post in self._open_posts()}
        return {site for site in missing if not self.agreement.drained(site, self._fragment)}

    def _deadline_s(self) -> float | None:
        """Until when the next round waits for everybody; None when no round is to be decided."""
        agreement = self.agreement
        closed = agreement.ended is not None or agreement.last(self._fragment)
        if closed or not self.leading or self._in_flight or self._opened_s is None:
            return None
        few = len(self._open_posts()) < len(self._waited_for())
        return self._patience.deadline_s(self._opened_s, few=few)

    def _dried_up(self) -> bool:
        """A drain in which no post is open and no commit on its way."""
        draining = self.agreement.draining is not None
        return draining and self.leading and not self._in_flight and not self._open_posts()

    # -- what follows ------------------------------------------------------------------------------

    def _commit(self) -> Commit:
        agreement = self.agreement
        assert agreement.plan is not None
        posts, last = self._named()
        members = tuple(
            Member(site=post.site, n=post.body.n, tokens=post.body.tokens, steps=post.body.steps)
            for post in sorted(posts, key=lambda post: post.site)
        )
        return Commit(
            fragment=self._fragment,
            round=agreement.round(self._fragment) + 1,
            term=agreement.term,
            plan=agreement.plan.number,
            members=members,
            expired=(),  # every open post is named, or held back only while it stays fresh
            tokens=agreement.tokens(self._fragment) + sum(member.tokens for member in members),
            last=last,
            head_seq=agreement.seq,
            head_chain=agreement.chain,
        )

    def _named(self) -> tuple[list[Post], bool]:
        """Whom the round names, and whether it is the last.

        In a drain, while a living site has yet to post its last, the others' last posts are held
        back, so that the last round surely has somebody to name.
        """
        posts = self._open_posts()
        if self.agreement.draining is None:
            return posts, False
        held = [post for post in posts if self.agreement.drained(post.site, self._fragment)]
        rest = [post for post in posts if post not in held]
        if not any(post.site in self._expected() for post in rest):
            return posts, True
        next_round = self.agreement.round(self._fragment) + 1
        return rest + [post for post in held if post.until == next_round], False

    # -- what the clock tells ----------------------------------------------------------------------

    def _posted(self, entry: Entry, body: Contribution, now_s: float) -> None:
        agreement, site = self.agreement, entry.writer.site
        newest = agreement.newest(site, self._fragment)
        counts = newest is not None and newest.seq == entry.seq
        if counts and self._opened_s is None:
            self._opened_s = now_s
        late = body.base < agreement.round(self._fragment)  # void perhaps, for this very reason
        if counts or (late and agreement.speaks_for(site, entry.writer)):
            self._patience.posted(body.base, now_s, live=self.leading)

    def _committed(self, commit: Commit, now_s: float) -> None:
        self._quiet_s = now_s
        self._opened_s = now_s if self._open_posts() else None
        missed = self._waited_for() - {member.site for member in commit.members}
        complete = len(commit.members) > 1 and not missed
        self._patience.committed(commit.round, now_s, complete=complete, live=self.leading)
