"""One blob up and down again over a link, in a process of its own; one JSON line with the times."""

import argparse
import json
import os
import resource
import time
from pathlib import Path

from argosy.logbook.client import RemoteLogbook
from argosy.logbook.pace import LANES_MOST


def main() -> None:
    asked = _arguments()
    blob = os.urandom(1 << 20) * (asked.bytes >> 20)
    with RemoteLogbook(asked.url, asked.keys, within_s=60.0, lanes=asked.lanes) as book:
        book.read(1)  # connects, as every host has before it posts
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began, work = time.monotonic(), time.process_time()
        digest = book.put(blob)
        put_s, put_cpu_s = time.monotonic() - began, time.process_time() - work
        began, work = time.monotonic(), time.process_time()
        got = len(book.get(digest))
        get_s, get_cpu_s = time.monotonic() - began, time.process_time() - work
        assert got == len(blob)
        lanes = {"put": book._up.pace.lanes or 1, "get": book._down.pace.lanes or 1}
    told = {
        "bytes": len(blob), "put_s": put_s, "get_s": get_s, "put_cpu_s": put_cpu_s,
        "get_cpu_s": get_cpu_s, "put_lanes": lanes["put"], "get_lanes": lanes["get"],
        "more_memory_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / 1024,
    }  # fmt: skip
    print(json.dumps(told))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("keys", type=Path)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--lanes", type=int, default=LANES_MOST)
    return parser.parse_args()


if __name__ == "__main__":
    main()
