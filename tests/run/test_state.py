from dataclasses import replace
from functools import reduce

from fakes.run import (
    Tape,
    checkpoint,
    commit,
    contribution,
    digest,
    newer,
    plan,
    progress,
    roster,
)

from argosy.core.records import (
    CONTROLLER,
    Access,
    Crew,
    Drain,
    Ended,
    Evaluation,
    HostEvent,
    Lead,
    Planned,
    Unknown,
)
from argosy.run.state import KEPT_DIGESTS, LONGEST_SILENCE_MS, RunState, fold, state_of


def of(tape: Tape) -> RunState:
    return state_of(tape.entries)


def begun() -> Tape:
    tape = Tape()
    tape.begin()
    return tape


def test_an_empty_log_is_a_run_that_has_not_begun() -> None:
    state = state_of([])

    assert state.run is None
    assert (state.round, state.tokens, state.last, state.kept) == (0, 0, None, False)
    assert state.tokens_per_s is None
    assert state.seconds_per_round is None
    assert state.seconds_left(1000) is None


def test_the_roster_gives_sites_and_countries_and_the_controller_is_no_site() -> None:
    state = of(begun())

    assert {name: site.country for name, site in state.sites.items()} == {
        "frankfurt": "DE",
        "virginia": "US",
    }
    assert set(state.sites["virginia"].hosts) == {"virginia-1", "virginia-2"}
    assert state.run is not None
    assert state.run.name == "demo"
    assert state.term == 1
    assert state.lives == 1


def test_a_second_roster_keeps_what_is_known_of_the_hosts() -> None:
    tape = begun()
    tape.start("frankfurt", "frankfurt-1")

    tape.control(roster(torch="2.13.0"))

    assert of(tape).sites["frankfurt"].hosts["frankfurt-1"].incarnation == 1


def test_the_first_commit_of_a_round_under_the_highest_term_counts() -> None:
    tape = begun()
    tape.control(commit(1, ("frankfurt", 1), tokens=100))
    tape.control(commit(1, ("virginia", 1), tokens=200))
    tape.control(Lead(term=2))
    tape.control(commit(2, ("virginia", 1), term=1, tokens=300))
    tape.control(commit(2, ("frankfurt", 2), term=2, tokens=400))

    rounds = of(tape).rounds

    assert [(r.number, r.members, r.tokens) for r in rounds] == [
        (1, ("frankfurt",), 100),
        (2, ("frankfurt",), 400),
    ]


def test_nothing_is_agreed_after_the_last_round() -> None:
    tape = begun()
    tape.control(commit(1, ("frankfurt", 1), last=True))
    tape.control(commit(2, ("frankfurt", 2)))

    state = of(tape)

    assert state.round == 1
    assert state.last is not None
    assert state.seconds_left(10**9) == 0.0


def test_a_site_knows_what_it_posted_and_what_was_committed_of_it() -> None:
    tape = begun()
    tape.add("frankfurt", "frankfurt-1", contribution(1, size=70))
    tape.add("frankfurt", "frankfurt-1", progress(0, trained=1500))
    tape.control(commit(1, ("frankfurt", 1), ("elsewhere", 1)))

    site = of(tape).sites["frankfurt"]

    assert (site.posted_n, site.bytes_posted) == (1, 70)
    assert site.committed_tokens == 1000
    assert site.trained == 1500
    assert site.progress is not None


def test_records_of_sites_outside_the_roster_change_nothing_but_the_position() -> None:
    tape = begun()
    before = of(tape)
    tape.add("atlantis", "atlantis-1", contribution(1))
    tape.add("atlantis", "atlantis-1", progress())
    tape.add("atlantis", "atlantis-1", digest(0))
    tape.start("atlantis", "atlantis-1")
    tape.control(Crew(site="atlantis", epoch=1, hosts=("atlantis-1",)))
    tape.start("frankfurt", "frankfurt-9")

    after = of(tape)

    assert replace(after, seq=before.seq, chain=before.chain) == before


def test_unknown_kinds_and_accesses_are_heard_and_kept_out() -> None:
    tape = begun()
    before = of(tape)
    tape.add("frankfurt", "frankfurt-1", Unknown(kind="weather", body="{}"))
    tape.add(
        "frankfurt",
        "frankfurt-1",
        Access(source="s", purpose="train", files=1, bytes=1, digest="", rule=""),
    )

    after = of(tape)

    assert after.seq == before.seq + 2
    assert after.sites["frankfurt"].hosts["frankfurt-1"].heard_seq == after.seq


def test_the_pace_is_that_of_the_newest_rounds() -> None:
    tape = begun()
    for number in range(1, 31):
        tape.pass_ms(20_000 if number <= 15 else 5_000)
        tape.control(commit(number, ("frankfurt", number), tokens=number * 1000))

    state = of(tape)

    assert state.seconds_per_round == 5.0
    assert state.tokens_per_s == 200.0
    assert state.seconds_left(32_000) == 10.0


def test_two_rounds_in_the_same_millisecond_have_no_pace() -> None:
    tape = begun()
    tape.control(commit(1, ("frankfurt", 1)))
    tape.control(commit(2, ("frankfurt", 2)))

    assert of(tape).tokens_per_s is None


def test_a_pause_of_the_whole_run_counts_as_a_minute_at_most() -> None:
    tape = begun()
    tape.pass_ms(86_400_000)
    tape.control(Lead(term=2))
    tape.pass_ms(2_000)
    tape.control(commit(1, ("frankfurt", 1), term=2))

    assert of(tape).active_ms == LONGEST_SILENCE_MS + 2_000


def test_a_clock_that_is_an_hour_ahead_does_not_move_the_runs_time() -> None:
    tape = begun()
    tape.pass_ms(1_000)
    tape.start("frankfurt", "frankfurt-1", offset_ms=3_600_000)
    reached = of(tape).active_ms
    tape.pass_ms(1_000)
    tape.add("frankfurt", "frankfurt-1", progress(), clock_ms=3_600_000)

    state = of(tape)

    assert state.active_ms - reached <= 1_000
    assert state.at_ms == tape.at_ms


def test_losses_are_kept_for_each_source_in_order() -> None:
    tape = begun()
    for number, loss in ((0, 5.5), (1, 4.0)):
        seen = Evaluation(
            round=number, source="german", loss=loss, tokens=10, bits_per_byte=loss / 0.7
        )
        tape.add("frankfurt", "frankfurt-1", seen)

    told = of(tape).losses["german"]

    assert [(loss.round, loss.nats, loss.site) for loss in told] == [
        (0, 5.5, "frankfurt"),
        (1, 4.0, "frankfurt"),
    ]


def test_the_newest_checkpoint_is_the_one_of_the_highest_round() -> None:
    tape = begun()
    tape.helper(checkpoint(5))
    tape.helper(checkpoint(3))

    newest = of(tape).checkpoint

    assert newest is not None
    assert newest.round == 5


def test_the_end_is_safe_once_the_last_round_has_its_checkpoint() -> None:
    tape = begun()
    tape.control(Drain(term=1, reason="done"))
    tape.control(Drain(term=1, reason="stopped"))
    tape.control(commit(1, ("frankfurt", 1), last=True))
    unsafe = of(tape)
    tape.helper(checkpoint(1))
    tape.control(Ended(outcome="done", rounds=1, tokens=1000, head_seq=1, head_chain=""))

    state = of(tape)

    assert not unsafe.kept
    assert state.kept
    assert state.draining is not None
    assert state.draining.reason == "done"
    assert state.ended is not None


def test_a_site_whose_model_is_not_the_agreed_one_is_seen_whoever_speaks_first() -> None:
    tape = begun()
    tape.helper(digest(1, "right"))
    tape.add("frankfurt", "frankfurt-1", digest(1, "wrong"))
    tape.add("virginia", "virginia-1", digest(2, "wrong"))
    early = of(tape)
    tape.helper(digest(2, "right"))

    late = of(tape)

    assert early.sites["frankfurt"].deviates == 1
    assert early.sites["virginia"].deviates is None
    assert late.sites["virginia"].deviates == 2


def test_a_site_that_has_reloaded_deviates_no_more() -> None:
    tape = begun()
    tape.helper(digest(1, "right"))
    tape.add("frankfurt", "frankfurt-1", digest(1, "wrong"))
    tape.control(HostEvent(what="deviates", site="frankfurt", host="", detail=""))
    tape.helper(digest(2, "right too"))
    tape.add("frankfurt", "frankfurt-1", digest(2, "right too"))

    site = of(tape).sites["frankfurt"]

    assert site.deviates is None
    assert site.noted == frozenset()


def test_old_references_are_forgotten() -> None:
    tape = begun()
    for number in range(1, KEPT_DIGESTS + 10):
        tape.helper(digest(number))

    assert len(of(tape).reference) == KEPT_DIGESTS
    assert KEPT_DIGESTS + 9 in of(tape).reference


def test_what_was_noted_of_a_host_is_noted_until_it_starts_again() -> None:
    tape = begun()
    event = HostEvent(what="lost", site="frankfurt", host="frankfurt-1", detail="killed")
    tape.control(event)
    lost = of(tape)
    tape.incarnations["frankfurt-1"] = 2
    tape.start("frankfurt", "frankfurt-1")

    back = of(tape)

    assert lost.sites["frankfurt"].hosts["frankfurt-1"].noted == {"lost"}
    assert back.sites["frankfurt"].hosts["frankfurt-1"].noted == frozenset()
    assert back.sites["frankfurt"].hosts["frankfurt-1"].incarnation == 2
    assert [event.what for event in back.events] == ["lost"]


def test_a_host_that_is_awake_again_may_be_called_hung_again() -> None:
    tape = begun()
    for what in ("hung", "awake"):
        tape.control(HostEvent(what=what, site="frankfurt", host="frankfurt-1", detail=""))

    state = of(tape)

    assert state.sites["frankfurt"].hosts["frankfurt-1"].noted == frozenset()
    assert len(state.events) == 2


def test_an_event_of_a_place_nobody_knows_is_still_shown() -> None:
    tape = begun()
    tape.control(HostEvent(what="fault", site="", host="", detail="the sky is falling"))

    assert of(tape).events[-1].detail == "the sky is falling"


def test_a_new_plan_replaces_the_old_one() -> None:
    tape = begun()
    tape.control(Planned(plan=newer(plan()), reason="a site was lost"))

    state = of(tape)

    assert state.plan is not None
    assert state.plan.number == 2
    assert state.why_planned == "a site was lost"


def test_folding_on_from_any_prefix_gives_the_same_state() -> None:
    tape = begun()
    tape.start("frankfurt", "frankfurt-1")
    tape.add("frankfurt", "frankfurt-1", contribution(1))
    tape.control(commit(1, ("frankfurt", 1)))
    tape.helper(digest(1))
    whole = of(tape)

    for cut in range(len(tape.entries)):
        early = state_of(tape.entries[:cut])
        assert reduce(fold, tape.entries[cut:], early) == whole


def test_the_controllers_life_is_counted_by_its_own_incarnation_alone() -> None:
    tape = begun()
    tape.incarnations["checkpointer"] = 7
    tape.helper(digest(1))
    tape.incarnations[CONTROLLER] = 3
    tape.control(Lead(term=2))

    assert of(tape).lives == 3
