"""Read the log as it grows and fetch the payloads that commits name, beside the training."""

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from argosy.core.errors import DamagedError, HostError, UserError
from argosy.core.records import CONTROLLER, Commit, Contribution, Crew, HostStarted
from argosy.engine.watch import Seating

if TYPE_CHECKING:
    from collections.abc import Callable

    from argosy.core.records import Entry, Member
    from argosy.logbook import Logbook

log = logging.getLogger(__name__)

HOLD_S = 20.0  # one long poll
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 5.0
FETCHERS = 4  # at once: a payload costs a round trip or two, and a commit names one per site
SPEAKS = frozenset(("run", "roster", "lead", "plan", "crew", "commit", "drain", "end"))


class Payloads:
    """What contributions say where their bytes are, and the bytes of those that count soon."""

    def __init__(self, logbook: "Logbook") -> None:
        self._logbook = logbook
        self._lock = threading.Condition()
        self._stripes: dict[tuple[str, int], tuple[str, ...]] = {}
        self._wanted: deque[str] = deque()
        self._on_the_way: set[str] = set()
        self._blobs: dict[str, bytes] = {}
        self._after: int | None = None

    def begin(self, after: int) -> None:
        """From now on fetch what commits after this round name."""
        with self._lock:
            self._after = after

    def hear(self, entry: "Entry") -> None:
        match entry.body:
            case Contribution() as post:
                stripes = sorted(post.shards, key=lambda shard: shard.start)
                with self._lock:
                    key = (entry.writer.site, post.n)
                    self._stripes.setdefault(key, tuple(shard.blob for shard in stripes))
            case Commit() as commit if self._after is not None and commit.round > self._after:
                self.want(commit)

    def want(self, commit: Commit) -> None:
        with self._lock:
            for member in commit.members:
                for digest in self._stripes.get((member.site, member.n), ()):
                    if not (
                        digest in self._blobs
                        or digest in self._wanted
                        or digest in self._on_the_way
                    ):
                        self._wanted.append(digest)
            self._lock.notify_all()

    def keep(self, digest: str, blob: bytes) -> None:
        """A blob this host has made itself: it will not be fetched."""
        with self._lock:
            self._blobs[digest] = blob

    def of(self, member: "Member") -> bytes | None:
        """A member's payload, once all its stripes are here."""
        with self._lock:
            stripes = self._stripes[member.site, member.n]
            if any(digest not in self._blobs for digest in stripes):
                return None
            return b"".join(self._blobs[digest] for digest in stripes)

    def get(self, member: "Member") -> bytes:
        """A member's payload, fetched now."""
        with self._lock:
            stripes = self._stripes[member.site, member.n]
            kept = {digest: self._blobs[digest] for digest in stripes if digest in self._blobs}
        return b"".join(kept.get(digest) or self._logbook.get(digest) for digest in stripes)

    def forget(self, commit: Commit) -> None:
        """Its round is applied, its expired ones will never be named."""
        with self._lock:
            gone = [(m.site, m.n) for m in commit.members]
            gone += [(x.site, x.n) for x in commit.expired]
            for key in gone:
                for digest in self._stripes.get(key, ()):
                    self._blobs.pop(digest, None)

    def fetch(self, wait_s: float) -> bool:
        """Fetch one wanted blob; False when there was none. Threads may share the work."""
        with self._lock:
            if not self._wanted and wait_s:
                self._lock.wait(wait_s)
            if not self._wanted:
                return False
            digest = self._wanted.popleft()
            self._on_the_way.add(digest)
        try:
            blob = self._logbook.get(digest)
        except BaseException as error:
            with self._lock:
                self._on_the_way.discard(digest)
                self._wanted.appendleft(digest)
            if isinstance(error, DamagedError):
                # Void is only what everyone finds undecodable, so a blob that came broken is asked
                # for again: a site that gave up alone would leave the agreement.
                raise HostError(f"{error.what}; fetching it again", where=error.where) from error
            raise
        with self._lock:
            self._on_the_way.discard(digest)
            self._blobs[digest] = blob
        return True


class Inbox:
    """The log's entries in order, for one taker; `start` reads in threads, else `take` reads."""

    def __init__(self, logbook: "Logbook", payloads: Payloads, *, site: str) -> None:
        self.payloads = payloads
        self.seating: Seating | None = None  # who trains this site now, by the newest crew record
        self.controller_at = time.monotonic()  # when a controller was last heard
        self.away_since: float | None = None
        self._logbook = logbook
        self._site = site
        self._news = threading.Condition()
        self._entries: deque[Entry] = deque()
        self._next = 1
        self._whole = False
        self._failure: Exception | None = None
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []
        self._crew: Crew | None = None
        self._stores: dict[str, tuple[str, int]] = {}

    def start(self) -> None:
        work: list[tuple[str, Callable[[], None]]] = [("read the log", self._read_on)]
        work += [(f"fetch payloads {n}", self._fetch_on) for n in range(1, FETCHERS + 1)]
        for name, task in work:
            thread = threading.Thread(target=task, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def take(self) -> list["Entry"]:
        """What was read since; raises what stopped the reading."""
        if not self._threads:
            self._pump(0.0)
            while self.payloads.fetch(0.0):
                pass
        with self._news:
            if self._failure is not None:
                raise self._failure
            taken = list(self._entries)
            self._entries.clear()
        return taken

    def take_all(self, within_s: float) -> list["Entry"]:
        """Everything from the first record to the newest there is."""
        taken: list[Entry] = []
        deadline = time.monotonic() + within_s
        while not self._whole or self._entries:
            taken += self.take()
            if time.monotonic() > deadline:
                raise HostError(
                    f"the logbook could not be read within {within_s:.0f} s",
                    where=self._site,
                    hint="is its address reachable from here, and its server running?",
                )
            if self._threads:
                self.wait(0.1)
        return taken

    def wait(self, within_s: float) -> None:
        """Until there is news, a payload included, or the time is up."""
        if not self._threads:
            return  # `take` reads by itself
        with self._news:
            if not self._entries and self._failure is None:
                self._news.wait(within_s)

    def close(self) -> None:
        self._closed.set()

    def _read_on(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._closed.is_set():
            try:
                self._pump(HOLD_S)
                pause_s = FIRST_PAUSE_S
                self.away_since = None
            except HostError as error:  # away: train on, read on when it is back
                if self.away_since is None:
                    log.warning("the logbook is away: %s", error)
                    self.away_since = time.monotonic()
                self._closed.wait(pause_s)
                pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
            except Exception as error:  # noqa: BLE001 - told to the main thread, which ends
                self._fail(error)
                return

    def _fetch_on(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._closed.is_set():
            try:
                if self.payloads.fetch(1.0):
                    pause_s = FIRST_PAUSE_S
                    with self._news:
                        self._news.notify_all()
            except HostError as error:
                log.warning("a payload could not be fetched: %s", error)
                self._closed.wait(pause_s)
                pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
            except Exception as error:  # noqa: BLE001 - told to the main thread, which ends
                self._fail(error)
                return

    def _pump(self, wait_s: float) -> None:
        # The first reads ask for what is there; only then is it worth waiting for more.
        read = self._logbook.read(self._next, wait_s if self._whole else 0.0)
        for entry in read:
            self._first_look(entry)
        with self._news:
            self._entries.extend(read)
            if read:
                self._next = read[-1].seq + 1
            else:
                self._whole = True
            self._news.notify_all()

    def _first_look(self, entry: "Entry") -> None:
        """What must not wait for the end of a step."""
        self.payloads.hear(entry)
        if entry.writer.site == CONTROLLER and entry.kind in SPEAKS:
            self.controller_at = time.monotonic()
        match entry.body:
            case HostStarted() as started if entry.writer.site == self._site:
                self._stores[entry.writer.host] = (started.address, started.store_port)
            case Crew() as crew if crew.site == self._site and crew.hosts:
                if self._crew is None or crew.epoch >= self._crew.epoch:
                    self._crew = crew
            case _:
                return
        named = self._crew
        if named is not None and named.hosts[0] in self._stores:
            address, port = self._stores[named.hosts[0]]
            self.seating = Seating(epoch=named.epoch, hosts=named.hosts, address=address, port=port)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, UserError):
            log.error("reading the log failed", exc_info=error)
        with self._news:
            self._failure = error
            self._news.notify_all()
