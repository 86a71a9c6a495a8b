"""Logs that nobody honest would write: a second reader, told apart from the first, must agree."""

from fakes.exchange import (
    LEADER,
    Log,
    commit,
    contribution,
    crew,
    plan,
    progress,
    rollback,
    started,
    writer,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sim.judge import judged

from argosy.core.records import Body, Drain, Ended, Expired, Lead, Member, Planned, Writer
from argosy.exchange.agreement import Agreement

SITES = ("berlin", "lima")
ENDED = Ended(outcome="done", rounds=0, tokens=0, head_seq=0, head_chain="")

sites = st.sampled_from(SITES)
few = st.integers(0, 3)
hosts = st.builds(
    lambda site, host, life: writer(site, life, f"{site}-{host}"),
    sites,
    st.integers(1, 2),
    st.sampled_from([1, 1, 1, 2]),
)
controllers = st.sampled_from(
    [LEADER, LEADER, LEADER, Writer(site="controller", host="spare", incarnation=1)]
)
posts = st.builds(
    lambda n, base, tokens, steps, trained, life: contribution(
        n, base, tokens=tokens, steps=steps, trained=trained, incarnation=life
    ),
    st.integers(1, 4), few, st.sampled_from([0, 1, 5, 5, 5]), st.sampled_from([0, 2, 2, 2]),
    st.integers(0, 40), st.sampled_from([1, 1, 1, 2]),
)  # fmt: skip
members = st.builds(
    lambda site, n, tokens: Member(site=site, n=n, tokens=tokens, steps=2),
    sites, st.integers(1, 3), st.sampled_from([5, 5, 5, 1]),
)  # fmt: skip
commits = st.builds(
    lambda round, named, expired, term, number, tokens, last: commit(
        round, members=tuple(named), expired=tuple(expired), term=term, plan=number,
        tokens=tokens if tokens else sum(m.tokens for m in named) + 5 * (round - 1), last=last,
    ),
    st.integers(1, 4), st.lists(members, max_size=2),
    st.lists(st.builds(lambda s, n: Expired(site=s, n=n), sites, st.integers(1, 2)), max_size=1),
    st.sampled_from([1, 1, 1, 2]), st.sampled_from([1, 1, 1, 2]),
    st.sampled_from([None, None, None, 5]), st.sampled_from([False, False, False, True]),
)  # fmt: skip
by_controller: st.SearchStrategy[Body] = st.one_of(
    commits, commits, commits, st.builds(Lead, term=few), st.just(ENDED),
    st.builds(lambda s, h: crew(s, f"{s}-{h}"), sites, st.integers(1, 2)),
    st.builds(lambda n, s: Planned(plan=plan(number=n, staleness=s), reason=""),
              st.sampled_from([1, 1, 2]), st.integers(1, 3)),
    st.just(Drain(term=1, reason="done")),
)  # fmt: skip
by_site: st.SearchStrategy[Body] = st.one_of(
    posts, posts, posts, st.builds(progress, st.integers(0, 40)),
    st.builds(started, st.integers(0, 40)), sites.map(rollback), commits,
)  # fmt: skip
records = st.one_of(st.tuples(hosts, by_site), st.tuples(controllers, by_controller))
BEGUN: list[tuple[Writer, Body]] = [
    (LEADER, Lead(term=1)),
    (LEADER, Planned(plan=plan(staleness=2), reason="first plan")),
]


def logged(said: list[tuple[Writer, Body]]) -> Log:
    log = Log()
    for who, body in [*BEGUN, *said]:
        log.append(who, body)
    return log


@given(st.lists(records, max_size=40))
@settings(max_examples=300)
@example([(writer("berlin"), contribution(1)), (LEADER, commit(1, ("berlin", 1)))])
def test_a_second_reader_finds_that_the_same_records_count(said: list[tuple[Writer, Body]]) -> None:
    log, agreement = logged(said), Agreement()

    for entry in log.entries:
        agreement.hear(entry)

    verdict = judged(log.entries)
    assert [seq for seq, _ in agreement.commits[0]] == [entry.seq for entry in verdict.commits]
    counting = [
        post.seq
        for site in SITES
        for n in range(1, agreement.newest_n(site) + 1)
        if (post := agreement.post(site, n))
    ]
    assert sorted(counting) == [entry.seq for entry in verdict.posts]


@given(st.lists(records, max_size=40))
@settings(max_examples=300)
def test_the_ledger_closes_for_every_prefix_whatever_was_written(
    said: list[tuple[Writer, Body]],
) -> None:
    agreement, trained, committed = Agreement(), dict.fromkeys(SITES, 0), dict.fromkeys(SITES, 0)

    for entry in logged(said).entries:
        agreement.hear(entry)

        for site, books in agreement.ledger().items():
            assert books.trained == books.committed + books.pending + sum(books.lost.values())
            assert books.pending >= sum(
                post.body.tokens for post in agreement.open_posts() if post.site == site
            )
            assert all(tokens > 0 for tokens in books.lost.values())
            assert books.trained >= trained[site], "what was trained stays trained"
            assert books.committed >= committed[site]
            trained[site], committed[site] = books.trained, books.committed
    assert agreement.tokens() == sum(committed.values())
