"""What rank 0 tells the site's ranks to do next: one message at every step boundary."""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from argosy.core.records import Commit
from argosy.logbook.encoding import decode_body, encode_body

if TYPE_CHECKING:
    from argosy.engine.group import Group


@dataclass(frozen=True, kw_only=True, slots=True)
class Train:
    """One optimizer step; `tokens` are the run's so far, for the learning rate."""

    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Post:
    n: int
    codec: str
    block: int
    moments: bool  # tell the rows' second moments with it


@dataclass(frozen=True, kw_only=True, slots=True)
class Apply:
    commit: Commit
    named: bool
    expired: bool
    rate: float  # of the outer step, by the commit's plan
    momentum: float
    payloads: tuple[bytes, ...]  # in member order


@dataclass(frozen=True, kw_only=True, slots=True)
class Withdraw:
    """The open post never counted; its difference goes with the next one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluate:
    round: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Replan:
    """Take up a newer plan: batch shares, sources."""

    plan: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RollBack:
    """All take rank 0's state, which has gone back to the agreed model."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Idle:
    """Nothing to do but to wait: said now and then, so that silence means trouble."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Leave:
    reason: str
    done: bool  # the run is over; otherwise a snapshot is left behind


Op = Train | Post | Apply | Withdraw | Evaluate | Replan | RollBack | Idle | Leave

KINDS: dict[str, type[Op]] = {
    kind.__name__: kind
    for kind in (Train, Post, Apply, Withdraw, Evaluate, Replan, RollBack, Idle, Leave)
}


def relayed(op: Op | None, group: "Group") -> Op:
    """Rank 0's operation, at every rank."""
    if group.size == 1:
        assert op is not None
        return op
    return unpacked(group.send(packed(op) if op is not None else None))


def packed(op: Op) -> bytes:
    payload = b""
    if isinstance(op, Apply):
        plain: dict[str, Any] = {
            "commit": encode_body(op.commit)[1],
            "named": op.named,
            "expired": op.expired,
            "rate": op.rate,
            "momentum": op.momentum,
            "sizes": [len(part) for part in op.payloads],
        }
        payload = b"".join(op.payloads)
    else:
        plain = asdict(op)
    return json.dumps([type(op).__name__, plain]).encode() + b"\n" + payload


def unpacked(message: bytes) -> Op:
    head, _, payload = message.partition(b"\n")
    kind, plain = json.loads(head)
    if kind != Apply.__name__:
        return KINDS[kind](**plain)
    commit = decode_body("commit", plain["commit"])
    assert isinstance(commit, Commit)
    at, parts = 0, []
    for size in plain["sizes"]:
        parts.append(payload[at : at + size])
        at += size
    del plain["sizes"]
    return Apply(**{**plain, "commit": commit, "payloads": tuple(parts)})
