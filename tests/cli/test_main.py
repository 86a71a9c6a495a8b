import subprocess
import sys
from pathlib import Path

import pytest
from fakes.stage import FLEET, JOB

from argosy import __version__
from argosy.cli import main as cli
from argosy.cli import runs as shelf
from argosy.core.errors import DamagedError, DiskError, HostError, PolicyError, SpecError, UserError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every command writes below the folder it is called in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"argosy {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["train", "--help"], ["export"]])
def test_help_is_no_mistake(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run(arguments)

    said = capsys.readouterr()
    assert "Usage" in said.out + said.err
    assert code in (0, 2)
    assert "Traceback" not in said.out + said.err


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["--help"])

    said = capsys.readouterr().out
    for command in (
        "train", "plan", "resume", "stop", "list", "status", "logs", "rm", "watch", "audit",
        "evaluate", "generate", "export", "init", "schema",
    ):  # fmt: skip
        assert f" {command} " in said


def test_help_needs_none_of_the_heavy_rooms() -> None:
    program = (
        "import sys; from argosy.cli import main; main.run(['--help'])\n"
        "heavy = {'torch', 'transformers', 'numpy', 'httpx', 'uvicorn', 'pydantic', 'cryptography'}"
        "\nprint(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )

    said = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )

    assert said.stderr.strip() == "[]"


@pytest.mark.parametrize("arguments", [["fly"], ["train"], ["list", "--colour"]])
def test_a_command_that_is_not_understood_has_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("argosy: ")
    assert "--help` says what it takes" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["generate", "latest", "x", "--tokens", "-5"],
            "argosy: generate: invalid value for '--tokens'",
        ),
        (["generate", "latest", "x", "--temperature", "-1"], "argosy: generate: invalid value for"),
        (
            ["generate", "latest", "x", "--seed", "-1"],
            "argosy: generate: invalid value for '--seed'",
        ),
        (["logs", "latest", "-n", "0"], "argosy: logs: invalid value for '--lines'"),
        (["train", "job.yaml", "--port", "70000"], "argosy: train: invalid value for '--port'"),
        (["export", "metrics"], "argosy: export metrics: missing"),
        (["fly"], "argosy: no such command 'fly'"),
    ],
)
def test_a_bad_value_is_told_as_every_other_mistake(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == 2
    assert capsys.readouterr().err.startswith(says)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UserError("no"), 1),
        (SpecError("no"), 2),
        (PolicyError("no"), 3),
        (HostError("no"), 4),
        (DiskError("no"), 5),
        (DamagedError("no"), 6),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_become_messages_and_exit_codes(
    error: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(shelf, "list_runs", fail)

    assert cli.run(["list"]) == code
    said = capsys.readouterr().err
    assert "argosy:" in said
    assert "Traceback" not in said


def test_what_nobody_foresaw_goes_into_a_file_and_not_to_the_user(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(shelf, "list_runs", fail)

    assert cli.run(["list"]) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "runs/error.log" in said
    assert "ZeroDivisionError: a bug" in (here / "runs" / "error.log").read_text()


@pytest.mark.parametrize("option", [["--runs", "mine/runs"], ["--runs=mine/runs"]])
def test_the_details_go_where_the_runs_are(
    option: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    here: Path,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(shelf, "list_runs", fail)

    assert cli.run(["list", *option]) == 1
    assert "mine/runs/error.log" in capsys.readouterr().err
    assert (here / "mine" / "runs" / "error.log").is_file()
    assert not (here / "runs").exists()


def test_details_that_cannot_be_written_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(shelf, "list_runs", fail)
    (here / "runs").write_text("a file in the way")

    assert cli.run(["list"]) == 1
    assert "ZeroDivisionError: a bug" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "plan"])
def test_without_lab_and_declared_that_is_said_before_anything_is_made(
    command: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "job.yaml").write_text(JOB)
    (here / "fleet.yaml").write_text(FLEET)

    assert cli.run([command, "job.yaml"]) == 2
    assert capsys.readouterr().err.startswith(f"argosy: {command}: nothing to measure")
    assert not (here / "runs").exists()


def test_the_program_ends_with_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["argosy", "fly"])

    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 2


def test_a_job_without_a_fleet_is_refused_by_train_and_plan(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "job.yaml").write_text(JOB)

    for command in (["train", "job.yaml", "--lab"], ["plan", "job.yaml", "--lab"]):
        assert cli.run(command) == 2
        assert "no fleet" in capsys.readouterr().err
    assert not (here / "runs").exists()


def test_a_mistake_in_a_file_names_its_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "job.yaml").write_text(JOB.replace("tokens: 4000", "tokens: many"))
    (here / "fleet.yaml").write_text(FLEET)

    assert cli.run(["train", "job.yaml", "--lab", "--yes"]) == 2
    assert "job.yaml:7" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["resume"], ["stop"], ["status"], ["logs"], ["audit"], ["rm", "x"], ["watch"]]
)
def test_where_there_is_no_run_that_is_said(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(command) == 2
    said = capsys.readouterr().err
    assert "There is no run in runs yet" in said
    assert "argosy train" in said
