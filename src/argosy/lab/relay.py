"""The relay process: every site's one way to the logbook, as slow and frail as the world's.

It forwards TCP bytes unread (they are TLS). What it does not imitate: packet loss, and TCP's slow
start; a connection has the link's whole rate at once, after the one round trip that opens it.
"""

import asyncio
import json
import logging
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from argosy.cluster.whole import write_whole
from argosy.core.errors import DamagedError, HostError, UserError
from argosy.lab.config import read_config
from argosy.lab.control import serve_control
from argosy.lab.door import Door

_COUNT_EVERY_S = 0.5


class Relay:
    """A door for each site, one logbook behind them all, and what has crossed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._config = read_config(file)
        self._doors: dict[str, Door] = {}
        self._written: dict[str, dict[str, int]] | None = None

    async def run(self, stop: asyncio.Event, ready: Callable[[dict[str, int]], None]) -> None:
        """Opens the doors, says their ports, and closes them when told to stop."""
        before = read_counters(self._config.counters)
        try:
            control = await serve_control(self._config.control_port, self._config.token, self._obey)
        except OSError as problem:
            raise HostError(
                f"port {self._config.control_port} cannot be had: {problem.strerror}",
                where=str(self._file),
            ) from problem
        try:
            for site in self._config.sites:
                target = ("127.0.0.1", self._config.target_port)
                self._doors[site.site] = Door(site, target, before.get(site.site, {}))
            self._remember(control.sockets[0].getsockname()[1])
            ready(self._ports())
            while not stop.is_set():
                self._write_counters()
                try:
                    await asyncio.wait_for(stop.wait(), _COUNT_EVERY_S)
                except TimeoutError:
                    continue
        finally:
            control.close()
            await asyncio.gather(*(door.close() for door in self._doors.values()))
            self._write_counters(sync=True)

    def _ports(self) -> dict[str, int]:
        return {site: door.port for site, door in self._doors.items()}

    def _obey(self, order: dict[str, Any]) -> dict[str, Any]:
        match order.pop("do"):
            case "status":
                return {"ports": self._ports(), "sites": self._counted()}
            case "target":
                self._aim(int(order["port"]))
            case "link":
                door, direction = self._doors[order.pop("site")], order.pop("direction", None)
                door.shape(direction, **{name: float(value) for name, value in order.items()})
            case "cut":
                self._doors[order["site"]].cut(order.get("how", "reset"))
            case "stall":
                self._doors[order["site"]].stall(order.get("direction"))
            case "heal":
                self._doors[order["site"]].heal()
            case other:
                raise ValueError(f"no order {other}")
        return {}

    def _aim(self, port: int) -> None:
        for door in self._doors.values():
            door.target = ("127.0.0.1", port)
        self._config = replace(self._config, target_port=port)
        write_whole(self._file, self._config.text(), mode=0o600)

    def _remember(self, control_port: int) -> None:
        """The ports it got go into its file: workers have been told them, a next life needs them."""
        sites = tuple(replace(s, port=self._doors[s.site].port) for s in self._config.sites)
        self._config = replace(self._config, control_port=control_port, sites=sites)
        write_whole(self._file, self._config.text(), mode=0o600)

    def _counted(self) -> dict[str, dict[str, int]]:
        return {site: door.counted() for site, door in self._doors.items()}

    def _write_counters(self, *, sync: bool = False) -> None:
        counted = self._counted()
        if counted == self._written or not counted:
            return
        told = {"version": 1, "at_ms": time.time_ns() // 1_000_000, "sites": counted}
        # Without fsync twice a second: a slow disk would hold up every link.
        write_whole(self._config.counters, json.dumps(told, indent=1).encode(), sync=sync)
        self._written = counted


def read_counters(file: Path) -> dict[str, dict[str, int]]:
    """Per site: bytes "up" and "down", connections "opened" and "refused". {}: not counted yet."""
    try:
        sites = json.loads(file.read_bytes())["sites"]
        return {site: {what: int(n) for what, n in row.items()} for site, row in sites.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, AttributeError, TypeError) as problem:
        raise DamagedError("not a relay's counters", where=str(file)) from problem


async def _main(file: Path) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await Relay(file).run(stop, _say_ready)


def _say_ready(ports: dict[str, int]) -> None:
    sys.stdout.write(json.dumps({"event": "ready", "ports": ports}) + "\n")
    sys.stdout.flush()


def main(file: Path) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    try:
        asyncio.run(_main(file))
    except UserError as problem:
        sys.stderr.write(f"{problem}\n")
        return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
