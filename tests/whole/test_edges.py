"""What can go wrong before anybody trains, and machines that people start themselves."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from fakes.whole import MARK, OWN, Run, Town, entries_of, unpacked

from argosy.cli.main import run as command
from argosy.lab import checkers
from argosy.lab.checkers import OK
from argosy.run.audit import audit

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

Keep = Callable[[Run], Run]
ALONE = {"tokyo": ("tokyo-1",)}
TWO = {"frankfurt": ("frankfurt-1",), "tokyo": ("tokyo-1",)}


def test_without_a_fleet_it_says_where_one_belongs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Town().write(tmp_path / "job")
    job.with_name("fleet.yaml").unlink()
    monkeypatch.chdir(tmp_path)

    ended = command(["train", str(job), "--lab", "--yes"])

    told = capsys.readouterr()
    assert ended == 2
    assert "no fleet" in told.err
    assert "fleet.yaml" in told.err
    assert not (tmp_path / "runs").exists()


def test_a_port_that_is_taken_is_said_and_nothing_stays(tmp_path: Path, keep: Keep) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        run = keep(Run.train(tmp_path, Town(hosts=ALONE), "--declared", "--port", str(port)))

        assert run.end() == 4, run.said

    assert f"port {port} is taken" in run.said
    assert "Traceback" not in run.said
    assert run.alive() == {}


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (b"Gru\xdf aus Frankfurt\n\nund noch ein Absatz\n" * 50, r"german\.txt.*UTF-8"),
        (b"kurz\n\nnoch einer\n", "german is one document"),
        (b"", "german is empty"),
    ],
    ids=["not UTF-8", "one document", "empty"],
)
def test_a_text_that_cannot_be_trained_on_ends_the_run_by_name(
    tmp_path: Path, keep: Keep, harm: bytes, says: str
) -> None:
    job = Town(hosts={"frankfurt": ("frankfurt-1",)}, model=OWN).write(tmp_path / "job")
    (job.parent / "data" / "german.txt").write_bytes(harm)

    run = keep(Run(tmp_path, "argosy", "train", str(job), "--lab", "--yes", "--declared"))

    assert run.end() == 2, run.said
    assert re.search(says, run.said), run.said
    assert "Traceback" not in run.said
    assert run.alive() == {}


def test_a_model_too_large_for_the_hosts_memory_is_refused_before_training(
    tmp_path: Path, keep: Keep
) -> None:
    job = Town(hosts=ALONE).write(tmp_path / "job")
    large = job.read_text().replace("hidden_size: 48", "hidden_size: 60000")
    job.write_text(large.replace("num_hidden_layers: 2", "num_hidden_layers: 200"))

    run = keep(Run(tmp_path, "argosy", "train", str(job), "--lab", "--yes"))

    assert run.end() == 3, run.said
    assert "tokyo-1" in run.said
    assert "memory" in run.said
    assert "Traceback" not in run.said
    assert list(run.runs.iterdir()) == [], "a run that never began leaves nothing"
    assert run.alive() == {}


def test_machines_that_people_start_join_train_and_end(tmp_path: Path, keep: Keep) -> None:
    """No lab: what the command asks a person to do on each machine is done, to the letter."""
    job = Town(hosts=TWO).write(tmp_path / "job")
    run = keep(Run(tmp_path, "argosy", "train", str(job), "--yes", "--declared"))
    run.wait_for(lambda _: run.said.count("tar -xf") == 2, "the two commands to run")

    joined = [
        join(tmp_path / "machines", *asked, job=job, mark=run.mark)
        for asked in re.findall(r"copy (\S+\.tar) there.*?\n\s+(tar -xf .*)", run.said)
    ]
    run.wait_for_round(2)
    code = run.stop()
    ends = [process.wait(60) for process in joined]

    assert code == 0, run.said
    assert ends == [0, 0]
    entries = entries_of(run.folder)
    assert audit(run.folder).ok
    assert checkers.same_model(entries, at_the_end=TWO) == OK
    assert checkers.ledger_closes(entries) == OK
    assert run.alive() == {}
    setup = json.loads((run.folder.path / "controller.json").read_bytes())
    assert setup["lab"] is False


def join(
    machines: Path, bundle: str, asked: str, *, job: Path, mark: str
) -> "subprocess.Popen[bytes]":
    """The part of the person who was asked: unpack, put the texts in place, run."""
    home, program = unpacked(machines, bundle, asked, job=job)
    return subprocess.Popen([sys.executable, *program], cwd=home, env={**os.environ, MARK: mark})
