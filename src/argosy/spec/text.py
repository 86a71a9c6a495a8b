"""A spec's file as text, or the reason why it is none."""

from difflib import get_close_matches
from pathlib import Path

from argosy.core.errors import SpecError

LIMIT = 1 << 20  # bytes; the longest sensible job is a hundredth of it


def read(path: Path) -> str:
    """The whole file, decoded. Raises SpecError."""
    where = str(path)
    if path.is_dir():
        raise SpecError(
            "expected a file, got a folder", where=where, hint=f"did you mean {path / 'job.yaml'}?"
        )
    if not path.exists():
        raise SpecError("there is no such file", where=where, hint=_near(path))
    if not path.is_file():
        raise SpecError("expected a file, got a pipe or a device", where=where)
    try:
        with path.open("rb") as file:
            raw = file.read(LIMIT + 1)
    except OSError as error:
        raise SpecError(f"cannot be read: {error.strerror}", where=where) from error
    return decode(raw, where)


def decode(raw: bytes, where: str) -> str:
    """UTF-8 within the limit; a byte order mark is skipped."""
    if len(raw) > LIMIT:
        raise SpecError(
            "expected at most 1 MiB, got more",
            where=where,
            hint="a spec names its data by path; it does not contain it",
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SpecError(
            f"expected UTF-8 text, got the byte 0x{error.object[error.start]:02x}",
            where=f"{where}:{line}",
            hint="save the file again as UTF-8",
        ) from error


def _near(path: Path) -> str:
    try:
        names = [other.name for other in path.parent.iterdir() if other.is_file()]
    except OSError:
        names = []
    close = get_close_matches(path.name, names, n=1)
    return f"did you mean {path.parent / close[0]}?" if close else "argosy init writes an example"
