from dataclasses import replace

import pytest
from fakes.control import EVERYBODY, Control
from fakes.run import (
    HOSTS,
    checkpoint,
    commit,
    contribution,
    digest,
    newer,
    plan,
    progress,
)

from argosy.core.errors import HostError, PolicyError, SpecError
from argosy.core.job import Limits
from argosy.core.records import (
    CONTROLLER,
    Commit,
    Crew,
    Drain,
    Ended,
    Evaluation,
    HostEvent,
    Lead,
    Planned,
)
from argosy.run import vitals as lives
from argosy.run.react import (
    AFTERTHOUGHT_S,
    LAST_WORDS_S,
    Fail,
    Finish,
    Restart,
    expected,
)
from argosy.run.vitals import FIRST_LIMIT_S


def test_before_there_is_a_plan_nothing_is_decided() -> None:
    control = Control()
    control.tape.control(Lead(term=1))

    assert control.react() == ()


def test_after_the_end_nothing_is_decided() -> None:
    control = Control().up()
    control.tape.control(Ended(outcome="done", rounds=0, tokens=0, head_seq=1, head_chain=""))

    assert control.react() == ()


def test_a_run_that_is_at_work_is_left_alone() -> None:
    assert Control().up().react() == ()


def test_a_round_is_committed_once_every_expected_site_has_posted() -> None:
    control = Control().up()
    control.tape.add("frankfurt", "frankfurt-1", contribution(1))
    early = control.appended()
    control.tape.add("virginia", "virginia-1", contribution(1))

    (made,) = control.appended()

    assert early == []
    assert isinstance(made, Commit)
    assert [member.site for member in made.members] == ["frankfurt", "virginia"]


def test_a_round_does_not_wait_for_a_site_whose_process_has_ended() -> None:
    control = Control().up()
    control.tape.add("frankfurt", "frankfurt-1", contribution(1))
    for host in HOSTS["virginia"]:
        control.exit(host, -9)

    made = [body for body in control.appended() if isinstance(body, Commit)]

    assert [[member.site for member in commit.members] for commit in made] == [["frankfurt"]]


def test_a_site_that_comes_back_is_waited_for_once_it_has_spoken() -> None:
    control = Control().up()
    control.tape.add("frankfurt", "frankfurt-1", contribution(1))
    control.tape.control(commit(1, ("frankfurt", 1)))
    control.hear()
    control.exit("virginia-1", -9)
    control.vitals = lives.started(control.vitals, "virginia-1", 1, control.now_s)
    silent = expected(control.seen())
    control.tape.start("virginia", "virginia-1")

    assert silent == {"frankfurt"}
    assert expected(control.hear().seen()) == {"frankfurt", "virginia"}


def test_a_site_without_a_crew_is_not_waited_for() -> None:
    control = Control()
    control.tape.control(Planned(plan=plan(), reason="first plan"))

    assert expected(control.hear().seen()) == frozenset()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-9, "was killed (signal 9)"),
        (1, "ended with status 1"),
        (0, "left before the run was done"),
        (None, "ended"),
    ],
)
def test_a_lost_host_is_told_once_and_how(code: int | None, words: str) -> None:
    control = Control().up()
    control.exit("frankfurt-1", code)

    told = control.events()
    control.tape.control(
        HostEvent(what="lost", site="frankfurt", host="frankfurt-1", detail="told")
    )

    assert told == [("lost", "frankfurt-1", f"frankfurt-1 {words}")]
    assert control.events() == []


def test_a_worker_that_ends_after_the_last_round_is_not_lost() -> None:
    control = Control().up()
    control.tape.add("frankfurt", "frankfurt-1", contribution(1))
    control.tape.control(commit(1, ("frankfurt", 1), last=True))
    control.exit("frankfurt-1", 0)

    assert control.events() == []


def test_a_host_that_is_silent_too_long_is_hung_and_then_awake_again() -> None:
    control = Control().up()
    control.now_s = FIRST_LIMIT_S + 1
    for host in ("virginia-1", "virginia-2"):
        control.vitals = lives.heard(control.vitals, host, control.now_s, work=True)

    hung = control.events()
    waited_for = expected(control.seen())
    control.tape.control(
        HostEvent(what="hung", site="frankfurt", host="frankfurt-1", detail="told")
    )
    still = control.events()
    control.tape.add("frankfurt", "frankfurt-1", progress())
    awake = control.events()

    assert [event[:2] for event in hung] == [("hung", "frankfurt-1")]
    assert waited_for == {"virginia"}
    assert still == []
    assert awake == [("awake", "frankfurt-1", "frankfurt-1 is heard again")]


def test_a_host_that_does_not_lead_may_be_silent_for_ever() -> None:
    control = Control().up()
    control.now_s = FIRST_LIMIT_S + 1
    for host in ("frankfurt-1", "virginia-1"):
        control.vitals = lives.heard(control.vitals, host, control.now_s, work=True)

    assert control.react() == ()


def test_a_hopelessly_hung_host_is_started_anew() -> None:
    control = Control().up()
    control.now_s = 6 * FIRST_LIMIT_S + 1
    for host in ("virginia-1", "virginia-2"):
        control.vitals = lives.heard(control.vitals, host, control.now_s, work=True)

    assert Restart(host="frankfurt-1") in control.react()


def test_a_site_that_lost_its_leader_is_led_by_the_next_host_that_lives() -> None:
    control = Control().up()
    control.exit("virginia-1", -9)

    crews = [body for body in control.appended() if isinstance(body, Crew)]

    assert crews == [Crew(site="virginia", epoch=2, hosts=("virginia-2", "virginia-1"))]


def test_a_lost_host_that_does_not_lead_changes_no_crew() -> None:
    control = Control().up()
    control.exit("virginia-2", -9)

    assert not [body for body in control.appended() if isinstance(body, Crew)]


def test_a_crew_that_is_only_coming_up_keeps_its_leader() -> None:
    control = Control()
    control.tape.begin()
    control.vitals = lives.started(control.vitals, "virginia-2", 1, 0.0)

    assert control.appended() == []


def test_after_the_last_round_no_crew_is_formed() -> None:
    control = Control().up()
    control.tape.add("virginia", "virginia-1", contribution(1))
    control.tape.control(commit(1, ("virginia", 1), last=True))
    control.exit("virginia-1", 0)

    assert control.appended() == []


@pytest.mark.parametrize(
    ("offset_ms", "words"),
    [(3_600_000, "1 h 0 min ahead"), (-90_000, "90 s behind")],
)
def test_a_clock_that_is_off_is_told_and_nothing_else_happens(offset_ms: int, words: str) -> None:
    control = Control().up()
    control.tape.start("frankfurt", "frankfurt-1", offset_ms=offset_ms)

    ((what, host, detail),) = control.events()

    assert (what, host) == ("clock", "frankfurt-1")
    assert words in detail


def test_a_clock_that_is_right_is_not_worth_a_word() -> None:
    control = Control().up()
    control.tape.start("frankfurt", "frankfurt-1", offset_ms=900)

    assert control.events() == []


def test_a_site_that_deviates_is_told_once() -> None:
    control = Control().up()
    control.tape.helper(digest(1, "right"))
    control.tape.add("frankfurt", "frankfurt-1", digest(1, "wrong"))

    told = control.events()
    control.tape.control(HostEvent(what="deviates", site="frankfurt", host="", detail="told"))

    assert [event[:2] for event in told] == [("deviates", "frankfurt")]
    assert control.events() == []


def test_a_host_given_up_is_told() -> None:
    control = Control().up()
    control.tape.add("frankfurt", "frankfurt-1", contribution(1))
    control.hear()
    for second in range(5):
        control.now_s = float(second)
        control.vitals = lives.started(control.vitals, "frankfurt-1", 1, control.now_s)
        control.exit("frankfurt-1", 1)

    told = control.events()

    assert ("given up", "frankfurt-1", "frankfurt-1 failed 5 times and is left out") in told


def give_up(control: Control, *hosts: str) -> None:
    for host in hosts:
        for _ in range(5):
            control.exit(host, 1)


def test_a_run_fails_when_a_site_never_got_to_work() -> None:
    control = Control().up()
    give_up(control, "frankfurt-1")

    (failure,) = control.react()

    assert isinstance(failure, Fail)
    assert failure.error is HostError
    assert failure.host == "frankfurt-1"


def test_a_run_goes_on_without_a_site_that_had_worked() -> None:
    control = Control().up()
    control.tape.add("frankfurt", "frankfurt-1", contribution(1))
    control.hear()
    give_up(control, "frankfurt-1")

    assert not [action for action in control.react() if isinstance(action, Fail)]


def test_a_site_goes_on_while_one_of_its_hosts_is_left() -> None:
    control = Control().up()
    give_up(control, "virginia-1")

    assert not [action for action in control.react() if isinstance(action, Fail)]


def test_a_run_whose_sites_are_all_lost_fails_though_they_had_worked() -> None:
    control = Control().up()
    control.tape.add("frankfurt", "frankfurt-1", contribution(1))
    control.tape.add("virginia", "virginia-1", contribution(1))
    control.hear()
    give_up(control, *EVERYBODY)

    assert [type(action) for action in control.react()] == [Fail]


def test_after_the_last_round_nobody_has_to_be_left() -> None:
    control = finished()
    give_up(control, *EVERYBODY)

    assert control.react() == ()


@pytest.mark.parametrize(("code", "error"), [(2, SpecError), (3, PolicyError)])
def test_a_mistake_that_no_restart_mends_ends_the_run(code: int, error: type) -> None:
    control = Control().up()
    control.exit("virginia-2", code)

    assert control.react() == (
        Fail(error=error, what="virginia-2 cannot do its part", host="virginia-2"),
    )


def test_an_exit_under_an_older_plan_is_of_no_account() -> None:
    control = Control().up()
    control.exit("virginia-2", 2)
    control.tape.control(Planned(plan=newer(plan()), reason="again"))

    assert not [action for action in control.react() if isinstance(action, Fail)]


def test_a_host_with_another_torch_is_refused_with_both_versions() -> None:
    control = Control().up(torch="2.13.0")
    control.tape.start("frankfurt", "frankfurt-1", torch="2.7.1")

    (failure,) = control.react()

    assert isinstance(failure, Fail)
    assert "2.7.1" in failure.what
    assert "2.13.0" in failure.what


@pytest.mark.parametrize(("roster", "host"), [("", "2.7.1"), ("2.13.0", "")])
def test_versions_of_torch_that_are_not_told_are_not_compared(roster: str, host: str) -> None:
    control = Control().up(torch=roster)
    control.tape.start("frankfurt", "frankfurt-1", torch=host)

    assert control.react() == ()


def test_a_controller_that_was_replaced_gives_way() -> None:
    control = Control().up()
    control.tape.incarnations[CONTROLLER] = 2
    control.tape.control(Lead(term=2))

    (failure,) = control.react()

    assert isinstance(failure, Fail)
    assert "another controller" in failure.what


def drains(control: Control) -> list[str]:
    return [body.reason for body in control.appended() if isinstance(body, Drain)]


def test_a_run_that_was_asked_to_stop_drains() -> None:
    control = Control().up()
    control.terms = replace(control.terms, stop=True)

    assert drains(control) == ["stopped"]


def test_a_drain_is_ordered_once() -> None:
    control = Control().up()
    control.terms = replace(control.terms, stop=True)
    control.tape.control(Drain(term=1, reason="stopped"))

    assert drains(control) == []


def test_the_drain_comes_before_the_commit_that_fills_the_measure() -> None:
    control = Control(tokens=2000).up()
    control.tape.add("frankfurt", "frankfurt-1", contribution(1, tokens=1000))
    early = control.appended()
    control.tape.add("virginia", "virginia-1", contribution(1, tokens=1000))

    first = control.appended()

    assert early == []
    assert [type(body) for body in first] == [Drain]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [(Limits(hours=0.0105), "hours"), (Limits(money=0.021), "money"), (Limits(), None)],
)
def test_a_run_ends_before_a_limit_is_passed(limits: Limits, reason: str | None) -> None:
    control = Control(limits=limits).up()
    for number in (1, 2):
        control.tape.pass_ms(12_000)
        control.tape.add("frankfurt", "frankfurt-1", contribution(number, base=number - 1))
        control.tape.control(commit(number, ("frankfurt", number)))
    before = drains(control)
    control.now_s += 5.0

    assert before == []
    assert drains(control) == ([reason] if reason else [])


def finished() -> Control:
    control = Control().up()
    control.tape.control(Drain(term=1, reason="done"))
    control.tape.add("frankfurt", "frankfurt-1", contribution(1))
    control.tape.control(commit(1, ("frankfurt", 1), last=True))
    return control


def test_a_run_is_not_finished_before_its_model_is_kept() -> None:
    assert finished().react() == ()


def test_a_run_is_finished_when_its_workers_have_ended() -> None:
    control = finished()
    control.tape.helper(checkpoint(1))
    busy = control.react()
    for host in EVERYBODY:
        control.exit(host, 0)

    assert busy == ()
    assert control.react() == (Finish(outcome="done"),)


def test_a_run_does_not_wait_for_ever_for_last_words() -> None:
    control = finished()
    control.tape.helper(checkpoint(1))
    control.hear()
    control.now_s += LAST_WORDS_S

    assert control.react() == (Finish(outcome="done"),)


def judged(number: int) -> Evaluation:
    return Evaluation(round=number, source="german", loss=2.0, tokens=100, bits_per_byte=2.9)


def test_who_has_said_all_of_the_last_round_is_not_waited_for_to_end() -> None:
    control = finished()
    control.tape.helper(checkpoint(1))
    control.tape.add("frankfurt", "frankfurt-1", judged(0))
    for site, hosts in HOSTS.items():
        control.tape.add(site, hosts[0], digest(1))
    control.hear()
    control.now_s += AFTERTHOUGHT_S
    before = control.react()
    control.tape.add("frankfurt", "frankfurt-1", judged(1))
    control.hear()
    at_once = control.react()
    control.now_s += AFTERTHOUGHT_S

    assert (before, at_once) == ((), ())
    assert control.react() == (Finish(outcome="done"),)


def test_a_drain_in_which_nobody_posts_any_more_ends_without_a_last_round() -> None:
    control = Control().up()
    control.tape.add("frankfurt", "frankfurt-1", contribution(1))
    control.tape.control(commit(1, ("frankfurt", 1)))
    control.tape.control(Drain(term=1, reason="money"))
    control.hear()
    control.now_s += 400.0
    control.tape.helper(checkpoint(1))

    assert control.react() == (Finish(outcome="money"),)


def test_a_last_round_without_a_drain_is_done() -> None:
    control = Control().up()
    control.tape.add("frankfurt", "frankfurt-1", contribution(1))
    control.tape.control(commit(1, ("frankfurt", 1), last=True))
    control.tape.helper(checkpoint(1))
    for host in EVERYBODY:
        control.exit(host, 0)

    assert control.react() == (Finish(outcome="done"),)
