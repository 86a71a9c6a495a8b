"""How much of a long link one blob uses: `python benchmarks/wan/links.py`.

A server and a client with the lab's relay between them, at every round trip and rate: put and get of
one blob that takes `--seconds`, over one connection and in parallel ranges. `--netns` (root) measures
the same over the kernel's own TCP, between two network namespaces joined by netem, or by a link in
user space where the kernel has none.
"""

import argparse
import csv
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.logbook.pace import LANES_MOST

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from wan.places import (
    Link,
    Place,
    between_namespaces,
    how_between_namespaces,
    through_relay,
)

CARRY = Path(__file__).with_name("carry.py")
COLUMNS = (
    "over", "rtt_ms", "mbit_per_s", "loss", "connections", "bytes", "put_s", "get_s", "put_share",
    "get_share", "put_lanes", "get_lanes", "put_cpu_s", "get_cpu_s", "more_memory_mb", "idle",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    links: tuple[Link, ...]
    seconds: float
    lanes: tuple[int, ...]


def main() -> None:
    arguments = _arguments()
    links = tuple(
        Link(rtt_ms=rtt, mbit_per_s=mbit, loss=arguments.loss)
        for rtt in arguments.rtt
        for mbit in arguments.mbit
    )
    asked = Asked(links=links, seconds=arguments.seconds, lanes=tuple(arguments.lanes))
    rows = []
    print(
        f"{'over':8} {'rtt':>5} {'Mbit/s':>7} {'lanes':>6} {'put':>7} {'get':>7} {'idle':>5}   seconds"
    )
    for row in _measured(asked, arguments):
        rows.append(row)
        print(
            f"{row['over']:8} {row['rtt_ms']:5.0f} {row['mbit_per_s']:7.0f}"
            f" {row['connections']:6} {row['put_share']:7.1%} {row['get_share']:7.1%}"
            f" {row['idle']:5.0%}"
            f"   {row['put_s']:.1f}, {row['get_s']:.1f}",
            flush=True,
        )
    if arguments.csv:
        _write(arguments.csv, rows)
    if arguments.json:
        at = time.strftime("%Y-%m-%d", time.gmtime())
        print(json.dumps({"at": at, "seconds": arguments.seconds, "rows": rows}))


def _measured(asked: Asked, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if not arguments.no_relay:
        for link in asked.links:
            with through_relay(link) as place:
                yield from _rows("relay", link, place, asked)
    if arguments.netns:
        how, why = how_between_namespaces()
        if how is None:
            print(f"SKIPPED, --netns: {why}", file=sys.stderr)
            return
        print(f"--netns: {why}", file=sys.stderr)
        for link in asked.links:
            with between_namespaces(link, how) as place:
                yield from _rows(how, link, place, asked)


def _rows(over: str, link: Link, place: Place, asked: Asked) -> Iterator[dict[str, Any]]:
    size = int(link.mbit_per_s * 1e6 / 8 * asked.seconds)
    for lanes in asked.lanes:
        argv = [sys.executable, str(CARRY), place.url, str(place.keys)]
        before = _cores()
        said = place.run([*argv, "--bytes", str(size), "--lanes", str(lanes)])
        told = json.loads(said.splitlines()[-1])
        idle, passed = (now - then for now, then in zip(_cores(), before, strict=True))
        ideal_s = told["bytes"] * 8 / 1e6 / link.mbit_per_s
        row = {
            "over": over, "rtt_ms": link.rtt_ms, "mbit_per_s": link.mbit_per_s, "loss": link.loss,
            "connections": "one" if lanes == 1 else f"<={lanes}", **told,
            "put_share": ideal_s / told["put_s"], "get_share": ideal_s / told["get_s"],
            "idle": idle / max(1, passed),
        }  # fmt: skip
        yield {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}


def _cores() -> tuple[int, int]:
    """Time that all cores together were idle, and that passed, in ticks (Linux): a machine without
    idle time is measured, not the link."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0, 0
    ticks = [int(number) for number in stat.read_text().splitlines()[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def _write(file: Path, rows: list[dict[str, Any]]) -> None:
    with file.open("w", newline="") as out:
        table = csv.DictWriter(out, COLUMNS)
        table.writeheader()
        table.writerows(rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rtt", type=float, nargs="+", default=[20, 90, 200], help="ms")
    parser.add_argument("--mbit", type=float, nargs="+", default=[100, 500, 1000], help="Mbit/s")
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, LANES_MOST])
    parser.add_argument("--loss", type=float, default=0.0, help="with --netns only, from 0 to 1")
    parser.add_argument("--seconds", type=float, default=12.0, help="that a blob takes at best")
    parser.add_argument("--netns", action="store_true", help="also over the kernel's own TCP")
    parser.add_argument("--no-relay", action="store_true", help="only --netns")
    parser.add_argument("--csv", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return parser.parse_args()


if __name__ == "__main__":
    main()
