"""The chain over all records: each value binds everything before it."""

import hashlib

GENESIS = "0" * 64  # the chain before the first record


def chain(before: str, raw: bytes) -> str:
    """SHA-256(chain of the record before || raw), in hex."""
    return hashlib.sha256(bytes.fromhex(before) + raw).hexdigest()
