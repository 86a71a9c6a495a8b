"""How the hosts of a site come together, and again when one is lost, returns, or leads no more.

The crew record says who belongs to the site's crew and who leads; inside one record the leader's
store numbers the epochs. Keys of the store, under `crew<record's epoch>/`:

    call             the epoch the leader calls for
    drop/<epoch>     why a rank gave up an epoch
    join/<host>      a host outside the epoch asks for the next one
    here/<epoch>/<host>     it has come, and where its state stands
    members/<epoch>  who trains in it, in rank order, and whose state counts
    beat/<host>      a counter that stands still when a host is frozen or gone
    note/<word>      what a follower has done and the leader waits for
"""

import contextlib
import json
import logging
import time
from typing import TYPE_CHECKING

from argosy.core.errors import HostError
from argosy.engine.crew import Formed, Standing
from argosy.engine.group import Alone, EpochGroup, EpochOver, Rules
from argosy.engine.watch import ASK_EVERY_S, Seating, Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from argosy.engine.group import Group

log = logging.getLogger(__name__)

FIRST_GATHERING_S = 30.0  # a leader that starts gives the others so long to start, too
GATHERING_S = 10.0
# A dead peer shows as an error at once and a frozen one by its heart, so this only has to be longer
# than two ranks may differ in one step; gloo keeps the buffers of what is given up for as long.
ANSWER_S = 60.0


class StoreCrew:
    """A crew of several hosts: led by the first one's store, renamed by crew records."""

    def __init__(
        self,
        host: str,
        seating: "Callable[[], Seating | None]",
        *,
        tell: "Callable[[str, str], None]",
        address: str,
        cuda: bool = False,
        answer_s: float = ANSWER_S,
    ) -> None:
        """`seating` is the newest crew record; `tell(what, detail)` makes an event for people."""
        self._host = host
        self._tell = tell
        self._seating = seating
        self._cuda = cuda
        self._watch: Watch | None = None
        self._members: tuple[str, ...] = ()  # of the last epoch this host was in, and its name
        self._epoch = ""
        self._missed: Seating | None = None  # whose leader was told to be lost
        self._rules = Rules(self.over, within_s=answer_s, address=address)

    def leads(self, within_s: float) -> bool:
        """Does the newest crew record that names this host put it first? Waits for one."""
        return self._named(time.monotonic() + within_s).hosts[0] == self._host

    def form(self, standing: Standing, within_s: float) -> Formed:
        """The next epoch that this host is in. Waits for a leader's call, and for a leader."""
        deadline = time.monotonic() + within_s
        while True:
            seating = self._named(deadline)
            try:
                if self._watch is None or self._watch.seating != seating:
                    self._follow(seating)
                formed = self._formed(seating, standing, deadline)
            except EpochOver as over:
                self._failed(seating, str(over))
                time.sleep(ASK_EVERY_S)
                continue
            if formed is not None:
                return formed

    def over(self) -> str | None:
        """Why the running epoch cannot go on; None while it can."""
        watch = self._watch
        if watch is None:
            return "no epoch yet"
        if self._seating() != watch.seating:
            return "the controller named another crew"
        return watch.over()

    def report(self, reason: str) -> None:
        """Tell the leader, so that it tells all: gloo tells only the neighbours of a dead peer."""
        if self._watch is not None:
            self._watch.drop(reason)

    def newcomers(self) -> bool:
        return self._watch is not None and self._watch.joining()

    def note(self, key: str) -> None:
        """A word for the leader, of this crew's own doing. Lost if the leader is."""
        if self._watch is not None:
            with contextlib.suppress(EpochOver):
                self._watch.store.set(f"note/{key}", "1")

    def noted(self, key: str) -> bool:
        watch = self._watch
        return watch is not None and watch.store.get(f"note/{key}") is not None

    def leave(self) -> None:
        if self._watch is not None:
            with contextlib.suppress(EpochOver):
                self._watch.leave()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _named(self, deadline: float) -> Seating:
        """The newest crew record, once it names this host."""
        while (seating := self._seating()) is None or self._host not in seating.hosts:
            self._check(deadline)
            time.sleep(ASK_EVERY_S)
        self._check(deadline)
        return seating

    def _check(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise HostError(
                "no crew of this site to join",
                where=self._host,
                hint="the controller names crews; `argosy resume` starts one",
            )

    def _failed(self, seating: Seating, reason: str) -> None:
        """A lost leader is told once; then its store is tried again until another one leads."""
        log.info("no epoch: %s", reason)
        if self._watch is None or self._watch.lost:
            if self._missed != seating:
                self._missed = seating
                self._tell("lost", f"the site's leader {seating.hosts[0]} does not answer")
            self.close()
        else:
            self.report(reason)

    def _follow(self, seating: Seating) -> None:
        self.close()
        log.info("crew %d: %s leads %s", seating.epoch, seating.hosts[0], ", ".join(seating.hosts))
        self._watch = Watch(self._host, seating)
        self._missed = None

    def _formed(self, seating: Seating, standing: Standing, deadline: float) -> Formed | None:
        watch = self._watch
        assert watch is not None
        leads = seating.hosts[0] == self._host
        called = watch.call() if leads else watch.called(deadline)
        store = watch.store
        store.set(f"here/{called}/{self._host}", json.dumps([standing, self._epoch]))
        watch.attend(called)
        if leads:
            self._publish(seating, called, watch)
        told = watch.wait_for(f"members/{called}", deadline)
        if told is None:
            return None
        members = json.loads(told)
        hosts = tuple(members["hosts"])
        if self._host not in hosts:
            watch.ask_to_join(deadline)
            return None
        group: Group = Alone()
        if len(hosts) > 1:
            within = store.prefixed(f"group/{called}")
            rank = hosts.index(self._host)
            group = EpochGroup(within, rank, len(hosts), self._rules, cuda=self._cuda)
        watch.attend(called, hosts)
        self._members, self._epoch = hosts, f"{seating.epoch}.{called} at {seating.port}"
        return Formed(
            group=group, hosts=hosts, source=members["source"], fresh=members["fresh"],
            name=self._epoch,
        )  # fmt: skip

    def _publish(self, seating: Seating, called: int, watch: Watch) -> None:
        """Wait for those who are to be expected, then say who is in. The leader alone does this.

        A first epoch waits for everyone to start; a later one only for those of the one before
        whose hearts beat, and for those who have knocked: nobody stands still for a newcomer.
        """
        patience = GATHERING_S if self._members else FIRST_GATHERING_S
        until = time.monotonic() + patience
        came: dict[str, tuple[Standing, str]] = {}
        while True:
            if self._seating() != seating:
                raise EpochOver("the controller named another crew")
            for host in seating.hosts:
                told = watch.store.get(f"here/{called}/{host}") if host not in came else None
                if told is not None:
                    standing, was = json.loads(told)
                    came[host] = (tuple(standing), was)
            awaited = [
                host
                for host in seating.hosts
                if host not in came
                and (host in (self._members or seating.hosts) or watch.knocked(host))
                and watch.beats(host)
            ]
            if not awaited or time.monotonic() > until:
                break
            time.sleep(ASK_EVERY_S)
        hosts = tuple(host for host in seating.hosts if host in came)
        old = [host for host in hosts if self._epoch and came[host][1] == self._epoch] or hosts
        source = max(old, key=lambda host: (came[host][0], -hosts.index(host)))
        settled = bool(self._epoch) and len(set(came.values())) == 1
        watch.store.set(
            f"members/{called}",
            json.dumps({"hosts": hosts, "source": hosts.index(source), "fresh": not settled}),
        )
