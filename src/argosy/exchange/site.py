"""The site's side of the exchange: which commit is next, may it post, may it train on. Pure.

The engine asks at every step boundary and does what it is told; the arithmetic is in Holdings.

    for entry in log: side.hear(entry)
    while apply := side.next():
        if apply.expired: holdings.expire()
        holdings.apply(local, mean, lr, momentum, named=apply.named)
        side.applied(apply)
    if the window is over (or side.should_drain) and something was trained and side.can_post():
        payload = holdings.post(local, codec, block)
        contribution = Contribution(n=side.next_n, base=side.base, final=side.should_drain, ...)
        side.posted(contribution)
        outbox.post(contribution, blobs)

**Coming back.** A process that starts again hears the log in a new SiteSide, past its own
HostStarted and the crew that it leads: from there on no older life can post. Then it calls `resume`
with what its snapshot says, or `begin` (rule 8).
"""

from dataclasses import dataclass

from argosy.core.records import Commit, Contribution, Entry
from argosy.exchange.agreement import Agreement
from argosy.exchange.fragment import Post
from argosy.exchange.payload import mark_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Apply:
    """A commit to take: `named` when it names the post that Holdings keeps open, `expired` when
    that post expired with it (then it is taken as a commit that does not name this site)."""

    commit: Commit
    seq: int
    named: bool
    expired: bool


class SiteSide:
    """One site's place in the rounds of one fragment."""

    def __init__(self, site: str, fragment: int = 0) -> None:
        self.site = site
        self.fragment = fragment
        self.agreement = Agreement()
        self.base = 0  # the last round applied
        self.overtaken = False  # the log holds a post of this site that this state has not made
        self._in_flight: Contribution | None = None  # posted, not heard back yet
        self._open: int | None = None  # the post whose p and e' Holdings keeps

    # -- coming back -------------------------------------------------------------------------------

    def resume(self, *, base: int, newest: int, open: int | None, mark: str = "") -> bool:
        """May a snapshot go on? It stands on round `base`; its newest post was `newest`, and
        `mark` is payload.mark() of that one ("" when it has posted nothing since it began); it
        keeps the post `open`. False: the log knows better (rule 8), so `begin`.

        The mark is needed because n is used again: a post that never reached the log is withdrawn
        (its difference is still in the local model), and the next one, maybe of another life that
        left no snapshot, has the same n and other contents.
        """
        landed = self.agreement.newest(self.site, self.fragment)
        landed_n = landed.body.n if landed else 0
        if landed_n > newest or base > self.agreement.round(self.fragment):
            return False
        if landed is not None and landed_n == newest and mark not in ("", mark_of(landed.body)):
            return False
        self.begin(base)
        self._open = open if open is not None and open <= landed_n else None
        return True

    def begin(self, base: int) -> None:
        """Stand on the agreed model of round `base` with nothing local: after a restart, when
        overtaken, or after a rollback (`side.begin(side.base)` with `holdings.reset()`)."""
        self.base = base
        self.overtaken = False
        self._open = None

    # -- hearing and applying ----------------------------------------------------------------------

    def hear(self, entry: Entry) -> None:
        new, body = self.agreement.hear(entry), entry.body
        if not new or not isinstance(body, Contribution) or body.fragment != self.fragment:
            return
        if entry.writer.site != self.site:
            return
        newest = self.agreement.newest(self.site, self.fragment)
        counts = newest is not None and newest.seq == entry.seq
        if body == self._in_flight:
            self._in_flight = None
            if not counts:  # void: the difference is still in the local model, n is used again
                self._open = None
        elif counts:
            self.overtaken = True  # by another life of this site

    def next(self) -> Apply | None:
        """The commit after the last one applied; the same one until it is `applied`."""
        commits = self.agreement.commits[self.fragment]
        if self.base >= len(commits):
            return None
        seq, commit = commits[self.base]
        post = self._open_post()
        return Apply(
            commit=commit,
            seq=seq,
            named=post is not None and post.named == commit.round,
            expired=post is not None and post.expired == commit.round,
        )

    def applied(self, apply: Apply) -> None:
        assert apply.commit.round == self.base + 1, (apply.commit.round, self.base)
        self.base = apply.commit.round
        if apply.named or apply.expired:
            self._open = None

    # -- posting -----------------------------------------------------------------------------------

    @property
    def open(self) -> int | None:
        """The post whose p and e' Holdings is to keep. None while Holdings keeps one: that post
        turned out void or never reached the log, so `holdings.expire()`."""
        return self._open

    @property
    def next_n(self) -> int:
        return self.agreement.newest_n(self.site, self.fragment) + 1

    def can_post(self) -> bool:
        """Nothing of this site is open or on its way, and what it stands on is fresh enough."""
        plan = self.agreement.plan
        if plan is None or self.overtaken or self._waits() or self._over():
            return False
        if self.agreement.drained(self.site, self.fragment):
            return False
        return self.agreement.round(self.fragment) < self.base + plan.exchange.staleness

    def posted(self, contribution: Contribution) -> None:
        """The post is on its way; Holdings keeps its p and e'."""
        assert contribution.n == self.next_n, (contribution.n, self.next_n)
        self._in_flight = contribution
        self._open = contribution.n

    # -- training and ending -----------------------------------------------------------------------

    @property
    def should_drain(self) -> bool:
        """Post what there is as soon as can_post(), as `final`. A site with nothing trained since
        its last post trains one step first: an empty post does not count."""
        return (
            self.agreement.draining is not None
            and not (self._in_flight is not None and self._in_flight.final)
            and not self.agreement.drained(self.site, self.fragment)
            and not self._over()
        )

    @property
    def finished(self) -> bool:
        """Nothing is left to do: the last round is applied, or the run has ended without one."""
        agreement = self.agreement
        behind = self.base < agreement.round(self.fragment)
        return not behind and (agreement.last(self.fragment) or agreement.ended is not None)

    def may_train(self, windows_alone: float, unposted_steps: int = 0) -> bool:
        """May the next step be trained now? `windows_alone`: windows since the last commit applied.

        With delay 0 a site waits while its post is open. Otherwise it trains on alone for up to S
        windows. In a drain it trains only to have something to post.
        """
        plan = self.agreement.plan
        if plan is None or self.overtaken or self._over():
            return False
        if self.agreement.draining is not None:
            return self.should_drain and not (unposted_steps or self._waits())
        if plan.exchange.delay == 0:
            return not self._waits()
        return windows_alone < plan.exchange.staleness

    # -- helpers -----------------------------------------------------------------------------------

    def _over(self) -> bool:
        return self.agreement.last(self.fragment) or self.agreement.ended is not None

    def _waits(self) -> bool:
        """A post is open, here or in the log (a restarted site no longer holds its own), or on its
        way there."""
        newest = self.agreement.newest(self.site, self.fragment)
        outstanding = newest is not None and newest.open
        return outstanding or self._open is not None or self._in_flight is not None

    def _open_post(self) -> Post | None:
        if self._open is None:
            return None
        return self.agreement.post(self.site, self._open, self.fragment)
