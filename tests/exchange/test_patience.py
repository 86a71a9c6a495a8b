from dataclasses import replace

import pytest
from fakes.exchange import plan

from argosy.exchange.patience import Patience, Smoothed


def planned(low_s: float = 1.0, high_s: float = 100.0, **seconds_per_step: float) -> Patience:
    patience = Patience(low_s, high_s)
    whole = plan(*seconds_per_step)
    sites = tuple(
        replace(site, seconds_per_step=seconds_per_step[site.site]) for site in whole.sites
    )
    patience.planned(replace(whole, sites=sites))
    return patience


def rounds(patience: Patience, spreads: list[float], *, first: int = 1, live: bool = True) -> None:
    """One round a minute: first post after 30 s, the last one `spread` later."""
    for round, spread in enumerate(spreads, first):
        patience.posted(round - 1, 60.0 * round + 30, live=live)
        patience.posted(round - 1, 60.0 * round + 30 + spread, live=live)
        patience.committed(round, 60.0 * round + 60, complete=True, live=live)


def test_the_first_patience_is_what_the_plan_foretells_doubled() -> None:
    """Two steps a round, of 5 and 8 s: 6 s apart, and a quarter of 16 s for what is not known."""
    assert planned(berlin=5.0, lima=8.0).seconds == pytest.approx(2 * (6 + 4))


def test_it_settles_a_little_above_what_rounds_really_take() -> None:
    patience = planned(berlin=5.0, lima=5.0)

    rounds(patience, [4.0, 5.0, 4.5, 5.5, 4.0, 5.0] * 10)

    assert 5.5 < patience.seconds < 8.0


def test_it_stays_doubled_until_three_rounds_are_known() -> None:
    patience = planned(berlin=5.0, lima=5.0)
    rounds(patience, [3.0, 3.0])
    unsure = patience.seconds

    rounds(patience, [3.0], first=3)

    assert patience.seconds < unsure / 1.5


def test_it_has_bounds() -> None:
    hasty, slow = planned(low_s=2.0, berlin=0.001), planned(high_s=50.0, berlin=1_000.0, lima=1.0)

    rounds(hasty, [0.0] * 10)

    assert hasty.seconds == 2.0
    assert slow.seconds == 50.0


def test_one_outlier_does_not_stretch_it_beyond_its_double() -> None:
    patience = planned(berlin=5.0, lima=5.0, high_s=1_000.0)
    rounds(patience, [5.0] * 40)
    before = patience.seconds

    rounds(patience, [600.0], first=41)

    assert before < patience.seconds < 3 * before


def test_a_post_that_comes_too_late_teaches_how_long_would_have_done() -> None:
    patience = planned(berlin=5.0, lima=5.0)
    rounds(patience, [1.0] * 40)
    before = patience.seconds

    for round in range(41, 61):
        now_s = 60.0 * round
        patience.posted(round - 1, now_s, live=True)
        patience.committed(round, now_s + before, complete=False, live=True)
        patience.posted(round - 1, now_s + 20, live=True)

    assert patience.seconds > 20


def test_a_late_post_of_a_round_whose_beginning_was_not_seen_teaches_nothing() -> None:
    patience = planned(berlin=5.0, lima=5.0)
    patience.committed(7, 10.0, complete=True, live=False)
    before = patience.seconds

    patience.posted(6, 500.0, live=True)

    assert patience.seconds == before


def test_nothing_is_learned_while_catching_up() -> None:
    patience = planned(berlin=5.0, lima=5.0)
    before = patience.seconds

    rounds(patience, [50.0] * 10, live=False)
    patience.posted(3, 5_000.0, live=False)

    assert patience.seconds == before


def test_only_the_newest_rounds_are_remembered() -> None:
    patience = planned(berlin=5.0, lima=5.0)
    rounds(patience, [1.0] * 40)
    before = patience.seconds

    patience.posted(0, 60.0 * 41, live=True)

    assert patience.seconds == before


def test_a_new_plan_begins_anew() -> None:
    patience = planned(berlin=5.0, lima=5.0)
    rounds(patience, [50.0] * 10)

    patience.planned(plan("berlin", "lima"))

    assert patience.seconds == planned(berlin=5.0, lima=5.0).seconds


def test_the_clock_runs_from_the_first_fresh_post() -> None:
    patience = planned(berlin=5.0, lima=5.0)
    patience.posted(0, 100.0, live=True)
    patience.posted(0, 103.0, live=True)

    assert patience.deadline_s(100.0, few=False) == 100 + patience.seconds
    assert patience.deadline_s(100.0, few=True) == 100 + 2 * patience.seconds


def test_a_post_left_over_gives_the_others_the_time_that_a_round_takes() -> None:
    patience = planned(berlin=5.0, lima=5.0)
    rounds(patience, [1.0] * 60)

    deadline_s = patience.deadline_s(10_000.0, few=False)

    assert deadline_s - 10_000 == pytest.approx(30 + patience.seconds, rel=0.1)


def test_a_duration_s_mean_and_deviation_follow_it() -> None:
    smoothed = Smoothed()

    for _ in range(100):
        smoothed.learn(10.0)

    assert smoothed.enough_s == pytest.approx(10.0, abs=0.01)
