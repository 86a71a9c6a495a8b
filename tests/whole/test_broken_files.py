"""`argosy plan` over every broken file of tests/cases/spec: what a user reads, and the exit code."""

import re
from pathlib import Path

import pytest

from argosy.cli.main import run

CASES = Path(__file__).parents[1] / "cases" / "spec"
GOOD = CASES / "good"
BROKEN = sorted(CASES.glob("*.yaml"))
HEAD = re.compile(r"# exit (\d+), line (\d+)\n# says: (.+)\n# hint: ?(.*)\n")


def test_there_are_enough_of_them() -> None:
    assert len(BROKEN) >= 10


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.stem)
def test_a_broken_file_is_answered_by_message_line_and_exit_code(
    case: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head = HEAD.match(case.read_text(encoding="utf-8"))
    assert head, "a case begins with its exit code, line, message and hint"
    code, line, says, hint = head.groups()
    job, fleet = (
        (case, GOOD / "fleet.yaml") if case.stem.startswith("job-") else (GOOD / "job.yaml", case)
    )
    monkeypatch.chdir(tmp_path)

    ended = run(["plan", str(job), "--fleet", str(fleet), "--declared"])

    told = capsys.readouterr()
    assert ended == int(code), told.err
    assert told.err.startswith(f"argosy: {case}:{line}: {says}")
    assert hint in told.err
    assert "Traceback" not in told.err + told.out
    assert told.out == ""
    assert list(tmp_path.iterdir()) == [], "a plan that cannot be made leaves nothing behind"
