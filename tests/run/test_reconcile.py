from dataclasses import replace

from fakes.run import Tape, checkpoint, commit, contribution

from argosy.core.records import Ended
from argosy.run import vitals as lives
from argosy.run.reconcile import CHECKPOINTER, LOGBOOK, Start, Stop, crews, reconcile, wanted
from argosy.run.state import RunState, state_of
from argosy.run.vitals import Vitals

TRAINERS = {"frankfurt-1", "virginia-1", "virginia-2"}


def begun() -> Tape:
    tape = Tape()
    tape.begin()
    return tape


def test_before_there_is_a_plan_only_the_logbook_is_wanted() -> None:
    assert wanted(RunState(), Vitals(), 0.0) == {LOGBOOK}


def test_with_a_plan_its_crews_and_the_checkpointer_are_wanted() -> None:
    state = state_of(begun().entries)

    assert crews(state) == TRAINERS
    assert wanted(state, Vitals(), 0.0) == TRAINERS | {LOGBOOK, CHECKPOINTER}


def test_after_the_end_nobody_is_wanted() -> None:
    tape = begun()
    tape.control(Ended(outcome="done", rounds=0, tokens=0, head_seq=1, head_chain=""))

    assert wanted(state_of(tape.entries), Vitals(), 0.0) == frozenset()


def test_a_host_that_pauses_or_is_away_is_not_wanted_yet() -> None:
    state = state_of(begun().entries)
    vitals = lives.exited(Vitals(), "frankfurt-1", 1, "log", 0.0)
    vitals = replace(vitals, away=frozenset({"virginia-2"}))

    want = wanted(state, vitals, 0.1)

    assert TRAINERS - want == {"frankfurt-1", "virginia-2"}


def test_a_host_that_runs_is_wanted_though_it_is_called_away() -> None:
    state = state_of(begun().entries)
    vitals = lives.started(Vitals(), "virginia-2", 1, 0.0)
    vitals = replace(vitals, away=frozenset({"virginia-2"}))

    assert "virginia-2" in wanted(state, vitals, 0.1)


def test_after_the_last_round_workers_may_end_and_the_checkpointer_must_finish() -> None:
    tape = begun()
    tape.add("frankfurt", "frankfurt-1", contribution(1))
    tape.control(commit(1, ("frankfurt", 1), last=True))
    vitals = lives.started(Vitals(), "virginia-1", 1, 0.0)

    unkept = wanted(state_of(tape.entries), vitals, 1.0)
    tape.helper(checkpoint(1))
    kept = wanted(state_of(tape.entries), vitals, 1.0)

    assert unkept == {LOGBOOK, CHECKPOINTER, "virginia-1"}
    assert kept == {LOGBOOK, "virginia-1"}


def test_what_is_as_it_should_be_needs_nothing() -> None:
    assert reconcile({"a", "b"}, {"b", "a"}) == ()


def test_ends_come_before_starts_and_helpers_before_hosts() -> None:
    want = {"frankfurt-1", CHECKPOINTER, LOGBOOK, "atlanta-1"}

    steps = reconcile(want, {"z", "y"})

    assert steps == (
        Stop(host="y"),
        Stop(host="z"),
        Start(host=LOGBOOK),
        Start(host=CHECKPOINTER),
        Start(host="atlanta-1"),
        Start(host="frankfurt-1"),
    )
