import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.stage import FLEET, JOB, Quiet, Stage, means

from argosy.cli import main as cli
from argosy.cli import train as way
from argosy.core.fleet import Fleet
from argosy.core.job import Job
from argosy.core.plan import Plan
from argosy.run.folder import find


class Interrupted(Quiet):
    def planned(self, job: Job, fleet: Fleet, plan: Plan) -> bool:  # noqa: ARG002
        raise KeyboardInterrupt


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """`argosy train job.yaml --declared` in an empty folder, on a stage instead of machines."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "fleet.yaml").write_text(FLEET)
    with contextlib.closing(Stage()) as acting:
        monkeypatch.setattr(way, "means", lambda audience: means(acting, audience))
        yield acting


def watched_by(quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way, "audience", lambda **_: quiet)


def test_a_plan_that_is_declined_leaves_no_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched_by(Quiet(agrees=False), monkeypatch)

    assert cli.run(["train", "job.yaml", "--declared"]) == 3

    said = capsys.readouterr()
    assert "the plan was not agreed to" in said.err
    assert "source german lies at its site and was not looked at" in said.err
    assert list(Path("runs").iterdir()) == []
    assert stage.done[-1] == "release"


def test_ctrl_c_at_the_question_leaves_no_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched_by(Interrupted(), monkeypatch)

    assert cli.run(["train", "job.yaml", "--declared"]) == 130

    assert "resume" not in capsys.readouterr().err
    assert list(Path("runs").iterdir()) == []


def test_a_plan_that_is_agreed_to_becomes_the_latest_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched_by(Quiet(), monkeypatch)

    assert cli.run(["train", "job.yaml", "--declared"]) == 0

    (folder,) = [path for path in Path("runs").iterdir() if not path.is_symlink()]
    assert find(Path("runs")).path == folder.resolve()
    assert "audit   ok" in capsys.readouterr().out
