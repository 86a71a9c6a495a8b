"""A full disk without root: no file of a process may grow beyond a little more than its log.

The limit is the system's own (RLIMIT_FSIZE), set from outside on a running process. A write past
it stores what still fits and then fails, with EFBIG where a full disk says ENOSPC: the one
difference. Small files can still be written; checkpoints and blobs break off in the middle.
"""

import resource
from pathlib import Path

from argosy.core.errors import HostError

_LEFT_BYTES = 64 * 1024


def limit_files(pid: int, log: Path, *, full: bool) -> None:
    """Of this process, and of those it starts from now on."""
    if not hasattr(resource, "prlimit"):  # Linux only
        raise HostError("a full disk cannot be imitated on this system", where="faults")
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    soft = log.stat().st_size + _LEFT_BYTES if full else hard
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
