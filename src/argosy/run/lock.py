"""At most one controller for a run: a lock that dies with its process."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from argosy.core.errors import HostError

TRIES = 5  # somebody who asks `holder` has the lock for an instant


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the run. A second controller is refused, and told who has it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not any(_taken(handle, attempt) for attempt in range(TRIES)):
            raise HostError(
                f"another controller (process {_pid_in(path) or 'unknown'}) already leads this run",
                where=str(path.parent),
                hint="Watch it with `argosy watch`, or end it with `argosy stop`.",
            )
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def holder(path: Path) -> int | None:
    """The process that leads the run now; None when nobody does."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _pid_in(path)
    finally:
        os.close(handle)
    return None


def _taken(handle: int, attempt: int) -> bool:
    time.sleep(0.02 if attempt else 0.0)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pid_in(path: Path) -> int | None:
    text = path.read_text(encoding="utf-8").strip()
    return int(text) if text.isdigit() else None
