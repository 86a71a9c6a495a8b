"""Files that cannot be read at all."""

import os
from pathlib import Path

import pytest

from argosy.core.errors import SpecError
from argosy.spec import parse_job, read_fleet, read_job
from argosy.spec.text import LIMIT, decode, read


def refusal(path: Path) -> SpecError:
    with pytest.raises(SpecError) as caught:
        read_job(path)
    return caught.value


def test_a_missing_file_is_told_with_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text("version: 1")

    error = refusal(tmp_path / "job.yaml")

    assert error.what == "there is no such file"
    assert error.where == str(tmp_path / "job.yaml")
    assert error.hint == f"did you mean {tmp_path / 'jobs.yaml'}?"


def test_a_missing_file_with_nothing_like_it_leads_to_init(tmp_path: Path) -> None:
    hint = "argosy init writes an example"

    assert refusal(tmp_path / "job.yaml").hint == hint
    assert refusal(tmp_path / "nowhere" / "job.yaml").hint == hint


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    error = refusal(tmp_path)

    assert error.what == "expected a file, got a folder"
    assert error.hint == f"did you mean {tmp_path / 'job.yaml'}?"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "job.yaml")

    assert refusal(tmp_path / "job.yaml").what == "expected a file, got a pipe or a device"


def test_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    unreadable = Path("/proc/self/mem")
    if not unreadable.is_file():
        pytest.skip("needs a file that cannot be read, also by root")

    assert refusal(unreadable).what.startswith("cannot be read: ")


def test_an_empty_file_is_told_how_one_begins(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("# nothing yet\n")

    assert refusal(path).what == "expected `version: 1` and more, got an empty file"
    with pytest.raises(SpecError, match=r"job.yaml:1: expected `version: 1` and more"):
        read_fleet(path)


def test_what_is_not_utf_8_is_named_by_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes("version: 1\nname: x\nmodel: Grüße\n".encode("latin-1"))

    error = refusal(path)

    assert error.what == "expected UTF-8 text, got the byte 0xfc"
    assert error.where == f"{path}:3"
    assert error.hint == "save the file again as UTF-8"


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes(b"\xef\xbb\xbfversion: 1\n")

    assert read(tmp_path / "job.yaml") == "version: 1\n"


def test_a_file_larger_than_any_spec_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"#" * (LIMIT + 1))

    assert refusal(path).what == "expected at most 1 MiB, got more"
    with pytest.raises(SpecError, match="at most 1 MiB"):
        parse_job("#" * (LIMIT + 1))
    assert len(decode(b"#" * LIMIT, "x")) == LIMIT
