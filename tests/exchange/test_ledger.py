from argosy.exchange.ledger import KILLED, ROLLED_BACK, UNEXPLAINED, Ledger, SiteBooks

HOST, OTHER = "berlin-1", "berlin-2"


def posted(*, trained: int, tokens: int) -> SiteBooks:
    books = SiteBooks()
    books.host_started(HOST, 0)
    books.contributed(HOST, trained, tokens)
    return books


def test_what_is_posted_is_pending_until_it_is_named() -> None:
    books = posted(trained=100, tokens=100)
    assert books.ledger() == Ledger(trained=100, pending=100)

    books.settled(100, named=True)

    assert books.ledger() == Ledger(trained=100, committed=100)


def test_what_expires_stays_pending_since_it_comes_with_the_next_post() -> None:
    books = posted(trained=100, tokens=100)

    books.settled(100, named=False)
    books.contributed(HOST, 150, 150)
    books.settled(150, named=True)

    assert books.ledger() == Ledger(trained=150, committed=150)


def test_reports_between_posts_are_pending_and_an_older_one_changes_nothing() -> None:
    books = posted(trained=100, tokens=100)

    books.reported(HOST, 130)
    books.reported(HOST, 120)

    assert books.ledger() == Ledger(trained=130, pending=130)


def test_a_site_that_begins_again_from_the_agreed_model_keeps_its_open_post() -> None:
    books = posted(trained=100, tokens=100)
    books.reported(HOST, 130)
    assert books.kept == 100

    books.host_started(HOST, books.kept)

    assert books.ledger() == Ledger(trained=130, pending=100, lost={KILLED: 30})
    books.settled(100, named=True)
    books.contributed(HOST, 100 + 20, 20)
    assert books.ledger() == Ledger(trained=150, committed=100, pending=20, lost={KILLED: 30})


def test_a_host_that_had_not_read_the_last_posts_of_its_former_life_goes_on_after_them() -> None:
    books = posted(trained=100, tokens=100)
    had_read = books.kept
    books.settled(100, named=True)
    books.contributed(HOST, 150, 50)
    books.settled(50, named=True)

    books.host_started(HOST, had_read)

    assert books.kept == 150
    books.contributed(HOST, books.kept + 20, 20)
    assert books.ledger() == Ledger(trained=170, committed=150, pending=20)


def test_the_open_post_of_a_site_that_began_again_is_lost_when_it_expires() -> None:
    """The log can't see whether its state holds it; the next contribution tells."""
    books = posted(trained=100, tokens=100)
    books.host_started(HOST, books.kept)
    books.settled(100, named=False)

    books.contributed(HOST, 100 + 20, 20)

    assert books.ledger() == Ledger(trained=120, pending=20, lost={KILLED: 100})


def test_a_snapshot_loses_what_was_trained_after_it() -> None:
    books = posted(trained=100, tokens=100)
    books.settled(100, named=True)
    books.reported(HOST, 180)

    books.host_started(HOST, 160)
    books.contributed(HOST, 200, 100)

    assert books.ledger() == Ledger(trained=220, committed=100, pending=100, lost={KILLED: 20})


def test_a_snapshot_that_had_trained_more_than_was_reported_loses_nothing() -> None:
    books = posted(trained=100, tokens=100)

    books.host_started(HOST, 160)

    assert books.ledger() == Ledger(trained=160, pending=160)


def test_a_site_lives_as_long_as_one_of_its_hosts() -> None:
    books = SiteBooks()
    books.crew_formed((HOST, OTHER))
    books.reported(HOST, 100)

    books.host_started(OTHER, 0)
    assert books.ledger() == Ledger(trained=100, pending=100)
    books.host_started(HOST, 60)

    assert books.ledger() == Ledger(trained=100, pending=60, lost={KILLED: 40}), "the furthest one"


def test_a_crew_of_new_hosts_only_brings_what_they_bring() -> None:
    books = SiteBooks()
    books.crew_formed((HOST,))
    books.reported(HOST, 100)
    books.host_started(OTHER, 30)
    books.reported(HOST, 110)
    assert books.ledger() == Ledger(trained=110, pending=110)

    books.crew_formed((OTHER,))

    assert books.ledger() == Ledger(trained=110, pending=30, lost={KILLED: 80})


def test_a_crew_before_anybody_has_started_brings_nothing() -> None:
    books = SiteBooks()

    books.crew_formed((HOST,))

    assert books.ledger() == Ledger()


def test_survivors_that_were_a_step_behind_a_dead_host_have_lost_that_step() -> None:
    books = SiteBooks()
    books.crew_formed((HOST, OTHER))
    books.reported(HOST, 100)

    books.contributed(OTHER, 90, 90)

    assert books.ledger() == Ledger(trained=100, pending=90, lost={KILLED: 10})


def test_steps_reported_before_the_record_of_an_earlier_post_are_not_lost() -> None:
    """The record waits for the stripes of the site's other hosts; the leader trains on meanwhile."""
    books = SiteBooks()
    books.crew_formed((HOST, OTHER))
    books.reported(HOST, 100)

    books.contributed(HOST, 90, 90)

    assert books.ledger() == Ledger(trained=100, pending=100)
    assert books.kept == 90, "what a new life could begin with"
    books.settled(90, named=True)
    books.contributed(HOST, 130, 40)
    assert books.ledger() == Ledger(trained=130, committed=90, pending=40)


def test_a_host_that_began_anew_has_lost_what_its_former_life_reported() -> None:
    books = SiteBooks()
    books.crew_formed((HOST, OTHER))
    books.reported(HOST, 100)
    books.host_started(HOST, 0)

    books.contributed(HOST, 90, 90)

    assert books.ledger() == Ledger(trained=100, pending=90, lost={KILLED: 10})


def test_a_rollback_loses_all_but_the_open_post_and_the_next_post_says_how_much() -> None:
    books = posted(trained=100, tokens=100)
    books.reported(HOST, 130)

    books.rolled_back()
    assert books.ledger() == Ledger(trained=130, pending=100, lost={ROLLED_BACK: 30})
    books.settled(100, named=True)
    books.contributed(HOST, 160, 20)

    assert books.ledger() == Ledger(trained=160, committed=100, pending=20, lost={ROLLED_BACK: 40})


def test_what_was_called_lost_and_comes_after_all_is_not_lost() -> None:
    books = posted(trained=100, tokens=100)
    books.settled(100, named=True)
    books.reported(HOST, 150)
    books.host_started(HOST, 110)

    books.contributed(HOST, 120, 50)

    assert books.ledger() == Ledger(trained=160, committed=100, pending=50, lost={KILLED: 10})


def test_more_tokens_than_were_ever_reported_were_trained_all_the_same() -> None:
    books = posted(trained=100, tokens=100)
    books.settled(100, named=True)

    books.contributed(HOST, 110, 50)

    assert books.ledger() == Ledger(trained=150, committed=100, pending=50)


def test_tokens_that_vanish_from_an_undisturbed_site_are_unexplained() -> None:
    books = posted(trained=100, tokens=100)
    books.settled(100, named=True)

    books.contributed(HOST, 200, 70)

    assert books.ledger() == Ledger(trained=200, committed=100, pending=70, lost={UNEXPLAINED: 30})
