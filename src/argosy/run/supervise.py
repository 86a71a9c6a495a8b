"""The one loop of a controller: hear what is recorded, see what runs, decide, do.

Four pure modules decide: `state` folds the records, `vitals` what is seen of the processes,
`reconcile` says which processes should live, `react` what to write. Here it is only done.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from argosy.core.errors import HostError, UserError
from argosy.core.records import CONTROLLER, Contribution, Entry, Progress
from argosy.exchange.controller import ControllerSide
from argosy.run import vitals as lives
from argosy.run.desk import STOP_S, Desk
from argosy.run.react import Append, Fail, Finish, Restart, Seen, Terms, react
from argosy.run.reconcile import Start, Stop, reconcile, wanted
from argosy.run.state import RunState, fold
from argosy.run.together import first
from argosy.run.vitals import Vitals

LONG_POLL_S = 1.0  # also how long an interrupted controller waits for its reader
TURN_S = 0.5  # at least so often it looks at its processes and at the clock
AGAIN_S = 0.2  # between two tries to reach a logbook that is away


@dataclass(slots=True)
class Lead:
    """What this controller knows, and what it is in the middle of."""

    state: RunState
    side: ControllerSide
    terms: Terms
    heard_s: float  # when the newest record was read
    vitals: Vitals = field(default_factory=Vitals)
    written: int = 0  # the newest of its own records
    posting: int = 0  # records on their way into the logbook
    moving: set[str] = field(default_factory=set)  # hosts whose process is being started or ended

    @property
    def up_to_date(self) -> bool:
        """Whether the state contains all that was decided: else it would be decided twice."""
        return not self.posting and self.state.seq >= self.written

    def hear(self, entries: Iterable[Entry], now_s: float) -> None:
        """Fold records into all that is decided on."""
        for entry in entries:
            self.state = fold(self.state, entry)
            self.side.hear(entry, now_s)
            if entry.writer.site != CONTROLLER:
                work = isinstance(entry.body, Progress | Contribution)
                self.vitals = lives.heard(self.vitals, entry.writer.host, now_s, work=work)
            self.heard_s = now_s


async def supervise(desk: Desk, lead: Lead) -> Finish:
    """Bring the run up, keep it going, and come back when its last round is safe."""
    news: asyncio.Queue[tuple[Entry, ...]] = asyncio.Queue()
    try:
        async with asyncio.TaskGroup() as tasks:
            loop = _Loop(desk, lead, tasks)
            loop.do(_hear(desk, lead, news))
            while (end := await loop.turn(news)) is None:
                pass
            loop.drop_everything()
            return end
    except* UserError as wrong:
        raise first(wrong) from None


class _Loop:
    def __init__(self, desk: Desk, lead: Lead, tasks: asyncio.TaskGroup) -> None:
        self._desk = desk
        self._lead = lead
        self._clock = desk.means.clock
        self._group = tasks
        self._tasks: set[asyncio.Task[None]] = set()
        self._told = ""  # what has been said about the logbook

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drop_everything(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def turn(self, news: "asyncio.Queue[tuple[Entry, ...]]") -> Finish | None:
        lead = self._lead
        entries = await _next(news)
        now_s = self._clock()
        self._take(entries, now_s)
        self._look(now_s)

        for step in reconcile(wanted(lead.state, lead.vitals, now_s), lead.vitals.alive()):
            match step:
                case Start(host=host):
                    self._move(host, self._start(host))
                case Stop(host=host):
                    self._move(host, self._stop(host))

        return self._react(now_s) if lead.up_to_date else None

    def _react(self, now_s: float) -> Finish | None:
        lead = self._lead
        seen = Seen(
            state=lead.state,
            vitals=lead.vitals,
            terms=lead.terms,
            now_s=now_s,
            heard_s=lead.heard_s,
        )
        for action in react(seen, lead.side):
            match action:
                case Append(body=body):
                    lead.posting += 1
                    posted = asyncio.wrap_future(self._desk.post(body))
                    self.do(self._posted(posted))
                case Restart(host=host):
                    self._move(host, self._stop(host))
                case Fail(error=error, what=what, host=failed):
                    wrong = error(what, where=failed)
                    raise self._desk.why_ended(failed, wrong) if failed else wrong
                case Finish():
                    return action
        return None

    def _take(self, entries: tuple[Entry, ...], now_s: float) -> None:
        """Hear."""
        if not entries:
            return
        self._lead.hear(entries, now_s)
        for entry in entries:
            self._desk.provider.heard(entry)
        self._desk.audience.heard(entries)

    def _look(self, now_s: float) -> None:
        """See: which processes have ended, which hosts cannot be had."""
        lead, provider = self._lead, self._desk.provider
        self._mind_the_logbook()
        for end in provider.exits():
            lead.vitals = lives.exited(lead.vitals, end.host, end.code, str(end.log), now_s)
        lead.vitals = replace(lead.vitals, away=provider.away())

    def _mind_the_logbook(self) -> None:
        """A logbook that takes nothing is waited for; a person may be able to mend it."""
        trouble = self._desk.trouble
        if trouble and str(trouble) != self._told:
            self._desk.audience.say(f"the logbook takes no records now: {trouble}")
        self._told = str(trouble) if trouble else ""

    def _move(self, host: str, how: Coroutine[Any, Any, None]) -> None:
        """Machines take their time; the loop does not wait for them."""
        if host in self._lead.moving:
            how.close()
            return
        self._lead.moving.add(host)
        self.do(how)

    async def _start(self, host: str) -> None:
        lead = self._lead
        try:
            await self._desk.start(host)
        except HostError as wrong:
            self._desk.audience.say(str(wrong))
            lead.vitals = lives.not_had(lead.vitals, host, self._clock())
        else:
            plan = lead.state.plan.number if lead.state.plan else 0
            lead.vitals = lives.started(lead.vitals, host, plan, self._clock())
        finally:
            lead.moving.discard(host)

    async def _stop(self, host: str) -> None:
        try:
            await self._desk.provider.stop(host, within_s=STOP_S)
        except HostError as wrong:
            self._desk.audience.say(str(wrong))
        else:
            self._lead.vitals = lives.stopped(self._lead.vitals, host)
        finally:
            self._lead.moving.discard(host)

    async def _posted(self, posted: "asyncio.Future[int]") -> None:
        try:
            self._lead.written = max(self._lead.written, await posted)
        finally:
            self._lead.posting -= 1


async def _hear(desk: Desk, lead: Lead, news: "asyncio.Queue[tuple[Entry, ...]]") -> None:
    """Long-poll the logbook. While it is away, ask on: `reconcile` starts its server again."""
    from_seq = lead.state.seq + 1
    while True:
        try:
            entries = await desk.read(from_seq, LONG_POLL_S)
        except HostError:
            lead.vitals = lives.deaf(lead.vitals, desk.means.clock())
            await asyncio.sleep(AGAIN_S)
            continue
        if entries:
            from_seq = entries[-1].seq + 1
            news.put_nowait(tuple(entries))


async def _next(news: "asyncio.Queue[tuple[Entry, ...]]") -> tuple[Entry, ...]:
    """What is new, or nothing after a while."""
    try:
        return await asyncio.wait_for(news.get(), TURN_S)
    except TimeoutError:
        return ()
