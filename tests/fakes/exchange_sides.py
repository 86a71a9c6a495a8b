"""A controller's and a site's side with a log and a clock, as tests tell their stories."""

from fakes.exchange import LEADER, Log, contribution, plan, writer

from argosy.core.plan import Plan
from argosy.core.records import Body, Commit, Lead, Planned, Writer
from argosy.exchange.controller import ControllerSide
from argosy.exchange.site import Apply, SiteSide

BERLIN, LIMA, OSAKA = writer("berlin"), writer("lima"), writer("osaka")


class Run:
    """A controller, its log and its clock. Every commit it appends has to count."""

    def __init__(self, *, who: Writer = LEADER, log: Log | None = None, told: Plan | None = None):
        self.log = log or Log()
        self.who = who
        self.now = 0.0
        self.side = ControllerSide(who, low_s=2.0, high_s=300.0)
        for entry in self.log.entries:
            self.side.hear(entry, self.now)
        self.say(who, self.side.lead())
        if self.side.agreement.plan is None:
            self.say(who, Planned(plan=told or plan(), reason="first plan"))
        self.side.expect(["berlin", "lima", "osaka"])

    def say(self, who: Writer, body: Body) -> int:
        entry = self.log.append(who, body)
        self.side.hear(entry, self.now)
        return entry.seq

    def post(self, *sites: Writer, n: int = 1, base: int = 0, final: bool = False) -> None:
        for who in sites:
            life = who.incarnation
            self.say(who, contribution(n, base, final=final, incarnation=life))

    def decide(self) -> Commit | None:
        """What is decided now, appended and heard."""
        decided = self.side.decide(self.now)
        if decided is not None:
            seq = self.say(self.who, decided)
            assert self.side.agreement.commits[0][-1] == (seq, decided), self.side.agreement.void
        return decided

    def named(self) -> list[str] | None:
        decided = self.decide()
        return [member.site for member in decided.members] if decided else None

    def wait(self) -> None:
        """Until the clock alone may change something."""
        wake_s = self.side.next_wake(self.now)
        assert wake_s is not None
        self.now = wake_s


class Berlin:
    """Berlin's side and the log it hears."""

    def __init__(self, log: Log | None = None, **exchange: object) -> None:
        self.side = SiteSide("berlin")
        self.log = log or Log()
        for entry in self.log.entries:
            self.side.hear(entry)
        if log is None:
            self.say(LEADER, Lead(term=1))
            self.say(LEADER, Planned(plan=plan(**exchange), reason="first plan"))  # type: ignore[arg-type]

    def say(self, who: Writer, body: Body) -> int:
        entry = self.log.append(who, body)
        self.side.hear(entry)
        return entry.seq

    def post(self, *, final: bool = False, writer: Writer = BERLIN) -> int:
        """Decided here, and landed."""
        n, base, life = self.side.next_n, self.side.base, writer.incarnation
        body = contribution(n, base, final=final, incarnation=life)
        self.side.posted(body)
        return self.say(writer, body)

    def keeps(self) -> int | None:
        return self.side.open

    def overtaken(self) -> bool:
        return self.side.overtaken

    def drains(self) -> bool:
        return self.side.should_drain

    def finished(self) -> bool:
        return self.side.finished

    def apply(self) -> Apply:
        apply = self.side.next()
        assert apply is not None
        self.side.applied(apply)
        return apply
