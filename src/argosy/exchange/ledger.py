"""The token ledger: what every site has trained and where it went. Closes for any prefix.

    trained = committed + pending + lost(reason)                              (rule 12)

A site reports one counter, `trained`. It goes on counting after a rollback. After a restart it
goes on from HostStarted.resumed_tokens: what the snapshot counted, or Agreement.kept(site) for a
site that begins again from the agreed model. What had been trained beyond that is lost.

Between contributions the log cannot know everything (tokens of the last seconds before a kill, an
open post that expires while its site has begun again). Each contribution settles the account: its
tokens are all that is pending at its site, since nothing else is open; what is missing was lost.
"""

from dataclasses import dataclass, field

KILLED = "killed"
ROLLED_BACK = "rolled back"
UNEXPLAINED = "unexplained"  # a site that was neither killed nor rolled back: a mistake of ours


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """One site's tokens."""

    trained: int = 0
    committed: int = 0
    pending: int = 0
    lost: dict[str, int] = field(default_factory=dict)


class SiteBooks:
    """Keeps one site's ledger from what the log says, in order."""

    def __init__(self) -> None:
        self.trained = 0
        self.committed = 0
        self.posted = 0  # tokens of the open post
        self.lost: dict[str, int] = {}
        self._counter = 0  # the site's own counter, as last reported
        self._reporter = ""  # who reported that, while its state cannot have gone back since
        self._reason = UNEXPLAINED  # why the next missing tokens would be missing
        self._crew: tuple[str, ...] = ()
        self._carriers: set[str] = set()  # hosts that have had the site's state since they started
        self._resumed: dict[str, int] = {}  # what hosts that started since would bring back

    @property
    def pending(self) -> int:
        return self.trained - self.committed - sum(self.lost.values())

    @property
    def kept(self) -> int:
        """The counter of a site that begins again from the agreed model: all but what is neither
        committed nor in an open post."""
        return self._counter - (self.pending - self.posted)

    def ledger(self) -> Ledger:
        return Ledger(
            trained=self.trained,
            committed=self.committed,
            pending=self.pending,
            lost=dict(self.lost),
        )

    def host_started(self, host: str, resumed: int) -> None:
        """A site's state lives as long as one host that had it; then it goes back to the furthest
        that its hosts bring with them."""
        self._carriers.discard(host)
        self._resumed[host] = resumed
        self._reporter = "" if self._reporter == host else self._reporter
        self._restart_if_dead()

    def crew_formed(self, hosts: tuple[str, ...]) -> None:
        self._crew = hosts
        self._carriers &= set(hosts)
        self._restart_if_dead()

    def reported(self, host: str, counter: int) -> None:
        self._carriers = {host, *self._crew}
        for carrier in self._carriers:
            self._resumed.pop(carrier, None)
        if counter > self._counter:
            self.trained += counter - self._counter
            self._counter = counter
            self._reporter = host

    def contributed(self, host: str, counter: int, tokens: int) -> None:
        """A counting contribution of `tokens`, by a site that has nothing else open.

        Its record waits for the stripes of the site's other hosts; meanwhile its leader trains on
        and may report that first. What one host reports in one life only grows, so steps beyond
        the post were taken after it: they are pending for the next one, and not lost.
        """
        since = max(0, self._counter - counter) if host == self._reporter else 0
        if counter + since < self._counter and self._reason == UNEXPLAINED:
            self._reason = KILLED  # survivors that were a step behind a dead host
        self.reported(host, counter)
        self._counter = counter + since
        self._lose(max(0, self.pending - tokens - since))
        self._find(max(0, tokens + since - self.pending))
        self.posted = tokens
        self._reason = UNEXPLAINED

    def settled(self, tokens: int, *, named: bool) -> None:
        """The open post was named or expired."""
        self.posted = 0
        if named:
            self.committed += tokens

    def rolled_back(self) -> None:
        self._reason = ROLLED_BACK
        self._reporter = ""
        self._lose(self.pending - self.posted)

    def _restart_if_dead(self) -> None:
        if self._carriers or not self._resumed:
            return
        # A host may have read the log before the last post of the life that it replaces: what is
        # committed or open is not forgotten for that.
        resumed = max(self.kept, *self._resumed.values())
        self._reason = KILLED
        self.trained += max(0, resumed - self._counter)  # a snapshot that had trained unreported
        self._counter = max(self._counter, resumed)
        self._lose(min(self._counter - resumed, self.pending - self.posted))
        self._counter = resumed

    def _lose(self, tokens: int) -> None:
        if tokens:
            self.lost[self._reason] = self.lost.get(self._reason, 0) + tokens

    def _find(self, tokens: int) -> None:
        """A contribution holds more than was thought left: take it out of what was called lost,
        and what is still missing was trained unreported."""
        for reason in sorted(self.lost):
            back = min(tokens, self.lost[reason])
            self.lost[reason] -= back
            tokens -= back
        self.lost = {reason: lost for reason, lost in self.lost.items() if lost}
        self.trained += tokens
