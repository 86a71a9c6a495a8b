"""A logbook server at one end of a shaped link, a site's keys at the other."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from argosy.core.records import CONTROLLER, Roster, RunBegun, Seat
from argosy.lab.config import RelayConfig, RelaySite
from argosy.logbook.embedded import EmbeddedLogbook
from argosy.logbook.keys import Authority, Pen

RUN = "0198c0de-0000-7000-8000-000000000002"
SITE = "tokyo"
JOB = """version: 1
name: links
model: {config: {model_type: llama}}
sources:
  - {name: text, path: ja.txt, country: JP, personal: no}
training: {tokens: 100000}
policy:
  - {allow: [update, checkpoint, metric], from: [JP], to: JP}
"""
FLEET = """version: 1
home: JP
sites:
  tokyo: {country: JP, link: {mbit_per_s: 100, rtt_ms: 20}, hosts: {tokyo-1: {cores: 1}}}
"""
NEAR, FAR = "argosy-near", "argosy-far"
NEAR_ADDRESS, FAR_ADDRESS = "10.91.7.1", "10.91.7.2"

Starts = Callable[[list[str]], subprocess.Popen[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    mbit_per_s: float
    rtt_ms: float
    loss: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a client stands: what it dials, with which keys, and how to start it there."""

    url: str
    keys: Path
    prefix: tuple[str, ...] = ()  # of a command that runs there

    def run(self, argv: list[str]) -> str:
        return subprocess.run(
            [*self.prefix, *argv], check=True, stdout=subprocess.PIPE, text=True
        ).stdout


@contextlib.contextmanager
def through_relay(link: Link) -> Iterator[Place]:
    """The lab's relay between them: TCP is ended at it, so windows and losses are not the world's."""
    with _begun() as folder, _server(folder, ()) as port:
        config = RelayConfig(
            target_port=port,
            control_port=0,
            token="none",
            counters=folder / "counters.json",
            sites=(RelaySite(site=SITE, port=0, mbit_per_s=link.mbit_per_s, rtt_ms=link.rtt_ms),),
        )
        file = folder / "relay.json"
        file.write_bytes(config.text())
        with _running([sys.executable, "-m", "argosy.lab.relay", str(file)]) as told:
            ports = json.loads(told.readline())["ports"]
            yield Place(url=f"https://127.0.0.1:{ports[SITE]}", keys=folder / "keys" / SITE)


@contextlib.contextmanager
def between_namespaces(link: Link, how: str) -> Iterator[Place]:
    """Two network namespaces joined by netem or by the tunnel: the kernel's own TCP all the way."""
    with contextlib.ExitStack() as undo:
        for name in (NEAR, FAR):
            subprocess.run(["ip", "netns", "add", name], check=True)
            undo.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
        if how == "netem":
            _join_with_netem(link)
        else:
            _join_with_tunnel(link, undo)
        folder = undo.enter_context(_begun())
        inside = ("ip", "netns", "exec", FAR)
        port = undo.enter_context(_server(folder, inside, FAR_ADDRESS))
        yield Place(
            url=f"https://{FAR_ADDRESS}:{port}",
            keys=folder / "keys" / SITE,
            prefix=("ip", "netns", "exec", NEAR),
        )


def how_between_namespaces() -> tuple[str | None, str]:
    """("netem" | "tunnel" | None, why): what this machine can do."""
    if os.geteuid() != 0:
        return None, "not root"
    if not (shutil.which("ip") and shutil.which("tc")):
        return None, "no ip or tc (Debian: iproute2)"
    name = "argosy-try"
    if subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True).returncode:
        return None, "no network namespaces here"
    try:
        tried = subprocess.run(
            ["tc", "-n", name, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)
    if tried.returncode == 0:
        return "netem", "netem"
    why = f"the kernel has no netem ({tried.stderr.strip()})"
    if not Path("/dev/net/tun").exists():
        return None, f"{why} and no /dev/net/tun"
    return "tunnel", f"{why}: the link is made in user space, by benchmarks/wan/tunnel.py"


def _join_with_netem(link: Link) -> None:
    names = (("argosy-va", NEAR, NEAR_ADDRESS), ("argosy-vb", FAR, FAR_ADDRESS))
    (a, near, _), (b, far, _) = names
    subprocess.run(
        ["ip", "link", "add", a, "netns", near, "type", "veth", "peer", "name", b, "netns", far],
        check=True,
    )
    for name, namespace, address in names:
        inside = ["ip", "-n", namespace]
        subprocess.run([*inside, "addr", "add", f"{address}/30", "dev", name], check=True)
        subprocess.run([*inside, "link", "set", name, "up"], check=True)
        subprocess.run([*inside, "link", "set", "lo", "up"], check=True)
        # What is on its way and a tenth of a second of queue must fit.
        packets = int(link.mbit_per_s * 1e6 / 8 * (link.rtt_ms / 2000 + 0.1) / 1500) + 100
        subprocess.run(
            ["tc", "-n", namespace, "qdisc", "add", "dev", name, "root", "netem",
             "delay", f"{link.rtt_ms / 2}ms", "rate", f"{link.mbit_per_s}mbit",
             "loss", f"{100 * link.loss}%", "limit", str(packets)],
            check=True,
        )  # fmt: skip


def _join_with_tunnel(link: Link, undo: contextlib.ExitStack) -> None:
    script = Path(__file__).with_name("tunnel.py")
    told = undo.enter_context(
        _running(
            [sys.executable, str(script), NEAR, NEAR_ADDRESS, FAR, FAR_ADDRESS,
             "--mbit", str(link.mbit_per_s), "--rtt", str(link.rtt_ms), "--loss", str(link.loss)]
        )
    )  # fmt: skip
    assert told.readline() == "ready\n"


@contextlib.contextmanager
def _begun() -> Iterator[Path]:
    """A run that has begun, in memory where that is possible: not the disk is measured."""
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None, prefix="links-") as name:
        folder = Path(name)
        authority = Authority.make(folder / "ca")
        authority.issue_server(RUN, folder / "keys" / "server")
        seats = []
        for site, host in ((CONTROLLER, CONTROLLER), (SITE, f"{SITE}-1")):
            certificate = authority.issue(RUN, site, host, folder / "keys" / site)
            seats.append(Seat(site=site, host=host, country="JP", certificate=certificate))
        pen = Pen.open(folder / "keys" / CONTROLLER, 1)
        begins = RunBegun(
            run=RUN, name="links", argosy="", job=JOB, fleet=FLEET, authority=authority.pem
        )
        with EmbeddedLogbook(folder / "log") as book:
            book.append(pen.sign(begins, 1))
            book.append(pen.sign(Roster(seats=tuple(seats), torch=""), 2))
        yield folder


@contextlib.contextmanager
def _server(folder: Path, prefix: tuple[str, ...], address: str = "127.0.0.1") -> Iterator[int]:
    argv = [*prefix, sys.executable, "-m", "argosy.logbook.server", "--host", address]
    argv += ["--folder", str(folder / "log"), "--keys", str(folder / "keys" / "server")]
    with _running(argv) as told:
        yield json.loads(told.readline())["port"]


@contextlib.contextmanager
def _running(argv: list[str]) -> Iterator[IO[str]]:
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.terminate()
        process.wait(30.0)
        process.stdout.close()
