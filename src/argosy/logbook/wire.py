"""What client and server of the logbook agree on: paths, batches of records, refusals. Pure."""

import json
from collections.abc import Sequence

from argosy.core.errors import (
    DamagedError,
    DiskError,
    FencedError,
    HostError,
    PolicyError,
    UserError,
)
from argosy.logbook.chain import GENESIS

RECORDS = "/v1/records"
BLOBS = "/v1/blobs"
UPLOADS = "/v1/uploads"
TIME = "/v1/time"
PROBE = "/v1/probe"

LONGEST_WAIT_S = 30.0  # of one long poll; a client that wants more asks again
PROBE_LIMIT = 64 * 1024 * 1024  # bytes

# The first class that fits names a refusal; FencedError stands before its parent.
REFUSALS: tuple[tuple[str, type[UserError], int], ...] = (
    ("fenced", FencedError, 409),
    ("damaged", DamagedError, 422),
    ("policy", PolicyError, 403),
    ("disk", DiskError, 507),
    ("host", HostError, 401),
)


def refusal(error: UserError) -> tuple[int, bytes]:
    """HTTP status and body that say this error. Paths of the server's machine stay there."""
    name, _, status = next(r for r in REFUSALS if isinstance(error, r[1]))
    return status, json.dumps({"error": name, "what": error.what, "hint": error.hint}).encode()


def refused(status: int, body: bytes, where: str) -> UserError:
    """The error that the server said; HostError when the answer is none of the logbook's."""
    try:
        said = json.loads(body)
        cls = next(cls for name, cls, _ in REFUSALS if name == said["error"])
        return cls(str(said["what"]), where=where, hint=said.get("hint"))
    except (ValueError, TypeError, KeyError, StopIteration):
        text = body[:80].decode("utf-8", "replace")
        return HostError(f"unexpected answer {status} {text!r}", where=where)


def pack(first: int, before: str, raws: Sequence[bytes]) -> bytes:
    """Records in order: a line with the first seq and the chain before it, then one line each."""
    return b"\n".join((f"{first} {before}".encode(), *raws))


def unpack(body: bytes) -> tuple[int, str, list[bytes]]:
    line, *raws = body.split(b"\n")  # canonical JSON holds no line break
    first, _, before = line.decode("ascii", "replace").partition(" ")
    if not (first.isdecimal() and len(before) == len(GENESIS) and raws):
        raise DamagedError("the logbook's answer is not a batch of records")
    return int(first), before, raws
