import os
import shutil
import subprocess

import pytest

from argosy.cluster import identity as module
from argosy.cluster.identity import identity


def test_a_process_has_one_identity_as_long_as_it_lives() -> None:
    mine = identity(os.getpid())

    assert mine is not None
    assert identity(os.getpid()) == mine
    assert identity(os.getppid()) != mine


def test_what_does_not_run_has_none_and_neither_has_a_zombie() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "exit 0"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, not collected

        assert identity(child.pid) is None

    assert identity(2**22 + 1) is None


@pytest.mark.skipif(shutil.which("ps") is None, reason="no ps on this machine")
def test_where_there_is_no_proc_ps_is_asked() -> None:
    mine = module._from_ps(os.getpid())

    assert mine is not None
    assert module._from_ps(os.getpid()) == mine
    assert module._from_ps(2**22 + 1) is None
