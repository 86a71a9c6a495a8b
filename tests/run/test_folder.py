import os
from pathlib import Path

import pytest

from argosy.core.errors import DiskError, SpecError
from argosy.core.records import CONTROLLER
from argosy.run.folder import (
    RunFolder,
    create,
    everyone,
    find,
    new_id,
    point_latest_at,
    spec_text,
)

AT_MS = 1_764_547_200_000  # 2025-12-01 in UTC, or the day before


def a_run(runs: Path, job: str, *, at_ms: int = AT_MS, age_s: int = 0) -> RunFolder:
    folder = create(runs, job, new_id(at_ms))
    folder.job.write_text("version: 1\n")
    os.utime(folder.job, (10_000_000 - age_s, 10_000_000 - age_s))
    return folder


def test_an_id_is_a_uuid_of_version_7_and_begins_with_its_time() -> None:
    first, second = new_id(AT_MS), new_id(AT_MS + 1)

    assert [len(part) for part in first.split("-")] == [8, 4, 4, 4, 12]
    assert first[14] == "7"
    assert first[19] in "89ab"
    assert int(first.replace("-", "")[:12], 16) == AT_MS
    assert first < second
    assert new_id(AT_MS) != first


def test_a_run_folder_is_named_for_day_job_and_id(tmp_path: Path) -> None:
    run = new_id(AT_MS)

    folder = create(tmp_path / "runs", "Three Continents!", run)

    assert folder.name.endswith(f"-three-continents-{run[-8:]}")
    assert folder.name.startswith("2025-1")
    assert (folder.path / "keys").stat().st_mode & 0o777 == 0o700


def test_a_job_without_a_letter_still_has_a_folder(tmp_path: Path) -> None:
    assert "-job-" in create(tmp_path, "!!", new_id()).name


def test_latest_points_at_the_newest_run_relatively(tmp_path: Path) -> None:
    newest = a_run(tmp_path, "two")
    point_latest_at(a_run(tmp_path, "one"))
    point_latest_at(newest)

    link = tmp_path / "latest"

    assert str(link.readlink()) == newest.name
    assert find(tmp_path).path == newest.path.resolve()


def test_a_run_is_found_by_path_name_beginning_or_id(tmp_path: Path) -> None:
    folder = a_run(tmp_path, "german")
    a_run(tmp_path, "french")

    for name in (str(folder.path), folder.name, folder.name[:-3], folder.name[-8:]):
        assert find(tmp_path, name).path == folder.path.resolve()


def test_a_name_that_fits_several_runs_is_refused_with_all_of_them(tmp_path: Path) -> None:
    one, two = a_run(tmp_path, "german"), a_run(tmp_path, "german")

    with pytest.raises(SpecError) as refused:
        find(tmp_path, one.name[:12])

    assert one.name in refused.value.what
    assert two.name in refused.value.what


@pytest.mark.parametrize("name", ["spanish", "", "no/such/path"])
def test_a_run_that_is_not_there_is_said_with_those_that_are(tmp_path: Path, name: str) -> None:
    folder = a_run(tmp_path, "german")

    with pytest.raises(SpecError) as refused:
        find(tmp_path, name)

    assert folder.name in str(refused.value.hint)


def test_where_no_run_has_been_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no run yet"):
        find(tmp_path / "runs")


def test_where_no_run_has_begun_that_is_said_with_those_that_have_not(tmp_path: Path) -> None:
    folder = a_run(tmp_path, "german")

    with pytest.raises(SpecError, match="no run has begun yet") as refused:
        find(tmp_path)

    assert folder.name in str(refused.value.hint)


def test_a_run_without_its_job_file_is_still_a_run_and_says_what_is_missing(tmp_path: Path) -> None:
    folder = a_run(tmp_path, "german")
    folder.job.unlink()

    assert find(tmp_path, folder.name).path == folder.path.resolve()
    assert [each.name for each in everyone(tmp_path)] == [folder.name]
    with pytest.raises(SpecError, match=r"job\.yaml of this run cannot be read") as refused:
        spec_text(folder.job)
    assert refused.value.where == str(folder.path)


def test_a_link_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    folder = a_run(tmp_path, "german")
    (tmp_path / "latest" / "in-the-way").mkdir(parents=True)

    with pytest.raises(DiskError, match="link could not be written"):
        point_latest_at(folder)


def test_runs_are_listed_with_the_newest_first_and_each_once(tmp_path: Path) -> None:
    old, new = a_run(tmp_path, "old", age_s=60), a_run(tmp_path, "new")
    (tmp_path / "notes").mkdir()

    assert [folder.name for folder in everyone(tmp_path)] == [new.name, old.name]
    assert everyone(tmp_path / "nowhere") == []


def test_a_folder_that_cannot_be_made_is_said_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")

    with pytest.raises(DiskError, match="could not be made"):
        create(tmp_path / "runs", "job", new_id())


def test_everything_of_a_run_lies_inside_its_folder() -> None:
    folder = RunFolder(Path("/r"))

    assert folder.keys(CONTROLLER, "server") == Path("/r/keys/server")
    assert folder.keys("tokyo", "tokyo-1") == Path("/r/keys/sites/tokyo/tokyo-1")
    assert folder.log("tokyo", "tokyo-1") == Path("/r/sites/tokyo/tokyo-1/log.txt")
    assert folder.worker("tokyo", "tokyo-1") == Path("/r/sites/tokyo/tokyo-1/worker.json")
    assert folder.fleet == Path("/r/fleet.yaml")
    assert folder.plan == Path("/r/plan.json")
    assert folder.model == Path("/r/model")
    assert folder.report == Path("/r/report.html")
    assert folder.authority == Path("/r/keys/ca")
