"""Which process is it? A pid alone may be a stranger's by now; with its start time it is not."""

import subprocess
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def identity(pid: int) -> str | None:
    """When this process started, or None when it runs no more (a zombie does not run)."""
    return _from_proc(pid) if _BOOT.exists() else _from_ps(pid)


def _from_proc(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in brackets and may hold spaces and brackets itself.
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return f"{_BOOT.read_text().strip()}:{int(fields[19])}"  # ticks since boot, and which boot


def _from_ps(pid: int) -> str | None:
    asked = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, started = asked.stdout.strip().partition(" ")
    return started.strip() if started and not state.startswith("Z") else None
