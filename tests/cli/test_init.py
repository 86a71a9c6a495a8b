"""`argosy init`: what it writes can be read, placed and trained on, and it overwrites nothing."""

import gzip
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from argosy.cli.init import init
from argosy.cli.program import program
from argosy.core.errors import DiskError, SpecError
from argosy.data.corpus import open_source
from argosy.data.tokens import BYTES
from argosy.policy import placement
from argosy.spec import check_together, read_fleet, read_job


def text_folder(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / "a.txt").write_text("words\n\n" * 500, encoding="utf-8")
    return root


def test_the_example_reads_places_and_holds_text_that_can_be_trained_on(tmp_path: Path) -> None:
    folder = tmp_path / "my first job"

    init(folder)

    job, fleet = read_job(folder / "job.yaml"), read_fleet(folder / "fleet.yaml")
    check_together(job, fleet)
    assert placement(job, fleet) == {
        "frankfurt": ("german",),
        "tokyo": ("japanese",),
        "virginia": ("english",),
    }
    for source in job.sources:
        corpus = open_source(source, folder, site_country=source.country, policy=job.policy)
        tokens = corpus.tokens(BYTES, None)
        assert tokens.trained.tokens > 10 * job.training.sequence
        assert tokens.held.tokens > job.training.sequence


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("mine")

    with pytest.raises(SpecError, match=r"fleet.yaml is there already") as caught:
        init(tmp_path)

    assert caught.value.hint is not None
    assert "nothing was written" in caught.value.hint
    assert [each.name for each in tmp_path.iterdir()] == ["fleet.yaml"]
    assert (tmp_path / "fleet.yaml").read_text() == "mine"


def test_ones_own_text_becomes_a_source_and_a_site_for_each_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = text_folder(tmp_path / "texts", "deutsch", "日本語", "le français", ".hidden")
    (data / "empty").mkdir()
    (data / "readme.txt").write_text("beside")
    countries = ["deutsch=DE", "le-fran-ais=FR", "source-3=JP"]

    init(tmp_path / "job", data=data, country=countries)

    job, fleet = (
        read_job(tmp_path / "job" / "job.yaml"),
        read_fleet(tmp_path / "job" / "fleet.yaml"),
    )
    assert [(s.name, s.path, s.country, s.personal) for s in job.sources] == [
        ("deutsch", "../texts/deutsch", "DE", True),
        ("le-fran-ais", "../texts/le français", "FR", True),
        ("source-3", "../texts/日本語", "JP", True),
    ]
    check_together(job, fleet)
    assert placement(job, fleet) == {
        "site-deutsch": ("deutsch",),
        "site-le-fran-ais": ("le-fran-ais",),
        "site-source-3": ("source-3",),
    }
    assert fleet.home == "DE"
    assert "passed over 1 file(s)" in capsys.readouterr().out
    for source in job.sources:
        assert (tmp_path / "job" / source.path / "a.txt").is_file()


def test_a_country_that_was_not_said_is_asked_for_by_line_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    init(tmp_path / "job", data=text_folder(tmp_path / "texts", "a", "b"), country=["a=DE"])

    with pytest.raises(SpecError, match=r"sources\[b\].country: expected a country") as caught:
        read_job(tmp_path / "job" / "job.yaml")
    with pytest.raises(SpecError, match=r"sites.site-b.country: expected a country"):
        read_fleet(tmp_path / "job" / "fleet.yaml")
    line = int(str(caught.value.where).rpartition(":")[2])
    written = (tmp_path / "job" / "job.yaml").read_text().splitlines()
    assert written[line - 1].strip().startswith("country: FILL-IN #")
    assert "write the countries of b in place of FILL-IN" in capsys.readouterr().out


def test_all_countries_filled_in_by_hand_make_the_files_good(tmp_path: Path) -> None:
    init(tmp_path / "job", data=text_folder(tmp_path / "texts", "a", "b"), country=["a=DE"])

    for name in ("job.yaml", "fleet.yaml"):
        path = tmp_path / "job" / name
        path.write_text(path.read_text().replace("FILL-IN", "JP"))

    job, fleet = (
        read_job(tmp_path / "job" / "job.yaml"),
        read_fleet(tmp_path / "job" / "fleet.yaml"),
    )
    assert placement(job, fleet) == {"site-a": ("a",), "site-b": ("b",)}


def test_a_folder_of_files_is_one_source_and_needs_no_rule(tmp_path: Path) -> None:
    data = text_folder(tmp_path, "letters") / "letters"

    init(tmp_path / "job", data=data, country=["letters=DE"])

    job, fleet = (
        read_job(tmp_path / "job" / "job.yaml"),
        read_fleet(tmp_path / "job" / "fleet.yaml"),
    )
    assert job.policy.rules == ()
    assert placement(job, fleet) == {"site-letters": ("letters",)}


def test_two_folders_in_one_country_need_no_rule_either(tmp_path: Path) -> None:
    data = text_folder(tmp_path / "texts", "a", "b")

    init(tmp_path / "job", data=data, country=["a=DE", "b=DE"])

    assert read_job(tmp_path / "job" / "job.yaml").policy.rules == ()


def test_a_single_folder_without_a_country_is_asked_for_it(tmp_path: Path) -> None:
    init(tmp_path / "job", data=text_folder(tmp_path / "texts", "a"))

    with pytest.raises(SpecError, match="FILL-IN"):
        read_job(tmp_path / "job" / "job.yaml")


def test_folders_whose_names_become_the_same_are_told_apart(tmp_path: Path) -> None:
    data = text_folder(tmp_path / "texts", "a b", "a-b", "x" * 80)
    countries = ["a-b=DE", "a-b-2=DE", f"{'x' * 50}=DE"]

    init(tmp_path / "job", data=data, country=countries)

    names = [source.name for source in read_job(tmp_path / "job" / "job.yaml").sources]
    assert names == ["a-b", "a-b-2", "x" * 50]
    read_fleet(tmp_path / "job" / "fleet.yaml")


def test_tokens_are_about_one_pass_over_the_text(tmp_path: Path) -> None:
    data = text_folder(tmp_path / "texts", "a")
    (data / "a" / "b.txt.gz").write_bytes(gzip.compress(b"x"))
    (data / "a" / "c.jsonl").write_text('{"text": "words"}\n' * 50_000)

    init(tmp_path / "job", data=data, country=["a=DE"])

    tokens = read_job(tmp_path / "job" / "job.yaml").training.tokens
    size = sum(each.stat().st_size for each in (data / "a").iterdir())
    assert tokens == size


@pytest.mark.parametrize(
    ("country", "says"),
    [
        ("a", "expected NAME=CC such as a=DE, got 'a'"),
        ("aa=DE", "no folder gave the name 'aa', did you mean 'a'?"),
        ("a=Germany", "expected a country, got 'Germany', did you mean 'DE' (Germany)?"),
    ],
)
def test_a_wrong_country_option_is_answered_before_anything_is_written(
    tmp_path: Path, country: str, says: str
) -> None:
    data = text_folder(tmp_path / "texts", "a")

    with pytest.raises(SpecError) as caught:
        init(tmp_path / "job", data=data, country=[country])

    assert caught.value.what == says
    assert caught.value.hint
    assert not (tmp_path / "job").exists()


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "texts" / "a").mkdir(parents=True)
    (tmp_path / "texts" / "a" / "photo.jpg").write_bytes(b"")

    with pytest.raises(SpecError, match="there is no text in this folder"):
        init(tmp_path / "job", data=tmp_path / "texts")
    with pytest.raises(SpecError, match="expected a folder of text"):
        init(tmp_path / "job", data=tmp_path / "nowhere")


def test_where_no_folder_can_be_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises(SpecError, match="expected a folder, got a file"):
        init(tmp_path / "file")
    with pytest.raises(DiskError, match=r"cannot be written: Not a directory") as caught:
        init(tmp_path / "file" / "below")
    assert caught.value.where == str(tmp_path / "file" / "below" / "job.yaml")


def test_a_country_without_data_is_a_wish_that_cannot_be_met(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="--country goes with --data only"):
        init(tmp_path, country=["a=DE"])


def test_a_name_that_is_no_text_cannot_stand_in_a_file(tmp_path: Path) -> None:
    raw = tmp_path / "texts" / "bad\udcff"
    try:
        text_folder(tmp_path / "texts", raw.name)
    except OSError:
        pytest.skip("this disk takes no such name")

    with pytest.raises(SpecError, match="the folder's name is not UTF-8"):
        init(tmp_path / "job", data=tmp_path / "texts")


def test_it_is_a_command_with_these_options(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(init)
    data = text_folder(tmp_path / "texts", "a", "b")
    arguments = [str(tmp_path / "job"), "--data", str(data)]

    result = CliRunner().invoke(app, [*arguments, "--country", "a=DE", "--country", "b=JP"])

    assert result.exit_code == 0, result.output
    assert [s.country for s in read_job(tmp_path / "job" / "job.yaml").sources] == ["DE", "JP"]


def test_a_folder_that_is_none_is_refused_with_what_to_name_instead(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("text")

    for folder, data in (
        (file, None),
        (tmp_path / "job", file),
        (tmp_path / "job", tmp_path / "no"),
    ):
        with pytest.raises(SpecError, match="expected a folder") as caught:
            init(folder, data=data)
        assert caught.value.hint


def test_the_next_commands_are_those_that_the_user_can_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / ".venv" / "bin" / "argosy"), "init"])

    init(Path("mine"))

    assert "\n  .venv/bin/argosy train mine/job.yaml --lab\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("called", "shown"),
    [
        ("/opt/my venv/bin/argosy", "'/opt/my venv/bin/argosy'"),
        ("/src/argosy/__main__.py", "python -m argosy"),
        ("/usr/bin/pytest", "argosy"),
    ],
)
def test_the_program_is_called_as_it_was(
    called: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "argv", [called])

    assert program() == shown


def test_on_the_path_the_program_has_its_short_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "argosy").write_text("#!/bin/sh\n")
    (tmp_path / "argosy").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "argosy")])

    assert program() == "argosy"
