import contextlib
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest
from fakes.logbook import Signing, contribution, event
from fakes.server import (
    RunningServer,
    Wire,
    answer,
    connected,
    fleet,
    gate_for,
    job,
    updates_to,
)

from argosy.core.errors import DamagedError, DiskError, HostError, PolicyError
from argosy.core.records import CONTROLLER, Lead
from argosy.logbook.client import RemoteLogbook
from argosy.logbook.embedded import StoreLimits
from argosy.logbook.gate import Gate
from argosy.logbook.keys import Authority
from argosy.logbook.server import Serving
from argosy.logbook.tls import client_tls


def test_a_stranger_without_a_certificate_gets_no_word(serving: Serving, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(tmp_path / "keys" / "server" / "ca.pem")

    with RunningServer(serving) as server, connected(server.port, context) as tls:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            tls.sendall(b"GET /v1/time HTTP/1.1\r\nhost: x\r\n\r\n")
        assert answer(tls) == b""


def test_a_certificate_of_another_authority_gets_no_word(
    serving: Serving, tmp_path: Path, signing: Signing
) -> None:
    other = Signing(tmp_path / "other")
    context = client_tls(other.keys("tokyo-1"))
    context.load_verify_locations(tmp_path / "keys" / "server" / "ca.pem")

    with RunningServer(serving) as server, connected(server.port, context) as tls:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            tls.sendall(b"GET /v1/time HTTP/1.1\r\nhost: x\r\n\r\n")
        assert answer(tls) == b""


def test_older_tls_is_not_spoken(serving: Serving, signing: Signing) -> None:
    context = client_tls(signing.keys("tokyo-1"))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    with (
        RunningServer(serving) as server,
        pytest.raises((ssl.SSLError, ConnectionError)),
        connected(server.port, context),
    ):
        pass


def test_the_servers_own_key_opens_nothing(serving: Serving) -> None:
    with RunningServer(serving) as server, pytest.raises(HostError):
        server.client(serving.keys, within_s=0.3).read(1)


def test_a_host_cannot_bring_the_record_of_another(serving: Serving, signing: Signing) -> None:
    raw = signing.pen("tokyo-1").sign(event(), 1)

    with RunningServer(serving) as server, server.client(signing.keys("frankfurt-1")) as book:
        with pytest.raises(DamagedError, match="frankfurt/frankfurt-1 may not append as tokyo"):
            book.append(raw)
        assert len(book.read(1)) == 2


def test_a_host_with_a_certificate_but_no_seat_is_turned_away(
    serving: Serving, signing: Signing
) -> None:
    late = signing.seat("osaka", "osaka-1")

    with RunningServer(serving) as server, server.client(late, within_s=0.3) as book:
        with pytest.raises(HostError, match="no seat in the newest roster"):
            book.read(1)
        with pytest.raises(HostError, match="no seat"):
            book.put(b"blob")


def test_a_run_begins_over_the_wire(tmp_path: Path, signing: Signing) -> None:
    serving = Serving(folder=tmp_path / "log", keys=tmp_path / "keys" / "server")
    with RunningServer(serving) as server, server.client(signing.keys(CONTROLLER)) as book:
        pen = signing.pen()
        tokyo = server.client(signing.keys("tokyo-1"), within_s=0.3)
        with tokyo, pytest.raises(HostError, match="no roster yet"):
            tokyo.read(1)

        assert [book.append(raw) for raw in signing.opening(pen)] == [1, 2]
        assert book.append(pen.sign(Lead(term=1), 3)) == 3


def test_the_logbook_of_another_authority_is_not_begun(tmp_path: Path, signing: Signing) -> None:
    """The controller's run record names another authority than the server's own keys."""
    serving = Serving(folder=tmp_path / "log", keys=tmp_path / "keys" / "server")
    signing.authority = Authority.make(tmp_path / "other")

    with (
        RunningServer(serving) as server,
        server.client(signing.keys(CONTROLLER)) as book,
        pytest.raises(DamagedError, match="another certificate authority"),
    ):
        book.append(signing.pen().sign(signing.begun(), 1))


def test_a_blob_goes_only_where_policy_lets_it(serving: Serving, signing: Signing) -> None:
    gate = gate_for(job(updates_to("DE")))
    tokyo, frankfurt = signing.pen("tokyo-1"), signing.pen("frankfurt-1")
    with (
        RunningServer(serving, gate) as server,
        server.client(signing.keys("tokyo-1")) as in_tokyo,
        server.client(signing.keys("frankfurt-1")) as in_frankfurt,
    ):
        japanese, german = in_tokyo.put(b"japanese"), in_frankfurt.put(b"german")
        with pytest.raises(PolicyError, match="no record names it yet"):
            in_frankfurt.get(japanese)
        in_tokyo.append(tokyo.sign(contribution(japanese, 8), 1))
        in_frankfurt.append(frankfurt.sign(contribution(german, 6), 1))

        assert in_frankfurt.get(japanese) == b"japanese"
        assert in_frankfurt.get(german) == b"german"
        with pytest.raises(PolicyError, match="may not go to JP") as refused:
            in_tokyo.get(german)
        assert refused.value.exit_code == 3


def test_an_update_that_may_not_come_here_is_refused(serving: Serving, signing: Signing) -> None:
    gate = gate_for(job(updates_to("JP")), fleet("US"))
    with RunningServer(serving, gate) as server, server.client(signing.keys("tokyo-1")) as book:
        digest = book.put(b"japanese")
        with pytest.raises(PolicyError, match="may not go to US"):
            book.append(signing.pen("tokyo-1").sign(contribution(digest, 8), 1))


def test_the_gate_reads_job_and_fleet_from_the_run_record(
    serving: Serving, signing: Signing
) -> None:
    with (
        RunningServer(serving, Gate()) as server,
        server.client(signing.keys("tokyo-1")) as in_tokyo,
        server.client(signing.keys("frankfurt-1")) as in_frankfurt,
    ):
        japanese, german = in_tokyo.put(b"japanese"), in_frankfurt.put(b"german")
        in_tokyo.append(signing.pen("tokyo-1").sign(contribution(japanese, 8), 1))
        in_frankfurt.append(signing.pen("frankfurt-1").sign(contribution(german, 6), 1))

        assert in_frankfurt.get(japanese) == b"japanese"
        with pytest.raises(PolicyError, match="update of german from DE to JP"):
            in_tokyo.get(german)


def test_a_new_server_remembers_what_may_go_where(serving: Serving, signing: Signing) -> None:
    with RunningServer(serving) as server, server.client(signing.keys("tokyo-1")) as book:
        digest = book.put(b"japanese")
        book.append(signing.pen("tokyo-1").sign(contribution(digest, 8), 1))
    anew = RunningServer(serving, gate_for(job(updates_to("*"))))
    with anew as server, server.client(signing.keys("frankfurt-1")) as book:
        assert book.get(digest) == b"japanese"


def test_a_new_server_over_the_same_folder_goes_on(serving: Serving, signing: Signing) -> None:
    pen = signing.pen("tokyo-1")
    with RunningServer(serving) as server:
        book = server.client(signing.keys("tokyo-1"))
        assert book.append(pen.sign(event(), 1)) == 3
        digest = book.put(b"payload")
    with server.again() as again, book:
        assert again.port == server.port
        assert book.append(pen.sign(event(), 2)) == 4
        assert book.get(digest) == b"payload"


def test_two_servers_cannot_share_a_folder(serving: Serving) -> None:
    with (
        RunningServer(serving),
        pytest.raises(HostError, match="another process writes this logbook"),
        RunningServer(serving),
    ):
        pass


def test_a_port_that_is_taken_is_said(serving: Serving) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(HostError, match=f"port {port} is taken") as taken:
            RunningServer(Serving(folder=serving.folder, keys=serving.keys, port=port)).__enter__()

    assert taken.value.exit_code == 4
    assert "another port" in (taken.value.hint or "")


@pytest.mark.parametrize("port", [-1, 70_000])
def test_what_is_no_port_is_said(serving: Serving, port: int) -> None:
    with pytest.raises(HostError, match="no port"):
        RunningServer(Serving(folder=serving.folder, keys=serving.keys, port=port)).__enter__()


def test_a_server_without_keys_says_which(serving: Serving) -> None:
    (serving.keys / "host.key").unlink()

    with pytest.raises(HostError, match=r"no host\.key"):
        RunningServer(serving).__enter__()


def test_a_full_logbook_says_so_and_goes_on_reading(
    tmp_path: Path, serving: Serving, signing: Signing
) -> None:
    full = Serving(folder=serving.folder, keys=serving.keys, limits=StoreLimits(log_bytes=60_000))
    pen = signing.pen("tokyo-1")
    raws = [pen.sign(event("x" * 3000), i) for i in range(100)]
    with RunningServer(full) as server, server.client(signing.keys("tokyo-1")) as book:
        with pytest.raises(DiskError, match="full") as said:
            any(book.append(raw) == 0 for raw in raws)
        assert said.value.exit_code == 5
        assert str(tmp_path) not in str(said.value)  # the server's paths are its own
        assert len(book.read(1)) > 2


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /v1/records?from=x", 422),
        (b"GET /v1/records?from=-1", 422),
        (b"GET /v1/records?from=99999999999999999999", 422),
        (b"GET /v1/blobs/..%2f..%2fetc", 404),
        (b"GET /v1/blobs/abc", 422),
        (b"GET /v1/blobs/" + b"0" * 64, 403),
        (b"GET /", 404),
        (b"DELETE /v1/records", 405),
        (b"GET /v1/uploads/" + b"A" * 64, 422),
    ],
)
def test_a_request_of_another_form_is_refused(
    serving: Serving, signing: Signing, request_line: bytes, status: int
) -> None:
    with (
        RunningServer(serving) as server,
        connected(server.port, client_tls(signing.keys("tokyo-1"))) as tls,
    ):
        tls.sendall(request_line + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert answer(tls).startswith(b"HTTP/1.1 %d" % status)


def test_a_long_poll_ends_when_the_server_is_told_to_stop(
    serving: Serving, signing: Signing
) -> None:
    with RunningServer(serving) as server:
        book = server.client(signing.keys("tokyo-1"), within_s=0.5)
        assert len(book.read(1)) == 2
        ended: list[bool] = []

        def wait() -> None:
            with contextlib.suppress(HostError):
                book.read(3, wait_s=25.0)
            ended.append(True)

        waiting = threading.Thread(target=wait)
        waiting.start()
        began = time.monotonic()
        server.stop()
        waiting.join(10.0)

    assert ended
    assert time.monotonic() - began < 8.0


def test_few_bytes_go_with_each_request(serving: Serving, signing: Signing) -> None:
    pen = signing.pen("tokyo-1")
    raws = [pen.sign(event(str(i)), i) for i in range(10)]
    with RunningServer(serving) as server, Wire(server.port) as wire:
        with RemoteLogbook(wire.url, signing.keys("tokyo-1")) as book:
            book.append(raws[0])
            up, down = wire.up, wire.down
            for raw in raws[1:]:
                book.append(raw)

        assert wire.connections == 1
        assert (wire.up - up) / 9 < len(raws[1]) + 160
        assert (wire.down - down) / 9 < 100


def test_no_answer_waits_for_an_acknowledgement(serving: Serving, signing: Signing) -> None:
    """With Nagle's algorithm left on, every answer over a kept connection takes 40 ms."""
    took = []
    with RunningServer(serving) as server, server.client(signing.keys("tokyo-1")) as book:
        for _ in range(20):
            began = time.monotonic()
            book.clock_offset_ms()  # three round trips
            took.append(time.monotonic() - began)

    assert min(took) < 0.1


def test_only_what_changed_is_served(serving: Serving, signing: Signing) -> None:
    with (
        RunningServer(serving) as server,
        Wire(server.port) as wire,
        RemoteLogbook(wire.url, signing.keys("tokyo-1")) as book,
    ):
        book.read(1)
        down = wire.down
        book.read(3)
        assert wire.down - down < 100
