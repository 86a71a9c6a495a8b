"""What both ends ask of TCP. No root is needed; what a system does not know is left out.

Tried and measured in docs/measured/links.md. The sizes of socket buffers are left to the kernel on
purpose: to set one turns its own fitting off, and caps it at net.core.[rw]mem_max, 208 KiB mostly.
"""

import socket

Option = tuple[int, int, int]

KEEP_IDLE_S = 30  # of silence, then probes: NAT forgets a silent connection after minutes
KEEP_EVERY_S = 10
KEEP_TRIES = 3
UNACKNOWLEDGED_MS = 30_000  # what was sent and not acknowledged for so long was sent into the void
UNSENT = 256 * 1024  # bytes waiting in the kernel: more would only wait there, and be lost in a cut

_WANTED = (
    (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", KEEP_IDLE_S),
    (socket.IPPROTO_TCP, "TCP_KEEPALIVE", KEEP_IDLE_S),  # macOS has this name for it
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", KEEP_EVERY_S),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", KEEP_TRIES),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS),
    (socket.IPPROTO_TCP, "TCP_NOTSENT_LOWAT", UNSENT),
)
OPTIONS: list[Option] = [
    (level, getattr(socket, name), value) for level, name, value in _WANTED if hasattr(socket, name)
]
