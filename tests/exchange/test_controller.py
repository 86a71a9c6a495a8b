"""The controller's side: who leads, when a round is committed, and with whom."""

from dataclasses import replace

from fakes.exchange import LEADER, Log, commit, contribution, plan, progress, started, writer
from fakes.exchange_sides import BERLIN, LIMA, OSAKA, Run

from argosy.core.records import Lead, Planned
from argosy.exchange.agreement import Agreement
from argosy.exchange.controller import ControllerSide

NEXT_LIFE = replace(LEADER, incarnation=2)
SPARE = replace(LEADER, host="spare")


# -- leading ---------------------------------------------------------------------------------------


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


# -- committing ------------------------------------------------------------------------------------


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


# -- another life ----------------------------------------------------------------------------------


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
