import contextlib
import json
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.logbook import Signing, event
from fakes.server import (
    Wire,
    until,
)

from argosy.logbook import server as server_module
from argosy.logbook.client import RemoteLogbook
from argosy.logbook.server import Serving


@contextlib.contextmanager
def started(serving: Serving, *more: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "argosy.logbook.server", "--folder", serving.folder,
         "--keys", serving.keys, *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def ready(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    assert said["event"] == "ready"
    port: int = said["port"]
    return port


@pytest.mark.lab
def test_the_process_says_when_it_is_ready_and_ends_when_told(
    serving: Serving, signing: Signing
) -> None:
    with started(serving, "--port", "0") as process:
        book = RemoteLogbook(f"https://127.0.0.1:{ready(process)}", signing.keys("tokyo-1"))
        with book:
            assert book.append(signing.pen("tokyo-1").sign(event(), 1)) == 3
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=20)

    assert process.returncode == 0
    assert "Traceback" not in log


@pytest.mark.lab
def test_the_process_that_finds_its_port_taken_ends_with_four(serving: Serving) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        with started(serving, "--port", port) as process:
            _, log = process.communicate(timeout=20)

    assert process.returncode == 4
    assert f"port {port} is taken" in log
    assert "Traceback" not in log


def test_a_mistake_in_starting_has_its_exit_code(
    serving: Serving, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(serving.keys)

    code = server_module.main(["--folder", str(tmp_path / "log"), "--keys", str(serving.keys)])

    assert code == 4
    assert "no ca.pem" in capsys.readouterr().err


@pytest.mark.lab
def test_large_blobs_pass_through_little_memory(
    tmp_path: Path, serving: Serving, signing: Signing
) -> None:
    with started(serving) as process:
        url = f"https://127.0.0.1:{ready(process)}"
        with RemoteLogbook(url, signing.keys("tokyo-1")) as book:
            book.put(b"small")
            before = resident_kib(process.pid)
            blob = bytes(100_000_000)
            assert book.get(book.put(blob)) == blob
            grown = resident_kib(process.pid) - before

    assert grown < 30_000


def resident_kib(pid: int) -> int:
    """The most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if "VmHWM" in line).split()[1])


@pytest.mark.lab
def test_a_server_killed_in_the_middle_of_an_upload_keeps_what_had_arrived(
    serving: Serving, signing: Signing
) -> None:
    blob = random.Random(4).randbytes(6_000_000)
    parts = serving.folder / "blobs" / "parts"
    with contextlib.ExitStack() as processes:
        first = processes.enter_context(started(serving))
        port = ready(first)

        def cut(connection: int) -> int | None:
            if connection == 0:
                return 4_000_000
            if connection == 1:  # the client comes back: now the server dies, and a new one starts
                until(lambda: next(parts.iterdir()).stat().st_size > 3_900_000)
                first.kill()
                first.wait(20)
                ready(processes.enter_context(started(serving, "--port", str(port))))
            return None

        with Wire(port, cut_up=cut) as wire:
            with RemoteLogbook(wire.url, signing.keys("tokyo-1")) as book:
                assert book.get(book.put(blob)) == blob
            assert wire.up < 6_500_000
        assert first.returncode == -signal.SIGKILL
