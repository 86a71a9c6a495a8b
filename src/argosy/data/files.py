"""Find the text files of a source and read their documents, naming what is wrong and where."""

import gzip
import hashlib
import io
import json
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast

from argosy.core.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from argosy.core.job import Source

SUFFIXES = (".txt", ".jsonl", ".txt.gz", ".jsonl.gz")
PASSAGE_BYTES = 2048  # a .txt is cut at the first blank line after so many bytes
_CHUNK = 1 << 20
_BLANK = " \t\r\f\v"
_BEGIN = 512  # bytes by which a file shows what it is
_CONTROL = frozenset(range(32)) - frozenset(b"\t\n\v\f\r\x1b")
_FORMATS = (
    (b"\x1f\x8b", "a gzip file", "let its name end in .gz"),
    (b"PK\x03\x04", "a ZIP archive or an office document", "save the text itself as .txt"),
    (b"%PDF", "a PDF", "save its text as .txt (pdftotext does)"),
    (b"\x89PNG", "a picture", "take it out of the source"),
    (b"\xff\xd8\xff", "a picture", "take it out of the source"),
)
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, kw_only=True, slots=True)
class TextFile:
    """One file of a source as it was when it was opened."""

    path: "Path"
    name: str  # as the job would write it; what messages say
    size: int  # bytes as it lies there, compressed or not
    sha256: bytes


def find(source: "Source", root: "Path") -> "tuple[tuple[Path, str], ...]":
    """The text files of a source, a file or a folder, with their names; sorted by name.

    Hidden files, links to folders inside a folder, and files that are no text by their suffix are
    passed over.
    """
    try:
        return _find(root / source.path, source)
    except OSError as error:  # the folder is closed, the name is too long
        raise _unreadable(source.path, error) from error


def is_text(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def examine(path: "Path", name: str) -> TextFile:
    """Read the file once, for its size and digest."""
    hashed, size = hashlib.sha256(), 0
    try:
        with path.open("rb", buffering=0) as opened:
            while chunk := opened.read(_CHUNK):
                hashed.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise _unreadable(name, error) from error
    return TextFile(path=path, name=name, size=size, sha256=hashed.digest())


def documents(file: TextFile, text_field: str) -> "Iterator[str]":
    """The documents of one file, in order; none of them is empty.

    A line of a .jsonl is a document. A .txt is cut into passages at blank lines, each of at least
    PASSAGE_BYTES where it does not end before: a model then meets ends, and what is held out is
    spread over the whole file.
    """
    lowered = file.path.name.lower()
    if lowered.endswith((".jsonl", ".jsonl.gz")):
        return _objects(file, text_field)
    return _passages(file)


def _find(path: "Path", source: "Source") -> "tuple[tuple[Path, str], ...]":
    name, where = source.path, source.where or None
    if path.is_dir():
        inside = ((each, each.relative_to(path)) for each in path.rglob("*") if each.is_file())
        files = sorted(
            (f"{name.rstrip('/')}/{short.as_posix()}", each)
            for each, short in inside
            if is_text(each.name) and not any(part.startswith(".") for part in short.parts)
        )
        if not files:
            raise SpecError(
                f"source {source.name}: the folder {name} holds no text",
                where=where,
                hint=f"expected files that end in {', '.join(SUFFIXES)}; looked in {path}",
            )
        return tuple((each, label) for label, each in files)
    if not path.is_file():
        raise SpecError(
            f"source {source.name}: nothing at {name}",
            where=where,
            hint=f"expected a file or a folder at {path}; paths start at the job file's folder",
        )
    if not is_text(path.name):
        raise SpecError(
            f"source {source.name}: {name} is of no kind that can be read",
            where=where,
            hint=f"expected a file that ends in {', '.join(SUFFIXES)}, or a folder of such",
        )
    return ((path, name),)


def _passages(file: TextFile) -> "Iterator[str]":
    lines: list[str] = []
    size = 0
    for _, raw, line in _lines(file):
        blank = not line.strip(_BLANK)
        if blank and size >= PASSAGE_BYTES:
            yield "\n".join(lines).strip("\n")
            lines, size = [], 0
        elif not blank:
            lines.append(line.rstrip(_BLANK))
            size += raw
        elif lines and lines[-1]:  # one blank line stands for many
            lines.append("")
    if size:
        yield "\n".join(lines).strip("\n")


def _objects(file: TextFile, text_field: str) -> "Iterator[str]":
    for number, _, line in _lines(file):
        if not line.strip(_BLANK):
            continue
        where = f"{file.name}:{number}"
        text = _field(line, text_field, where)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise SpecError(
                f"{text_field} holds half a character (a lone surrogate) at {error.start}",
                where=where,
                hint="write the file anew with a JSON writer that keeps \\ud83d\\ude00 in pairs",
            ) from error
        if text.strip():
            yield text


def _field(line: str, text_field: str, where: str) -> str:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SpecError(
            f"not JSON: {error}", where=where, hint="expected one JSON object in each line"
        ) from error
    if not isinstance(value, dict):
        raise SpecError(
            f"expected a JSON object, got {_kind(value)}",
            where=where,
            hint=f'a line looks like {{"{text_field}": "..."}}',
        )
    if text_field not in value:
        has = ", ".join(sorted(value)[:8]) or "nothing"
        raise SpecError(
            f"no field {text_field!r}",
            where=where,
            hint=f"it has {has}; set the source's text_field",
        )
    text = value[text_field]
    if not isinstance(text, str):
        raise SpecError(
            f"{text_field}: expected text, got {_kind(text)}",
            where=where,
            hint="set the source's text_field to the field with the text",
        )
    return text


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"


def _lines(file: TextFile) -> "Iterator[tuple[int, int, str]]":
    """Line number from 1, bytes, text without its newline. Fails if the file is another by now."""
    hashed = hashlib.sha256()
    offset, first = 0, b""
    try:
        with file.path.open("rb", buffering=0) as opened:
            raw = cast("IO[bytes]", io.BufferedReader(_Hashing(opened, hashed), _CHUNK))
            packed = file.path.name.lower().endswith(".gz")
            stream: IO[bytes] | gzip.GzipFile = (
                gzip.GzipFile(fileobj=raw, mode="rb") if packed else raw
            )
            for number, line in enumerate(stream, 1):
                start = len(_BOM) if number == 1 and line.startswith(_BOM) else 0
                try:
                    text = line[start:].decode()
                except UnicodeDecodeError as error:
                    at = start + error.start
                    begin = (line if number == 1 else first) + line
                    raise _not_utf8(file, number, offset + at, line[at], begin) from error
                first = first or line[:_BEGIN]
                offset += len(line)
                yield number, len(line), text.rstrip("\r\n")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SpecError(
            f"broken gzip: {error}",
            where=file.name,
            hint=f"gzip -t says more; {offset} bytes of text came out of it; fetch the file anew",
        ) from error
    except OSError as error:
        raise _unreadable(file.name, error) from error
    if hashed.digest() != file.sha256:
        raise SpecError(
            "the file changed while it was in use",
            where=file.name,
            hint="a run needs its sources to stay as they are; start it again",
        )


class _Hashing(io.RawIOBase):
    """Passes bytes on and hashes them, so that what was read is what was recorded."""

    def __init__(self, inner: io.FileIO, hashed: "hashlib._Hash") -> None:
        self._inner = inner
        self._hashed = hashed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._inner.readinto(buffer) or 0
        self._hashed.update(memoryview(buffer)[:count])
        return count


def _not_utf8(file: TextFile, line: int, offset: int, byte: int, begin: bytes) -> SpecError:
    unpacked = " (unpacked)" if file.path.name.lower().endswith(".gz") else ""
    return SpecError(
        f"not UTF-8: byte 0x{byte:02X} at offset {offset}{unpacked}",
        where=f"{file.name}:{line}",
        hint=_advice(begin),
    )


def _advice(begin: bytes) -> str:
    """What to do with a file that is no UTF-8, by how it begins and by the line that is wrong."""
    if begin.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it is UTF-16: iconv -f UTF-16 -t UTF-8 FILE > NEW converts it"
    for magic, kind, remedy in _FORMATS:
        if begin.startswith(magic):
            return f"it is {kind}, whatever its name says: {remedy}"
    if _CONTROL & set(begin):
        return "it looks like a binary file and not like text: take it out of the source"
    return "iconv -f LATIN1 -t UTF-8 FILE > NEW converts it, if it is Latin-1"


def _unreadable(name: str, error: OSError) -> SpecError:
    return SpecError(
        f"cannot be read: {error.strerror or error}",
        where=name,
        hint="the account that runs the host must be able to read it",
    )
