"""The site's side: what to apply, when to post and when to train."""

from fakes.exchange import LEADER, commit, contribution
from fakes.exchange_sides import BERLIN, LIMA, Berlin

from argosy.exchange.site import SiteSide

# -- applying --------------------------------------------------------------------------------------


def test_commits_are_applied_in_order_and_the_one_that_names_it_says_so() -> None:
    berlin = Berlin()
    berlin.post()
    berlin.say(LIMA, contribution(1))
    first = berlin.say(LEADER, commit(1, ("lima", 1)))
    second = berlin.say(LEADER, commit(2, ("berlin", 1)))

    applied = [berlin.apply(), berlin.apply()]

    assert [(one.seq, one.named, one.expired) for one in applied] == [
        (first, False, False),
        (second, True, False),
    ]
    assert berlin.side.base == 2
    assert berlin.side.next() is None


def test_the_next_commit_stays_the_next_until_it_is_applied() -> None:
    berlin = Berlin()
    berlin.say(LIMA, contribution(1))
    berlin.say(LEADER, commit(1, ("lima", 1)))

    assert berlin.side.next() == berlin.side.next()
    assert berlin.side.base == 0


def test_a_post_that_expires_is_said_with_the_commit_after_which_nothing_can_name_it() -> None:
    berlin = Berlin(staleness=1)
    berlin.post()
    berlin.say(LIMA, contribution(1))
    berlin.say(LEADER, commit(1, ("lima", 1)))

    apply = berlin.apply()

    assert (apply.named, apply.expired) == (False, True)
    assert berlin.side.can_post()


def test_a_void_commit_is_not_applied() -> None:
    berlin = Berlin()

    berlin.say(LEADER, commit(1, ("lima", 1)))

    assert berlin.side.next() is None


# -- posting ---------------------------------------------------------------------------------------


def test_it_posts_again_only_when_the_last_post_is_named_and_that_commit_applied() -> None:
    berlin = Berlin()
    assert berlin.side.can_post()
    berlin.side.posted(contribution(1))
    assert not berlin.side.can_post(), "on its way"
    berlin.say(BERLIN, contribution(1))
    assert not berlin.side.can_post(), "outstanding"
    berlin.say(LEADER, commit(1, ("berlin", 1)))
    assert not berlin.side.can_post(), "its residual is still pending here"

    berlin.apply()

    assert berlin.side.can_post()
    assert berlin.side.next_n == 2


def test_a_void_post_is_posted_again_under_its_number() -> None:
    berlin = Berlin(staleness=1)
    berlin.side.posted(contribution(1))
    berlin.say(LIMA, contribution(1))
    berlin.say(LEADER, commit(1, ("lima", 1)))
    assert berlin.keeps() == 1

    berlin.say(BERLIN, contribution(1, 0))

    assert berlin.keeps() is None, "so Holdings drops it"
    assert not berlin.apply().named
    assert berlin.side.can_post()
    assert berlin.side.next_n == 1


def test_hearing_a_void_post_twice_does_not_touch_its_second_try() -> None:
    berlin = Berlin(staleness=1)
    berlin.side.posted(contribution(1))
    berlin.say(LIMA, contribution(1))
    berlin.say(LEADER, commit(1, ("lima", 1)))
    berlin.say(BERLIN, contribution(1, 0))
    berlin.apply()
    berlin.side.posted(contribution(1))

    berlin.side.hear(berlin.log.entries[-1])

    assert berlin.keeps() == 1


def test_a_site_that_has_fallen_too_far_behind_catches_up_before_it_posts() -> None:
    berlin = Berlin(staleness=2)
    for round in (1, 2):
        berlin.say(LIMA, contribution(round, round - 1))
        berlin.say(LEADER, commit(round, ("lima", round)))
    assert not berlin.side.can_post()

    berlin.apply()

    assert berlin.side.can_post()


def test_before_there_is_a_plan_nothing_is_trained_or_posted() -> None:
    side = SiteSide("berlin")

    assert not side.can_post()
    assert not side.may_train(0)


def test_it_takes_no_notice_of_others_posts_and_fragments() -> None:
    berlin = Berlin()
    berlin.side.posted(contribution(1))

    berlin.say(LIMA, contribution(1))
    berlin.say(BERLIN, contribution(1, fragment=3))

    assert berlin.keeps() == 1
    assert not berlin.overtaken()
    assert not berlin.side.can_post()


# -- training --------------------------------------------------------------------------------------


def test_with_delay_a_site_trains_on_for_as_many_windows_as_the_plan_allows() -> None:
    berlin = Berlin(delay=1, staleness=3)
    berlin.post()

    assert [berlin.side.may_train(windows) for windows in (0, 1, 2.9, 3, 4)] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_without_delay_a_site_waits_until_its_post_is_settled_and_applied() -> None:
    berlin = Berlin(delay=0)
    assert berlin.side.may_train(0)
    berlin.post()
    assert not berlin.side.may_train(0)
    berlin.say(LIMA, contribution(1))
    berlin.say(LEADER, commit(1, ("lima", 1)))
    berlin.apply()
    assert not berlin.side.may_train(0), "the others' round is not the one it waits for"

    berlin.say(LEADER, commit(2, ("berlin", 1)))
    assert not berlin.side.may_train(0)
    berlin.apply()

    assert berlin.side.may_train(0)
