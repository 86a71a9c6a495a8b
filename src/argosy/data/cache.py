"""Token arrays in a host's scratch folder, named by what they were made from and verified."""

import contextlib
import fcntl
import hashlib
import io
import json
import os
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from argosy.core.errors import DiskError
from argosy.data.tokens import Counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

_HEADER = 128  # bytes, so that the length can be written last and in place
_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Arrays:
    """Both parts of a source, one after the other in `tokens`."""

    tokens: "NDArray[Any]"
    trained: Counts
    held: Counts


def load(folder: "Path", key: str, dtype: "np.dtype[Any]") -> Arrays | None:
    """What was stored under `key`, mapped into memory; None if it is not there whole and true."""
    try:
        note = json.loads(_note(folder, key).read_text())
        trained, held = Counts(**note["trained"]), Counts(**note["held"])
        shape, digest = (trained.tokens + held.tokens,), note["sha256"]
        tokens = np.load(_array(folder, key), mmap_mode="r")
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None
    if tokens.dtype != dtype or tokens.shape != shape:
        return None
    if hashlib.sha256(tokens).hexdigest() != digest:
        return None
    return Arrays(tokens=tokens, trained=trained, held=held)


def store(
    folder: "Path",
    key: str,
    dtype: "np.dtype[Any]",
    parts: "Iterable[tuple[bool, int, NDArray[Any]]]",
) -> Arrays:
    """Write the parts and map them. Raises DiskError, with nothing half-written left behind.

    If another process of this host is writing here now, the arrays stay in memory instead.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (folder / "tokens.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return in_memory(dtype, parts)
            with contextlib.ExitStack() as undo:
                undo.callback(_clear, folder)
                _clear(folder)  # a killed process may have left its own
                with _private(_array(folder, key, ".part")) as sink:
                    note = _write(sink, dtype, parts)
                with _private(_note(folder, key, ".part")) as sink:
                    sink.write(json.dumps(note).encode())
                    _sync(sink)
                # The note comes last: where it stands, the array is whole.
                for name in (_array, _note):
                    name(folder, key, ".part").replace(name(folder, key))
            _sync_folder(folder)
    except OSError as error:
        raise DiskError(
            f"tokens cannot be kept: {error.strerror or error}",
            where=str(folder),
            hint="training goes on with the tokens in memory; free some space for the next start",
        ) from error
    stored = load(folder, key, dtype)
    if stored is None:
        raise DiskError(
            "tokens read back are not those that were written",
            where=str(folder),
            hint="training goes on with the tokens in memory; have the disk checked",
        )
    return stored


def in_memory(dtype: "np.dtype[Any]", parts: "Iterable[tuple[bool, int, NDArray[Any]]]") -> Arrays:
    sink = io.BytesIO()
    note = _write(sink, dtype, parts)
    tokens = np.frombuffer(sink.getbuffer(), dtype, offset=_HEADER)
    return Arrays(tokens=tokens, trained=Counts(**note["trained"]), held=Counts(**note["held"]))


def _write(
    sink: IO[bytes],
    dtype: "np.dtype[Any]",
    parts: "Iterable[tuple[bool, int, NDArray[Any]]]",
) -> dict[str, Any]:
    """Train first, then what is held out; returns the note that goes with the array."""
    hashed = hashlib.sha256()
    sink.write(bytes(_HEADER))
    counts = {False: Counts(), True: Counts()}
    kept = io.BytesIO()
    for held_out, size, array in parts:
        raw = array.tobytes()
        if held_out:
            kept.write(raw)
        else:
            hashed.update(raw)
            sink.write(raw)
        counts[held_out] = counts[held_out].and_one_more(tokens=len(array), size=size)
    hashed.update(kept.getbuffer())
    sink.write(kept.getbuffer())
    sink.seek(0)
    sink.write(_npy_header(dtype, counts[False].tokens + counts[True].tokens))
    if not isinstance(sink, io.BytesIO):
        _sync(sink)
    return {
        "sha256": hashed.hexdigest(),
        "trained": asdict(counts[False]),
        "held": asdict(counts[True]),
    }


def _npy_header(dtype: "np.dtype[Any]", length: int) -> bytes:
    """Version 1.0 of the .npy format, always _HEADER bytes long."""
    told = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({length},), }}"
    magic = b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little")
    return magic + told.encode().ljust(_HEADER - 11) + b"\n"


def _array(folder: "Path", key: str, part: str = "") -> "Path":
    return folder / f"{key}.npy{part}"


def _note(folder: "Path", key: str, part: str = "") -> "Path":
    return folder / f"{key}.json{part}"


def _clear(folder: "Path") -> None:
    for left in folder.glob("*.part"):
        left.unlink(missing_ok=True)


@contextlib.contextmanager
def _private(path: "Path") -> "Iterator[IO[bytes]]":
    """Tokens are as private as the text they came from."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb", _CHUNK) as sink:
        yield sink


def _sync(sink: IO[bytes]) -> None:
    sink.flush()
    os.fsync(sink.fileno())


def _sync_folder(folder: "Path") -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
