"""A controller's memory over a tape of records, with a clock that is set by hand."""

from fakes.run import HOSTS, Tape

from argosy.core.job import Limits
from argosy.core.records import CONTROLLER, HostEvent, Writer
from argosy.exchange.controller import ControllerSide
from argosy.run import vitals as lives
from argosy.run.react import Action, Append, Seen, Terms, react
from argosy.run.state import RunState, fold
from argosy.run.vitals import Vitals

EVERYBODY = [host for hosts in HOSTS.values() for host in hosts]


class Control:
    """A controller's memory over a tape, with a clock that is set by hand."""

    def __init__(self, *, tokens: int = 10**9, limits: Limits | None = None) -> None:
        self.tape = Tape()
        self.side = ControllerSide(Writer(site=CONTROLLER, host=CONTROLLER, incarnation=1))
        self.state = RunState()
        self.vitals = Vitals()
        self.terms = Terms(
            tokens=tokens, limits=limits or Limits(), price_per_hour=2.0, price_per_gb=0.1
        )
        self.now_s = 0.0
        self.heard_s = 0.0
        self._heard = 0

    def up(self, *, torch: str = "2.13.0") -> "Control":
        self.tape.begin(torch=torch)
        for host in EVERYBODY:
            self.vitals = lives.started(self.vitals, host, 1, self.now_s)
        return self.hear()

    def hear(self) -> "Control":
        for entry in self.tape.entries[self._heard :]:
            self.state = fold(self.state, entry)
            self.side.hear(entry, self.now_s)
            if entry.writer.site != CONTROLLER:
                host = entry.writer.host
                self.vitals = lives.heard(self.vitals, host, self.now_s, work=False)
            self.heard_s = self.now_s
        self._heard = len(self.tape.entries)
        return self

    def seen(self) -> Seen:
        return Seen(
            state=self.state,
            vitals=self.vitals,
            terms=self.terms,
            now_s=self.now_s,
            heard_s=self.heard_s,
        )

    def react(self) -> tuple[Action, ...]:
        return react(self.hear().seen(), self.side)

    def appended(self) -> list[object]:
        return [action.body for action in self.react() if isinstance(action, Append)]

    def events(self) -> list[tuple[str, str, str]]:
        return [
            (body.what, body.host or body.site, body.detail)
            for body in self.appended()
            if isinstance(body, HostEvent)
        ]

    def exit(self, host: str, code: int | None) -> None:
        self.vitals = lives.exited(self.vitals, host, code, "log.txt", self.now_s)
