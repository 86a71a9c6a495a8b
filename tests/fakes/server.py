"""A real logbook server on loopback in a thread of the test, and a wire that breaks on demand."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from fakes.logbook import Signing
from starlette.types import ASGIApp

from argosy.core.fleet import Fleet, Host, Link, Site
from argosy.core.job import Job, ModelFromConfig, Source, Training
from argosy.core.law import Form, Policy, Rule
from argosy.logbook.client import RemoteLogbook
from argosy.logbook.embedded import EmbeddedLogbook
from argosy.logbook.gate import Gate
from argosy.logbook.server import Serving, serve

PATIENCE_S = 20.0


JOB = """version: 1
name: test
model: {config: {model_type: llama}}
sources:
  - {name: german, path: de.txt, country: DE, personal: yes}
  - {name: japanese, path: ja.txt, country: JP, personal: no}
training: {tokens: 100000}
policy:
  - {allow: [update, checkpoint, metric], from: [DE, JP], to: DE}
"""
FLEET = """version: 1
home: DE
sites:
  frankfurt: {country: DE, link: {mbit_per_s: 100, rtt_ms: 20}, hosts: {frankfurt-1: {cores: 1}}}
  tokyo: {country: JP, link: {mbit_per_s: 100, rtt_ms: 20}, hosts: {tokyo-1: {cores: 1}}}
"""


def updates_to(*destinations: str) -> Rule:
    return Rule(
        effect="allow",
        forms=(Form.UPDATE, Form.CHECKPOINT),
        origins=("*",),
        destinations=destinations,
    )


def job(*rules: Rule) -> Job:
    """Frankfurt trains on German text, Tokyo on Japanese."""
    return Job(
        name="test",
        model=ModelFromConfig(config={"model_type": "llama"}),
        sources=(
            Source(name="german", path="de.txt", country="DE", personal=True, sites=("frankfurt",)),
            Source(name="japanese", path="ja.txt", country="JP", personal=False, sites=("tokyo",)),
        ),
        training=Training(tokens=1000),
        policy=Policy(rules=rules),
    )


def fleet(home: str = "DE") -> Fleet:
    return Fleet(
        home=home,
        sites=(
            Site(name="frankfurt", country="DE", hosts=(Host(name="frankfurt-1"),)),
            Site(name="tokyo", country="JP", hosts=(Host(name="tokyo-1"),)),
        ),
        links=(
            Link(a="frankfurt", mbit_per_s=100.0, rtt_ms=10.0),
            Link(a="tokyo", mbit_per_s=100.0, rtt_ms=200.0),
        ),
    )


def gate_for(wanted: Job, over: Fleet | None = None) -> Gate:
    """A gate that takes these for what the run record says."""
    return Gate(lambda _job, _fleet: (wanted, over or fleet()))


def until(true: Callable[[], bool]) -> None:
    """Wait for something that another thread is about to do."""
    tick = threading.Event()
    for _ in range(int(PATIENCE_S / 0.002)):
        if true():
            return
        tick.wait(0.002)
    raise AssertionError("it did not happen")


class RunningServer:
    """`with RunningServer(serving, gate) as server:` then `server.client(keys)`."""

    def __init__(
        self,
        serving: Serving,
        gate: Gate | None = None,
        *,
        around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    ) -> None:
        self.serving = serving
        self.port = 0
        self._around = around
        self._gate = gate or gate_for(job(updates_to("*")))
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._ready = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def client(self, keys: Path, *, within_s: float = PATIENCE_S) -> RemoteLogbook:
        return RemoteLogbook(self.url, keys, within_s=within_s)

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def again(self) -> "RunningServer":
        """A new server over the same folder, at the same port."""
        return RunningServer(replace(self.serving, port=self.port), self._gate)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        if self._failed is not None:
            raise self._failed
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        self._stop = asyncio.Event()
        try:
            self._runner.run(
                serve(self.serving, self._stop, self._is_ready, self._gate, around=self._around)
            )
        except BaseException as wrong:  # noqa: BLE001 - raised in the test's own thread
            self._failed = wrong
            self._ready.set()
        finally:
            self._runner.close()  # connections that were only being accepted end too

    def _is_ready(self, port: int) -> None:
        self.port = port
        self._ready.set()


class Wire:
    """A TCP proxy on loopback. `plan` says for each connection after how many bytes it is cut.

    `up` and `down` count what went through; the last number of the plan holds for all after it.
    """

    def __init__(
        self,
        port: int,
        *,
        cut_up: Callable[[int], int | None] = lambda _: None,
        cut_down: Callable[[int], int | None] = lambda _: None,
    ) -> None:
        self.up = 0
        self.down = 0
        self.connections = 0
        self._target = port
        self._cuts = (cut_up, cut_down)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for end in (self._listening, *self._open):
            _hang_up(end)
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            number = self.connections
            self.connections += 1
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                _hang_up(near)
                continue
            self._open += [near, far]
            for direction, (a, b) in enumerate(((near, far), (far, near))):
                limit = self._cuts[direction](number)
                thread = threading.Thread(
                    target=self._pump, args=(a, b, direction, limit), daemon=True
                )
                self._threads.append(thread)
                thread.start()

    def _pump(self, a: socket.socket, b: socket.socket, direction: int, limit: int | None) -> None:
        moved = 0
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                data = data if limit is None else data[: limit - moved]
                b.sendall(data)
                moved += len(data)
                if direction == 0:
                    self.up += len(data)
                else:
                    self.down += len(data)
                if limit is not None and moved >= limit:
                    break
        for end in (a, b):
            _hang_up(end)


def _hang_up(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@contextlib.contextmanager
def connected(port: int, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    """A TLS connection by hand, to misbehave on."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20.0) as plain,
        context.wrap_socket(plain, server_hostname="logbook") as tls,
    ):
        yield tls


def answer(tls: ssl.SSLSocket) -> bytes:
    """All that comes until the server hangs up."""
    got = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := tls.recv(65536):
            got += data
    return got


def begun(signing: Signing) -> Serving:
    """What a server needs for a folder in which the run has begun."""
    folder = signing.folder.parent / "log"
    with EmbeddedLogbook(folder) as book:
        for raw in signing.opening(signing.pen()):
            book.append(raw)
    return Serving(folder=folder, keys=signing.folder / "server")
