"""The envelope of a record: who wrote it, when, after what, and under which signature. Pure."""

import hashlib
from dataclasses import dataclass
from typing import Any

from argosy.core.errors import DamagedError
from argosy.core.records import Body, Checkpointed, Contribution, Entry, Writer
from argosy.logbook.chain import chain
from argosy.logbook.encoding import canonical, decode_body, parse

VERSION = 1  # the major version: readers refuse any other
LONGEST_NAME = 100

FIELDS: dict[str, type] = {
    "v": int, "kind": str, "run": str, "site": str, "host": str, "incarnation": int,
    "counter": int, "prev": str, "at_ms": int, "body": dict, "signature": str,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Envelope:
    """One record as signed. `body` is still plain JSON."""

    kind: str
    run: str
    writer: Writer
    counter: int
    prev: str  # SHA-256 of the writer's own record before, in this incarnation; "" for its first
    at_ms: int
    body: dict[str, Any]
    signature: bytes
    signed: bytes  # what the signature is over: the canonical bytes without it
    raw: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def key(self) -> str:
        """What makes a second append of the same record land once."""
        w = self.writer
        return f"{w.site}/{w.host}/{w.incarnation}/{self.counter}"

    def decode(self) -> Body:
        return decode_body(self.kind, self.body)


def open_envelope(raw: bytes) -> Envelope:
    """Reads the bytes as strictly as a signature needs. Raises DamagedError."""
    fields = parse(raw)
    for name, kind in FIELDS.items():
        if type(fields.get(name)) is not kind:
            raise DamagedError(f"record: {name} must be given as {kind.__name__}")
    if fields["v"] != VERSION:
        raise DamagedError(
            f"record: version {fields['v']}, this Argosy reads {VERSION}",
            hint="read this run with the Argosy that wrote it, or a newer one",
        )
    if fields["incarnation"] < 1 or fields["counter"] < 1:
        raise DamagedError("record: incarnation and counter count from 1")
    for name in ("site", "host"):
        check_name(fields[name])
    return Envelope(
        kind=fields["kind"],
        run=fields["run"],
        writer=Writer(site=fields["site"], host=fields["host"], incarnation=fields["incarnation"]),
        counter=fields["counter"],
        prev=fields["prev"],
        at_ms=fields["at_ms"],
        body=fields["body"],
        signature=_signature(fields.pop("signature")),
        signed=canonical(fields),
        raw=raw,
    )


def check_name(name: str) -> None:
    """A site or host name that can stand in a path and in an identity."""
    if not 0 < len(name) <= LONGEST_NAME or "/" in name or not name.isprintable():
        raise DamagedError(f"record: {name[:LONGEST_NAME]!r} is no name for a site or host")


def entry_of(seq: int, before: str, raw: bytes) -> Entry:
    """The record as readers see it; `before` is the chain of the record before it."""
    envelope = open_envelope(raw)
    return make_entry(seq, chain(before, raw), envelope, envelope.decode())


def make_entry(seq: int, value: str, envelope: Envelope, body: Body) -> Entry:
    return Entry(
        seq=seq,
        chain=value,
        writer=envelope.writer,
        counter=envelope.counter,
        at_ms=envelope.at_ms,
        kind=envelope.kind,
        body=body,
        raw=envelope.raw,
    )


def named_blobs(body: Body) -> tuple[tuple[str, int], ...]:
    """The blobs that a record needs, with their sizes: they must be there before it is."""
    match body:
        case Contribution():
            return tuple((shard.blob, shard.bytes) for shard in body.shards)
        case Checkpointed():
            return ((body.blob, body.bytes),)
        case _:
            return ()


def _signature(text: str) -> bytes:
    try:
        signature = bytes.fromhex(text)
    except ValueError:
        signature = b""
    if len(signature) != 64 or signature.hex() != text:
        raise DamagedError("record: signature is not 64 bytes in lower-case hex")
    return signature
