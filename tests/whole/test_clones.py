"""Two runs at once, one under a path with a space; nothing is written anywhere else."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.whole import OWN, Run, Town, entries_of

from argosy.lab import checkers
from argosy.lab.checkers import OK
from argosy.run.audit import audit

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

TWO = {"frankfurt": ("frankfurt-1",), "tokyo": ("tokyo-1",)}


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder below, with size and time: links are not followed."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if not path.is_dir() or path.is_symlink()
    }


def test_two_clones_at_once_and_nothing_outside_of_them(
    tmp_path: Path, keep: Callable[[Run], Run]
) -> None:
    places = [tmp_path / "a town with a space" / "work", tmp_path / "second" / "work"]
    elsewhere = {name: tmp_path / name for name in ("HOME", "TMPDIR")}
    for folder in (*places, *elsewhere.values()):
        folder.mkdir(parents=True)
    (elsewhere["HOME"] / ".profile").write_text("# mine\n")
    surroundings = {name: str(folder) for name, folder in elsewhere.items()}
    jobs = [Town(hosts=TWO, model=OWN).write(place / "job") for place in places]
    before = {folder: listing(folder) for folder in (job.parent for job in jobs)}
    home = listing(elsewhere["HOME"])

    options = ("--lab", "--yes", "--declared")
    runs = [
        keep(Run(place, "argosy", "train", str(job), *options, surroundings=surroundings))
        for place, job in zip(places, jobs, strict=True)
    ]
    for run in runs:
        run.wait_for_round(2)
    both = [run.alive() for run in runs]
    codes = [run.stop() for run in runs]

    assert all(len(alive) >= 5 for alive in both), "they were at work at the same time"
    assert codes == [0, 0], [run.said for run in runs]
    for run in runs:
        entries = entries_of(run.folder)
        assert audit(run.folder).ok
        assert checkers.same_model(entries, at_the_end=TWO) == OK
        assert run.folder.report.is_file()
        assert (run.folder.model / "model.safetensors").is_file()
        assert run.alive() == {}
    for job in jobs:
        assert listing(job.parent) == before[job.parent], "the job's own folder was changed"
    assert {path.name for place in places for path in place.iterdir() if path.is_dir()} == {
        "job",
        "runs",
    }
    assert listing(elsewhere["HOME"]) == home
    assert listing(elsewhere["TMPDIR"]) == {}, "something was left among the temporary files"
    moved = tmp_path / "moved"
    shutil.move(runs[0].folder.path, moved)
    assert audit(type(runs[0].folder)(moved)).ok, "a run is as good anywhere else"
