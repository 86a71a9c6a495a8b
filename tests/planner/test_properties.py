"""What must hold of every plan, whatever the fleet."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from argosy.core.errors import NoPlan
from argosy.core.fleet import Fleet, Host, Link, Site
from argosy.core.job import Exchange, Job, Limits, ModelFromConfig, StepWindow, TimeWindow, Training
from argosy.core.plan import HostFacts, Plan
from argosy.planner import plan
from argosy.planner.facts import CODECS
from argosy.planner.hosts import shares
from argosy.planner.words import listed, number, seconds, size

hosts = st.builds(
    HostFacts,
    host=st.just(""),
    tokens_per_s=st.floats(50, 1e6),
    micro_batch=st.integers(1, 64),
    peak_memory_gb=st.floats(0.1, 2),
    memory_gb=st.just(64.0),
)
links = st.builds(
    Link,
    a=st.just(""),
    mbit_per_s=st.floats(1, 10_000),
    rtt_ms=st.floats(0, 400),
    price_per_gb=st.sampled_from([0.0, 0.1]),
)
windows = st.one_of(
    st.none(),
    st.builds(StepWindow, steps=st.integers(1, 500)),
    st.builds(TimeWindow, seconds=st.floats(1, 100)),
)
exchanges = st.builds(
    Exchange,
    window=windows,
    codec=st.sampled_from([None, *CODECS]),
    delay=st.sampled_from([0, 1]),
)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Job, Fleet, tuple[HostFacts, ...], int]:
    sites, joined, facts = [], [], []
    for index in range(draw(st.integers(1, 5))):
        site = f"site{index}"
        own = draw(st.lists(hosts, min_size=1, max_size=4))
        named = [replace(fact, host=f"{site}-{rank}") for rank, fact in enumerate(own)]
        price = draw(st.sampled_from([0.0, 1.0]))
        sites.append(
            Site(
                name=site,
                country="DE",
                hosts=tuple(Host(name=fact.host, price_per_hour=price) for fact in named),
            )
        )
        joined.append(replace(draw(links), a=site))
        facts += named
    job = Job(
        name="any",
        model=ModelFromConfig(),
        sources=(),
        training=Training(
            tokens=draw(st.integers(100_000, 10**9)),
            batch=draw(st.integers(1, 64)),
            sequence=draw(st.sampled_from([64, 1024])),
        ),
        exchange=draw(exchanges),
    )
    fleet = Fleet(home="DE", sites=tuple(sites), links=tuple(joined))
    return job, fleet, tuple(facts), draw(st.integers(1_000, 1_000_000_000))


Problem = tuple[Job, Fleet, tuple[HostFacts, ...], int]


def solve(problem: Problem) -> Plan:
    job, fleet, facts, parameters = problem
    return plan(
        job,
        fleet,
        facts=facts,
        links=fleet.links,
        placement={site.name: ("text",) for site in fleet.sites},
        parameters=parameters,
    )


def solved(problem: Problem) -> Plan:
    try:
        return solve(problem)
    except NoPlan:
        assume(False)
        raise


def with_bandwidth(problem: Problem, times: float) -> Problem:
    job, fleet, facts, parameters = problem
    wider = tuple(replace(link, mbit_per_s=link.mbit_per_s * times) for link in fleet.links)
    return job, replace(fleet, links=wider), facts, parameters


@given(problems())
def test_the_hosts_cut_the_whole_batch_and_nobody_more_than_it_can(problem: Problem) -> None:
    job, _, facts, _ = problem
    known = {fact.host: fact for fact in facts}

    for site in solved(problem).sites:
        crew = tuple(known[host.host] for host in site.hosts)
        cut = shares(crew, job.training.batch)

        assert sum(cut) == job.training.batch
        for host, share in zip(site.hosts, cut, strict=True):
            assert share > 0
            assert host.micro_batch <= known[host.host].micro_batch
            assert host.micro_batch * (host.accumulation - 1) < share
            assert share <= host.micro_batch * host.accumulation


@given(problems(), hosts)
def test_one_more_host_never_makes_a_step_longer(problem: Problem, more: HostFacts) -> None:
    job, fleet, facts, parameters = problem
    plan = solved(problem)
    first = fleet.sites[0]
    larger = replace(first, hosts=(*first.hosts, Host(name="more")))
    fleet = replace(fleet, sites=(larger, *fleet.sites[1:]))
    after = solve((job, fleet, (*facts, replace(more, host="more")), parameters))
    # a quicker host may bring a coarser cut; nobody waits longer than for one more sequence
    slack = job.training.sequence / min(
        host.tokens_per_s for host in plan.sites[0].hosts + after.sites[0].hosts
    )

    assert after.sites[0].seconds_per_step <= plan.sites[0].seconds_per_step + slack


@given(problems())
def test_exactly_one_kind_of_window(problem: Problem) -> None:
    job, _, _, _ = problem
    exchange = solved(problem).exchange

    assert (exchange.window_steps is None) != (exchange.window_seconds is None)
    match job.exchange.window:
        case StepWindow(steps=steps):
            assert exchange.window_steps == steps
        case TimeWindow(seconds=period):
            assert exchange.window_seconds == period
        case None:
            assert exchange.window_seconds is not None


@given(problems(), st.floats(1, 100))
def test_more_bandwidth_never_makes_a_codec_s_transfer_longer(
    problem: Problem, times: float
) -> None:
    job, fleet, facts, parameters = problem
    asked = replace(job, exchange=replace(job.exchange, codec=job.exchange.codec or "ternary"))
    slow = solved((asked, fleet, facts, parameters))
    quick = solved(with_bandwidth((asked, fleet, facts, parameters), times))

    for before, after in zip(slow.sites, quick.sites, strict=True):
        assert after.transfer_s <= before.transfer_s * (1 + 1e-9)
    if job.exchange.window is not None:  # a chosen window may be longer behind a slow link
        assert quick.estimate.seconds <= slow.estimate.seconds * (1 + 1e-9)


@given(problems(), st.floats(1, 100))
def test_more_bandwidth_never_makes_the_codec_coarser(problem: Problem, times: float) -> None:
    slow, quick = solved(problem), solved(with_bandwidth(problem, times))

    assert CODECS.index(quick.exchange.codec) <= CODECS.index(slow.exchange.codec)


@given(problems(), st.integers(2, 10))
def test_more_tokens_never_take_less(problem: Problem, times: int) -> None:
    job, fleet, facts, parameters = problem
    window = job.exchange.window or TimeWindow(seconds=20)
    job = replace(job, exchange=replace(job.exchange, window=window))
    more = replace(job, training=replace(job.training, tokens=job.training.tokens * times))
    few = solved((job, fleet, facts, parameters)).estimate
    many = solved((more, fleet, facts, parameters)).estimate

    assert many.seconds >= few.seconds
    assert many.money >= few.money
    assert many.rounds >= few.rounds
    assert many.bytes_up >= few.bytes_up
    assert many.allreduce_bytes >= few.allreduce_bytes


@given(problems(), st.floats(0.01, 0.99))
def test_the_relaxation_that_a_refusal_names_is_enough(problem: Problem, part: float) -> None:
    job, fleet, facts, parameters = problem
    free = solved(problem)
    limits = Limits(
        hours=free.estimate.seconds * part / 3600,
        money=free.estimate.money * part if free.estimate.money else None,
    )
    with pytest.raises(NoPlan) as refusal:
        solve((replace(job, limits=limits), fleet, facts, parameters))
    named = {
        word.removeprefix("limits.").rstrip(":"): float(after.rstrip(".,"))
        for word, after in zip(
            (refusal.value.hint or "").split(), (refusal.value.hint or "").split()[1:], strict=False
        )
        if word.startswith("limits.")
    }
    relaxed = replace(limits, hours=named["hours"], money=named.get("money", limits.money))

    assert solve((replace(job, limits=relaxed), fleet, facts, parameters)) == free


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0123, "12.3 ms"), (1.5, "1.5 s"), (90.0, "90 s"), (600.0, "10 min"), (90_000, "25.0 h")],
)
def test_seconds_are_said_as_people_say_them(value: float, said: str) -> None:
    assert seconds(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(12, "12 bytes"), (1_500, "1.5 kB"), (2.3e9, "2.3 GB"), (4.2e15, "4.2e+03 TB")],
)
def test_sizes_are_said_as_people_say_them(value: float, said: str) -> None:
    assert size(value) == said


def test_numbers_and_lists_read_well() -> None:
    assert number(12_345.6) == "12,346"
    assert number(0.25) == "0.25"
    assert listed(("a",)) == "a"
    assert listed(("a", "b", "c")) == "a, b and c"
