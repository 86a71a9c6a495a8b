"""The site's side of the exchange: which commit is next, may it post, may it train on. Pure.

The engine asks at every step boundary and does what it is told; the arithmetic is in Holdings.

    for entry in log:            side.hear(entry)
    apply = side.next()          the next commit to take, in order; None when up to date
    ... holdings.apply(l, mean, ..., named=apply.named)
    ... holdings.expire() first, if apply.expired
    side.applied(apply)
    if window is over and side.can_post():
        n = side.next_n;  payload = holdings.post(l, ...);  side.posted(n)
        outbox.post(Contribution(n=n, base=side.base, final=side.should_drain, ...), blobs)
"""

from dataclasses import dataclass

from argosy.core.records import Commit, Entry
from argosy.exchange.agreement import Agreement


@dataclass(frozen=True, kw_only=True, slots=True)
class Apply:
    """A commit to take. `named`: it names the post that Holdings keeps open. `expired`: that post
    expired with it; drop it and take the commit as one that does not name this site."""

    commit: Commit
    seq: int
    named: bool
    expired: bool


class SiteSide:
    """One site's place in one fragment's rounds.

    A fresh site stands on `base`, the round of the model it has replayed, with nothing posted in
    its state. One that comes back with a snapshot calls `resume` once it has heard its own
    HostStarted. See agreement.py for what becomes of a post that its site no longer holds.
    """

    def __init__(self, site: str, fragment: int = 0, *, base: int = 0) -> None:
        self.site = site
        self.fragment = fragment
        self.base = base  # the last round applied
        self.agreement = Agreement()
        self.overtaken = False  # the log holds a post of this site that is not in this state
        self._held = 0  # the newest n that this state has posted, or knew of when it began
        self._open: int | None = None  # the post whose p and e' Holdings keeps
        self._final = False  # the open or newest post was this site's last

    def resume(self, *, base: int, newest: int, open: int | None) -> bool:
        raise NotImplementedError

    def begin(self, base: int) -> None:
        raise NotImplementedError

    def hear(self, entry: Entry) -> None:
        raise NotImplementedError

    @property
    def next_n(self) -> int:
        raise NotImplementedError

    def next(self) -> Apply | None:
        raise NotImplementedError

    def applied(self, apply: Apply) -> None:
        raise NotImplementedError

    def can_post(self) -> bool:
        raise NotImplementedError

    def posted(self, n: int) -> None:
        raise NotImplementedError

    @property
    def should_drain(self) -> bool:
        raise NotImplementedError

    @property
    def finished(self) -> bool:
        raise NotImplementedError

    def may_train(self, windows_alone: float, unposted_steps: int = 0) -> bool:
        raise NotImplementedError
