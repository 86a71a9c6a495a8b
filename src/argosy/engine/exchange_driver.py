"""The exchange as the engine drives it: what the log says, what to apply, when and what to post.

Every rank hears the log; only rank 0 decides by it. The decisions are `exchange.SiteSide`'s.
"""

import hashlib
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from argosy.core.errors import FencedError
from argosy.core.law import Form
from argosy.core.records import (
    CONTROLLER,
    Body,
    Commit,
    Contribution,
    Digest,
    Entry,
    Evaluation,
    HostStarted,
    Shard,
)
from argosy.engine import ops
from argosy.engine.catch_up import Checkpoints, replayed
from argosy.engine.digests import Digests, due
from argosy.engine.state import Counters, stretch_of
from argosy.exchange.digest import model_digest
from argosy.exchange.site import Apply, SiteSide

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from argosy.core.plan import ExchangePlan
    from argosy.engine.checkpoint_blob import Checkpoint
    from argosy.engine.inbox import Inbox
    from argosy.engine.state import SiteState
    from argosy.exchange.replay import Replay

log = logging.getLogger(__name__)

CATCH_UP_S = 1800.0


class Posting(Protocol):
    """What is used of logbook.outbox.Outbox."""

    def post(self, body: Body, blobs: "Sequence[bytes]" = ()) -> "Future[int]": ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Hand:
    """Who writes, and by which verdict its updates may leave."""

    site: str
    host: str
    incarnation: int
    rule: str


class ExchangeDriver:
    """Hears, applies and posts for one host of a site."""

    def __init__(
        self,
        hand: Hand,
        inbox: "Inbox",
        outbox: Posting,
        checkpoints: Checkpoints,
        *,
        clock: "Callable[[], float]",
    ) -> None:
        self.hand = hand
        self.side = SiteSide(hand.site)
        self.inbox = inbox
        self.payloads = inbox.payloads
        self.evaluated: set[tuple[int, str]] = set()  # (round, source) that this site has told
        self.digests = Digests()
        self._outbox = outbox
        self._checkpoints = checkpoints
        self._state: SiteState  # `attach` brings it
        self._clock = clock
        self._leading = False
        self._open: int | None = None  # the post whose fate matters to the state
        self._sent: Future[int] | None = None  # of the newest post
        self._began = 0.0  # the window
        self._applied_at = 0.0
        self._applied_step = 0
        self._reach = 0  # the round to catch up with before training

    def attach(self, state: "SiteState") -> None:
        """What is exchanged. Hearing needs none; everything else does."""
        self._state = state

    @property
    def exchange(self) -> "ExchangePlan":
        plan = self.side.agreement.plan
        assert plan is not None, "no worker begins before the first plan"
        return plan.exchange

    # -- hearing -----------------------------------------------------------------------------------

    def hear(self) -> None:
        """Take in what was read since. Raises what the newest post failed with."""
        for entry in self.inbox.take():
            self.hear_one(entry)
        if self._sent is not None and self._sent.done():
            sent, self._sent = self._sent, None
            sent.result()

    def hear_one(self, entry: Entry) -> None:
        self.side.hear(entry)
        self._checkpoints.hear(entry)
        match entry.body:
            case Digest(fragment=0) as digest if entry.writer.site == CONTROLLER:
                self.digests.refer(digest.round, digest.digest)
            case HostStarted() if self._replaced_by(entry):
                raise FencedError(
                    f"a newer life of {self.hand.host} has begun, its incarnation"
                    f" {entry.writer.incarnation}",
                    where=self.hand.host,
                    hint="this process had been taken for dead; the newer one goes on",
                )
            case Evaluation() as told if entry.writer.site == self.hand.site:
                self.evaluated.add((told.round, told.source))
            case Contribution() if self._leading and self.side.open is None:
                self._open = None  # void: never to be named
            case _:
                pass

    def _replaced_by(self, entry: Entry) -> bool:
        writer, me = entry.writer, self.hand
        return (writer.site, writer.host) == (me.site, me.host) and (
            writer.incarnation > me.incarnation
        )

    def lead(self) -> bool:
        """Decide from now on, with the state as it is; False if the log knows better (rule 8)."""
        if self._leading:
            self._keep_up()
            return True
        counters = self._state.counters
        self._began = self._applied_at = self._clock()
        self._applied_step = counters.step
        agreement = self.side.agreement
        self.side = SiteSide(self.hand.site)  # what an earlier lead had on its way is history
        self.side.agreement = agreement
        self._reach = agreement.round()
        self._leading = True
        self._sent = None
        fits = self.side.resume(
            base=counters.round, newest=counters.n, open=counters.open_n, mark=counters.mark
        )
        landed = counters.open_n is not None and counters.open_n <= agreement.newest_n(
            self.hand.site
        )
        self._open = counters.open_n if fits and landed else None
        self.payloads.begin(counters.round)
        for _, commit in agreement.commits[0][counters.round :]:
            self.payloads.want(commit)
        return fits

    def follow(self) -> None:
        """Another rank decides."""
        self._leading = False

    def _keep_up(self) -> None:
        """After a regroup the state may be a follower's that had taken a commit before this rank."""
        while self.side.base < self._state.counters.round:
            apply = self.side.next()
            assert apply is not None
            self.applied(apply.commit)
        if self._state.counters.open_n != self._open:
            self._open = None  # a post that was encoded, and never sent

    # -- applying ----------------------------------------------------------------------------------

    def withdrawn(self) -> bool:
        """The state keeps a post open that does not count: void, or never in the log."""
        return self._state.counters.open_n is not None and self._open is None

    def apply_op(self) -> ops.Apply | None:
        """The next commit, if its payloads are here."""
        apply = self.side.next()
        if apply is None:
            return None
        commit = apply.commit
        payloads = [self.payloads.of(member) for member in commit.members]
        if any(payload is None for payload in payloads):
            self.payloads.want(commit)
            return None
        exchange = self.side.agreement.plans[commit.plan].exchange
        return ops.Apply(
            commit=commit,
            named=apply.named,
            expired=apply.expired,
            rate=exchange.outer_learning_rate,
            momentum=exchange.outer_momentum,
            payloads=tuple(payload for payload in payloads if payload is not None),
        )

    def applied(self, commit: Commit) -> None:
        """Rank 0: the state stands on this commit now."""
        apply = self.side.next()
        assert isinstance(apply, Apply)
        assert apply.commit == commit
        self.side.applied(apply)
        if apply.named or apply.expired:
            self._open = None
        self.payloads.forget(commit)
        self._applied_at = self._clock()
        self._applied_step = self._state.counters.step
        self._fall_into_step()
        if due(self._state.parameters, commit):
            digest = model_digest(self._state.holdings.a)
            self._outbox.post(Digest(fragment=0, round=commit.round, digest=digest))
            self.digests.hold(commit.round, digest)

    def behind(self) -> bool:
        """Not yet on the round that was agreed when this life began."""
        return self.side.base < self._reach

    # -- posting -----------------------------------------------------------------------------------

    def window_over(self) -> bool:
        exchange, counters = self.exchange, self._state.counters
        if exchange.window_steps is not None:
            return counters.steps >= exchange.window_steps
        assert exchange.window_seconds is not None
        passed = (self._clock() - self._began) / exchange.window_seconds
        return counters.steps > 0 and (passed >= 1 or (passed >= 0.5 and self._holds_up()))

    def _holds_up(self) -> bool:
        """All others of the newest round have posted for the next: who is late by half a window
        and waits for the whole of it would be late again and again, and the others' posts old."""
        agreement = self.side.agreement
        if not agreement.commits[0]:
            return False
        _, newest = agreement.commits[0][-1]
        others = {member.site for member in newest.members} - {self.hand.site}
        return bool(others) and others <= {post.site for post in agreement.open_posts()}

    def windows_alone(self) -> float:
        """Windows since a commit was last applied."""
        exchange = self.exchange
        if exchange.window_steps is not None:
            return (self._state.counters.step - self._applied_step) / exchange.window_steps
        assert exchange.window_seconds is not None
        return (self._clock() - self._applied_at) / exchange.window_seconds

    def may_train(self) -> bool:
        return self.side.may_train(self.windows_alone(), self._state.counters.steps)

    def _fall_into_step(self) -> None:
        """Sites whose windows of time begin with the same commit post together. One that came back,
        or whose post came late, would else stay out of step for ever, and every round lack one.
        Who has most of a window behind it goes on, so that nobody is held back again and again."""
        seconds = self.exchange.window_seconds
        if seconds is not None and self._clock() - self._began < seconds / 2:
            self._began = self._clock()

    def post_op(self, *, leaving: bool = False) -> ops.Post | None:
        """A post, if it is time and there is something to say."""
        due = leaving or self.side.should_drain or self.window_over()
        if not due or self._state.counters.steps == 0 or not self.side.can_post():
            return None
        exchange = self.exchange
        return ops.Post(
            n=self.side.next_n, codec=exchange.codec, block=exchange.block,
            moments=exchange.moments == "shared",
        )  # fmt: skip

    def contribution(
        self, op: ops.Post, before: Counters, frames: "Sequence[bytes]"
    ) -> Contribution:
        """Rank 0: the record of the post that was just made; `before` are the counters before."""
        shards, start = [], 0
        for rank, frame in enumerate(frames):
            stop = stretch_of(rank, len(frames), self._state.parameters, op.block).stop
            if frame:
                digest = f"sha256:{hashlib.sha256(frame).hexdigest()}"
                self.payloads.keep(digest, frame)
                shards.append(
                    Shard(parameter="*", start=start, stop=stop, blob=digest, bytes=len(frame))
                )
            start = stop
        body = Contribution(
            fragment=0,
            n=op.n,
            base=before.round,
            tokens=before.tokens,
            steps=before.steps,
            trained=before.trained,
            codec=op.codec,
            form=Form.UPDATE,
            rule=self.hand.rule,
            cursor=before.cursor,
            incarnation=self.hand.incarnation,
            shards=tuple(shards),
            final=self.side.should_drain,
        )
        self.side.posted(body)
        self._open = op.n
        self._began = self._clock()
        return body

    def send(self, body: Contribution, frames: "Sequence[bytes]") -> None:
        self._sent = self._outbox.post(body, frames)

    # -- going back --------------------------------------------------------------------------------

    def agreed(self, within_s: float = CATCH_UP_S) -> "tuple[Checkpoint, Replay]":
        """The agreed model from the log, as far as it was heard."""
        agreement = self.side.agreement
        checkpoint = self._checkpoints.fetch(within_s, agreement.round())
        return checkpoint, replayed(checkpoint, agreement, self.payloads, within_s)

    def counters(self, round_: int) -> Counters:
        """Those of a site that begins from the agreed model of a round."""
        agreement, site = self.side.agreement, self.hand.site
        commits = agreement.commits[0]
        newest = agreement.newest(site)
        counters = Counters(
            round=round_,
            committed=commits[round_ - 1][1].tokens if round_ else 0,
            n=agreement.newest_n(site),
            trained=agreement.kept(site),
        )
        return replace(counters, cursor=newest.body.cursor) if newest else counters

    def rolled_back(self) -> None:
        """The state has gone back to the agreed model of its round."""
        self.side.begin(self._state.counters.round)
        self._open = None
        self.digests = self.digests.cleared()
        self._began = self._applied_at = self._clock()
        self._applied_step = self._state.counters.step
