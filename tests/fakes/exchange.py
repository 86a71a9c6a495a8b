"""A log in memory and short ways to write what sites and controllers write into it."""

from dataclasses import replace

from argosy.core.plan import Estimate, ExchangePlan, HostPlan, Plan, SitePlan
from argosy.core.records import (
    CONTROLLER,
    Body,
    Commit,
    Contribution,
    Crew,
    Entry,
    HostEvent,
    HostStarted,
    Member,
    Progress,
    Shard,
    Writer,
)

LEADER = Writer(site=CONTROLLER, host=CONTROLLER, incarnation=1)


def writer(site: str, incarnation: int = 1, host: str = "") -> Writer:
    return Writer(site=site, host=host or f"{site}-1", incarnation=incarnation)


class Log:
    """Entries in order. Nothing is validated: that is what the exchange has to do."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def append(self, writer: Writer, body: Body) -> Entry:
        seq = len(self.entries) + 1
        entry = Entry(
            seq=seq,
            chain=f"chain {seq}",
            writer=writer,
            counter=seq,
            at_ms=0,
            kind=type(body).__name__,
            body=body,
        )
        self.entries.append(entry)
        return entry


def plan(*sites: str, number: int = 1, **exchange: object) -> Plan:
    """A plan in which every site takes 10 s a round; `exchange` changes the usual settings."""
    usual = ExchangePlan(
        codec="fp32",
        block=128,
        window_steps=2,
        window_seconds=None,
        delay=1,
        outer_learning_rate=0.7,
        outer_momentum=0.6,
        staleness=3,
        checkpoint_every=5,
        evaluate_every=1,
    )
    return Plan(
        number=number,
        sites=tuple(_site(site) for site in sites or ("berlin", "lima", "osaka")),
        exchange=replace(usual, **exchange),  # type: ignore[arg-type]
        estimate=Estimate(
            tokens_per_s=1.0,
            rounds=1,
            seconds=1.0,
            money=0.0,
            currency="USD",
            bytes_up=0,
            bytes_down=0,
            allreduce_bytes=0,
        ),
        parameters=7,
        reasons=(),
    )


def _site(site: str) -> SitePlan:
    host = HostPlan(host=f"{site}-1", micro_batch=1, accumulation=1, tokens_per_s=1.0)
    return SitePlan(
        site=site,
        hosts=(host,),
        sources=(),
        tokens_per_s=1.0,
        seconds_per_step=5.0,
        steps_per_round=2.0,
        bytes_per_round=0,
        transfer_s=0.0,
    )


def contribution(n: int, base: int = 0, **fields: object) -> Contribution:
    usual = Contribution(
        fragment=0,
        n=n,
        base=base,
        tokens=100,
        steps=2,
        trained=100 * n,
        codec="fp32",
        form="update",
        rule="",
        cursor="{}",
        incarnation=1,
        shards=(Shard(parameter="*", start=0, stop=7, blob=f"blob {n}", bytes=60),),
    )
    return replace(usual, **fields)  # type: ignore[arg-type]


def commit(round: int, *members: tuple[str, int], **fields: object) -> Commit:
    """A commit of (site, n) pairs, each of 100 tokens in 2 steps, as `contribution` has them."""
    usual = Commit(
        fragment=0,
        round=round,
        term=1,
        plan=1,
        members=tuple(Member(site=site, n=n, tokens=100, steps=2) for site, n in members),
        expired=(),
        tokens=100 * len(members) * round,
        last=False,
        head_seq=0,
        head_chain="",
    )
    return replace(usual, **fields)  # type: ignore[arg-type]


def started(resumed_tokens: int = 0) -> HostStarted:
    return HostStarted(
        address="127.0.0.1",
        store_port=0,
        torch="",
        python="",
        argosy="",
        clock_offset_ms=0,
        resumed_tokens=resumed_tokens,
    )


def progress(trained: int) -> Progress:
    return Progress(
        round=0,
        step=0,
        trained=trained,
        loss=0.0,
        tokens_per_s=0.0,
        compute_s=0.0,
        encode_s=0.0,
        apply_s=0.0,
        wait_s=0.0,
        longest_gap_s=0.0,
    )


def rollback(site: str) -> HostEvent:
    return HostEvent(what="rollback", site=site, host="", detail="")


def crew(site: str, *hosts: str, epoch: int = 1) -> Crew:
    return Crew(site=site, epoch=epoch, hosts=hosts)
