"""Entries as a run would leave them, without a logbook, keys or clocks."""

import hashlib
from collections import defaultdict
from dataclasses import replace

from argosy.core.plan import Estimate, ExchangePlan, HostPlan, Plan, SitePlan
from argosy.core.records import (
    CONTROLLER,
    KINDS,
    Body,
    Checkpointed,
    Commit,
    Contribution,
    Crew,
    Digest,
    Entry,
    HostStarted,
    Lead,
    Member,
    Planned,
    Progress,
    Roster,
    RunBegun,
    Seat,
    Shard,
    Writer,
)

HOSTS = {"frankfurt": ("frankfurt-1",), "virginia": ("virginia-1", "virginia-2")}
COUNTRIES = {"frankfurt": "DE", "virginia": "US"}


class Tape:
    """Writes entries in order; time passes only when told."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.at_ms = 1_000_000
        self.incarnations: dict[str, int] = defaultdict(lambda: 1)
        self._counters: dict[tuple[str, int], int] = defaultdict(int)

    def pass_ms(self, ms: int) -> None:
        self.at_ms += ms

    def add(self, site: str, host: str, body: Body, *, clock_ms: int = 0) -> Entry:
        incarnation = self.incarnations[host]
        self._counters[host, incarnation] += 1
        seq = len(self.entries) + 1
        entry = Entry(
            seq=seq,
            chain=hashlib.sha256(str(seq).encode()).hexdigest(),
            writer=Writer(site=site, host=host, incarnation=incarnation),
            counter=self._counters[host, incarnation],
            at_ms=self.at_ms + clock_ms,
            kind=next((k for k, kind in KINDS.items() if type(body) is kind), "unknown"),
            body=body,
        )
        self.entries.append(entry)
        return entry

    def control(self, body: Body) -> Entry:
        return self.add(CONTROLLER, CONTROLLER, body)

    def helper(self, body: Body) -> Entry:
        return self.add(CONTROLLER, "checkpointer", body)

    def begin(self, *, torch: str = "2.13.0") -> None:
        """Everything up to the crews."""
        self.control(run_begun())
        self.control(roster(torch=torch))
        self.control(Lead(term=1))
        self.control(Planned(plan=plan(), reason="first plan"))
        for site, hosts in HOSTS.items():
            self.control(Crew(site=site, epoch=1, hosts=hosts))
        self.helper(checkpoint(0))

    def start(self, site: str, host: str, *, torch: str = "2.13.0", offset_ms: int = 0) -> Entry:
        return self.add(site, host, started(torch=torch, offset_ms=offset_ms), clock_ms=offset_ms)


def run_begun() -> RunBegun:
    return RunBegun(run="0190-run", name="demo", argosy="0.1.0", job="", fleet="", authority="PEM")


def roster(*, torch: str = "") -> Roster:
    seats = [Seat(site=CONTROLLER, host=CONTROLLER, country="DE", certificate="")]
    seats += [
        Seat(site=site, host=host, country=COUNTRIES[site], certificate="")
        for site, hosts in HOSTS.items()
        for host in hosts
    ]
    return Roster(seats=tuple(seats), torch=torch)


def plan(number: int = 1) -> Plan:
    sites = tuple(
        SitePlan(
            site=site,
            hosts=tuple(
                HostPlan(host=host, micro_batch=4, accumulation=1, tokens_per_s=1000.0)
                for host in hosts
            ),
            sources=(f"{site}-text",),
            tokens_per_s=1000.0 * len(hosts),
            seconds_per_step=0.5,
            steps_per_round=30.0,
            bytes_per_round=1000,
            transfer_s=0.1,
        )
        for site, hosts in HOSTS.items()
    )
    return Plan(
        number=number,
        sites=sites,
        exchange=ExchangePlan(
            codec="ternary",
            block=128,
            window_steps=30,
            window_seconds=None,
            delay=1,
            outer_learning_rate=0.7,
            outer_momentum=0.6,
            staleness=8,
            checkpoint_every=5,
            evaluate_every=1,
        ),
        estimate=Estimate(
            tokens_per_s=3000.0,
            rounds=10,
            seconds=100.0,
            money=0.5,
            currency="EUR",
            bytes_up=1000,
            bytes_down=1000,
            allreduce_bytes=1_000_000,
        ),
        parameters=1000,
        reasons=("because",),
    )


def started(*, torch: str = "2.13.0", offset_ms: int = 0, resumed: int = 0) -> HostStarted:
    return HostStarted(
        address="127.0.0.1",
        store_port=4000,
        torch=torch,
        python="3.11",
        argosy="0.1.0",
        clock_offset_ms=offset_ms,
        resumed_tokens=resumed,
    )


def contribution(n: int, *, base: int = 0, tokens: int = 1000, size: int = 100) -> Contribution:
    shard = Shard(parameter="*", start=0, stop=1000, blob=f"sha256:{n:064x}", bytes=size)
    return Contribution(
        fragment=0,
        n=n,
        base=base,
        tokens=tokens,
        steps=30,
        trained=n * tokens,
        codec="ternary",
        form="update",
        rule="rule 1",
        cursor="{}",
        incarnation=1,
        shards=(shard,),
    )


def commit(
    number: int, *members: tuple[str, int], term: int = 1, last: bool = False, tokens: int = 0
) -> Commit:
    return Commit(
        fragment=0,
        round=number,
        term=term,
        plan=1,
        members=tuple(Member(site=site, n=n, tokens=1000, steps=30) for site, n in members),
        expired=(),
        tokens=tokens or number * 1000,
        last=last,
        head_seq=0,
        head_chain="",
    )


def checkpoint(number: int, digest: str = "") -> Checkpointed:
    return Checkpointed(
        round=number,
        at_seq=0,
        blob=f"sha256:{number:064x}",
        bytes=8000,
        digest=digest or f"digest {number}",
        parameters=1000,
        table="[]",
    )


def digest(number: int, value: str = "") -> Digest:
    return Digest(fragment=0, round=number, digest=value or f"digest {number}")


def progress(number: int = 0, *, trained: int = 1000) -> Progress:
    return Progress(
        round=number,
        step=30,
        trained=trained,
        loss=2.5,
        tokens_per_s=1000.0,
        compute_s=10.0,
        encode_s=0.1,
        apply_s=0.1,
        wait_s=0.0,
        longest_gap_s=0.6,
    )


def newer(plan: Plan) -> Plan:
    return replace(plan, number=plan.number + 1)
