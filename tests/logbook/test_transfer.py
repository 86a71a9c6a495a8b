"""Blobs in ranges over several connections: cut, damaged, and brought by two at once."""

import contextlib
import random
import threading
from collections.abc import Callable, Iterator

import httpx
import pytest
from fakes.logbook import Signing
from fakes.server import RunningServer, Wire, until
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from argosy.core.errors import DamagedError, HostError
from argosy.logbook.blobs import digest_of
from argosy.logbook.client import RemoteLogbook
from argosy.logbook.pace import RANGE_LEAST
from argosy.logbook.server import Serving
from argosy.logbook.tls import client_tls

BLOB = random.Random(2).randbytes(12_000_000)
DIGEST = digest_of(BLOB)
LANES = 4


@contextlib.contextmanager
def through(wire: Wire, signing: Signing, *, within_s: float = 20.0) -> Iterator[RemoteLogbook]:
    """A client that takes four connections to begin with."""
    with RemoteLogbook(wire.url, signing.keys("tokyo-1"), within_s=within_s, lanes=LANES) as book:
        for way in (book._up, book._down):
            way.pace = way.pace.answered(0.08)
        yield book


def test_a_large_blob_takes_several_connections_both_ways(
    serving: Serving, signing: Signing
) -> None:
    with RunningServer(serving) as server, Wire(server.port) as wire:
        with through(wire, signing) as book:
            book.put(BLOB)
            assert wire.connections >= 2
            assert wire.up < 1.15 * len(BLOB)
        with through(wire, signing) as book:
            before = wire.connections
            assert book.get(DIGEST) == BLOB
            assert wire.connections - before >= 2
            assert wire.down < 1.15 * len(BLOB)


def test_a_small_blob_is_one_request(serving: Serving, signing: Signing) -> None:
    seen: list[str] = []
    small = BLOB[:900_000]
    with (
        RunningServer(serving, around=lambda app: Told(app, seen)) as server,
        server.client(signing.keys("tokyo-1")) as book,
    ):
        assert book.get(book.put(small)) == small

    assert [said.split()[0] for said in seen] == ["PUT", "GET"]


@pytest.mark.parametrize("cut", [200_000, 900_000, 2_500_000])
def test_connections_that_break_one_after_the_other_cost_what_was_in_flight(
    serving: Serving, signing: Signing, cut: int
) -> None:
    """Each connection is cut after so many bytes, in either direction."""
    with (
        RunningServer(serving) as server,
        Wire(server.port, cut_up=lambda _: cut, cut_down=lambda _: 2 * cut) as wire,
        through(wire, signing) as book,
    ):
        assert book.put(BLOB) == DIGEST
        # A connection has no more in flight on loopback than what its socket buffers hold.
        assert wire.up < len(BLOB) + wire.connections * 300_000
        assert book.get(DIGEST) == BLOB
        assert wire.down < len(BLOB) + wire.connections * 300_000


def test_one_connection_that_dies_for_good_does_not_hold_the_blob(
    serving: Serving, signing: Signing
) -> None:
    """Of the first four connections, the last never carries more than its handshake."""
    with (
        RunningServer(serving) as server,
        Wire(server.port, cut_up=lambda number: 9000 if number % 4 == 3 else None) as wire,
        through(wire, signing) as book,
    ):
        assert book.put(BLOB) == DIGEST
        assert book.get(DIGEST) == BLOB


def test_a_range_damaged_on_its_way_down_is_fetched_again(
    serving: Serving, signing: Signing
) -> None:
    with (
        RunningServer(serving, around=lambda app: Damaging(app, down=5_000_000)) as server,
        Wire(server.port) as wire,
        through(wire, signing) as book,
    ):
        assert book.get(book.put(BLOB)) == BLOB
        assert wire.down > 1.5 * len(BLOB)


def test_a_range_damaged_on_its_way_up_is_never_stored(serving: Serving, signing: Signing) -> None:
    with (
        RunningServer(serving, around=lambda app: Damaging(app, up=5_000_000)) as server,
        Wire(server.port) as wire,
        through(wire, signing) as book,
    ):
        assert book.put(BLOB) == DIGEST
        assert book.get(DIGEST) == BLOB
        assert wire.up > 1.5 * len(BLOB)


def test_a_link_that_damages_everything_ends_in_an_error(
    serving: Serving, signing: Signing
) -> None:
    with (
        RunningServer(serving, around=lambda app: Damaging(app, up=0, times=10**6)) as server,
        Wire(server.port) as wire,
        through(wire, signing) as book,
        pytest.raises(DamagedError, match="what arrived has the digest"),
    ):
        book.put(BLOB)
    assert not list((serving.folder / "blobs").glob("??/*"))


def test_a_logbook_that_goes_away_in_the_middle_is_an_error_after_a_while(
    serving: Serving, signing: Signing
) -> None:
    failed: list[HostError] = []
    with (
        RunningServer(serving) as server,
        Wire(server.port, cut_up=lambda _: 2_000_000) as wire,
        through(wire, signing, within_s=0.5) as book,
    ):

        def put() -> None:
            try:
                book.put(BLOB * 20)
            except HostError as wrong:
                failed.append(wrong)

        putting = threading.Thread(target=put)
        putting.start()
        until(lambda: wire.up > 4_000_000)
        server.stop()
        putting.join(20.0)

    assert "cannot be reached" in failed[0].what


def test_a_part_of_a_blob_is_served_as_http_has_it(serving: Serving, signing: Signing) -> None:
    """RFC 9110, 14.1.2 and 14.4; what is beyond the end is cut off."""
    with RunningServer(serving) as server:
        with server.client(signing.keys("tokyo-1")) as book:
            path = f"/v1/blobs/{book.put(b'0123456789')[7:]}"
        with httpx.Client(
            base_url=server.url, verify=client_tls(signing.keys("tokyo-1")), trust_env=False
        ) as client:
            ask = partial_of(client, path)

            assert ask("bytes=2-4") == (206, b"234", "bytes 2-4/10")
            assert ask("bytes=7-") == (206, b"789", "bytes 7-9/10")
            assert ask("bytes=8-99") == (206, b"89", "bytes 8-9/10")
            for whole in (
                "bytes=0-9",
                "bytes=0-",
                "bytes=5-4",
                "bytes=10-",
                "bytes=x-1",
                "pages=1-2",
            ):
                assert ask(whole) == (200, b"0123456789", None)


def partial_of(client: httpx.Client, path: str) -> Callable[[str], tuple[int, bytes, str | None]]:
    def ask(wanted: str) -> tuple[int, bytes, str | None]:
        answer = client.get(path, headers={"range": wanted}, extensions={"sni_hostname": "logbook"})
        return answer.status_code, answer.content, answer.headers.get("content-range")

    return ask


class Told:
    """Before the app: writes down what is asked about blobs."""

    def __init__(self, app: ASGIApp, seen: list[str]) -> None:
        self._app = app
        self._seen = seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._seen.append(f"{scope['method']} {scope['path']}")
        await self._app(scope, receive, send)


class Damaging:
    """Before the app: turns one byte over in the first bodies that carry byte `up` or `down`."""

    def __init__(
        self, app: ASGIApp, *, up: int | None = None, down: int | None = None, times: int = 1
    ) -> None:
        self._app = app
        self._up, self._down = up, down
        self._times = times
        self._lock = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = dict(pair.split("=") for pair in scope["query_string"].decode().split("&") if pair)
        ranged = dict(scope["headers"]).get(b"range", b"bytes=0-").decode()
        at = {
            "up": int(asked.get("from", 0)),
            "down": int(ranged.removeprefix("bytes=").partition("-")[0]),
        }

        async def damaged_receive() -> Message:
            message = await receive()
            return self._turn(message, at, "up", self._up)

        async def damaged_send(message: Message) -> None:
            await send(self._turn(message, at, "down", self._down))

        await self._app(scope, damaged_receive, damaged_send)

    def _turn(self, message: Message, at: dict[str, int], way: str, where: int | None) -> Message:
        body = message.get("body", b"")
        start, at[way] = at[way], at[way] + len(body)
        if where is None or not start <= where < at[way] or self._times < 1:
            return message
        self._times -= 1
        turned = bytearray(body)
        turned[where - start] ^= 1
        return {**message, "body": bytes(turned)}


assert len(BLOB) > LANES * 4 * RANGE_LEAST
