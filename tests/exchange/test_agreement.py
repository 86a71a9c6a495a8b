"""What counts in a log and what is void, record by record."""

from dataclasses import replace

import pytest
from fakes.exchange import LEADER, Log, commit, contribution, crew, plan, progress, started, writer

from argosy.core.errors import DamagedError
from argosy.core.records import (
    CONTROLLER,
    Body,
    Commit,
    Contribution,
    Drain,
    Ended,
    Expired,
    Lead,
    Member,
    Planned,
    Unknown,
    Writer,
)
from argosy.exchange.agreement import Agreement

BERLIN, LIMA, OSAKA = writer("berlin"), writer("lima"), writer("osaka")
ENDED = Ended(outcome="done", rounds=1, tokens=100, head_seq=0, head_chain="")


class Told:
    """An agreement and the log it hears."""

    def __init__(self, *records: tuple[Writer, Body]) -> None:
        self.log = Log()
        self.agreement = Agreement()
        self.say(LEADER, Lead(term=1))
        self.say(LEADER, Planned(plan=plan(), reason="first plan"))
        for who, body in records:
            self.say(who, body)

    def say(self, who: Writer, body: Body) -> str | None:
        """Why the record is void, or None."""
        known = len(self.agreement.void)
        self.agreement.hear(self.log.append(who, body))
        new = self.agreement.void[known:]
        return new[0][1] if new else None


def both_posted() -> Told:
    return Told((BERLIN, contribution(1)), (LIMA, contribution(1)))


def test_a_post_is_outstanding_until_a_commit_names_it() -> None:
    told = both_posted()
    assert [seq for seq, _ in told.agreement.outstanding()] == [3, 4]

    void = told.say(LEADER, commit(1, ("berlin", 1)))

    assert void is None
    assert told.agreement.round() == 1
    assert told.agreement.tokens() == 100
    assert told.agreement.named("berlin", 1) == 1
    assert told.agreement.named("lima", 1) is None
    assert told.agreement.named("lima", 2) is None
    assert [seq for seq, _ in told.agreement.outstanding()] == [4]
    assert told.agreement.commits[0] == [(5, commit(1, ("berlin", 1)))]


def test_what_was_heard_before_is_ignored_and_a_gap_is_refused() -> None:
    told = both_posted()
    later = [told.log.append(OSAKA, contribution(1)), told.log.append(OSAKA, contribution(2))]

    assert told.agreement.hear(told.log.entries[2]) is False
    with pytest.raises(DamagedError, match="record 6 came after record 4"):
        told.agreement.hear(later[1])
    assert told.agreement.hear(later[0]) is True


def test_it_knows_the_chain_s_head() -> None:
    told = both_posted()

    assert (told.agreement.seq, told.agreement.chain) == (4, "chain 4")


def test_kinds_it_knows_nothing_of_change_nothing() -> None:
    told = both_posted()

    assert told.say(BERLIN, Unknown(kind="tide", body="{}")) is None
    assert told.say(BERLIN, progress(100)) is None


# -- terms -------------------------------------------------------------------------------------------


def test_a_commit_under_an_older_term_is_void() -> None:
    other = replace(LEADER, host="spare")
    told = both_posted()
    told.say(other, Lead(term=2))

    assert told.say(LEADER, commit(1, ("berlin", 1))) == "under term 1 while term 2 leads"
    assert told.say(other, commit(1, ("berlin", 1), term=2)) is None


def test_a_commit_under_a_term_that_nobody_has_led_is_void() -> None:
    told = both_posted()

    assert told.say(LEADER, commit(1, ("berlin", 1), term=7)) == "under term 7 while term 1 leads"


def test_of_two_leads_of_one_term_the_first_counts() -> None:
    other = replace(LEADER, host="spare")
    told = both_posted()

    assert told.say(other, Lead(term=1)) == "term 1 after term 1"
    void = told.say(other, commit(1, ("berlin", 1)))
    assert void == "controller/spare does not hold term 1"


def test_only_the_controller_leads_plans_forms_crews_and_ends() -> None:
    told = both_posted()

    assert told.say(BERLIN, Lead(term=9)) == "berlin may not lead"
    assert told.say(BERLIN, Planned(plan=plan(number=9), reason="")) == "berlin may not plan"
    assert told.say(BERLIN, crew("lima", "berlin-1")) == "berlin may not form a crew"
    assert told.say(BERLIN, ENDED) == "berlin may not end the run"
    assert told.say(BERLIN, commit(1, ("berlin", 1))) is not None
    assert told.say(BERLIN, Drain(term=1, reason="done")) is not None
    assert told.agreement.term == 1
    assert told.agreement.plan == plan()
    assert not told.agreement.crews
    assert told.agreement.ended is None
    assert told.agreement.draining is None


def test_a_commit_under_a_plan_that_is_not_in_force_is_void() -> None:
    told = both_posted()
    told.say(LEADER, Planned(plan=plan(number=2), reason="slower link"))

    assert told.say(LEADER, commit(1, ("berlin", 1))) == "under plan 1, which is not in force"
    assert told.say(LEADER, commit(1, ("berlin", 1), plan=2)) is None
    assert sorted(told.agreement.plans) == [1, 2]


# -- commits -----------------------------------------------------------------------------------------

COMMITS: dict[str, tuple[Commit, str]] = {
    "nobody": (commit(1, tokens=0), "names nobody"),
    "too early": (commit(2, ("berlin", 1)), "round 2 where 1 is next"),
    "not posted": (commit(1, ("osaka", 1)), "osaka has not posted 1"),
    "not yet posted": (commit(1, ("berlin", 2)), "berlin has not posted 2"),
    "twice": (commit(1, ("berlin", 1), ("berlin", 1)), "names a site twice"),
    "named and expired": (
        commit(1, ("berlin", 1), expired=(Expired(site="berlin", n=1),)),
        "names a site twice",
    ),
    "expiry of nothing": (
        commit(1, ("berlin", 1), expired=(Expired(site="osaka", n=1),)),
        "osaka has not posted 1",
    ),
    "other tokens": (
        commit(1, members=(Member(site="berlin", n=1, tokens=101, steps=2),), tokens=101),
        "berlin's post 1 has other tokens or steps",
    ),
    "other steps": (
        commit(1, members=(Member(site="berlin", n=1, tokens=100, steps=3),), tokens=100),
        "berlin's post 1 has other tokens or steps",
    ),
    "other sum": (commit(1, ("berlin", 1), tokens=99), "says 99 tokens, which is not the sum"),
    "other fragment": (commit(1, ("berlin", 1), fragment=1), "berlin has not posted 1"),
}


@pytest.mark.parametrize(("wrong", "why"), COMMITS.values(), ids=list(COMMITS))
def test_a_wrong_commit_is_void_and_a_right_one_still_counts(wrong: Commit, why: str) -> None:
    told = both_posted()

    assert told.say(LEADER, wrong) == why
    assert told.agreement.round() == 0
    assert told.say(LEADER, commit(1, ("berlin", 1), ("lima", 1))) is None


def test_the_second_commit_of_a_round_is_void() -> None:
    told = both_posted()
    told.say(LEADER, commit(1, ("berlin", 1)))

    assert told.say(LEADER, commit(1, ("lima", 1))) == "round 1 is agreed already"


def test_a_post_is_named_once() -> None:
    told = both_posted()
    told.say(LEADER, commit(1, ("berlin", 1)))

    void = told.say(LEADER, commit(2, ("berlin", 1)))

    assert void == "berlin's post 1 was named in round 1"


def test_a_post_counts_for_as_many_rounds_as_the_plan_says_and_then_expires() -> None:
    """S = 3 and base 0: rounds 1, 2 and 3."""
    told = both_posted()
    told.say(LEADER, commit(1, ("berlin", 1)))
    for round in (2, 3):
        told.say(BERLIN, contribution(round, round - 1))
        late = [seq for seq, _ in told.agreement.outstanding()]
        assert 4 in late
        told.say(LEADER, commit(round, ("berlin", round)))

    post = told.agreement.post("lima", 1)
    assert post is not None
    assert post.expired == 3
    assert told.agreement.outstanding() == ()
    told.say(BERLIN, contribution(4, 3))
    void = told.say(LEADER, commit(4, ("berlin", 4), ("lima", 1), tokens=500))
    assert void == "lima's post 1 expired with round 3"
    assert told.say(LIMA, contribution(2, 3)) is None, "the site may post again"


def test_in_its_last_round_a_post_may_still_be_named() -> None:
    told = both_posted()
    told.say(LEADER, commit(1, ("berlin", 1)))
    told.say(BERLIN, contribution(2, 1))
    told.say(LEADER, commit(2, ("berlin", 2)))

    assert told.say(LEADER, commit(3, ("lima", 1))) is None


def test_a_commit_may_expire_a_post_before_its_time() -> None:
    told = both_posted()

    void = told.say(LEADER, commit(1, ("berlin", 1), expired=(Expired(site="lima", n=1),)))

    assert void is None
    assert told.agreement.outstanding() == ()
    assert told.say(LIMA, contribution(2, 1)) is None


def test_the_staleness_of_the_plan_under_which_a_post_landed_goes_on_to_hold() -> None:
    told = both_posted()
    told.say(LEADER, Planned(plan=plan(number=2, staleness=1), reason=""))
    told.say(LEADER, commit(1, ("berlin", 1), plan=2))

    assert [seq for seq, _ in told.agreement.outstanding()] == [4]
    assert told.say(LEADER, commit(2, ("lima", 1), plan=2)) is None


# -- posts -------------------------------------------------------------------------------------------

POSTS: dict[str, tuple[Contribution, str]] = {
    "a number left out": (contribution(3, 1), "osaka posts 3 where 2 is next"),
    "a number again": (contribution(1, 1), "osaka posts 1 where 2 is next"),
    "no tokens": (contribution(2, 1, tokens=0), "holds no step"),
    "no steps": (contribution(2, 1, steps=0), "holds no step"),
    "the future": (contribution(2, 2), "stands on round 2, which is not agreed yet"),
    "another life": (contribution(2, 1, incarnation=4), "says life 4, written in life 1"),
}


@pytest.mark.parametrize(("wrong", "why"), POSTS.values(), ids=list(POSTS))
def test_a_wrong_post_is_void_and_its_number_stays_free(wrong: Contribution, why: str) -> None:
    told = Told((OSAKA, contribution(1)), (LEADER, commit(1, ("osaka", 1))))

    assert told.say(OSAKA, wrong) == why
    assert told.agreement.newest_n("osaka") == 1
    assert told.say(OSAKA, contribution(2, 1)) is None


def test_a_site_has_one_post_outstanding() -> None:
    told = both_posted()

    assert told.say(BERLIN, contribution(2)) == "berlin has a post outstanding"


def test_a_post_that_no_round_could_name_any_more_is_void() -> None:
    told = Told()
    for round in (1, 2, 3):
        told.say(BERLIN, contribution(round, round - 1))
        told.say(LEADER, commit(round, ("berlin", round)))

    assert told.say(LIMA, contribution(1, 0)) == "stands on round 0, 3 rounds ago"
    assert told.say(LIMA, contribution(1, 1)) is None


def test_a_post_before_there_is_a_plan_is_void() -> None:
    log, agreement = Log(), Agreement()

    agreement.hear(log.append(BERLIN, contribution(1)))

    assert agreement.void == [(1, "before the first plan")]


def test_a_replaced_life_of_a_host_writes_in_vain() -> None:
    told = Told((writer("berlin", 2), started()))

    void = told.say(BERLIN, contribution(1))

    assert void == "by life 1 of berlin-1, which was replaced"
    assert told.say(writer("berlin", 2), contribution(1, incarnation=2)) is None


def test_only_the_host_that_leads_a_crew_posts_for_the_site() -> None:
    told = Told((LEADER, crew("berlin", "berlin-2", "berlin-1")))

    assert told.say(BERLIN, contribution(1)) == "berlin-1 does not lead berlin"
    assert told.say(writer("berlin", host="berlin-2"), contribution(1)) is None


def test_nobody_posts_for_a_crew_without_hosts() -> None:
    told = Told((LEADER, crew("berlin")))

    assert told.say(BERLIN, contribution(1)) == "berlin-1 does not lead berlin"


def test_fragments_count_their_posts_and_rounds_apart() -> None:
    told = both_posted()
    told.say(BERLIN, contribution(1, fragment=1))

    assert told.say(LEADER, commit(1, ("berlin", 1), fragment=1)) is None
    assert told.agreement.round(1) == 1
    assert told.agreement.round(0) == 0
    assert told.agreement.newest_n("lima", 1) == 0
    assert told.agreement.ledger()["berlin"].committed == 0, "the ledger follows fragment 0"


# -- the end -----------------------------------------------------------------------------------------


def test_nothing_is_posted_or_committed_after_the_last_round() -> None:
    told = both_posted()
    told.say(LEADER, commit(1, ("berlin", 1), last=True))

    assert told.agreement.last()
    assert told.say(OSAKA, contribution(1)) == "after the last round"
    assert told.say(LEADER, commit(2, ("lima", 1))) == "after the last round"


def test_nothing_counts_after_the_end() -> None:
    told = both_posted()

    assert told.say(LEADER, ENDED) is None
    assert told.say(OSAKA, contribution(1)) == "after the end"
    assert told.say(LEADER, commit(1, ("lima", 1))) == "after the end"
    assert told.agreement.ended == ENDED


def test_a_run_is_drained_once_and_under_the_leading_term() -> None:
    told = both_posted()

    assert told.say(LEADER, Drain(term=4, reason="done")) == "under term 4 while term 1 leads"
    assert told.say(LEADER, Drain(term=1, reason="money")) is None
    assert told.say(LEADER, Drain(term=1, reason="done")) == "draining already"
    assert told.agreement.draining == Drain(term=1, reason="money")


def test_a_site_is_drained_when_it_says_so_or_could_not_have_missed_the_drain() -> None:
    told = both_posted()
    told.say(LEADER, Drain(term=1, reason="done"))
    told.say(OSAKA, contribution(1, final=True))
    told.say(LEADER, commit(1, ("berlin", 1), ("lima", 1)))
    told.say(BERLIN, contribution(2, 1))
    told.say(LIMA, contribution(2, 0))

    drained = {site: told.agreement.drained(site) for site in ("berlin", "lima", "osaka", "rome")}

    assert drained == {"berlin": True, "lima": False, "osaka": True, "rome": False}


def test_a_last_post_that_expires_has_to_be_made_again() -> None:
    told = both_posted()
    told.say(LEADER, Drain(term=1, reason="done"))
    told.say(OSAKA, contribution(1, final=True))

    told.say(LEADER, commit(1, ("lima", 1), expired=(Expired(site="osaka", n=1),)))

    assert not told.agreement.drained("osaka")


def test_nobody_is_drained_before_a_drain() -> None:
    told = Told((OSAKA, contribution(1, final=True)))

    assert not told.agreement.drained("osaka")


# -- the ledger's ends of it ---------------------------------------------------------------------------


def test_what_a_site_keeps_when_it_begins_again() -> None:
    told = both_posted()
    told.say(BERLIN, progress(170))

    assert told.agreement.kept("berlin") == 100
    assert told.agreement.kept("rome") == 0


def test_a_controller_s_helper_that_starts_trains_nothing() -> None:
    helper = Writer(site=CONTROLLER, host="checkpointer", incarnation=1)
    told = Told((helper, started(5)))

    assert CONTROLLER not in told.agreement.ledger()


def test_what_a_replaced_host_trains_on_is_nobody_s() -> None:
    told = Told(
        (LEADER, crew("berlin", "berlin-1")),
        (BERLIN, progress(50)),
        (LEADER, crew("berlin", "berlin-2", epoch=2)),
    )

    told.say(BERLIN, progress(90))
    told.say(BERLIN, contribution(1, trained=110))

    assert told.agreement.ledger()["berlin"].trained == 50
