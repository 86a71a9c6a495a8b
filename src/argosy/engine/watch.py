"""A side thread on the crew's store: beats its own heart, hears calls, sees who is frozen or gone."""

import logging
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from argosy.engine.group import EpochOver, c10d

log = logging.getLogger(__name__)

BEAT_EVERY_S = 0.1
GONE_AFTER_S = 1.5  # without a beat, once something is wrong anyway
FROZEN_AFTER_S = 10.0  # without a beat, when nobody has complained yet
ANSWER_S = 5.0  # the leader's store
CONNECT_S = 1.5  # a leader that is gone must not delay who looks for the next one
ASK_EVERY_S = 0.02
GONE = "gone"


@dataclass(frozen=True, kw_only=True, slots=True)
class Seating:
    """A crew record, and where its leader's store is."""

    epoch: int
    hosts: tuple[str, ...]
    address: str
    port: int


def serve_store() -> Any:
    """This host's own store, which it keeps in case it leads. Its port is free and random."""
    return c10d.TCPStore(
        host_name="0.0.0.0",  # noqa: S104 - the site's other hosts reach it; sites are private networks
        port=0,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=ANSWER_S),
    )


class StoreClient:
    """One connection to a store. A store's client serves one caller at a time, so each has its own."""

    def __init__(self, store: Any, prefix: str = "") -> None:
        self._raw = store
        self._store = c10d.PrefixStore(prefix, store) if prefix else store

    @classmethod
    def connect(cls, seating: Seating) -> "StoreClient":
        try:
            store = c10d.TCPStore(
                host_name=seating.address,
                port=seating.port,
                is_master=False,
                wait_for_workers=False,
                timeout=timedelta(seconds=CONNECT_S),
            )
            store.set_timeout(timedelta(seconds=ANSWER_S))
        except (RuntimeError, ValueError) as error:
            raise EpochOver(f"{seating.hosts[0]}'s store does not answer") from error
        return cls(store, f"crew{seating.epoch}")

    def get(self, key: str) -> str | None:
        """The value, or None when nobody has set it."""
        try:
            return self._store.get(key).decode() if self._store.check([key]) else None
        except RuntimeError as error:
            raise EpochOver("the leader's store does not answer") from error

    def set(self, key: str, value: str) -> None:
        try:
            self._store.set(key, value)
        except RuntimeError as error:
            raise EpochOver("the leader's store does not answer") from error

    def prefixed(self, prefix: str) -> Any:
        """For a process group: torch's own kind of store."""
        return c10d.PrefixStore(prefix, self._store)


class Watch:
    """What a rank knows of its crew while it is busy with a step."""

    def __init__(self, host: str, seating: Seating) -> None:
        self.seating = seating
        self.store = StoreClient.connect(seating)
        self.lost: str | None = None  # the leader, with its store
        self._mine = StoreClient.connect(seating)  # the thread's
        self._host = host
        self._leads = seating.hosts[0] == host
        self._called = int(self.store.get("call") or 0)
        self._attending = 0  # the epoch this rank is in, or forms
        self._members: tuple[str, ...] = ()
        self._over: str | None = None  # why the leader thinks so
        self._wish: str | None = None  # why this rank wants another epoch
        self._pulse: dict[str, tuple[str, float]] = {}  # host: last beat, and when it changed
        self._knocks: dict[str, str] = {}
        self._answered: dict[str, str] = {}  # by the newest call, and by the one before
        self._before: dict[str, str] = {}
        self._wake = threading.Event()
        self._closed = False
        self._gone = False
        self._thread = threading.Thread(target=self._run, name="crew watch", daemon=True)
        self._thread.start()

    def over(self) -> str | None:
        """Why the epoch that this rank attends cannot go on."""
        if self.lost or self._over:
            return self.lost or self._over
        return "another epoch was called" if self._called > self._attending else None

    def drop(self, reason: str) -> None:
        """This rank gives up its epoch; the thread says so to the leader."""
        self._wish = reason
        self._wake.set()

    def call(self) -> int:
        """The leader asks everyone into a new epoch."""
        called = max(self._called, self._attending) + 1
        self._before, self._answered = self._answered, dict(self._knocks)
        self.store.set("call", str(called))
        self._called = called
        return called

    def called(self, deadline: float) -> int:
        """The epoch a follower is to come to: one that it has not been in."""
        while self._called <= self._attending:
            self._pause(deadline)
        return self._called

    def attend(self, epoch: int, members: tuple[str, ...] = ()) -> None:
        self._attending, self._members = epoch, members
        self._over = self._wish = None

    def wait_for(self, key: str, deadline: float) -> str | None:
        """A key's value; None when another epoch was called meanwhile."""
        while (told := self.store.get(key)) is None:
            if self._called > self._attending:
                return None
            self._pause(deadline)
        return told

    def ask_to_join(self, deadline: float) -> None:
        """Knock, and wait until the leader calls the next epoch."""
        self.store.set(f"join/{self._host}", f"{self._attending}")
        while self._called <= self._attending:
            self._pause(deadline)

    def leave(self) -> None:
        """Going away on purpose: nobody need wait for this heart."""
        self._gone = True
        self.store.set(f"beat/{self._host}", GONE)

    def joining(self) -> bool:
        """Has a host outside knocked since the last call?"""
        return self._knocks != self._answered

    def knocked(self, host: str) -> bool:
        """Did that host ask for the epoch that was called last?"""
        return host in self._answered and self._answered[host] != self._before.get(host)

    def beats(self, host: str) -> bool:
        """Is that host's heart beating? Before its first beat it has the benefit of the doubt."""
        beat, changed = self._pulse.get(host, ("", time.monotonic()))
        return beat != GONE and time.monotonic() - changed < GONE_AFTER_S

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        self._thread.join(ANSWER_S)

    def _pause(self, deadline: float) -> None:
        if self.lost:
            raise EpochOver(self.lost)
        if time.monotonic() > deadline:
            raise EpochOver("nobody called for an epoch in time")
        time.sleep(ASK_EVERY_S)

    def _run(self) -> None:
        count = 0
        try:
            while not self._closed:
                self._wake.wait(BEAT_EVERY_S)
                self._wake.clear()
                count += 1
                self._turn(count)
        except EpochOver as over:
            self.lost = f"{self.seating.hosts[0]} is lost: {over}"

    def _turn(self, count: int) -> None:
        store, epoch, wish = self._mine, self._attending, self._wish
        if not self._gone:
            store.set(f"beat/{self._host}", str(count))
        if wish is not None:
            store.set(f"drop/{epoch}", f"{self._host}: {wish}")
            self._wish = None
        self._called = max(self._called, int(store.get("call") or 0))
        if self._leads:
            self._look_after(epoch)

    def _look_after(self, epoch: int) -> None:
        """The leader's part: complaints, silent hearts, knocks."""
        reason = self._mine.get(f"drop/{epoch}")
        if reason is not None and epoch == self._attending:
            self._over = reason
        for host in self.seating.hosts:
            if host == self._host:
                continue
            self._feel(host)
            knock = self._mine.get(f"join/{host}")
            if knock is not None:
                self._knocks[host] = knock

    def _feel(self, host: str) -> None:
        beat = self._mine.get(f"beat/{host}") or ""
        last, changed = self._pulse.get(host, ("", time.monotonic()))
        if beat != last or host not in self._pulse:
            self._pulse[host] = (beat, time.monotonic())
        elif host in self._members and beat != GONE and time.monotonic() - changed > FROZEN_AFTER_S:
            self._over = f"{host} has not moved for {FROZEN_AFTER_S:.0f} s"
