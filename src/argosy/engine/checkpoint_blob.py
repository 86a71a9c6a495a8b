"""A shared checkpoint as one safetensors blob: the agreed model and the outer velocity, in fp32.

    pack(checkpoint) -> bytes            unpack(blob, where=...) -> Checkpoint

Every parameter is a tensor of its own, "model/<name>" and "velocity/<name>", so any safetensors
reader can look inside. Metadata carries the table (names, shapes, order), round, sequence numbers,
the newest contribution of each site, the transformers configuration (so that a worker needs no
model folder) and the digest of the agreed model, which `unpack` verifies: a blob that is not whole
raises DamagedError. The same checkpoint always packs to the same bytes.

`checkpoint.table_json` and `.digest` are what the Checkpointed record wants.
"""

import json
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from argosy.core.errors import DamagedError
from argosy.exchange.digest import model_digest

FORMAT = "argosy-checkpoint"
VERSION = 1
PARTS = ("model", "velocity")
NUMBERS = ("round", "seq", "plan", "tokens")  # fields that stand in the metadata as they are
TEXTS = ("chain", "config", "job")


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """The agreed state after `round`; a and v are flat fp32 vectors in the table's order."""

    table: tuple[tuple[str, tuple[int, ...]], ...]
    a: np.ndarray = field(repr=False)
    v: np.ndarray = field(repr=False)
    round: int = 0
    seq: int = 0  # of the commit; 0 for the initial model
    chain: str = ""  # the chain value at `seq`
    plan: int = 0  # number of the plan in force
    tokens: int = 0  # committed in all rounds up to this one
    last_n: dict[str, int] = field(default_factory=dict)  # per site, newest contribution folded in
    config: str = ""  # transformers configuration, JSON; "" for a user's own class
    job: str = ""  # its name, for whoever finds the file

    @property
    def digest(self) -> str:
        return model_digest(self.a)

    @property
    def table_json(self) -> str:
        return json.dumps(self.table, separators=(",", ":"))


def pack(checkpoint: Checkpoint) -> bytes:
    metadata = {
        "format": FORMAT,
        "v": str(VERSION),
        "digest": checkpoint.digest,
        "velocity_digest": model_digest(checkpoint.v),
        "table": checkpoint.table_json,
        "last_n": json.dumps(checkpoint.last_n, separators=(",", ":"), sort_keys=True),
    }
    metadata |= {name: str(getattr(checkpoint, name)) for name in NUMBERS + TEXTS}
    header: dict[str, object] = {"__metadata__": metadata}
    at = 0
    for part in PARTS:
        for name, shape in checkpoint.table:
            end = at + 4 * _size(shape)
            header[f"{part}/{name}"] = {
                "dtype": "F32",
                "shape": list(shape),
                "data_offsets": [at, end],
            }
            at = end
    for vector in (checkpoint.a, checkpoint.v):
        assert vector.dtype == np.float32
        assert vector.nbytes * len(PARTS) == at, f"{vector.size} values, table of {at // 8}"
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # safetensors wants the data aligned
    little = [vector.astype("<f4", copy=False).tobytes() for vector in (checkpoint.a, checkpoint.v)]
    return b"".join([struct.pack("<Q", len(text)), text, *little])


def unpack(blob: bytes, *, where: str = "checkpoint") -> Checkpoint:
    """The checkpoint in a blob. Raises DamagedError naming `where` unless it is whole."""
    try:
        size = struct.unpack_from("<Q", blob)[0]
        header = json.loads(blob[8 : 8 + size])
        metadata = header["__metadata__"]
        if metadata["format"] != FORMAT or int(metadata["v"]) != VERSION:
            raise _damaged(f"format {metadata['format']} {metadata['v']}, not {FORMAT} 1", where)
        table = tuple((name, tuple(shape)) for name, shape in json.loads(metadata["table"]))
        values = np.frombuffer(blob, "<f4", offset=8 + size).astype(np.float32)
        parameters = sum(_size(shape) for _, shape in table)
        if values.size != 2 * parameters:
            raise _damaged(f"{values.size} values, expected {2 * parameters}", where)
        plain: dict[str, Any] = {name: int(metadata[name]) for name in NUMBERS}
        checkpoint = Checkpoint(
            table=table,
            a=values[:parameters].copy(),
            v=values[parameters:].copy(),
            last_n={str(site): int(n) for site, n in json.loads(metadata["last_n"]).items()},
            **plain,
            **{name: metadata[name] for name in TEXTS},
        )
    except (KeyError, TypeError, ValueError, struct.error) as error:
        raise _damaged(f"not a checkpoint: {error!r}", where) from error
    digests = (metadata.get("digest"), metadata.get("velocity_digest"))
    if digests != (checkpoint.digest, model_digest(checkpoint.v)):
        raise _damaged("the values are not those that the digests were made of", where)
    return checkpoint


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _damaged(what: str, where: str) -> DamagedError:
    return DamagedError(
        what, where=where, hint="the checkpoint before it is used; see `argosy audit`"
    )
