"""Histories for the judges, written a line at a time."""

from collections import defaultdict

from argosy.core.records import (
    CONTROLLER,
    KINDS,
    Access,
    Body,
    Checkpointed,
    Commit,
    Contribution,
    Digest,
    Ended,
    Entry,
    Evaluation,
    Expired,
    HostStarted,
    Lead,
    Member,
    Progress,
    Roster,
    Seat,
    Shard,
    Writer,
)

COUNTRY = {"frankfurt": "DE", "tokyo": "JP"}


class History:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.life: defaultdict[str, int] = defaultdict(lambda: 1)
        self.posted: dict[tuple[str, int], Contribution] = {}
        self.committed = 0
        self.leader = 1  # the incarnation of the controller

    def add(self, site: str, body: Body, *, host: str = "", life: int = 0) -> "History":
        host = host or (CONTROLLER if site == CONTROLLER else f"{site}-1")
        writer = Writer(site=site, host=host, incarnation=life or self.life[host])
        kind = next(kind for kind, of in KINDS.items() if isinstance(body, of))
        self.entries.append(
            Entry(
                seq=len(self.entries) + 1, chain="", writer=writer, counter=1, at_ms=0,
                kind=kind, body=body, raw=b"r" * 500,
            )
        )  # fmt: skip
        return self

    def roster(self) -> "History":
        seats = tuple(
            Seat(site=site, host=f"{site}-1", country=country, certificate="")
            for site, country in COUNTRY.items()
        )
        return self.add(CONTROLLER, Roster(seats=seats, torch=""))

    def lead(self, term: int, *, life: int = 1) -> "History":
        return self.add(CONTROLLER, Lead(term=term), life=life)

    def start(self, site: str, *, resumed: int = 0) -> "History":
        body = HostStarted(
            address="", store_port=0, torch="", python="", argosy="", clock_offset_ms=0,
            resumed_tokens=resumed,
        )  # fmt: skip
        return self.add(site, body)

    def read(self, site: str, source: str) -> "History":
        body = Access(source=source, purpose="train", files=1, bytes=1, digest="", rule="")
        return self.add(site, body)

    def post(
        self, site: str, n: int, tokens: int, trained: int, *, form: str = "update", life: int = 0
    ) -> "History":
        shard = Shard(parameter="*", start=0, stop=8, blob="", bytes=10_000)
        body = Contribution(
            fragment=0, n=n, base=0, tokens=tokens, steps=3, trained=trained, codec="fp32",
            form=form, rule="", cursor="", incarnation=1, shards=(shard,),
        )  # fmt: skip
        self.posted[site, n] = body
        return self.add(site, body, life=life)

    def commit(
        self,
        round: int,
        *members: tuple[str, int],
        term: int = 1,
        life: int = 1,
        expired: tuple[tuple[str, int], ...] = (),
        claim: int = 0,
    ) -> "History":
        named = tuple(
            Member(
                site=site,
                n=n,
                tokens=self.posted[site, n].tokens,
                steps=self.posted[site, n].steps,
            )
            for site, n in members
        )
        self.committed += sum(member.tokens for member in named)
        body = Commit(
            fragment=0, round=round, term=term, plan=1, members=named,
            expired=tuple(Expired(site=site, n=n) for site, n in expired),
            tokens=claim or self.committed, last=False, head_seq=0, head_chain="",
        )  # fmt: skip
        return self.add(CONTROLLER, body, life=life)

    def digest(self, site: str, round: int, digest: str) -> "History":
        host = "checkpointer" if site == CONTROLLER else ""
        return self.add(site, Digest(fragment=0, round=round, digest=digest), host=host)

    def checkpoint(self, round: int, size: int) -> "History":
        body = Checkpointed(
            round=round, at_seq=0, blob="", bytes=size, digest="", parameters=8, table=""
        )
        return self.add(CONTROLLER, body, host="checkpointer")

    def progress(self, site: str, trained: int, *, gap: float = 0.1) -> "History":
        body = Progress(
            round=1, step=1, trained=trained, loss=1.0, tokens_per_s=1.0, compute_s=1.0,
            encode_s=0.0, apply_s=0.0, wait_s=0.0, longest_gap_s=gap,
        )  # fmt: skip
        return self.add(site, body)

    def evaluation(self, source: str, loss: float) -> "History":
        body = Evaluation(round=1, source=source, loss=loss, tokens=1, bits_per_byte=1.0)
        return self.add("tokyo", body)

    def end(self) -> "History":
        body = Ended(outcome="done", rounds=2, tokens=self.committed, head_seq=0, head_chain="")
        return self.add(CONTROLLER, body)
