"""Looks for planted sentences in all bytes that crossed, however they were packed. Pure.

It cuts each sentence into pieces and looks for any of them, so that a cut between two requests
hides nothing; unpacks zstd, gzip, zlib and base64 wherever they begin; and knows a sentence also
as token numbers of 8, 16, 32 or 64 bits, as JSON numbers, escapes and hex.
"""

import base64
import json
import re
import struct
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import zstandard

_PIECE = 16  # characters; fewer would be found by chance
_TOKENS = 4
_DEPTH = 3  # packed in packed in packed
_CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}
_BITE = 4096
_UNPACKED_MOST = 64 * 1024 * 1024
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{24,}={0,2}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Leak:
    sentence: str
    body: int  # which of the bodies
    form: str  # "zstd > uint16": how it was packed, outermost first


def find(
    sentences: Sequence[str],
    bodies: Iterable[bytes],
    *,
    tokenize: Callable[[str], list[int]] | None = None,
) -> tuple[Leak, ...]:
    """Each sentence and body once. `tokenize`: where the job's tokens are not bytes."""
    for sentence in sentences:
        assert len(sentence) >= _PIECE, f"{sentence!r} is so short that chance would find it"
    forms = [(s, form, piece) for s in sentences for form, piece in _forms(s, tokenize)]
    leaks: dict[tuple[str, int], Leak] = {}
    for number, body in enumerate(bodies):
        for packing, content in _unpacked(body, _DEPTH):
            for sentence, form, piece in forms:
                if (sentence, number) not in leaks and piece in content:
                    how = " > ".join((*packing, form))
                    leaks[sentence, number] = Leak(sentence=sentence, body=number, form=how)
    return tuple(leaks.values())


class Recorder:
    """ASGI middleware that keeps the decrypted body of every request: for tests only."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        number = len(self.bodies)
        self.bodies.append(b"")

        async def listen() -> Any:
            message = await receive()
            self.bodies[number] += message.get("body", b"")
            return message

        await self._app(scope, listen, send)


def _forms(
    sentence: str, tokenize: Callable[[str], list[int]] | None
) -> Iterator[tuple[str, bytes]]:
    pieces = [sentence[i : i + _PIECE] for i in range(0, max(1, len(sentence) - 8), _PIECE)]
    for piece in pieces:
        raw = piece.encode()
        yield "text", raw
        yield "escaped", json.dumps(piece)[1:-1].encode()
        yield "hex", raw.hex().encode()
        yield from _as_numbers(list(raw))
        yield "utf-16", piece.encode("utf-16-le")
    if tokenize is not None:
        tokens = tokenize(sentence)[1:-1]  # those at the ends may belong to a neighbour too
        assert len(tokens) >= _TOKENS, f"{sentence!r} is so few tokens that chance would find them"
        for i in range(0, len(tokens) - _TOKENS + 1, _TOKENS):
            yield from _as_numbers(tokens[i : i + _TOKENS])


def _as_numbers(numbers: list[int]) -> Iterator[tuple[str, bytes]]:
    for bits, code in _CODES.items():
        if max(numbers, default=0) >= 1 << bits or (bits == 8 and len(numbers) < 8):
            continue
        for order in "<>":
            yield f"uint{bits}", struct.pack(f"{order}{len(numbers)}{code}", *numbers)
    for separator in (", ", ",", " "):
        yield "numbers", separator.join(str(n) for n in numbers).encode()


def _unpacked(body: bytes | memoryview, depth: int) -> Iterator[tuple[tuple[str, ...], bytes]]:
    whole = bytes(body)
    yield (), whole
    if depth == 0:
        return
    for name, begin, damage, unpacker in _PACKINGS:
        for found in begin.finditer(whole):
            content = _unpack(unpacker(), memoryview(whole)[found.start() :], damage)
            if content:
                for packing, inner in _unpacked(content, depth - 1):
                    yield (name, *packing), inner
    for text in _BASE64.findall(whole):
        for content in _from_base64(text):
            for packing, inner in _unpacked(content, depth - 1):
                yield ("base64", *packing), inner


def _from_base64(text: bytes) -> Iterator[bytes]:
    """From each of four beginnings: what stands before it may look like a part of it."""
    letters = text.translate(bytes.maketrans(b"+/", b"-_")).rstrip(b"=")
    for start in range(4):
        rest = letters[start:]
        yield base64.urlsafe_b64decode(rest[: len(rest) // 4 * 4])


def _unpack(unpacker: Any, packed: memoryview, damage: type[Exception]) -> bytes:
    """As much as comes out before the end or the damage: what was cut off is looked at too."""
    content = bytearray()
    for start in range(0, len(packed), _BITE):
        try:
            content += unpacker.decompress(packed[start : start + _BITE])
        except damage:
            break
        if unpacker.eof or len(content) > _UNPACKED_MOST:
            break
    return bytes(content)


_PACKINGS: tuple[tuple[str, re.Pattern[bytes], type[Exception], Callable[[], Any]], ...] = (
    (
        "zstd",
        re.compile(rb"\x28\xb5\x2f\xfd"),
        zstandard.ZstdError,
        lambda: zstandard.ZstdDecompressor().decompressobj(),
    ),
    ("gzip", re.compile(rb"\x1f\x8b\x08"), zlib.error, lambda: zlib.decompressobj(31)),
    ("zlib", re.compile(rb"\x78[\x01\x5e\x9c\xda]"), zlib.error, lambda: zlib.decompressobj(15)),
)
