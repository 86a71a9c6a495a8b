"""A site's own checkpoint on its own disk: written beside the training, verified when loaded."""

import contextlib
import hashlib
import json
import logging
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from argosy.core.errors import DiskError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

log = logging.getLogger(__name__)

FORMAT = "argosy-snapshot"
VERSION = "1"
KEPT = 2  # the newest, and the one before in case the newest is damaged


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    tensors: "Mapping[str, Tensor]" = field(repr=False)
    facts: "Mapping[str, Any]"  # what JSON can say: counters, cursor


def save(folder: Path, snapshot: Snapshot) -> Path:
    """Write it whole or not at all, and remove what is older than the one before.

    Raises DiskError; the snapshots that were there are still good then.
    """
    number = max((_number(path) for path in _paths(folder)), default=0) + 1
    path = folder / f"snapshot-{number:06d}.safetensors"
    part = path.with_suffix(".safetensors.part")
    metadata = {
        "format": FORMAT,
        "v": VERSION,
        "facts": json.dumps(snapshot.facts),
        "digest": _digest(snapshot),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(dict(snapshot.tensors), part, metadata)
        _sync(part)
        part.replace(path)
        _sync(folder)
    except (OSError, SafetensorError) as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise DiskError(
            f"a snapshot could not be written: {error}",
            where=str(path),
            hint="training goes on; free some space, the next snapshot is tried as usual",
        ) from error
    for old in sorted(_paths(folder), key=_number)[:-KEPT]:
        old.unlink(missing_ok=True)
    return path


def load(folder: Path) -> tuple[Snapshot | None, list[str]]:
    """The newest one that is whole, and a complaint for each newer one that is not."""
    complaints: list[str] = []
    for path in sorted(_paths(folder), key=_number, reverse=True):
        found = _read(path)
        if isinstance(found, Snapshot):
            return found, complaints
        complaints.append(f"{path.name} is damaged ({found}); the one before is used")
    return None, complaints


def _read(path: Path) -> Snapshot | str:
    try:
        with safe_open(path, framework="pt") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        if metadata.get("format") != FORMAT or metadata.get("v") != VERSION:
            return f"not a snapshot of version {VERSION}"
        snapshot = Snapshot(tensors=tensors, facts=json.loads(metadata["facts"]))
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    if _digest(snapshot) != metadata.get("digest"):
        return "its values are not those it was written with"
    return snapshot


def _digest(snapshot: Snapshot) -> str:
    whole = hashlib.sha256(json.dumps(snapshot.facts).encode())
    for name in sorted(snapshot.tensors):
        tensor = snapshot.tensors[name].contiguous()
        whole.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        whole.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()


def _paths(folder: Path) -> list[Path]:
    return list(folder.glob("snapshot-*.safetensors"))


def _number(path: Path) -> int:
    digits = path.stem.removeprefix("snapshot-")
    return int(digits) if digits.isdigit() else 0


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Keeper:
    """Writes snapshots in a thread, one at a time, and not so often that it would be felt."""

    SHARE = 20  # a snapshot at most every twenty times as long as writing one takes

    def __init__(
        self, folder: Path, clock: "Callable[[], float]", tell: "Callable[[DiskError], None]"
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._tell = tell
        self._thread: threading.Thread | None = None
        self._not_before = 0.0
        self._failing = False

    def due(self) -> bool:
        return self._clock() >= self._not_before and not self._busy()

    def keep(self, snapshot: Snapshot) -> None:
        """Write it beside the training. It must not be changed by anyone any more."""
        self._thread = threading.Thread(
            target=self._write, args=(snapshot,), name="snapshot", daemon=True
        )
        self._thread.start()

    def keep_now(self, snapshot: Snapshot) -> None:
        """Write it before going on, after one that is still being written."""
        self.settle()
        self._write(snapshot)

    def settle(self) -> None:
        """Until what is being written stands."""
        if self._thread is not None:
            self._thread.join()

    def _write(self, snapshot: Snapshot) -> None:
        began = self._clock()
        try:
            save(self._folder, snapshot)
            self._failing = False
        except DiskError as error:
            log.warning("%s", error)
            if not self._failing:  # once, not at every round
                self._tell(error)
            self._failing = True
        self._not_before = self._clock() + self.SHARE * (self._clock() - began)

    def _busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()
