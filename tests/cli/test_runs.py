import asyncio
import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from fakes.stage import Quiet, Stage, begun, means

from argosy.cli import main as cli
from argosy.cli.afterwards import leave_report
from argosy.run import lock
from argosy.run.folder import RunFolder, find
from argosy.run.lead import lead


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, told by actors; tests get copies."""
    stage, place = Stage(), tmp_path_factory.mktemp("original")

    async def whole() -> None:
        folder, setup = await begun(place)
        await lead(folder, setup, means(stage, Quiet()))

    with contextlib.closing(stage):
        asyncio.run(whole())
    return place / "runs"


@pytest.fixture
def folder(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    shutil.copytree(original, tmp_path / "runs", symlinks=True)
    monkeypatch.chdir(tmp_path)
    return find(Path("runs"))


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert cli.run(arguments) == code, capsys.readouterr().err
    return capsys.readouterr().out


def test_runs_are_listed(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    line = said(capsys, "list")
    (row,) = json.loads(said(capsys, "list", "--json"))

    header, line = line.splitlines()
    assert header.split() == ["run", "status", "rounds", "tokens"]
    assert folder.name in line
    assert "done" in line
    assert row["name"] == folder.name
    assert row["status"] == "done"
    assert row["sites"]["frankfurt"]["country"] == "DE"


def test_without_runs_the_list_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert said(capsys, "list") == "no runs in runs yet: argosy train JOB begins one\n"
    assert said(capsys, "list", "--json") == "[]\n"


def test_the_status_of_a_run(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "status", folder.name)
    told = json.loads(said(capsys, "status", "--json"))

    assert "frankfurt (DE)" in text
    assert told["round"] > 0
    assert told["story"]["outcome"] == "done"


def test_a_run_with_a_controller_is_running_and_cannot_be_removed(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with lock.held(folder.lock):
        assert cli.run(["rm", "latest", "--yes"]) == 4
    assert "argosy stop" in capsys.readouterr().err
    assert folder.path.is_dir()


def test_the_audit_says_ok_or_what_is_wrong_and_has_its_exit_code(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "audit").startswith("ok:")
    assert json.loads(said(capsys, "audit", "--json"))["first_wrong"] is None
    victim = next(path for path in (folder.logbook / "blobs").rglob("*") if path.is_file())
    victim.write_bytes(b"forged")

    told = json.loads(said(capsys, "audit", "--json", code=6))

    assert told["ok"] is False
    assert told["first_wrong"]["what"] == "blob"
    assert said(capsys, "audit", code=6).startswith("wrong:")


def test_logs_are_shown_for_one_host_or_for_all(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    for host in ("frankfurt-1", "virginia-1"):
        folder_of = folder.log("virginia" if "virginia" in host else "frankfurt", host)
        folder_of.write_text(f"one\ntwo\n{host} says three\n")

    one = said(capsys, "logs", "latest", "frankfurt-1", "-n", "1")
    every = said(capsys, "logs", "latest", "-n", "1")

    assert one == "frankfurt-1 says three\n"
    assert "virginia-1: virginia-1 says three\n" in every


def test_the_log_of_a_host_that_is_not_there(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder.log("frankfurt", "frankfurt-1")).write_text("one\n")

    assert cli.run(["logs", "latest", "paris-1"]) == 2
    assert "frankfurt-1" in capsys.readouterr().err


def test_without_files_evaluate_shows_what_the_sites_found(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert json.loads(said(capsys, "evaluate", "--json")) == {}
    assert cli.run(["evaluate"]) == 2
    assert "no site has evaluated" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named_whole(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["evaluate", "latest", "/no/such.txt"]) == 2

    told = capsys.readouterr().err
    assert told.startswith("argosy: /no/such.txt: there is no such file or folder\n")
    assert "evaluate RUN FILE" in told
    Path("notes.md").write_text("text")
    assert cli.run(["evaluate", "latest", "notes.md"]) == 2
    assert capsys.readouterr().err.startswith("argosy: notes.md: this is of no kind that")


def test_a_temperature_that_is_no_number_is_refused(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["generate", "latest", "x", "--temperature", "inf"]) == 2
    assert "argosy: --temperature: expected a number, got inf" in capsys.readouterr().err


def test_without_its_job_file_a_run_says_that_and_no_other_thing(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.job.unlink()

    assert "frankfurt" in said(capsys, "status")
    assert cli.run(["generate", "latest", "x"]) == 2
    assert "job.yaml of this run cannot be read" in capsys.readouterr().err


def cut_off(folder: RunFolder, after: str) -> None:
    """The logbook as it was when the last record of this kind had been written."""
    with contextlib.closing(sqlite3.connect(folder.logbook / "log.db")) as db:
        rows = db.execute("SELECT seq, CAST(raw AS TEXT) FROM records ORDER BY seq").fetchall()
        last = max(seq for seq, raw in rows if f'"kind":"{after}"' in raw)
        db.execute("DELETE FROM records WHERE seq > ?", (last,))
        db.commit()


def test_a_run_that_nobody_leads_has_one_status_and_is_told_to_be_resumable(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    cut_off(folder, "commit")

    text = said(capsys, "status")

    assert text.startswith(f"{folder.name}: unled (no controller leads it: argosy resume")
    assert "running" not in text
    assert json.loads(said(capsys, "status", "--json"))["story"]["outcome"] == "unled"
    with lock.held(folder.lock):
        assert said(capsys, "status").startswith(f"{folder.name}: running\n")


def test_a_run_that_never_began_is_marked_and_has_no_model(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    cut_off(folder, "roster")

    assert f"{folder.name}: never began (argosy rm" in said(capsys, "status")
    assert "never began" in said(capsys, "list")
    assert cli.run(["resume", "latest", "--yes"]) == 2
    assert "never began" in capsys.readouterr().err
    assert cli.run(["generate", "latest", "x"]) == 2
    assert "argosy status" in capsys.readouterr().err
    with lock.held(folder.lock):
        assert "planning" in said(capsys, "list")


@pytest.mark.parametrize("harm", ["garbage", "gone", "empty"])
def test_one_broken_run_hides_no_other_and_is_marked(
    folder: RunFolder, capsys: pytest.CaptureFixture[str], harm: str
) -> None:
    broken = folder.path.with_name("2000-01-01-broken-00000000")
    shutil.copytree(folder.path, broken)
    log = broken / "logbook" / "log.db"
    match harm:
        case "garbage":
            log.write_bytes(b"x" * 8192)
        case "gone":
            log.unlink()
        case _:
            log.write_bytes(b"")

    text = said(capsys, "list")
    rows = json.loads(said(capsys, "list", "--json"))

    assert folder.name in text
    assert f"\nbroken: runs/{broken.name}/logbook: " in text
    assert "argosy" in text.split("broken: ")[1], "what now"
    assert {row["name"]: row["status"] for row in rows} == {
        folder.name: "done", broken.name: "broken",
    }  # fmt: skip


def test_metrics_are_exported(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "export", "metrics", "latest", "--to", "out")

    assert "metrics.csv" in text
    assert "train/loss" in Path("out/metrics.csv").read_text()


def test_watching_a_run_that_has_ended_shows_it_and_ends(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, "watch")

    assert "round 1: frankfurt, virginia" in text


def test_a_removed_run_is_gone_and_latest_points_at_the_one_before(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    older = folder.path.with_name("2000-01-01-older-00000000")
    shutil.copytree(folder.path, older)

    said(capsys, "rm", folder.name, "--yes")

    assert not folder.path.exists()
    assert find(Path("runs")).name == older.name
    said(capsys, "rm", older.name, "--yes")
    assert not (Path("runs") / "latest").is_symlink()


def test_nothing_is_removed_when_nobody_can_agree(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["rm", folder.name]) == 2
    assert "--yes" in capsys.readouterr().err
    assert folder.path.is_dir()


def test_a_run_that_has_ended_is_neither_stopped_nor_resumed(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "has ended already" in said(capsys, "stop")
    assert cli.run(["resume"]) == 2


def test_a_run_leaves_its_report_its_proof_and_a_summary(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.model.mkdir()

    proof = leave_report(folder)

    text = capsys.readouterr().out
    assert proof.ok
    assert "audit   ok" in text
    assert "report" in text
    assert "<html" in folder.report.read_text()
    assert "# small" in (folder.model / "README.md").read_text()
