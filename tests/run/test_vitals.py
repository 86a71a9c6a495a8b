import pytest

from argosy.run import vitals as lives
from argosy.run.vitals import (
    FAILURES_AT_MOST,
    FAILURES_WITHIN_S,
    FIRST_LIMIT_S,
    LONGEST_PAUSE_S,
    PATIENCE_WITH_HUNG,
    SHORTEST_LIMIT_S,
    WORKED_S,
    Vitals,
)

HOST = "tokyo-1"


def alive(at_s: float = 0.0) -> Vitals:
    return lives.started(Vitals(), HOST, 1, at_s)


def working(every_s: float, times: int) -> tuple[Vitals, float]:
    vitals, now_s = alive(), 0.0
    for _ in range(times):
        now_s += every_s
        vitals = lives.heard(vitals, HOST, now_s, work=True)
    return vitals, now_s


def test_a_host_nobody_started_does_not_live_and_may_be_started() -> None:
    life = Vitals().of(HOST)

    assert not life.alive
    assert not life.hung(10_000.0)
    assert life.may_start(0.0)


def test_a_host_that_runs_is_not_started_again() -> None:
    assert not alive().of(HOST).may_start(100.0)
    assert alive().alive() == {HOST}


def test_before_its_pace_is_known_a_host_has_minutes() -> None:
    vitals = lives.heard(alive(), HOST, 5.0, work=False)

    life = vitals.of(HOST)

    assert not life.hung(5.0 + FIRST_LIMIT_S)
    assert life.hung(5.1 + FIRST_LIMIT_S)


def test_a_host_that_never_spoke_is_measured_from_its_start() -> None:
    assert alive(at_s=7.0).of(HOST).silent_s(10.0) == 3.0


def test_the_limit_is_learned_from_the_intervals_of_its_work() -> None:
    vitals, now_s = working(every_s=5.0, times=6)

    life = vitals.of(HOST)

    assert life.limit_s == 20.0
    assert not life.hung(now_s + 20.0)
    assert life.hung(now_s + 20.1)
    assert not life.hopelessly_hung(now_s + 20.0 * PATIENCE_WITH_HUNG)
    assert life.hopelessly_hung(now_s + 20.1 * PATIENCE_WITH_HUNG)


def test_a_quick_host_still_has_some_seconds() -> None:
    vitals, _ = working(every_s=0.1, times=6)

    assert vitals.of(HOST).limit_s == SHORTEST_LIMIT_S


def test_words_that_are_no_work_teach_nothing_but_count_as_life() -> None:
    vitals, now_s = working(every_s=5.0, times=6)
    for _ in range(20):
        now_s += 0.01
        vitals = lives.heard(vitals, HOST, now_s, work=False)

    assert vitals.of(HOST).limit_s == 20.0
    assert vitals.of(HOST).silent_s(now_s) == 0.0


def test_only_the_newest_intervals_are_remembered() -> None:
    vitals, now_s = working(every_s=100.0, times=5)
    for _ in range(lives.INTERVALS_KEPT):
        now_s += 5.0
        vitals = lives.heard(vitals, HOST, now_s, work=True)

    assert vitals.of(HOST).limit_s == 20.0


def test_a_failed_host_pauses_longer_each_time_and_is_given_up_in_the_end() -> None:
    vitals, now_s, pauses = alive(), 0.0, []
    for _ in range(FAILURES_AT_MOST):
        vitals = lives.exited(lives.started(vitals, HOST, 1, now_s), HOST, 1, "log", now_s)
        pauses.append(vitals.of(HOST).pause_until_s - now_s)
        now_s = vitals.of(HOST).pause_until_s

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert vitals.of(HOST).given_up
    assert not vitals.of(HOST).may_start(now_s + 10_000)


def test_a_host_that_pauses_is_started_when_the_pause_is_over() -> None:
    vitals = lives.exited(alive(), HOST, -9, "log", 10.0)

    life = vitals.of(HOST)

    assert life.exit == lives.Exit(code=-9, plan=1, log="log")
    assert not life.may_start(10.4)
    assert life.may_start(10.5)


def test_no_pause_is_longer_than_half_a_minute() -> None:
    vitals = Vitals()
    for _ in range(12):
        vitals = lives.exited(vitals, HOST, 1, "log", 0.0)

    assert vitals.of(HOST).pause_until_s == LONGEST_PAUSE_S


def test_a_host_that_had_worked_for_a_while_begins_a_new_count() -> None:
    vitals, now_s = working(every_s=WORKED_S, times=2)
    for _ in range(3):
        vitals = lives.exited(vitals, HOST, 1, "log", now_s)
    vitals = lives.started(vitals, HOST, 1, now_s)
    vitals = lives.heard(vitals, HOST, now_s + 1.0, work=True)

    vitals = lives.exited(vitals, HOST, 1, "log", now_s + WORKED_S)

    assert len(vitals.of(HOST).failures) == 1


def test_failures_of_long_ago_are_forgotten() -> None:
    vitals = lives.exited(alive(), HOST, 1, "log", 0.0)

    vitals = lives.exited(vitals, HOST, 1, "log", FAILURES_WITHIN_S)

    assert len(vitals.of(HOST).failures) == 1


def test_an_end_that_we_wanted_is_no_failure() -> None:
    vitals = lives.stopped(alive(), HOST)

    life = vitals.of(HOST)

    assert not life.alive
    assert life.exit is None
    assert life.may_start(0.0)


def test_a_host_that_cannot_be_had_is_asked_again_and_never_given_up() -> None:
    vitals, now_s = Vitals(), 0.0
    for _ in range(100):
        vitals = lives.not_had(vitals, HOST, now_s)
        assert not vitals.of(HOST).may_start(now_s)
        now_s += 2.0
        assert vitals.of(HOST).may_start(now_s)


@pytest.mark.parametrize("spoke", [True, False])
def test_while_the_logbook_is_away_nobodys_silence_counts(spoke: bool) -> None:
    vitals = lives.heard(alive(), HOST, 1.0, work=False) if spoke else alive()

    vitals = lives.deaf(vitals, 1_000.0)

    assert vitals.of(HOST).silent_s(1_001.0) == 1.0


def test_who_does_not_live_is_not_called_to_life_by_a_deaf_ear() -> None:
    dead = lives.exited(alive(), HOST, 1, "log", 1.0)

    assert lives.deaf(dead, 1_000.0) == dead
