"""The controller's side: when a round is committed, with whom, and how a run is drained."""

from dataclasses import replace

from fakes.exchange import LEADER, Log, commit, contribution, plan, progress, started, writer

from argosy.core.plan import Plan
from argosy.core.records import Body, Commit, Drain, Ended, Lead, Planned, Writer
from argosy.exchange.agreement import Agreement
from argosy.exchange.controller import ControllerSide

BERLIN, LIMA, OSAKA = writer("berlin"), writer("lima"), writer("osaka")
NEXT_LIFE = replace(LEADER, incarnation=2)
SPARE = replace(LEADER, host="spare")
ENDED = Ended(outcome="done", rounds=0, tokens=0, head_seq=0, head_chain="")


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


# -- leading -------------------------------------------------------------------------------------------


def test_it_leads_when_its_lead_has_been_heard_and_not_before() -> None:
    side, log = ControllerSide(LEADER), Log()
    assert not side.leading

    lead = side.lead()
    side.hear(log.append(LEADER, lead), 0.0)

    assert lead == Lead(term=1)
    assert side.leading


def test_it_leads_no_more_when_another_does() -> None:
    run = Run()
    run.post(BERLIN, LIMA, OSAKA)

    run.say(SPARE, Lead(term=2))

    assert not run.side.leading
    assert run.side.decide(1e9) is None
    assert run.side.next_wake(0.0) is None


def test_it_leads_no_more_when_a_newer_life_of_it_has_written_anything() -> None:
    run = Run()

    run.say(NEXT_LIFE, Lead(term=1))

    assert not run.side.leading


def test_of_two_that_take_one_term_only_the_first_leads() -> None:
    log = Log()
    log.append(SPARE, Lead(term=1))
    side = ControllerSide(LEADER)

    for entry in [*log.entries, log.append(LEADER, Lead(term=1))]:
        side.hear(entry, 0.0)

    assert not side.leading
    assert side.lead() == Lead(term=2)


# -- committing ------------------------------------------------------------------------------------------


def test_a_round_is_committed_as_soon_as_all_have_posted() -> None:
    run = Run()
    run.post(OSAKA, BERLIN)
    assert run.decide() is None
    run.post(LIMA)

    decided = run.decide()

    assert decided is not None
    assert [member.site for member in decided.members] == ["berlin", "lima", "osaka"]
    assert (decided.round, decided.term, decided.plan, decided.last) == (1, 1, 1, False)
    assert decided.tokens == 300
    assert (decided.head_seq, decided.head_chain) == (5, "chain 5")
    assert decided.expired == ()


def test_nothing_is_committed_when_nobody_has_posted() -> None:
    run = Run()

    assert run.side.decide(1e9) is None
    assert run.side.next_wake(0.0) is None


def test_while_a_commit_is_on_its_way_there_is_no_other() -> None:
    run = Run()
    run.post(BERLIN, LIMA, OSAKA)

    first = run.side.decide(0.0)

    assert first is not None
    assert run.side.decide(1e9) is None
    assert run.side.next_wake(0.0) is None
    run.say(LEADER, first)
    run.post(BERLIN, LIMA, OSAKA, n=2, base=1)
    assert run.decide() is not None


def test_a_commit_that_turned_out_void_is_decided_again() -> None:
    run = Run()
    run.post(BERLIN, LIMA, OSAKA)
    stale = run.side.decide(0.0)
    assert stale is not None
    run.say(LEADER, Planned(plan=plan(number=2), reason="slower link"))

    run.say(LEADER, stale)
    again = run.decide()

    assert run.side.agreement.void[-1][1] == "under plan 1, which is not in force"
    assert again is not None
    assert again.plan == 2


def test_who_does_not_post_is_waited_for_with_patience_and_no_longer() -> None:
    run = Run()
    run.now = 50.0
    run.post(BERLIN, LIMA)
    deadline_s = 50 + run.side.patience_s
    assert run.side.next_wake(50.0) == deadline_s

    run.now = deadline_s - 0.01
    assert run.decide() is None
    run.now = deadline_s

    assert run.named() == ["berlin", "lima"]


def test_while_only_a_few_have_posted_patience_is_doubled() -> None:
    run = Run()
    run.now = 50.0
    run.post(BERLIN)

    assert run.side.next_wake(50.0) == 50 + 2 * run.side.patience_s


def test_a_deadline_that_has_passed_means_now() -> None:
    run = Run()
    run.post(BERLIN, LIMA)

    assert run.side.next_wake(1_000.0) == 1_000.0


def test_a_site_without_a_live_crew_is_not_waited_for() -> None:
    run = Run()
    run.post(BERLIN, LIMA)

    run.side.expect(["berlin", "lima"])

    assert run.named() == ["berlin", "lima"]


def test_what_a_dead_site_has_posted_counts() -> None:
    run = Run()
    run.post(BERLIN, LIMA, OSAKA)

    run.side.expect(["berlin"])

    assert run.named() == ["berlin", "lima", "osaka"]


def test_until_it_is_told_otherwise_all_sites_of_the_plan_are_expected() -> None:
    log, side = Log(), ControllerSide(LEADER)
    for body in (Lead(term=1), Planned(plan=plan("berlin", "lima"), reason="first plan")):
        side.hear(log.append(LEADER, body), 0.0)
    side.hear(log.append(BERLIN, contribution(1)), 0.0)
    assert side.decide(0.0) is None

    side.hear(log.append(LIMA, contribution(1)), 0.0)

    assert side.decide(0.0) is not None


def test_before_there_is_a_plan_nothing_is_decided() -> None:
    log, side = Log(), ControllerSide(LEADER)

    side.hear(log.append(LEADER, Lead(term=1)), 0.0)

    assert side.decide(0.0) is None
    assert not side.over(1e9)


def test_a_post_that_missed_its_round_goes_with_the_next_and_does_not_hurry_it() -> None:
    run = Run()
    run.post(BERLIN, LIMA)
    run.wait()
    assert run.named() == ["berlin", "lima"]
    run.post(OSAKA)
    hurried = run.now + run.side.patience_s

    assert run.side.decide(hurried) is None, "the others have only begun their windows"
    run.post(BERLIN, LIMA, n=2, base=1)
    assert run.named() == ["berlin", "lima", "osaka"]


def test_when_nobody_else_posts_any_more_what_was_left_over_is_committed_at_last() -> None:
    run = Run()
    run.post(BERLIN, LIMA)
    run.wait()
    run.decide()
    run.post(OSAKA)

    run.wait()

    assert run.named() == ["osaka"]


def test_patience_grows_when_posts_come_too_late_even_void_ones() -> None:
    run = Run(told=plan(staleness=1))
    before = run.side.patience_s
    for round in range(1, 30):
        run.post(BERLIN, LIMA, n=round, base=round - 1)
        run.wait()
        assert run.named() == ["berlin", "lima"]
        run.now += 100
        run.post(OSAKA, base=round - 1)
    assert "ago" in run.side.agreement.void[-1][1]

    assert run.side.patience_s > 2 * before


def test_what_a_replaced_host_posts_teaches_nothing() -> None:
    run = Run()
    for round in (1, 2, 3, 4):
        run.post(BERLIN, LIMA, OSAKA, n=round, base=round - 1)
        run.decide()
    run.say(writer("osaka", 2), started())
    before = run.side.patience_s

    run.now += 500
    run.post(OSAKA, n=5, base=1)

    assert run.side.patience_s == before


def test_a_void_post_does_not_open_a_round() -> None:
    run = Run()

    run.say(BERLIN, contribution(7))

    assert run.side.next_wake(0.0) is None


def test_patience_shrinks_to_what_rounds_really_take() -> None:
    run = Run()
    before = run.side.patience_s
    for round in range(1, 40):
        run.post(BERLIN, LIMA, n=round, base=round - 1)
        run.now += 0.5
        run.post(OSAKA, n=round, base=round - 1)
        assert run.decide() is not None
        run.now += 10

    assert run.side.patience_s == 2.0 < before


def test_other_fragments_and_kinds_are_none_of_its_business() -> None:
    run = Run()

    run.say(BERLIN, contribution(1, fragment=1))
    run.say(BERLIN, progress(10))
    run.say(LEADER, commit(1, ("berlin", 1), fragment=1))

    assert run.side.agreement.round(1) == 1
    assert run.side.decide(1e9) is None


def test_hearing_a_record_twice_changes_nothing() -> None:
    run = Run()
    run.post(BERLIN, LIMA, OSAKA)
    decided = run.side.decide(0.0)

    run.side.hear(run.log.entries[-1], 5.0)

    assert decided is not None
    assert run.side.decide(1e9) is None


# -- another life --------------------------------------------------------------------------------------


def test_a_controller_that_died_goes_on_where_the_log_stands() -> None:
    first = Run()
    first.post(BERLIN, LIMA, OSAKA)
    first.decide()
    first.post(BERLIN, LIMA, OSAKA, n=2, base=1)

    second = Run(who=NEXT_LIFE, log=first.log)
    decided = second.decide()

    assert decided is not None
    assert (decided.round, decided.term) == (2, 2)


def test_what_the_old_life_still_sends_is_void() -> None:
    first = Run()
    first.post(BERLIN, LIMA)
    first.wait()
    on_its_way = first.side.decide(first.now)
    assert on_its_way is not None
    second = Run(who=NEXT_LIFE, log=first.log)
    second.post(OSAKA)
    decided = second.side.decide(0.0)
    assert decided is not None

    second.say(LEADER, on_its_way)
    second.say(NEXT_LIFE, decided)

    agreement = Agreement()
    for entry in first.log.entries:
        agreement.hear(entry)
    assert [body for _, body in agreement.commits[0]] == [decided]


def test_a_new_life_is_as_patient_as_if_the_posts_had_just_come() -> None:
    first = Run()
    first.post(BERLIN, LIMA)
    second = Run(who=NEXT_LIFE, log=first.log)

    assert second.side.next_wake(0.0) == second.side.patience_s


# -- draining ------------------------------------------------------------------------------------------


def test_a_drain_whose_last_posts_are_all_there_ends_in_one_round() -> None:
    run = Run()
    run.say(LEADER, run.side.drain("done"))
    run.post(BERLIN, LIMA, final=True)
    assert run.decide() is None
    run.post(OSAKA, final=True)

    decided = run.decide()

    assert run.side.agreement.draining == Drain(term=1, reason="done")
    assert decided is not None
    assert decided.last
    assert len(decided.members) == 3
    assert run.side.over(0.0)


def test_a_post_from_before_the_drain_is_committed_first_and_the_others_last_posts_held_back() -> (
    None
):
    run = Run()
    run.post(OSAKA)
    run.say(LEADER, run.side.drain("done"))
    run.post(BERLIN, LIMA, final=True)

    first = run.decide()
    assert first is not None
    assert [member.site for member in first.members] == ["osaka"]
    assert not first.last
    assert run.decide() is None, "osaka has yet to post its last"
    run.post(OSAKA, n=2, base=1, final=True)
    last = run.decide()

    assert last is not None
    assert [member.site for member in last.members] == ["berlin", "lima", "osaka"]
    assert last.last


def test_a_last_post_that_would_expire_is_not_held_back() -> None:
    run = Run(told=plan(staleness=1))
    run.post(OSAKA)
    run.say(LEADER, run.side.drain("done"))
    run.post(BERLIN, LIMA, final=True)

    assert run.named() == ["berlin", "lima", "osaka"]
    run.post(OSAKA, n=2, base=1, final=True)
    last = run.decide()
    assert last is not None
    assert ([member.site for member in last.members], last.last) == (["osaka"], True)


def test_a_site_that_hangs_in_a_drain_is_not_waited_for_without_end() -> None:
    run = Run()
    run.say(LEADER, run.side.drain("done"))
    run.post(BERLIN, LIMA, final=True)

    run.wait()
    last = run.decide()

    assert last is not None
    assert last.last


def test_what_a_dead_site_had_posted_before_a_drain_goes_with_the_last_round() -> None:
    run = Run()
    run.post(OSAKA)
    run.side.expect(["berlin", "lima"])
    run.say(LEADER, run.side.drain("done"))
    run.post(BERLIN, LIMA, final=True)

    last = run.decide()

    assert last is not None
    assert last.last
    assert len(last.members) == 3


def test_a_drain_in_which_nobody_lives_is_over_without_a_last_round() -> None:
    run = Run()
    run.say(LEADER, run.side.drain("money"))
    assert not run.side.over(0.0)

    run.side.expect([])

    assert run.side.over(0.0)


def test_a_drain_in_which_everybody_hangs_is_over_after_the_longest_patience() -> None:
    run = Run()
    run.now = 10.0
    run.say(LEADER, run.side.drain("done"))
    assert run.side.next_wake(10.0) == 310.0
    assert not run.side.over(309.0)

    assert run.side.over(310.0)


def test_a_run_is_not_over_while_it_is_not_drained() -> None:
    run = Run()
    run.side.expect([])

    assert not run.side.over(1e9)


def test_after_the_end_nothing_is_decided() -> None:
    run = Run()
    run.post(BERLIN, LIMA, OSAKA)

    run.say(LEADER, ENDED)

    assert run.side.decide(1e9) is None


def test_a_site_that_returns_is_waited_for_again() -> None:
    run = Run()
    run.side.expect(["berlin", "lima"])
    run.say(writer("osaka", 2), started())
    run.side.expect(["berlin", "lima", "osaka"])
    run.post(BERLIN, LIMA)
    assert run.decide() is None

    run.post(writer("osaka", 2))

    assert run.named() == ["berlin", "lima", "osaka"]
