import os
from pathlib import Path

import pytest

from argosy.core.errors import HostError
from argosy.run.folder import RunFolder
from argosy.run.lock import held, holder
from argosy.run.stop import ask_to_stop, wait_until_ended


def test_a_second_controller_is_refused_and_told_who_leads(tmp_path: Path) -> None:
    lock = tmp_path / "controller.lock"

    with held(lock), pytest.raises(HostError, match=f"process {os.getpid()}"), held(lock):
        pass


def test_a_lock_that_was_left_may_be_taken_again(tmp_path: Path) -> None:
    lock = tmp_path / "controller.lock"
    with held(lock):
        inside = holder(lock)

    with held(lock):
        again = holder(lock)

    assert inside == again == os.getpid()
    assert holder(lock) is None


def test_a_lock_is_let_go_when_its_holder_fails(tmp_path: Path) -> None:
    lock = tmp_path / "controller.lock"

    with pytest.raises(ValueError, match="on purpose"), held(lock):
        raise ValueError("on purpose")

    assert holder(lock) is None


def test_a_run_that_was_never_led_has_no_holder(tmp_path: Path) -> None:
    assert holder(tmp_path / "controller.lock") is None


def test_a_run_without_a_controller_cannot_be_asked_to_stop(tmp_path: Path) -> None:
    assert not ask_to_stop(RunFolder(tmp_path), now=True)


def test_waiting_for_the_end_says_whether_it_came(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)

    with held(folder.lock):
        in_vain = wait_until_ended(folder, within_s=0.0)

    assert not in_vain
    assert wait_until_ended(folder, within_s=0.0)
