"""What the lab's relay itself can carry: plain bytes through it, no TLS, no HTTP, nothing checked.

python benchmarks/wan/bare.py --mbit 1000 --rtt 200
"""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from argosy.lab.config import RelayConfig, RelaySite

PIECE = bytes(256 * 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbit", type=float, default=1000.0)
    parser.add_argument("--rtt", type=float, default=200.0, help="ms")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=8.0)
    asked = parser.parse_args()
    size = int(asked.mbit * 1e6 / 8 * asked.seconds / asked.connections)
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as sink:
        site = RelaySite(site="tokyo", port=0, mbit_per_s=asked.mbit, rtt_ms=asked.rtt)
        config = RelayConfig(
            target_port=sink.getsockname()[1],
            control_port=0,
            token="none",
            counters=Path(folder) / "counters.json",
            sites=(site,),
        )
        file = Path(folder) / "relay.json"
        file.write_bytes(config.text())
        relay = subprocess.Popen(
            [sys.executable, "-m", "argosy.lab.relay", str(file)], stdout=subprocess.PIPE, text=True
        )
        assert relay.stdout is not None
        port = json.loads(relay.stdout.readline())["ports"]["tokyo"]
        threads = [
            threading.Thread(target=_send, args=(port, size)) for _ in range(asked.connections)
        ]
        threads += [threading.Thread(target=_take, args=(sink,)) for _ in range(asked.connections)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        passed_s = time.monotonic() - began
        relay.terminate()
        relay.wait(30.0)
        relay.stdout.close()
    share = size * asked.connections * 8 / 1e6 / passed_s / asked.mbit
    print(json.dumps({"mbit_per_s": asked.mbit, "rtt_ms": asked.rtt, "share": round(share, 3)}))


def _send(port: int, size: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as end:
        for at in range(0, size, len(PIECE)):
            end.sendall(PIECE[: min(len(PIECE), size - at)])


def _take(sink: socket.socket) -> None:
    end, _ = sink.accept()
    with end:
        while end.recv(len(PIECE)):
            continue


if __name__ == "__main__":
    main()
