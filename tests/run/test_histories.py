"""Random histories of a run: hosts start, post, die, hang and lie; whatever happens, some things
hold, and once the trouble is over the run comes to its end."""

from dataclasses import replace

import hypothesis.strategies as st
from fakes.control import EVERYBODY, Control
from fakes.run import HOSTS, checkpoint, contribution, digest, progress
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from argosy.core.records import CONTROLLER, Body, Commit, Crew, Drain, HostEvent
from argosy.run import vitals as lives
from argosy.run.react import Action, Append, Fail, Finish, Restart, expected
from argosy.run.reconcile import CHECKPOINTER, LOGBOOK, Start, reconcile, wanted

SITE_OF = {host: site for site, hosts in HOSTS.items() for host in hosts}
SECONDS = st.sampled_from([0.1, 1.0, 7.0, 40.0])
TURNS_AT_MOST = 120


class History(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.control = Control(tokens=60_000)
        self.control.tape.begin()
        self.control.hear()
        self.spoke: set[str] = set()  # hosts that said, in this life, that they started
        self.end: Finish | Fail | None = None
        self.kept = 0

    # What happens by itself -----------------------------------------------------------------

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.control.now_s += seconds
        self.control.tape.pass_ms(int(seconds * 1000))

    @rule(host=st.sampled_from(EVERYBODY), code=st.sampled_from([-9, 1, 4, 5, None]))
    def a_host_dies(self, host: str, code: int | None) -> None:
        if self.control.vitals.of(host).alive:
            self.control.exit(host, code)
            self.spoke.discard(host)

    @rule(host=st.sampled_from([LOGBOOK, CHECKPOINTER]))
    def a_helper_dies(self, host: str) -> None:
        if self.control.vitals.of(host).alive:
            self.control.exit(host, 1)

    @rule(host=st.sampled_from(EVERYBODY))
    def a_host_says_that_it_started(self, host: str) -> None:
        if self.control.vitals.of(host).alive and host not in self.spoke:
            tape = self.control.tape
            tape.incarnations[host] += 1
            tape.start(SITE_OF[host], host)
            self.spoke.add(host)

    @rule(site=st.sampled_from(sorted(HOSTS)))
    def a_site_posts(self, site: str) -> None:
        control = self.control.hear()
        agreement = control.side.agreement
        crew = agreement.crews[site]
        host, newest = crew.hosts[0], agreement.newest(site)
        open_or_over = (newest is not None and newest.open) or agreement.last()
        if host not in self.spoke or open_or_over or agreement.drained(site):
            return
        n = agreement.newest_n(site) + 1
        post = replace(
            contribution(n, base=agreement.round()),
            incarnation=control.tape.incarnations[host],
            final=agreement.draining is not None,
        )
        control.tape.add(site, host, progress(agreement.round(), trained=n * 1000))
        control.tape.add(site, host, post)

    @rule(site=st.sampled_from(sorted(HOSTS)), right=st.booleans())
    def a_site_says_what_it_holds(self, site: str, right: bool) -> None:
        number = self.control.hear().state.round
        host = HOSTS[site][0]
        if number and host in self.spoke:
            self.control.tape.add(site, host, digest(number, "" if right else "another"))

    @precondition(lambda self: self.control.vitals.of(CHECKPOINTER).alive)
    @rule()
    def the_checkpointer_keeps_what_is_agreed(self) -> None:
        state = self.control.hear().state
        if state.round > self.kept and (state.last or state.draining or state.round % 5 == 0):
            self.kept = state.round
            self.control.tape.helper(checkpoint(state.round))

    @rule()
    def the_logbook_is_away_for_a_minute(self) -> None:
        self.control.now_s += 60.0
        self.control.vitals = lives.deaf(self.control.vitals, self.control.now_s)

    @rule(host=st.sampled_from(EVERYBODY))
    def a_host_cannot_be_had(self, host: str) -> None:
        control = self.control
        control.vitals = replace(control.vitals, away=control.vitals.away ^ {host})

    @rule()
    def somebody_asks_to_stop(self) -> None:
        self.control.terms = replace(self.control.terms, stop=True)

    # What the controller does ---------------------------------------------------------------

    @rule()
    def the_controller_takes_a_turn(self) -> None:
        if self.end is not None:
            return
        control = self.control.hear()
        self._move()
        self._do(control.react())
        if self.end is None:
            again = control.react()  # at the same moment: what was said is not said again
            assert {type(a.body) for a in again if isinstance(a, Append)} <= {Commit}
            self._do(again)

    def _do(self, actions: tuple[Action, ...]) -> None:
        control = self.control
        before = control.state
        for action in actions:
            match action:
                case Append(body=body):
                    self._check(body)
                    control.tape.control(body)
                case Restart(host=host):
                    control.vitals = lives.stopped(control.vitals, host)
                    self.spoke.discard(host)
                case Fail() | Finish() as end:
                    self.end = end
                    assert isinstance(end, Fail) or before.kept
        control.hear()

    def _move(self) -> None:
        control = self.control
        want = wanted(control.state, control.vitals, control.now_s)
        for step in reconcile(want, control.vitals.alive()):
            if isinstance(step, Start):
                assert not control.vitals.of(step.host).given_up
                assert step.host not in control.vitals.away
                control.vitals = lives.started(control.vitals, step.host, 1, control.now_s)
            else:
                control.vitals = lives.stopped(control.vitals, step.host)
        assert control.vitals.alive() == want

    def _check(self, body: Body) -> None:
        state = self.control.state
        match body:
            case Commit():
                assert body.round == state.round + 1
                assert body.members
            case Crew():
                assert sorted(body.hosts) == sorted(HOSTS[body.site])
                crew = state.sites[body.site].crew
                assert crew is not None
                assert body.epoch == crew.epoch + 1
                assert self.control.vitals.of(body.hosts[0]).alive
            case Drain():
                assert state.draining is None
            case _:
                assert isinstance(body, HostEvent)

    # What always holds ----------------------------------------------------------------------

    @invariant()
    def nothing_of_the_controllers_is_void(self) -> None:
        control = self.control.hear()
        mine = {e.seq for e in control.tape.entries if e.writer.host == CONTROLLER}
        assert not [seq for seq, _ in control.side.agreement.void if seq in mine]

    @invariant()
    def both_folds_agree_on_the_rounds(self) -> None:
        control = self.control.hear()
        rounds = [(made.seq, made.number) for made in control.state.rounds]
        commits = control.side.agreement.commits[0]
        assert rounds == [(seq, commit.round) for seq, commit in commits]
        assert control.state.tokens == control.side.agreement.tokens()

    @invariant()
    def nobody_waits_for_who_does_not_live(self) -> None:
        seen = self.control.hear().seen()
        for site in expected(seen):
            crew = seen.state.sites[site].crew
            assert crew is not None
            assert seen.life(crew.hosts[0]).alive

    def teardown(self) -> None:
        """The trouble is over: everybody who may do his part does it, and the run ends."""
        self.control.vitals = replace(self.control.vitals, away=frozenset())
        for _ in range(TURNS_AT_MOST):
            self.time_passes(3.0)
            self.the_controller_takes_a_turn()
            if self.end is not None:
                return
            for host in EVERYBODY:
                self.a_host_says_that_it_started(host)
            for site in HOSTS:
                self.a_site_posts(site)
            if self.control.vitals.of(CHECKPOINTER).alive:
                self.the_checkpointer_keeps_what_is_agreed()
            if self.control.hear().state.last:
                for host in [h for h in EVERYBODY if self.control.vitals.of(h).alive]:
                    self.a_host_dies(host, None)
        raise AssertionError("the run did not come to an end")


TestHistory = History.TestCase
TestHistory.settings = settings(settings.default, stateful_step_count=40)
