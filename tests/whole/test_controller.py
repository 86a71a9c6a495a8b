"""The controller is killed, interrupted, doubled: the sites go on, and the next one finishes."""

import random
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fakes.whole import OWN, SITES, Run, Town, argosy, commits, entries_of, note, rounds_of

from argosy.core.errors import HostError
from argosy.core.records import CONTROLLER, Checkpointed, Entry, HostEvent, HostStarted, Lead
from argosy.lab import checkers
from argosy.lab.checkers import OK
from argosy.logbook.blobs import BlobFolder
from argosy.logbook.client import RemoteLogbook
from argosy.run import setup as setups
from argosy.run.audit import audit

if TYPE_CHECKING:
    from whole.conftest import Undisturbed

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

ROUNDS = 12
Keep = Callable[[Run], Run]


def finished_well(run: Run, before: list[Entry], *, disturbed: tuple[str, ...] = ()) -> None:
    entries = entries_of(run.folder)
    assert [entry.raw for entry in entries[: len(before)]] == [entry.raw for entry in before]
    numbers = [commit.round for _, commit in commits(entries)]
    counting = list(dict.fromkeys(numbers))  # a replaced controller may have written one too many
    assert counting == list(range(1, counting[-1] + 1))
    assert checkers.no_round_twice(entries) == OK
    assert checkers.same_model(entries, at_the_end=SITES) == OK
    assert checkers.ledger_closes(entries, disturbed=disturbed) == OK
    assert audit(run.folder).ok
    assert run.alive() == {}


def kill_and_resume(place: Path, keep: Keep, seed: int) -> dict[str, object]:
    """One trial: where it was killed, what the sites did meanwhile, how it ended."""
    chance = random.Random(seed)
    at = chance.randint(1, ROUNDS - 4)
    run = keep(Run.train(place, Town.of_rounds(ROUNDS), "--declared"))
    before = run.wait_for_round(at)
    time.sleep(chance.random())  # anywhere between two rounds
    run.kill()
    killed = run.entries()
    rounds = rounds_of(killed)

    later = run.wait_for(
        lambda told: {e.writer.site for e in told[len(killed) :]} >= set(SITES),
        "a word from every site while nobody leads",
        ended=-9,
    )
    meanwhile = run.alive()
    resumed = keep(run.resumed())
    code = resumed.end()

    assert code == 0, resumed.said
    assert "audit   ok" in resumed.said
    finished_well(resumed, before)
    entries = entries_of(resumed.folder)
    terms = [entry.body.term for entry in entries if isinstance(entry.body, Lead)]
    assert terms == [1, 2]
    alone = [e for e in later[len(killed) :] if e.writer.site == CONTROLLER and e.kind == "commit"]
    assert alone == [], "nobody leads, so nobody commits"
    lives = [e for e in entries if isinstance(e.body, HostStarted) and e.writer.incarnation > 1]
    assert lives == [], "no site was started again: they never noticed"
    assert sum("argosy.engine " in what for what in meanwhile.values()) == len(SITES)
    return {"seed": seed, "killed at": at, "rounds then": rounds, "rounds": rounds_of(entries)}


def test_a_killed_controller_is_replaced_and_no_round_is_missing_or_double(
    tmp_path: Path, keep: Keep
) -> None:
    note(str(kill_and_resume(tmp_path, keep, seed=1)))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_controllers_are_killed_at_random_rounds(tmp_path: Path, keep: Keep) -> None:
    for seed in range(20):
        place = tmp_path / str(seed)
        place.mkdir()
        note(str(kill_and_resume(place, keep, seed)))
        shutil.rmtree(place)


def test_a_rival_is_refused_and_after_ctrl_c_the_run_goes_on_from_an_older_checkpoint(
    tmp_path: Path, keep: Keep, undisturbed: "Undisturbed"
) -> None:
    """A second controller and keys of another run; Ctrl-C; then the disk of Tokyo is lost, and the
    newest checkpoint has a changed byte."""
    run = keep(Run.train(tmp_path, Town(model=OWN), "--declared"))
    run.wait_for_round(1)
    refuses_a_second_controller(run)
    refuses_keys_of_another_run(run, undisturbed)
    run.wait_for(lambda told: len(kept(told)) >= 2, "a second checkpoint")

    run.interrupt()

    assert run.end(60) == 130, run.said
    assert run.alive() == {}
    assert "interrupted" in run.said
    assert "Traceback" not in run.said
    before = run.entries()
    shown = argosy("status", "latest", cwd=tmp_path)
    assert "unled" in shown.stdout.splitlines()[0]

    shutil.rmtree(run.folder.home("tokyo", "tokyo-1") / "scratch")
    newest, older = kept(before)[-1], kept(before)[-2]
    path = BlobFolder(run.folder.logbook / "blobs").path(newest.blob)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    resumed = keep(run.resumed())
    resumed.wait_for(lambda told: posted_again(told, "tokyo", len(before)), "a post of Tokyo's")
    code = resumed.stop(after_rounds=2)

    entries = entries_of(resumed.folder)
    said = [e for e in entries if isinstance(e.body, HostEvent) and e.body.what == "checkpoint"]
    told = {e.writer.host: e.body.detail for e in said if isinstance(e.body, HostEvent)}
    assert code == 0, resumed.said
    assert f"the checkpoint of round {newest.round} is damaged" in told["tokyo-1"]
    assert "the one before is used" in told["tokyo-1"]
    assert f"the checkpoint of round {newest.round} cannot be used" in told["checkpointer"]
    found = audit(resumed.folder)
    assert found.first_wrong is not None, "the audit passes over a damaged checkpoint"
    assert (found.first_wrong.what, found.first_wrong.expected) == ("blob", newest.blob)
    assert "audit   wrong" in resumed.said
    assert older.round < newest.round

    path.write_bytes(whole)

    finished_well(resumed, before, disturbed=("tokyo",))


def refuses_a_second_controller(run: Run) -> None:
    second = argosy("resume", "latest", "--yes", cwd=run.runs.parent)

    assert second.returncode == 4, second
    assert f"another controller (process {run.process.pid}) already leads this run" in second.stderr
    assert "Traceback" not in second.stderr


def refuses_keys_of_another_run(run: Run, undisturbed: "Undisturbed") -> None:
    url = setups.load(run.folder).server_url
    foreign = undisturbed.folder.keys("tokyo", "tokyo-1")

    with (
        closing(RemoteLogbook(url, foreign, within_s=10.0)) as stranger,
        pytest.raises(HostError) as refused,
    ):
        stranger.read(1)

    assert refused.value.exit_code == 4


def posted_again(entries: list[Entry], site: str, after: int) -> bool:
    lives = [e for e in entries if isinstance(e.body, HostStarted) and e.writer.site == site]
    begun = max(life.seq for life in lives)
    later = (e for e in entries if e.kind == "contribution" and e.writer.site == site)
    return begun > after and any(entry.seq > begun for entry in later)


def kept(entries: list[Entry]) -> list[Checkpointed]:
    return [entry.body for entry in entries if isinstance(entry.body, Checkpointed)]
