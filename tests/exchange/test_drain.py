"""How a run is drained, at the controller and at a site."""

from fakes.exchange import LEADER, commit, contribution, plan, started, writer
from fakes.exchange_sides import BERLIN, LIMA, OSAKA, Berlin, Run

from argosy.core.records import Drain, Ended

DRAIN = Drain(term=1, reason="done")
ENDED = Ended(outcome="done", rounds=0, tokens=0, head_seq=0, head_chain="")


# -- at the controller -----------------------------------------------------------------------------


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


def test_a_post_from_before_the_drain_goes_first_and_last_posts_are_held_back() -> None:
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


# -- at a site -------------------------------------------------------------------------------------


def test_in_a_drain_a_site_posts_what_it_has_and_trains_no_more() -> None:
    berlin = Berlin()
    berlin.say(LEADER, DRAIN)
    assert berlin.drains()
    assert berlin.side.may_train(0, unposted_steps=0), "an empty post would not count"
    assert not berlin.side.may_train(0, unposted_steps=1)

    berlin.post(final=True)

    assert not berlin.drains()
    assert not berlin.side.may_train(0)
    assert not berlin.finished()
    berlin.say(LEADER, commit(1, ("berlin", 1), last=True))
    assert not berlin.finished(), "the last commit is still to be applied"
    berlin.apply()
    assert berlin.finished()
    assert not berlin.side.can_post()
    assert not berlin.side.may_train(0)


def test_a_last_post_on_its_way_is_not_made_twice() -> None:
    berlin = Berlin()
    berlin.say(LEADER, DRAIN)

    berlin.side.posted(contribution(1, final=True))

    assert not berlin.drains()
    assert not berlin.side.may_train(0)


def test_a_post_that_was_made_before_the_drain_was_heard_is_followed_by_a_last_one() -> None:
    berlin = Berlin()
    berlin.side.posted(contribution(1))
    berlin.say(LEADER, DRAIN)
    berlin.say(BERLIN, contribution(1))
    assert berlin.drains()
    assert not berlin.side.may_train(0), "first its post must be settled"
    berlin.say(LEADER, commit(1, ("berlin", 1)))
    berlin.apply()

    assert berlin.side.can_post()
    assert berlin.drains()
    berlin.post(final=True)
    assert not berlin.drains()


def test_a_last_post_that_is_void_is_made_again() -> None:
    berlin = Berlin(staleness=1)
    berlin.say(LEADER, DRAIN)
    berlin.side.posted(contribution(1))
    berlin.say(LIMA, contribution(1))
    berlin.say(LEADER, commit(1, ("lima", 1)))

    berlin.say(BERLIN, contribution(1, 0, final=True))

    assert berlin.drains()


def test_a_site_whose_last_post_is_named_before_the_last_round_just_waits() -> None:
    berlin = Berlin()
    berlin.say(LEADER, DRAIN)
    berlin.post(final=True)
    berlin.say(LEADER, commit(1, ("berlin", 1)))

    berlin.apply()

    assert not berlin.drains()
    assert not berlin.side.can_post()
    assert not berlin.side.may_train(0)
    assert not berlin.finished()


def test_a_run_that_ends_without_a_last_round_is_finished_when_all_rounds_are_applied() -> None:
    berlin = Berlin()
    berlin.say(LIMA, contribution(1))
    berlin.say(LEADER, commit(1, ("lima", 1)))

    berlin.say(LEADER, ENDED)

    assert not berlin.finished()
    berlin.apply()
    assert berlin.finished()
    assert not berlin.side.can_post()
