"""The broken files of tests/cases/spec: each says in its own head what a person is told."""

import re
from pathlib import Path

import pytest

from argosy.core.errors import UserError
from argosy.policy import placement
from argosy.spec import check_together, read_fleet, read_job

CASES = Path(__file__).parents[1] / "cases" / "spec"
BROKEN = sorted(CASES.glob("*.yaml"))
HEAD = re.compile(r"# exit (\d+), line (\d+)\n# says: (.+)\n# hint: ?(.*)\n")


def start(job: Path, fleet: Path) -> dict[str, tuple[str, ...]]:
    """What `argosy plan` reads and asks before it looks at any host."""
    wanted, machines = read_job(job), read_fleet(fleet)
    check_together(wanted, machines)
    return placement(wanted, machines)


def test_the_files_that_the_broken_ones_were_made_of_are_good() -> None:
    placed = start(CASES / "good" / "job.yaml", CASES / "good" / "fleet.yaml")

    assert placed == {"frankfurt": ("german",), "tokyo": ("japanese",)}


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.stem)
def test_a_broken_file_is_answered_with_line_message_hint_and_exit_code(case: Path) -> None:
    head = HEAD.match(case.read_text(encoding="utf-8"))
    assert head, "a case begins with its exit code, line, message and hint"
    code, line, says, hint = head.groups()
    good = CASES / "good"
    is_job = case.name.startswith("job-")

    with pytest.raises(UserError) as caught:
        start(case if is_job else good / "job.yaml", good / "fleet.yaml" if is_job else case)

    error = caught.value
    assert error.exit_code == int(code)
    assert error.where == f"{case}:{line}"
    assert error.what.startswith(says)
    assert hint in (error.hint or "")
