"""A small run written by hand: two sites, three rounds, one kill and return."""

from collections.abc import Sequence

from argosy.core.plan import Estimate, ExchangePlan, HostPlan, Plan, SitePlan
from argosy.core.records import (
    Access,
    Body,
    Checkpointed,
    Commit,
    Contribution,
    Crew,
    Ended,
    Entry,
    Evaluation,
    HostEvent,
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

CONTROLLER = ("controller", "controller", 1)
BONN, OSAKA, OSAKA_AGAIN = ("bonn", "bonn-1", 1), ("osaka", "osaka-1", 1), ("osaka", "osaka-1", 2)
UPDATE_BYTES = 2_000
PARAMETERS = 100_000


def plan() -> Plan:
    sites = tuple(
        SitePlan(
            site=site,
            hosts=(HostPlan(host=f"{site}-1", micro_batch=4, accumulation=1, tokens_per_s=100.0),),
            sources=(source,),
            tokens_per_s=100.0,
            seconds_per_step=1.0,
            steps_per_round=10.0,
            bytes_per_round=2 * UPDATE_BYTES,
            transfer_s=0.1,
        )
        for site, source in (("bonn", "german"), ("osaka", "japanese"))
    )
    return Plan(
        number=1,
        sites=sites,
        exchange=ExchangePlan(
            codec="ternary", block=128, window_steps=10, window_seconds=None, delay=1,
            outer_learning_rate=0.7, outer_momentum=0.6, staleness=8, checkpoint_every=5,
            evaluate_every=1,
        ),
        estimate=Estimate(
            tokens_per_s=200.0, rounds=3, seconds=30.0, money=0.01, currency="USD",
            bytes_up=12_000, bytes_down=12_000, allreduce_bytes=10**9,
        ),
        parameters=PARAMETERS,
        reasons=("ternary, because the link is slow <and> dear",),
    )  # fmt: skip


def post(n: int, base: int, tokens: int = 1_000) -> Contribution:
    shard = Shard(
        parameter="*", start=0, stop=PARAMETERS, blob=f"sha256:{n:064x}", bytes=UPDATE_BYTES
    )
    return Contribution(
        fragment=0, n=n, base=base, tokens=tokens, steps=10, trained=tokens * n, codec="ternary",
        form="update", rule="rule 1", cursor="{}", incarnation=1, shards=(shard,),
    )  # fmt: skip


def commit(round_: int, members: dict[str, int], tokens: int, *, last: bool = False) -> Commit:
    return Commit(
        fragment=0, round=round_, term=1, plan=1,
        members=tuple(Member(site=s, n=n, tokens=1_000, steps=10) for s, n in members.items()),
        expired=(), tokens=tokens, last=last, head_seq=0, head_chain="",
    )  # fmt: skip


def started() -> HostStarted:
    return HostStarted(
        address="127.0.0.1", store_port=0, torch="2.13.0", python="3.11", argosy="0.1.0",
        clock_offset_ms=0, resumed_tokens=0,
    )  # fmt: skip


def progress(trained: int) -> Progress:
    return Progress(
        round=1, step=10, trained=trained, loss=2.0, tokens_per_s=90.0, compute_s=9.0,
        encode_s=0.1, apply_s=0.1, wait_s=1.0, longest_gap_s=1.25,
    )  # fmt: skip


def seen(round_: int, source: str, bits: float) -> Evaluation:
    return Evaluation(round=round_, source=source, loss=bits / 2, tokens=500, bits_per_byte=bits)


STEPS: tuple[tuple[tuple[str, str, int], Body], ...] = (
    (CONTROLLER, RunBegun(run="r1", name="a <b> run", argosy="0", job="", fleet="", authority="")),
    (CONTROLLER, Roster(
        seats=tuple(
            Seat(site=s, host=h, country=c, certificate="")
            for s, h, c in (("controller", "controller", "DE"), ("bonn", "bonn-1", "DE"),
                            ("osaka", "osaka-1", "JP"))
        ),
        torch="",
    )),
    (CONTROLLER, Lead(term=1)),
    (CONTROLLER, Planned(plan=plan(), reason="first plan")),
    (CONTROLLER, Checkpointed(
        round=0, at_seq=0, blob="sha256:0", bytes=400_000, digest="", parameters=PARAMETERS,
        table="[]",
    )),
    (BONN, started()),
    (OSAKA, started()),
    (BONN, Access(source="german", purpose="train", files=1, bytes=9, digest="", rule="at home")),
    (BONN, seen(0, "german", 8.0)),
    (OSAKA, seen(0, "japanese", 8.0)),
    (BONN, post(1, 0)),
    (OSAKA, post(1, 0)),
    (CONTROLLER, commit(1, {"bonn": 1, "osaka": 1}, 2_000)),
    (BONN, progress(1_000)),
    (CONTROLLER, HostEvent(what="fault", site="osaka", host="osaka-1", detail="osaka-1 killed")),
    (BONN, post(2, 1)),
    (CONTROLLER, commit(2, {"bonn": 2}, 3_000)),
    (OSAKA_AGAIN, started()),
    (CONTROLLER, Crew(site="osaka", epoch=2, hosts=("osaka-1",))),
    (BONN, post(3, 2)),
    (CONTROLLER, commit(3, {"bonn": 3}, 4_000, last=True)),
    (BONN, seen(3, "german", 3.0)),
    (OSAKA_AGAIN, seen(3, "japanese", 3.5)),
    (CONTROLLER, Ended(outcome="done", rounds=3, tokens=4_000, head_seq=0, head_chain="")),
)  # fmt: skip


def entries() -> list[Entry]:
    """The whole small run, one record a second."""
    return entries_of(STEPS)


def entries_of(steps: Sequence[tuple[tuple[str, str, int], Body]]) -> list[Entry]:
    counters: dict[tuple[str, str, int], int] = {}
    found = []
    for seq, (writer, body) in enumerate(steps, start=1):
        counters[writer] = counters.get(writer, 0) + 1
        site, host, life = writer
        found.append(
            Entry(
                seq=seq,
                chain=f"c{seq}",
                writer=Writer(site=site, host=host, incarnation=life),
                counter=counters[writer],
                at_ms=1_000 * seq,
                kind="",
                body=body,
            )
        )
    return found
