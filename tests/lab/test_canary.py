import asyncio
import base64
import gzip
import json
import random
import zlib

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from argosy.lab.canary import Recorder, find

PLANTED = "Der Kanarienvogel sang um drei Uhr nachts in Bockenheim."
JAPANESE = "カナリアは午前三時に渋谷で静かに歌っていた。"
NOISE = random.Random(3).randbytes(50_000)


def tokens(text: str, kind: str) -> bytes:
    return np.frombuffer(text.encode(), dtype=np.uint8).astype(kind).tobytes()


@pytest.mark.parametrize(
    ("packed", "form"),
    [
        (PLANTED.encode(), "text"),
        (tokens(PLANTED, "<u2"), "uint16"),
        (tokens(PLANTED, ">u2"), "uint16"),
        (tokens(PLANTED, "<u4"), "uint32"),
        (tokens(PLANTED, "<i8"), "uint64"),
        (json.dumps({"tokens": list(PLANTED.encode())}).encode(), "numbers"),
        (PLANTED.encode().hex().encode(), "hex"),
        (base64.b64encode(PLANTED.encode()), "base64 > text"),
        (base64.urlsafe_b64encode(PLANTED.encode()), "base64 > text"),
        (gzip.compress(PLANTED.encode()), "gzip > text"),
        (zlib.compress(PLANTED.encode()), "zlib > text"),
        (zstandard.compress(tokens(PLANTED, "<u2")), "zstd > uint16"),
        (gzip.compress(b"la la " * 900 + zstandard.compress(tokens(PLANTED, "<u2"))), "gzip > zstd > uint16"),
    ],
    ids=[
        "text", "16 bits", "16 bits, big end first", "32 bits", "64 bits", "JSON numbers", "hex",
        "base64", "base64 for addresses", "gzip", "zlib", "zstd", "zstd in gzip",
    ],
)  # fmt: skip
def test_a_sentence_is_found_however_it_is_packed(packed: bytes, form: str) -> None:
    bodies = [NOISE, NOISE[:999] + packed + NOISE[999:2000]]

    (leak,) = find([PLANTED, "a sentence that is nowhere to be found"], bodies)

    assert (leak.sentence, leak.body) == (PLANTED, 1)
    assert leak.form == form


def test_a_sentence_of_another_script_is_found_as_text_and_as_escapes() -> None:
    bodies = [JAPANESE.encode(), json.dumps(JAPANESE).encode(), JAPANESE.encode("utf-16-le")]

    assert [leak.form for leak in find([JAPANESE], bodies)] == ["text", "escaped", "utf-16"]


def test_a_sentence_cut_between_two_requests_is_found_in_both_or_one() -> None:
    for cut in range(1, len(PLANTED)):
        assert find([PLANTED], [PLANTED[:cut].encode(), PLANTED[cut:].encode()])


def test_the_first_half_of_a_frame_that_never_ended_is_looked_at() -> None:
    noise = base64.b64encode(NOISE)
    packed = zlib.compress(PLANTED.encode() + noise)

    (leak,) = find([PLANTED], [packed[: len(packed) // 2]])

    assert leak.form == "zlib > text"


def test_a_sentence_is_found_as_tokens_of_the_jobs_own_vocabulary() -> None:
    def tokenize(text: str) -> list[int]:
        return [50_000 + sum(word.encode()) for word in text.split()]

    body = np.array([1, 2, *tokenize(PLANTED), 3], dtype="<u4").tobytes()

    assert find([PLANTED], [body]) == ()
    assert find(["one that is not in there at all"], [body], tokenize=tokenize) == ()
    (leak,) = find([PLANTED], [body], tokenize=tokenize)
    assert leak.form == "uint32"


def test_a_sentence_that_chance_would_find_is_not_looked_for() -> None:
    with pytest.raises(AssertionError, match="so short"):
        find(["too short"], [b""])
    with pytest.raises(AssertionError, match="so few tokens"):
        find(["as long as it needs to be"], [b""], tokenize=lambda text: [len(text)])


def test_a_sentence_in_three_wrappings_is_found() -> None:
    packed = PLANTED.encode()
    for _ in range(3):
        packed = gzip.compress(packed, mtime=0)

    assert [leak.form for leak in find([PLANTED], [packed])] == ["gzip > gzip > gzip > text"]


@given(st.binary(max_size=400))
def test_what_holds_no_canary_is_no_leak_and_breaks_nothing(body: bytes) -> None:
    magic = (b"", b"\x28\xb5\x2f\xfd", b"\x1f\x8b\x08", b"\x78\x9c")

    assert find([PLANTED], [start + body for start in magic]) == ()


def test_the_recorder_keeps_every_body_and_hides_none_from_the_server() -> None:
    async def count(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(len(await request.body())))

    recorder = Recorder(Starlette(routes=[Route("/", count, methods=["PUT"])]))

    async def put(*pieces: bytes) -> bytes:
        waiting = list(pieces)
        sent: list[bytes] = []

        async def receive() -> dict[str, object]:
            body = waiting.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(waiting)}

        async def send(message: dict[str, object]) -> None:
            body = message.get("body", b"")
            assert isinstance(body, bytes)
            sent.append(body)

        scope: dict[str, object] = {
            "type": "http", "method": "PUT", "path": "/", "headers": [], "query_string": b"",
            "root_path": "", "app": None,
        }  # fmt: skip
        await recorder(scope, receive, send)
        return b"".join(sent)

    assert asyncio.run(put(b"abc", b"de")) == b"5"
    assert asyncio.run(put(b"f")) == b"1"
    assert recorder.bodies == [b"abcde", b"f"]


def test_the_recorder_lets_the_servers_own_messages_pass() -> None:
    heard: list[str] = []

    async def app(scope: dict[str, str], receive: object, send: object) -> None:
        heard.append(scope["type"])

    asyncio.run(Recorder(app)({"type": "lifespan"}, None, None))

    assert heard == ["lifespan"]
