import contextlib
import socket
import ssl

import pytest
from fakes.logbook import Signing
from fakes.server import (
    RunningServer,
    answer,
    connected,
)

from argosy.logbook.admission import RECORD_LIMIT
from argosy.logbook.listener import Deadlines
from argosy.logbook.server import Serving
from argosy.logbook.tls import client_tls


def test_a_record_beyond_the_limit_is_refused_while_it_comes(
    serving: Serving, signing: Signing
) -> None:
    size = 50 * RECORD_LIMIT
    with (
        RunningServer(serving) as server,
        connected(server.port, client_tls(signing.keys("tokyo-1"))) as tls,
    ):
        tls.sendall(b"POST /v1/records HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size)
        sent = 0
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while sent < size:
                sent += tls.send(bytes(65536))
        assert sent < 20 * RECORD_LIMIT  # hung up long before the end


QUICK = Deadlines(handshake_s=0.2, headers_s=0.2, body_s=0.2, send_s=0.2, idle_s=1.0, hang_up_s=0.2)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /v1/time HT",
        b"GET /v1/time HTTP/1.1\r\nhost: x\r\nx: y\r\n",
        b"GET /v1/time HTTP/1.1\r\nhost: x\r\n\r\nGET /v1/ti",
        b"POST /v1/records HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\n{",
        b"GET /v1/time HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\n{",
        b"PUT /v1/blobs/" + b"0" * 64 + b"?of=900 HTTP/1.1\r\nhost: x\r\n"
        b"content-length: 900\r\n\r\nx",
    ],
    ids=["nothing", "line", "headers", "second", "record", "unread", "blob"],
)
def test_a_peer_that_stops_in_the_middle_is_hung_up_on(
    serving: Serving, signing: Signing, sent: bytes
) -> None:
    quick = Serving(folder=serving.folder, keys=serving.keys, deadlines=QUICK)
    with (
        RunningServer(quick) as server,
        connected(server.port, client_tls(signing.keys("tokyo-1"))) as tls,
    ):
        tls.sendall(sent)
        answer(tls)  # ends: the socket's own time-out would fail the test

        with server.client(signing.keys("tokyo-1")) as book:
            assert len(book.read(1)) == 2


def test_a_peer_that_never_speaks_tls_is_hung_up_on(serving: Serving) -> None:
    quick = Serving(folder=serving.folder, keys=serving.keys, deadlines=QUICK)
    with (
        RunningServer(quick) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=20.0) as plain,
    ):
        assert plain.recv(100) == b""


def test_a_peer_that_takes_nothing_is_hung_up_on(serving: Serving, signing: Signing) -> None:
    quick = Serving(
        folder=serving.folder, keys=serving.keys, deadlines=QUICK, connections_per_site=1
    )
    with (
        RunningServer(quick) as server,
        connected(server.port, client_tls(signing.keys("tokyo-1"))) as tls,
    ):
        tls.sendall(b"GET /v1/probe?bytes=60000000 HTTP/1.1\r\nhost: x\r\n\r\n")
        assert tls.recv(100).startswith(b"HTTP/1.1 200")

        with server.client(signing.keys("tokyo-1")) as book:
            book.read(1)  # tries until the one place is free
        assert len(answer(tls)) < 60_000_000


def test_a_site_holds_so_many_connections_and_no_more(serving: Serving, signing: Signing) -> None:
    few = Serving(folder=serving.folder, keys=serving.keys, connections_per_site=2)
    request = b"GET /v1/time HTTP/1.1\r\nhost: x\r\n\r\n"
    context = client_tls(signing.keys("tokyo-1"))
    with RunningServer(few) as server, contextlib.ExitStack() as held:
        for _ in range(2):
            tls = held.enter_context(connected(server.port, context))
            tls.sendall(request)
            assert tls.recv(100).startswith(b"HTTP/1.1 200")

        with connected(server.port, context) as third:
            third.sendall(request)
            assert answer(third).startswith(b"HTTP/1.1 429")
        with server.client(signing.keys("frankfurt-1")) as other:
            assert len(other.read(1)) == 2

        held.close()
        with server.client(signing.keys("tokyo-1")) as book:  # there is room again
            assert len(book.read(1)) == 2
