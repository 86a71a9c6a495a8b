"""A site that comes back: with a snapshot, from the agreed model, or as a zombie."""

import hashlib

import numpy as np
from fakes.exchange import LEADER, Log, commit, contribution, crew, plan, started, writer
from fakes.exchange_sides import BERLIN, LIMA, Berlin

from argosy.core.records import Contribution, Expired, Planned, Shard
from argosy.exchange.codec import encode
from argosy.exchange.payload import mark

AGAIN = writer("berlin", 2)


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
