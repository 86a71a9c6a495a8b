"""The site's side: what to apply, when to post, when to train, and how it comes back."""

import hashlib

import numpy as np
from fakes.exchange import LEADER, Log, commit, contribution, crew, plan, started, writer

from argosy.core.records import (
    Body,
    Contribution,
    Drain,
    Ended,
    Expired,
    Lead,
    Planned,
    Shard,
    Writer,
)
from argosy.exchange.codec import encode
from argosy.exchange.payload import mark
from argosy.exchange.site import Apply, SiteSide

BERLIN, LIMA = writer("berlin"), writer("lima")
AGAIN = writer("berlin", 2)
DRAIN = Drain(term=1, reason="done")
ENDED = Ended(outcome="done", rounds=0, tokens=0, head_seq=0, head_chain="")


class Berlin:
    """Berlin's side and the log it hears."""

    def __init__(self, log: Log | None = None, **exchange: object) -> None:
        self.side = SiteSide("berlin")
        self.log = log or Log()
        for entry in self.log.entries:
            self.side.hear(entry)
        if log is None:
            self.say(LEADER, Lead(term=1))
            self.say(LEADER, Planned(plan=plan(**exchange), reason="first plan"))  # type: ignore[arg-type]

    def say(self, who: Writer, body: Body) -> int:
        entry = self.log.append(who, body)
        self.side.hear(entry)
        return entry.seq

    def post(self, *, final: bool = False, writer: Writer = BERLIN) -> int:
        """Decided here, and landed."""
        n, base, life = self.side.next_n, self.side.base, writer.incarnation
        body = contribution(n, base, final=final, incarnation=life)
        self.side.posted(body)
        return self.say(writer, body)

    def keeps(self) -> int | None:
        return self.side.open

    def overtaken(self) -> bool:
        return self.side.overtaken

    def drains(self) -> bool:
        return self.side.should_drain

    def finished(self) -> bool:
        return self.side.finished

    def apply(self) -> Apply:
        apply = self.side.next()
        assert apply is not None
        self.side.applied(apply)
        return apply


# -- applying ------------------------------------------------------------------------------------------


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


# -- posting -------------------------------------------------------------------------------------------


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


# -- training ------------------------------------------------------------------------------------------


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


# -- draining ------------------------------------------------------------------------------------------


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


# -- coming back ---------------------------------------------------------------------------------------


def dead_after_posting() -> Log:
    """Berlin has posted 1 on round 0 and died; round 1 is agreed without it."""
    berlin = Berlin()
    berlin.post()
    berlin.say(LIMA, contribution(1))
    berlin.say(LEADER, commit(1, ("lima", 1)))
    berlin.say(AGAIN, started())
    return berlin.log


def test_a_site_that_begins_again_is_moved_by_its_old_post_like_everybody_else() -> None:
    berlin = Berlin(dead_after_posting())
    berlin.side.begin(1)
    assert not berlin.overtaken()
    assert not berlin.side.can_post(), "its old post is outstanding"
    berlin.say(LEADER, commit(2, ("berlin", 1)))

    apply = berlin.apply()

    assert (apply.named, apply.expired) == (False, False), "the state holds no p"
    assert berlin.side.can_post()
    assert berlin.side.next_n == 2


def test_without_delay_a_site_that_begins_again_waits_for_its_old_post_too() -> None:
    log = dead_after_posting()
    log.append(LEADER, Planned(plan=plan(number=2, delay=0), reason=""))
    berlin = Berlin(log)

    berlin.side.begin(1)

    assert not berlin.side.may_train(0)


def test_a_snapshot_that_keeps_the_post_goes_on_with_it() -> None:
    berlin = Berlin(dead_after_posting())

    assert berlin.side.resume(base=0, newest=1, open=1)

    assert not berlin.overtaken()
    assert berlin.apply().commit.round == 1
    berlin.say(LEADER, commit(2, ("berlin", 1)))
    assert berlin.apply().named


def test_a_snapshot_from_before_the_post_is_refused() -> None:
    berlin = Berlin(dead_after_posting())

    assert not berlin.side.resume(base=0, newest=0, open=None)


def test_a_snapshot_of_rounds_that_the_log_does_not_know_is_refused() -> None:
    berlin = Berlin(dead_after_posting())

    assert not berlin.side.resume(base=2, newest=1, open=None)


def test_a_post_that_never_reached_the_log_is_withdrawn() -> None:
    berlin = Berlin()

    assert berlin.side.resume(base=0, newest=1, open=1)

    assert berlin.keeps() is None
    assert berlin.side.can_post()
    assert berlin.side.next_n == 1


def marked(n: int, value: float) -> tuple[Contribution, str]:
    payload = encode(np.full(7, value, dtype=np.float32), "fp32")
    blob = f"sha256:{hashlib.sha256(payload).hexdigest()}"
    shard = Shard(parameter="*", start=0, stop=7, blob=blob, bytes=len(payload))
    return contribution(n, shards=(shard,)), mark(payload)


def test_a_snapshot_whose_post_is_another_than_the_one_that_landed_is_refused() -> None:
    """It never got there; a later life, which left no snapshot, used its number again."""
    landed, landed_mark = marked(1, 1.0)
    _, other_mark = marked(1, 2.0)
    berlin = Berlin()
    berlin.say(BERLIN, landed)

    assert not berlin.side.resume(base=0, newest=1, open=1, mark=other_mark)
    assert berlin.side.resume(base=0, newest=1, open=1, mark=landed_mark)


def test_a_site_is_overtaken_by_a_post_of_its_own_that_it_knows_nothing_of() -> None:
    berlin = Berlin()

    berlin.say(BERLIN, contribution(1))

    assert berlin.overtaken()
    assert not berlin.side.can_post()
    assert not berlin.side.may_train(0)
    berlin.side.begin(0)
    assert not berlin.overtaken()
    assert berlin.side.may_train(0)


def test_what_a_replaced_host_posts_overtakes_nobody() -> None:
    berlin = Berlin()
    berlin.say(LEADER, crew("berlin", "berlin-2"))
    berlin.side.posted(contribution(1))

    berlin.say(BERLIN, contribution(1, tokens=70))

    assert not berlin.overtaken()
    assert berlin.keeps() == 1
    berlin.say(writer("berlin", host="berlin-2"), contribution(1))
    assert berlin.side.agreement.newest_n("berlin") == 1
    assert not berlin.overtaken()


def test_another_life_s_post_of_the_same_number_is_not_taken_for_its_own() -> None:
    """A zombie's own post is still on its way when its successor's lands."""
    zombie = Berlin()
    zombie.side.posted(contribution(1))
    zombie.say(AGAIN, started())

    zombie.say(AGAIN, contribution(1, incarnation=2, tokens=70))

    assert zombie.overtaken()
    zombie.say(BERLIN, contribution(1))
    assert zombie.keeps() is None


def test_a_rollback_while_a_post_is_on_its_way_is_not_overtaken_by_it() -> None:
    berlin = Berlin()
    berlin.side.posted(contribution(1))

    berlin.side.begin(0)
    assert not berlin.side.can_post(), "one on its way is enough"
    berlin.say(BERLIN, contribution(1))

    assert not berlin.overtaken()
    berlin.say(LEADER, commit(1, ("berlin", 1)))
    assert not berlin.apply().named
    assert berlin.side.can_post()


def test_an_expired_post_is_told_to_the_site_that_keeps_it() -> None:
    berlin = Berlin()
    berlin.post()
    berlin.say(LIMA, contribution(1))
    berlin.say(LEADER, commit(1, ("lima", 1), expired=(Expired(site="berlin", n=1),)))

    assert berlin.apply().expired
