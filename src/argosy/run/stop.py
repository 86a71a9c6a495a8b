"""Ending a run early: gracefully, or at once so that it can be resumed."""

import os
import signal
import time

from argosy.core.errors import HostError
from argosy.run import lock
from argosy.run.folder import RunFolder

LOOK_EVERY_S = 0.1


def ask_to_stop(folder: RunFolder, *, now: bool) -> bool:
    """Tell the run's controller: `now` is its Ctrl-C, else one last round. False: there is none."""
    pid = lock.holder(folder.lock)
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGINT if now else signal.SIGTERM)
    except ProcessLookupError:
        return False
    except PermissionError:
        raise HostError(
            f"the controller (process {pid}) belongs to another user", where=str(folder.path)
        ) from None
    return True


def wait_until_ended(folder: RunFolder, *, within_s: float) -> bool:
    """Whether the controller has let go of the run within the time."""
    deadline = time.monotonic() + within_s
    while lock.holder(folder.lock) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_EVERY_S)
    return True
