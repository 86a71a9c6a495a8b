import asyncio
import contextlib
import shutil
from pathlib import Path

import pytest
from fakes.stage import Quiet, Stage, begun, means

from argosy.core.errors import HostError, NoPlan, SpecError
from argosy.run.folder import LATEST, RunFolder, find
from argosy.run.lead import lead
from argosy.run.resume import resume
from argosy.run.unbegun import forget, forget_unbegun, has_begun


def declined(tmp_path: Path) -> tuple[RunFolder, NoPlan]:
    """A run whose plan the user did not agree to."""
    stage = Stage()

    async def whole() -> RunFolder:
        folder, setup = await begun(tmp_path)
        with pytest.raises(NoPlan, match="not agreed to") as refused:
            await lead(folder, setup, means(stage, Quiet(agrees=False)))
        said.append(refused.value)
        return folder

    said: list[NoPlan] = []
    with contextlib.closing(stage):
        folder = asyncio.run(whole())
    return folder, said[0]


def whole(tmp_path: Path) -> RunFolder:
    stage = Stage()

    async def run() -> RunFolder:
        folder, setup = await begun(tmp_path)
        await lead(folder, setup, means(stage, Quiet()))
        return folder

    with contextlib.closing(stage):
        return asyncio.run(run())


def test_a_run_whose_plan_was_declined_leaves_nothing(tmp_path: Path) -> None:
    folder, why = declined(tmp_path)

    assert forget_unbegun(folder, why)

    assert list((tmp_path / "runs").iterdir()) == []


def test_a_run_that_never_began_is_not_latest_and_cannot_be_resumed(tmp_path: Path) -> None:
    folder, _ = declined(tmp_path)

    assert not has_begun(folder)
    with pytest.raises(SpecError, match="no run has begun yet"):
        find(tmp_path / "runs", LATEST)
    with pytest.raises(SpecError, match="never began") as refused:
        asyncio.run(resume(folder, means(Stage(), Quiet())))
    assert "argosy train" in str(refused.value.hint)


def test_what_a_message_points_at_stays(tmp_path: Path) -> None:
    folder, _ = declined(tmp_path)
    failed = HostError("the measurement failed", hint=f"Its log: {folder.path / 'calibrate.txt'}")

    assert forget_unbegun(folder, failed)

    assert folder.path.is_dir()


def test_a_run_that_began_stays_whatever_ends_it(tmp_path: Path) -> None:
    folder = whole(tmp_path)

    assert not forget_unbegun(folder, KeyboardInterrupt())

    assert folder.path.is_dir()
    assert find(tmp_path / "runs").path == folder.path.resolve()


def test_what_cannot_be_read_is_not_thrown_away(tmp_path: Path) -> None:
    folder, why = declined(tmp_path)
    (folder.logbook / "log.db").write_bytes(b"no database")

    assert not forget_unbegun(folder, why)

    assert folder.path.is_dir()


def test_after_the_newest_run_is_forgotten_latest_is_the_newest_that_began(tmp_path: Path) -> None:
    folder = whole(tmp_path)
    runs = folder.path.parent
    older, broken = runs / "older", runs / "broken"
    shutil.copytree(folder.path, older)
    declined(tmp_path)
    shutil.copytree(folder.path, broken)
    (broken / "logbook" / "log.db").unlink()

    forget(folder)

    assert find(runs).path == older.resolve()
    forget(RunFolder(older))
    assert not (runs / LATEST).is_symlink()
