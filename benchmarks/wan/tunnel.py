"""A long link between two network namespaces, in user space, where the kernel has no netem.

Two TUN devices; what the kernel sends into one is written to the other when a link of that rate and
delay would have delivered it. The kernel hands over segments of up to 64 KB before they are cut
(segmentation offload), so its own TCP, with its own windows and congestion control, crosses it.

    python benchmarks/wan/tunnel.py NAMESPACE ADDRESS NAMESPACE ADDRESS --mbit 100 --rtt 200
"""

import argparse
import fcntl
import os
import random
import select
import struct
import subprocess
import time
from collections import deque

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0  # linux/if_tun.h
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
OFFLOADS = 0x01 | 0x02  # checksums, and TCP over IPv4 in large segments
VIRTIO_HEADER = 10  # bytes before each packet; linux/virtio_net.h
MTU = 1500
OVERHEAD = 38  # bytes of Ethernet around each packet on a wire
QUEUE_S = 0.1  # of the bottleneck, at least; else a round trip, by the old rule of thumb


class Way:
    """One direction: a bottleneck with a bounded queue, then the distance."""

    def __init__(self, source: int, sink: int, bytes_per_s: float, delay_s: float, loss: float):
        self.source, self.sink = source, sink
        self._queue_s = max(QUEUE_S, 2 * delay_s)
        self._bytes_per_s, self._delay_s, self._loss = bytes_per_s, delay_s, loss
        self._free_at = 0.0
        self._under_way: deque[tuple[float, bytes]] = deque()
        self.dropped = 0

    def take(self, most: int = 64) -> None:
        for _ in range(most):
            try:
                packet = os.read(self.source, 65536 + VIRTIO_HEADER)
            except BlockingIOError:
                return
            now = time.monotonic()
            segments = -(-(len(packet) - VIRTIO_HEADER) // MTU)
            begins = max(now, self._free_at)
            lost = self._loss and random.random() < 1 - (1 - self._loss) ** segments
            if begins - now > self._queue_s or lost:
                self.dropped += 1
                continue
            size = len(packet) - VIRTIO_HEADER + OVERHEAD * segments
            self._free_at = begins + size / self._bytes_per_s
            self._under_way.append((self._free_at + self._delay_s, packet))

    def give(self) -> float | None:
        """Deliver what is due; seconds until the next, None when nothing is under way."""
        while self._under_way:
            early_s = self._under_way[0][0] - time.monotonic()
            if early_s > 0:
                return early_s
            try:
                os.write(self.sink, self._under_way.popleft()[1])
            except OSError:
                self.dropped += 1
        return None


def main() -> None:
    asked = _arguments()
    ends = [
        _device(f"argosy-tun{number}", namespace, address)
        for number, (namespace, address) in enumerate(
            ((asked.namespace_a, asked.address_a), (asked.namespace_b, asked.address_b))
        )
    ]
    rate, delay_s = asked.mbit * 1e6 / 8, asked.rtt / 2000
    ways = [Way(a, b, rate, delay_s, asked.loss) for a, b in (ends, ends[::-1])]
    print("ready", flush=True)
    # A poll in whole milliseconds would round every delay up: select takes fractions.
    while True:
        waits = [wait for way in ways if (wait := way.give()) is not None]
        readable, _, _ = select.select(ends, (), (), min(waits, default=1.0))
        for way in ways:
            if way.source in readable:
                way.take()


def _device(name: str, namespace: str, address: str) -> int:
    """A TUN device, opened here and then moved into the namespace."""
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(end, TUNSETOFFLOAD, OFFLOADS)
    inside = ("ip", "-n", namespace)
    for command in (
        ("ip", "link", "set", name, "netns", namespace),
        (*inside, "addr", "add", f"{address}/30", "dev", name),
        (*inside, "link", "set", name, "mtu", str(MTU), "txqueuelen", "10000", "up"),
        (*inside, "link", "set", "lo", "up"),
    ):
        subprocess.run(command, check=True)
    return end


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for end in "ab":
        parser.add_argument(f"namespace_{end}")
        parser.add_argument(f"address_{end}")
    parser.add_argument("--mbit", type=float, required=True)
    parser.add_argument("--rtt", type=float, required=True, help="ms, there and back")
    parser.add_argument("--loss", type=float, default=0.0, help="of packets, from 0 to 1")
    return parser.parse_args()


if __name__ == "__main__":
    main()
