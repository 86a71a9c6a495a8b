"""What the sites have agreed: a fold over any prefix of the log, the same for every reader.

Records that do not count are void: they change nothing and are kept with the reason. Whether a
record counts depends on the records before it only, never on a clock or on who reads.

**A restarted site and its open post** (rules 1, 2 and 8). A post whose record is in the log is
durable, and its site's death changes nothing about it: it stays outstanding, may be named, or
expires. The site, in its new incarnation, first appends its HostStarted (which fences the old one)
and reads past it; then, if the log holds a newer n than its snapshot, it begins again with l = a
and e = 0 and no p. Its state no longer contains the open post, so the commit that names it moves
this site as one that does not name it: l <- l + (a_new - a). Nothing is counted twice, because
what the post said is in a_new only. Until that post is named or expired the site cannot post.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from argosy.core.errors import DamagedError
from argosy.core.records import (
    CONTROLLER,
    Commit,
    Contribution,
    Crew,
    Drain,
    Ended,
    Entry,
    HostEvent,
    HostStarted,
    Lead,
    Planned,
    Progress,
    Writer,
)
from argosy.exchange.fragment import Fragment, Post
from argosy.exchange.ledger import Ledger, SiteBooks

if TYPE_CHECKING:
    from argosy.core.plan import Plan

ROLLBACK = "rollback"  # HostEvent.what of a site that went back to the agreed model


class Agreement:
    """Hears entries in order and answers what counts."""

    def __init__(self) -> None:
        self.seq = 0
        self.chain = ""
        self.term = 0
        self.leader: Writer | None = None  # who appended the lead that counts
        self.plan: Plan | None = None  # the one in force
        self.plans: dict[int, Plan] = {}
        self.crews: dict[str, Crew] = {}
        self.commits: defaultdict[int, list[tuple[int, Commit]]] = defaultdict(list)
        self.void: list[tuple[int, str]] = []  # (seq, reason)
        self.draining: Drain | None = None
        self.ended: Ended | None = None
        self._fragments: dict[int, Fragment] = {}
        self._rounds_at_drain: dict[int, int] = {}
        self._books: defaultdict[str, SiteBooks] = defaultdict(SiteBooks)
        self._lives: dict[tuple[str, str], int] = {}  # (site, host) -> its newest incarnation

    # -- hearing ---------------------------------------------------------------------------------

    def hear(self, entry: Entry) -> bool:
        """Fold the next entry; False when it was heard before. A gap is refused."""
        if entry.seq <= self.seq:
            return False
        if entry.seq != self.seq + 1:
            raise DamagedError(
                f"record {entry.seq} came after record {self.seq}",
                where="logbook",
                hint="read again from the first missing record",
            )
        self.seq, self.chain = entry.seq, entry.chain
        reason = self._fenced(entry.writer)
        if reason is None and (fold := _FOLDS.get(type(entry.body))):
            reason = fold(self, entry, entry.body)
        if reason is not None:
            self.void.append((entry.seq, reason))
        return True

    # -- asking ----------------------------------------------------------------------------------

    def round(self, fragment: int = 0) -> int:
        """The newest agreed round; 0 is the initial model."""
        return self.fragment(fragment).round

    def tokens(self, fragment: int = 0) -> int:
        """Tokens committed in all rounds."""
        return self.fragment(fragment).tokens

    def last(self, fragment: int = 0) -> bool:
        """The last round is agreed: nothing is posted or committed any more."""
        return self.fragment(fragment).last

    def outstanding(self, fragment: int = 0) -> tuple[tuple[int, Contribution], ...]:
        """Posted, neither named nor expired: (seq, contribution) in order of seq."""
        return tuple((post.seq, post.body) for post in self.open_posts(fragment))

    def open_posts(self, fragment: int = 0) -> list[Post]:
        """The same with their sites."""
        return self.fragment(fragment).open_posts()

    def newest(self, site: str, fragment: int = 0) -> Post | None:
        return self.fragment(fragment).newest(site)

    def newest_n(self, site: str, fragment: int = 0) -> int:
        return self.fragment(fragment).newest_n(site)

    def post(self, site: str, n: int, fragment: int = 0) -> Post | None:
        return self.fragment(fragment).post(site, n)

    def named(self, site: str, n: int, fragment: int = 0) -> int | None:
        """The round that named this contribution."""
        post = self.post(site, n, fragment)
        return post.named if post else None

    def replaced(self, writer: Writer) -> bool:
        """A newer life of this host has written: nothing that this one writes counts any more."""
        return self._lives.get((writer.site, writer.host), 0) > writer.incarnation

    def speaks_for(self, site: str, writer: Writer) -> bool:
        """The writer leads the site's crew, in its newest life: only it posts for the site."""
        crew = self.crews.get(site)
        leads = crew is None or crew.hosts[:1] == (writer.host,)
        return writer.site == site and leads and not self.replaced(writer)

    def drained(self, site: str, fragment: int = 0) -> bool:
        """The site has posted knowing of the drain: nothing more comes from it.

        It says so (`final`); standing on a round that was agreed after the drain proves it too.
        """
        newest = self.newest(site, fragment)
        if self.draining is None or newest is None or newest.expired is not None:
            return False
        return newest.body.final or newest.body.base > self._rounds_at_drain.get(fragment, 0)

    def ledger(self) -> dict[str, Ledger]:
        """Per site, from fragment 0: the others carry the same tokens."""
        return {site: books.ledger() for site, books in sorted(self._books.items())}

    def kept(self, site: str) -> int:
        """HostStarted.resumed_tokens of a site that begins again from the agreed model."""
        return self._books[site].kept if site in self._books else 0

    def fragment(self, fragment: int) -> Fragment:
        if fragment not in self._fragments:
            self._fragments[fragment] = Fragment(self.commits[fragment])
        return self._fragments[fragment]

    # -- folding: each returns why the record is void, or None -------------------------------------

    def _fenced(self, writer: Writer) -> str | None:
        if self.replaced(writer):
            return f"by life {writer.incarnation} of {writer.host}, which was replaced"
        self._lives[writer.site, writer.host] = writer.incarnation
        return None

    def _lead(self, entry: Entry, lead: Lead) -> str | None:
        if entry.writer.site != CONTROLLER:
            return f"{entry.writer.site} may not lead"
        if lead.term <= self.term:
            return f"term {lead.term} after term {self.term}"
        self.term, self.leader = lead.term, entry.writer
        return None

    def _planned(self, entry: Entry, planned: Planned) -> str | None:
        if entry.writer.site != CONTROLLER:
            return f"{entry.writer.site} may not plan"
        self.plan = self.plans[planned.plan.number] = planned.plan
        return None

    def _crew(self, entry: Entry, crew: Crew) -> str | None:
        if entry.writer.site != CONTROLLER:
            return f"{entry.writer.site} may not form a crew"
        self.crews[crew.site] = crew
        self._books[crew.site].crew_formed(crew.hosts)
        return None

    def _host_started(self, entry: Entry, started: HostStarted) -> None:
        if entry.writer.site != CONTROLLER:  # the controller's helpers train nothing
            self._books[entry.writer.site].host_started(entry.writer.host, started.resumed_tokens)

    def _host_event(self, entry: Entry, event: HostEvent) -> None:
        if event.what == ROLLBACK and self.speaks_for(event.site, entry.writer):
            self._books[event.site].rolled_back()

    def _progress(self, entry: Entry, progress: Progress) -> None:
        self._reported(entry.writer, progress.trained)

    def _reported(self, writer: Writer, trained: int) -> None:
        if self.speaks_for(writer.site, writer):  # what a replaced host trains on is nobody's
            self._books[writer.site].reported(writer.host, trained)

    def _drain(self, entry: Entry, drain: Drain) -> str | None:
        if reason := self._not_led(entry, drain.term):
            return reason
        if self.draining is not None:
            return "draining already"
        self.draining = drain
        self._rounds_at_drain = {of: len(commits) for of, commits in self.commits.items()}
        return None

    def _ended(self, entry: Entry, ended: Ended) -> str | None:
        if entry.writer.site != CONTROLLER:
            return f"{entry.writer.site} may not end the run"
        self.ended = ended
        return None

    def _contribution(self, entry: Entry, body: Contribution) -> str | None:
        if self.plan is None:
            return "before the first plan"
        site, staleness = entry.writer.site, self.plan.exchange.staleness
        reason = next(self._flaws_of_post(entry, body, staleness), None)
        if reason is not None:
            self._reported(entry.writer, body.trained)
            return reason
        post = Post(entry.seq, site, body, until=body.base + staleness)
        self.fragment(body.fragment).take_post(post)
        if body.fragment == 0:
            self._books[site].contributed(entry.writer.host, body.trained, body.tokens)
        return None

    def _flaws_of_post(self, entry: Entry, body: Contribution, staleness: int) -> Iterator[str]:
        site = entry.writer.site
        if self.ended is not None:
            yield "after the end"
        if body.incarnation != entry.writer.incarnation:
            yield f"says life {body.incarnation}, written in life {entry.writer.incarnation}"
        if not self.speaks_for(site, entry.writer):
            yield f"{entry.writer.host} does not lead {site}"
        yield from self.fragment(body.fragment).flaws_of_post(site, body, staleness)

    def _commit(self, entry: Entry, commit: Commit) -> str | None:
        reason = next(self._flaws_of_commit(entry, commit), None)
        if reason is not None:
            return reason
        for post in self.fragment(commit.fragment).take_commit(entry.seq, commit):
            if commit.fragment == 0:
                self._books[post.site].settled(post.body.tokens, named=post.named is not None)
        return None

    def _flaws_of_commit(self, entry: Entry, commit: Commit) -> Iterator[str]:
        if reason := self._not_led(entry, commit.term):
            yield reason
        if self.ended is not None:
            yield "after the end"
        if self.plan is None or commit.plan != self.plan.number:
            yield f"under plan {commit.plan}, which is not in force"
        yield from self.fragment(commit.fragment).flaws_of_commit(commit)

    def _not_led(self, entry: Entry, term: int) -> str | None:
        if term != self.term:
            return f"under term {term} while term {self.term} leads"
        if entry.writer != self.leader:
            return f"{entry.writer.site}/{entry.writer.host} does not hold term {term}"
        return None


_FOLDS: dict[type, Callable[[Agreement, Entry, Any], str | None]] = {
    Lead: Agreement._lead,
    Planned: Agreement._planned,
    Crew: Agreement._crew,
    HostStarted: Agreement._host_started,
    HostEvent: Agreement._host_event,
    Progress: Agreement._progress,
    Drain: Agreement._drain,
    Ended: Agreement._ended,
    Contribution: Agreement._contribution,
    Commit: Agreement._commit,
}
