import asyncio
import contextlib
import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.stage import FLEET, JOB, order

from argosy.core.errors import DamagedError, DiskError, HostError, PolicyError, SpecError
from argosy.core.records import CONTROLLER, Roster, RunBegun
from argosy.logbook import open_log
from argosy.logbook.verify import first_wrong
from argosy.run import setup as setups
from argosy.run.begin import look_at_sources, make_run, read_order
from argosy.run.folder import RunFolder, find
from argosy.run.setup import Setup

TEXT = "\n\n".join(["The harbour lies at the mouth of the river. " * 60] * 3)  # three passages


def made(tmp_path: Path, *, port: int = 0) -> tuple[RunFolder, Setup]:
    wanted = Setup(lab=True, port=port)
    return asyncio.run(make_run(order(tmp_path), tmp_path / "runs", wanted))


def test_without_a_fleet_that_is_what_is_said(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)

    with pytest.raises(SpecError, match="no fleet") as refused:
        read_order(tmp_path / "job.yaml", None)

    assert refused.value.where == str(tmp_path / "fleet.yaml")
    assert "--fleet" in str(refused.value.hint)


def test_a_fleet_that_was_named_and_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)

    with pytest.raises(SpecError, match="no such fleet file"):
        read_order(tmp_path / "job.yaml", tmp_path / "other.yaml")


def test_a_fleet_may_lie_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "machines.yaml").write_text(FLEET)

    read = read_order(tmp_path / "job.yaml", tmp_path / "machines.yaml")

    assert read.sites == {"frankfurt": ("german",), "virginia": ("english",)}
    assert read.root == tmp_path.resolve()


def test_a_job_that_is_not_there_or_not_text_is_said(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    with pytest.raises(SpecError, match="there is no such file"):
        read_order(tmp_path / "job.yaml", None)
    (tmp_path / "job.yaml").write_bytes(b"version: 1\nname: \xff\n")

    with pytest.raises(SpecError, match="UTF-8") as refused:
        read_order(tmp_path / "job.yaml", None)
    assert refused.value.where == f"{tmp_path / 'job.yaml'}:2"


def test_a_movement_that_no_rule_allows_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(PolicyError):
        order(tmp_path, job=JOB.split("policy:", maxsplit=1)[0])

    assert not (tmp_path / "runs").exists()


def test_a_source_that_is_missing_or_empty_is_said_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    wanted = order(tmp_path)
    paths = [wanted.root / source.path for source in wanted.job.sources]
    for path in paths:
        path.write_text(TEXT)
    assert look_at_sources(wanted, here=True) == []

    source, path = wanted.job.sources[-1], paths[-1]
    path.write_text("")
    with pytest.raises(SpecError, match=f"source {source.name} is empty"):
        look_at_sources(wanted, here=True)

    path.unlink()
    with pytest.raises(SpecError, match="nothing at"):
        look_at_sources(wanted, here=True)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"Gru\xdf\n\n" + TEXT.encode(), "not UTF-8: byte 0xDF"),
        (b"one line, one document\n", "source english is one document"),
        (b"first\n" + b"x" * 2100 + b"\n\nlast\n", "what is held out is shorter than one sequence"),
    ],
    ids=["not UTF-8", "one document", "short"],
)
def test_a_source_that_cannot_be_trained_on_is_said_as_the_user_would_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, says: str
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    order(mine)
    monkeypatch.chdir(tmp_path)
    wanted = read_order(Path("mine/job.yaml"), None)
    (mine / "german.txt").write_text(TEXT)
    (mine / "english.txt").write_bytes(content)

    with pytest.raises(SpecError) as refused:
        look_at_sources(wanted, here=True)

    assert refused.value.what.replace("source english: ", "").startswith(says)
    assert str(refused.value.where).startswith("mine/")


def test_what_lies_at_a_site_or_may_not_be_opened_here_is_not_looked_at(tmp_path: Path) -> None:
    wanted = order(tmp_path)
    assert look_at_sources(wanted, here=False) == [
        "source english lies at its site and was not looked at",
        "source german lies at its site and was not looked at",
    ]

    (tmp_path / "german.txt").write_text(TEXT)
    (tmp_path / "english.txt").write_bytes(b"\xff")  # home is in Germany

    assert look_at_sources(wanted, here=False) == [
        "source english may not be opened in DE: not looked at"
    ]


def test_what_is_here_and_may_be_opened_is_looked_at_wherever_the_hosts_are(tmp_path: Path) -> None:
    wanted = order(tmp_path)
    (tmp_path / "german.txt").write_bytes(b"\xff")

    with pytest.raises(SpecError, match="not UTF-8"):
        look_at_sources(wanted, here=False)


def test_a_run_that_could_not_be_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise DiskError("the disk is full")

    monkeypatch.setattr(setups, "save", full)

    with pytest.raises(DiskError):
        made(tmp_path)

    assert list((tmp_path / "runs").iterdir()) == []


def test_a_new_run_has_its_texts_its_keys_and_its_first_two_records(tmp_path: Path) -> None:
    folder, setup = made(tmp_path)

    with contextlib.closing(open_log(folder.logbook)) as log:
        begun, roster = (entry.body for entry in log.entries())

    assert folder.job.read_text() == JOB
    assert isinstance(begun, RunBegun)
    assert (begun.run, begun.name, begun.job, begun.fleet) == (setup.run, "small", JOB, FLEET)
    assert isinstance(roster, Roster)
    assert [(seat.site, seat.host, seat.country) for seat in roster.seats] == [
        (CONTROLLER, CONTROLLER, "DE"),
        (CONTROLLER, "checkpointer", "DE"),
        ("frankfurt", "frankfurt-1", "DE"),
        ("virginia", "virginia-1", "US"),
        ("virginia", "virginia-2", "US"),
    ]
    assert first_wrong(folder.logbook, authority=begun.authority) is None
    assert find(tmp_path / "runs", folder.name).path == folder.path
    assert not (tmp_path / "runs" / "latest").exists(), "before its plan is agreed to"


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder, _ = made(tmp_path)

    private = sorted((folder.path / "keys").rglob("*.key"))

    assert len(private) == 7  # authority, server, controller, checkpointer and three hosts
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}
    assert (folder.path / "keys").stat().st_mode & 0o777 == 0o700


def test_how_a_run_was_set_up_is_kept_for_the_next_controller(tmp_path: Path) -> None:
    folder, setup = made(tmp_path, port=4711)

    assert setups.load(folder) == setup
    assert (setup.port, setup.lab, setup.data) == (4711, True, str(tmp_path.resolve()))
    assert setup.server_url == "https://127.0.0.1:4711"


def test_a_port_is_found_when_none_was_wanted(tmp_path: Path) -> None:
    _, setup = made(tmp_path)

    assert 1024 <= setup.port < 65536


def test_a_run_that_was_never_set_up_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="not set up"):
        setups.load(RunFolder(tmp_path))


@pytest.mark.parametrize("content", ["no JSON", "[]", "{}"])
def test_a_damaged_setup_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "controller.json").write_text(content)

    with pytest.raises(DamagedError, match="cannot be read"):
        setups.load(RunFolder(tmp_path))


def test_what_a_newer_argosy_adds_to_a_setup_is_passed_over(tmp_path: Path) -> None:
    folder, setup = made(tmp_path)
    path = folder.path / "controller.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "colour": "blue"}))

    assert setups.load(folder) == replace(setup)


def test_a_port_that_somebody_has_is_said_before_anything_is_made(tmp_path: Path) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as somebody:
        port = somebody.getsockname()[1]

        with pytest.raises(HostError, match=f"port {port} is taken"):
            made(tmp_path, port=port)

    assert not (tmp_path / "runs").exists()
