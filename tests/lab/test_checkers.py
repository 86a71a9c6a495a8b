from fakes.lab_history import History

from argosy.core.records import CONTROLLER
from argosy.lab.checkers import (
    OK,
    Bad,
    Judgement,
    Unknown,
    every_host_released,
    ledger_closes,
    loss_close,
    no_round_twice,
    residency_kept,
    same_model,
    survivors_unharmed,
)
from argosy.lab.crossing import Crossed, counters_agree, crossed

OPENED_IN = {"german": {"DE", "FR"}, "japanese": {"JP"}}
SENT_AS = {"german": {"update"}, "japanese": {"update", "checkpoint"}}


def good() -> History:
    """Two sites, two rounds, nothing amiss."""
    log = History().roster().lead(1).checkpoint(0, 40_000)
    log.start("frankfurt").start("tokyo")
    log.read("frankfurt", "german").read("tokyo", "japanese")
    log.post("frankfurt", 1, 100, 100).post("tokyo", 1, 50, 50)
    log.commit(1, ("frankfurt", 1), ("tokyo", 1))
    log.digest(CONTROLLER, 1, "aa").digest("frankfurt", 1, "aa").digest("tokyo", 1, "aa")
    log.post("frankfurt", 2, 100, 200).post("tokyo", 2, 60, 110)
    log.commit(2, ("frankfurt", 2), ("tokyo", 2))
    log.digest(CONTROLLER, 2, "bb").digest("frankfurt", 2, "bb").digest("tokyo", 2, "bb")
    log.progress("frankfurt", 200).progress("tokyo", 110)
    return log.end()


def why(judgement: Judgement) -> str:
    assert isinstance(judgement, Bad | Unknown), judgement
    return judgement.why


def test_a_run_in_which_nothing_was_amiss_passes_every_judge() -> None:
    log = good().entries

    assert residency_kept(log, OPENED_IN, SENT_AS) == OK
    assert same_model(log, at_the_end=("frankfurt", "tokyo")) == OK
    assert no_round_twice(log) == OK
    assert ledger_closes(log) == OK
    assert every_host_released(log, ()) == OK


def test_of_an_empty_log_nothing_is_known() -> None:
    for judgement in (
        residency_kept([], OPENED_IN, SENT_AS),
        same_model([]),
        no_round_twice([]),
        ledger_closes([]),
        every_host_released([], ()),
        survivors_unharmed([], [], (), from_seq=0, to_seq=9),
        loss_close([], []),
        counters_agree([], {}, {}),
    ):
        assert isinstance(judgement, Unknown)


def test_a_source_read_abroad_is_bad() -> None:
    log = History().roster().read("tokyo", "german")

    assert why(residency_kept(log.entries, OPENED_IN, SENT_AS)) == (
        "seq 2: tokyo in JP read german"
    )


def test_a_source_nobody_speaks_of_or_a_site_without_a_country_is_bad() -> None:
    strange = History().roster().read("tokyo", "secret")
    nowhere = History().read("tokyo", "japanese")

    assert "secret" in why(residency_kept(strange.entries, OPENED_IN, SENT_AS))
    assert "in None" in why(residency_kept(nowhere.entries, OPENED_IN, SENT_AS))


def test_an_update_in_a_form_that_must_not_leave_is_bad() -> None:
    log = History().roster().read("frankfurt", "german").post("frankfurt", 1, 1, 1, form="raw")

    assert "frankfurt sent german as raw" in why(residency_kept(log.entries, OPENED_IN, SENT_AS))


def test_an_update_of_who_read_nothing_is_bad() -> None:
    log = History().roster().read("tokyo", "japanese").post("frankfurt", 1, 1, 1)

    assert "from nothing" in why(residency_kept(log.entries, OPENED_IN, SENT_AS))


def test_a_site_with_another_model_is_bad_and_named() -> None:
    log = good().digest("tokyo", 2, "cc")

    assert why(same_model(log.entries)) == "round 2: tokyo holds another model than the log says"


def test_sites_that_agree_among_themselves_prove_nothing_without_the_replay() -> None:
    log = History().digest("tokyo", 1, "aa").digest("frankfurt", 1, "aa")

    assert isinstance(same_model(log.entries), Unknown)


def test_a_site_that_is_silent_about_the_last_round_is_not_known_to_be_right() -> None:
    log = good()
    log.post("frankfurt", 3, 1, 201).commit(3, ("frankfurt", 3))
    log.digest(CONTROLLER, 3, "cc").digest("frankfurt", 3, "cc")

    assert same_model(log.entries) == OK
    assert "tokyo" in why(same_model(log.entries, at_the_end=("frankfurt", "tokyo")))


def test_a_round_that_comes_twice_or_too_early_is_bad() -> None:
    twice = good().post("tokyo", 3, 1, 111).commit(2, ("tokyo", 3))
    early = good().post("tokyo", 3, 1, 111).commit(4, ("tokyo", 3))

    assert "round 2 follows round 2" in why(no_round_twice(twice.entries))
    assert "round 4 follows round 2" in why(no_round_twice(early.entries))


def test_a_commit_of_a_controller_that_lost_the_lead_does_not_count() -> None:
    log = good().lead(2, life=2).post("tokyo", 3, 1, 111)
    zombie = log.commit(2, ("tokyo", 3), term=1, life=1)
    assert no_round_twice(zombie.entries) == OK

    log.committed = 310
    thief = log.commit(3, ("tokyo", 3), term=2, life=1)
    assert no_round_twice(thief.entries) == OK
    log.committed = 310
    log.commit(3, ("tokyo", 3), term=2, life=2)
    assert no_round_twice(log.entries) == OK
    log.commit(3, ("tokyo", 3), term=2, life=2)
    assert "round 3 follows round 3" in why(no_round_twice(log.entries))


def test_a_contribution_that_is_named_twice_is_bad() -> None:
    log = good().commit(3, ("tokyo", 2))

    assert "number 2 of tokyo is in rounds 2 and 3" in why(no_round_twice(log.entries))


def test_a_commit_must_name_what_was_posted_as_it_was_posted() -> None:
    log = History().lead(1).post("tokyo", 1, 50, 50)
    log.entries.clear()
    log.lead(1).commit(1, ("tokyo", 1))

    assert "names what tokyo did not post" in why(no_round_twice(log.entries))


def test_a_wrong_sum_of_tokens_is_bad() -> None:
    log = History().lead(1).post("tokyo", 1, 50, 50).commit(1, ("tokyo", 1), claim=51)

    assert "51 tokens are claimed, 50 were committed" in why(no_round_twice(log.entries))


def test_a_post_from_an_older_life_of_a_host_does_not_count() -> None:
    log = History().lead(1)
    log.life["tokyo-1"] = 2
    log.start("tokyo").post("tokyo", 1, 50, 50, life=1).commit(1, ("tokyo", 1))

    assert "did not post" in why(no_round_twice(log.entries))


def test_tokens_that_vanish_from_a_site_that_was_left_alone_are_bad() -> None:
    log = History().lead(1).post("tokyo", 1, 50, 50).commit(1, ("tokyo", 1))
    log.post("tokyo", 2, 50, 130)

    assert "left alone and lost 30" in why(ledger_closes(log.entries))
    assert ledger_closes(log.entries, disturbed=("tokyo",)) == OK


def test_tokens_counted_twice_are_bad_even_of_a_site_that_was_killed() -> None:
    log = History().lead(1).post("tokyo", 1, 50, 50).commit(1, ("tokyo", 1))
    log.post("tokyo", 2, 50, 70)

    assert "counts 30 tokens twice" in why(ledger_closes(log.entries, disturbed=("tokyo",)))


def test_an_expired_post_comes_again_with_the_next() -> None:
    log = History().lead(1).post("tokyo", 1, 50, 50).post("frankfurt", 1, 9, 9)
    log.commit(1, ("frankfurt", 1), expired=(("tokyo", 1),))

    assert ledger_closes(log.post("tokyo", 2, 90, 90).entries) == OK
    lost = History().lead(1).post("tokyo", 1, 50, 50).post("tokyo", 2, 40, 90)
    assert "lost 50" in why(ledger_closes(lost.entries))


def test_what_is_pending_when_the_run_has_ended_is_bad() -> None:
    log = good()
    log.entries.pop()
    log.progress("tokyo", 150)
    assert ledger_closes(log.entries) == OK

    log.end()

    assert "40 tokens of tokyo were not committed" in why(ledger_closes(log.entries))
    assert ledger_closes(log.entries, disturbed=("tokyo",)) == OK


def test_a_host_still_at_work_is_bad_and_helpers_are_not_asked_for() -> None:
    log = good().entries

    assert why(every_host_released(log, ("tokyo-1", "logbook"))) == "still at work: tokyo-1"


def calm(*gaps: float) -> History:
    log = History()
    for gap in gaps:
        log.progress("frankfurt", 1, gap=gap)
    return log


def test_a_survivor_may_stand_still_half_as_long_again_as_at_its_worst_usually() -> None:
    usual = calm(*[0.1] * 98, 0.2, 9.0).entries  # the 99th percentile of a hundred: 0.2

    ok = survivors_unharmed(
        calm(5.0, 0.29, 0.1).entries, usual, ("frankfurt",), from_seq=2, to_seq=3
    )
    bad = survivors_unharmed(
        calm(5.0, 0.31, 0.1).entries, usual, ("frankfurt",), from_seq=2, to_seq=3
    )

    assert ok == OK
    assert why(bad) == "frankfurt stood still for 0.31 s, more than 0.30 s"


def test_a_survivor_that_told_nothing_is_not_known_to_be_well() -> None:
    usual = calm(0.1).entries

    silent = survivors_unharmed(usual, usual, ("frankfurt",), from_seq=7, to_seq=9)

    assert "did not tell" in why(silent)


def test_the_loss_may_be_one_hundredth_higher_than_undisturbed() -> None:
    usual = History().evaluation("a", 9.0).evaluation("a", 1.0).evaluation("b", 3.0).entries
    near = History().evaluation("a", 1.03).evaluation("b", 3.0).entries
    far = History().evaluation("a", 1.05).evaluation("b", 3.0).entries
    mad = History().evaluation("a", float("nan")).evaluation("b", 3.0).entries

    assert loss_close(near, usual) == OK
    assert "1.25 % higher" in why(loss_close(far, usual))
    assert isinstance(loss_close(mad, usual), Bad)
    assert isinstance(loss_close(near[:1], usual), Unknown)


def test_what_must_have_crossed_is_added_up_by_hand() -> None:
    log = good()

    said = crossed(log.entries)

    assert said["tokyo"] == Crossed(
        up_updates=20_000,
        up_records=7 * 500,
        down_updates=20_000,
        down_checkpoints=40_000,
        down_records=500 * len(log.entries),
    )


def test_a_host_that_starts_before_there_is_a_checkpoint_fetches_the_first() -> None:
    log = History().start("tokyo").start("frankfurt").checkpoint(0, 40_000).checkpoint(1, 44_000)

    assert crossed(log.entries)["tokyo"].down_checkpoints == 40_000


def test_helpers_beside_the_logbook_cross_no_link() -> None:
    assert set(crossed(good().start(CONTROLLER).entries)) == {"frankfurt", "tokyo"}


def test_a_host_that_comes_back_fetches_the_newest_checkpoint() -> None:
    log = good().checkpoint(2, 44_000).start("tokyo")

    assert crossed(log.entries)["tokyo"].down_checkpoints == 84_000


def test_the_relay_may_count_a_little_more_than_the_logbook_says_but_not_a_corpus() -> None:
    log = good().entries
    about = {"up": 30_000, "down": 80_000, "opened": 2}

    def judge(*disturbed: str, **changes: int) -> Judgement:
        counters = {"frankfurt": about, "tokyo": {**about, **changes}}
        return counters_agree(log, counters, {}, disturbed=disturbed)

    assert judge() == OK
    assert judge(up=60_000, opened=5) == OK
    assert "tokyo up" in why(judge(up=60_000, opened=1))
    assert "tokyo up" in why(judge(up=18_000))
    assert "tokyo down" in why(judge(down=900_000))
    assert "tokyo down" in why(judge(down=18_000))
    assert judge("tokyo", down=18_000) == OK
    assert "tokyo up" in why(judge("tokyo", up=18_000))


def test_what_was_measured_before_training_is_not_counted_and_every_site_must_be() -> None:
    log = good().entries
    counters = {
        site: {"up": 930_000, "down": 990_000, "opened": 9} for site in ("frankfurt", "tokyo")
    }
    before = {
        site: {"up": 900_000, "down": 910_000, "opened": 8} for site in ("frankfurt", "tokyo")
    }

    assert counters_agree(log, counters, before) == OK
    assert isinstance(counters_agree(log, {"tokyo": counters["tokyo"]}, before), Unknown)
