import asyncio
import contextlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from fakes.run import checkpoint
from fakes.stage import Quiet, Stage, begun, means

from argosy.core.errors import DamagedError
from argosy.core.records import (
    CONTROLLER,
    Access,
    Body,
    Checkpointed,
    Commit,
    Contribution,
    Digest,
    Ended,
    Entry,
    Evaluation,
    Lead,
    Planned,
    Roster,
    Writer,
)
from argosy.logbook import open_log
from argosy.logbook.blobs import BlobFolder
from argosy.run.audit import Audit, audit, audit_entries
from argosy.run.folder import RunFolder
from argosy.run.lead import lead
from argosy.run.model import vectors

B = TypeVar("B", bound=Body)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A whole run, told by actors but signed, stored and agreed for real."""
    stage = Stage()

    async def whole() -> RunFolder:
        folder, setup = await begun(tmp_path_factory.mktemp("audit"))
        await lead(folder, setup, means(stage, Quiet()))
        return folder

    with contextlib.closing(stage):
        return asyncio.run(whole())


@pytest.fixture
def entries(finished: RunFolder) -> list[Entry]:
    with contextlib.closing(open_log(finished.logbook)) as log:
        return log.entries()


@pytest.fixture
def blobs(finished: RunFolder) -> BlobFolder:
    return BlobFolder(finished.logbook / "blobs")


def changed(
    entries: list[Entry], kind: type[B], change: Callable[[B], B], *, pick: int = 0
) -> tuple[list[Entry], int]:
    """The log with one record of this kind other than it was, and where."""
    at = [n for n, entry in enumerate(entries) if isinstance(entry.body, kind)][pick]
    body = entries[at].body
    assert isinstance(body, kind)
    told = [*entries]
    told[at] = replace(entries[at], body=change(body))
    return told, entries[at].seq


def added(entries: list[Entry], after: int, writer: Writer, body: Body, kind: str) -> list[Entry]:
    """The log with one record more behind `after`; the later ones move on."""
    more = replace(entries[after], seq=after + 2, writer=writer, body=body, kind=kind)
    later = [replace(entry, seq=entry.seq + 1) for entry in entries[after + 1 :]]
    return [*entries[: after + 1], more, *later]


def wrong_of(proof: Audit) -> tuple[int, str]:
    assert proof.first_wrong is not None, "nothing was found"
    assert not proof.ok
    return proof.first_wrong.seq, proof.first_wrong.what


def test_a_whole_run_is_ok_and_says_how_much_was_looked_at(finished: RunFolder) -> None:
    proof = audit(finished)

    assert proof.ok, str(proof)
    assert proof.counts.rounds == proof.counts.replayed > 0
    assert proof.counts.contributions >= 2 * proof.counts.rounds
    assert proof.counts.accesses == 3
    assert proof.counts.deviations == 0
    assert str(proof).startswith("ok:")
    assert proof.to_json()["ok"] is True
    assert proof.to_json()["first_wrong"] is None


def test_a_blob_with_one_changed_byte_is_named(finished: RunFolder, tmp_path: Path) -> None:
    copy = RunFolder(tmp_path / "run")
    for path in [path for path in finished.path.rglob("*") if path.is_file()]:
        to = copy.path / path.relative_to(finished.path)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(path.read_bytes())
    victim = next(path for path in sorted((copy.logbook / "blobs").rglob("*")) if path.is_file())
    victim.write_bytes(b"\x00" + victim.read_bytes()[1:])

    proof = audit(copy)

    assert wrong_of(proof)[1] == "blob"
    assert victim.name in str(proof)


def test_a_folder_without_a_logbook_is_not_ok(tmp_path: Path) -> None:
    proof = audit(RunFolder(tmp_path))

    assert wrong_of(proof) == (0, "file")
    assert "the logbook" in str(proof)


def test_a_commit_that_the_records_before_it_do_not_allow(
    entries: list[Entry], blobs: BlobFolder
) -> None:
    told, seq = changed(entries, Commit, lambda commit: replace(commit, tokens=1))

    assert wrong_of(audit_entries(told, blobs)) == (seq, "membership")


def test_a_commit_of_a_controller_that_was_replaced_is_passed_over(
    entries: list[Entry], blobs: BlobFolder
) -> None:
    first = next(n for n, entry in enumerate(entries) if isinstance(entry.body, Commit))
    commit = entries[first].body
    assert isinstance(commit, Commit)
    late = Writer(site=CONTROLLER, host=CONTROLLER, incarnation=1)
    told = added(entries, first, late, replace(commit, term=0), "commit")
    for n, entry in enumerate(told):
        if isinstance(entry.body, Checkpointed) and entry.body.round > 0:
            told[n] = replace(entry, body=replace(entry.body, at_seq=entry.body.at_seq + 1))

    proof = audit_entries(told, blobs)

    assert proof.ok, str(proof)
    assert proof.counts.void == 1


def test_an_end_that_says_otherwise_than_what_was_agreed(
    entries: list[Entry], blobs: BlobFolder
) -> None:
    told, seq = changed(entries, Ended, lambda ended: replace(ended, rounds=99))

    assert wrong_of(audit_entries(told, blobs)) == (seq, "membership")


@pytest.mark.parametrize(("number", "at_seq"), [(None, 3), (99, None)])
def test_a_checkpoint_of_another_moment_than_it_says(
    entries: list[Entry], blobs: BlobFolder, number: int | None, at_seq: int | None
) -> None:
    def moved(kept: Checkpointed) -> Checkpointed:
        return replace(kept, round=number or kept.round, at_seq=at_seq or kept.at_seq)

    told, seq = changed(entries, Checkpointed, moved, pick=-1)

    assert wrong_of(audit_entries(told, blobs)) == (seq, "membership")


def test_a_source_opened_where_no_rule_allows_it(entries: list[Entry], blobs: BlobFolder) -> None:
    told, seq = changed(entries, Access, lambda access: replace(access, source="english"))

    assert wrong_of(audit_entries(told, blobs)) == (seq, "residency")


def test_an_evaluation_of_a_foreign_source_is_found_too(
    entries: list[Entry], blobs: BlobFolder
) -> None:
    def elsewhere(access: Access) -> Access:
        return replace(access, source="english", purpose="evaluate")

    told, seq = changed(entries, Access, elsewhere)

    assert wrong_of(audit_entries(told, blobs)) == (seq, "residency")


def test_a_source_that_the_job_does_not_know(entries: list[Entry], blobs: BlobFolder) -> None:
    told, seq = changed(entries, Access, lambda access: replace(access, source="secret"))

    proof = audit_entries(told, blobs)

    assert wrong_of(proof) == (seq, "residency")
    assert "secret" in str(proof)


@pytest.mark.parametrize("form", ["raw", "smoke signals"])
def test_a_contribution_in_a_form_that_no_rule_allows(
    entries: list[Entry], blobs: BlobFolder, form: str
) -> None:
    told, seq = changed(entries, Contribution, lambda post: replace(post, form=form))

    assert wrong_of(audit_entries(told, blobs)) == (seq, "residency")


def test_a_plan_that_puts_a_source_where_it_may_not_be(
    entries: list[Entry], blobs: BlobFolder
) -> None:
    def astray(planned: Planned) -> Planned:
        sites = tuple(replace(site, sources=("german",)) for site in planned.plan.sites)
        return replace(planned, plan=replace(planned.plan, sites=sites))

    told, seq = changed(entries, Planned, astray)

    assert wrong_of(audit_entries(told, blobs)) == (seq, "residency")


def test_a_host_that_claims_another_country(entries: list[Entry], blobs: BlobFolder) -> None:
    def moved(roster: Roster) -> Roster:
        seats = tuple(
            replace(seat, country="DE") if seat.site == "virginia" else seat
            for seat in roster.seats
        )
        return replace(roster, seats=seats)

    told, seq = changed(entries, Roster, moved)

    assert wrong_of(audit_entries(told, blobs)) == (seq, "residency")


def test_measures_of_a_site_are_judged_and_those_of_the_controller_are_not(
    entries: list[Entry], blobs: BlobFolder
) -> None:
    seen = Evaluation(round=0, source="german", loss=1.0, tokens=1, bits_per_byte=1.0)
    here = Writer(site="frankfurt", host="frankfurt-1", incarnation=1)
    controller = Writer(site=CONTROLLER, host="checkpointer", incarnation=1)
    end = len(entries) - 2

    told = added(entries, end, here, seen, "evaluation")
    assert audit_entries(told, blobs).ok
    assert audit_entries(added(told, end + 1, controller, seen, "evaluation"), blobs).ok


@pytest.mark.parametrize("pick", [0, -1])
def test_a_reference_that_is_not_what_replay_gives(
    entries: list[Entry], blobs: BlobFolder, pick: int
) -> None:
    told, seq = changed(entries, Digest, lambda said: replace(said, digest="sha256:0"), pick=pick)

    assert wrong_of(audit_entries(told, blobs)) == (seq, "model")


def test_a_site_that_strayed_and_came_back_is_counted_and_no_fault_of_the_record(
    entries: list[Entry], blobs: BlobFolder
) -> None:
    stray = Digest(fragment=0, round=1, digest="sha256:0")
    here = Writer(site="frankfurt", host="frankfurt-1", incarnation=1)

    proof = audit_entries(added(entries, len(entries) - 2, here, stray, "digest"), blobs)

    assert proof.ok
    assert proof.counts.deviations == 1


def test_a_site_that_ends_with_another_model_is_wrong(
    entries: list[Entry], blobs: BlobFolder
) -> None:
    rounds = max(entry.body.round for entry in entries if isinstance(entry.body, Commit))
    stray = Digest(fragment=0, round=rounds, digest="sha256:0")
    here = Writer(site="frankfurt", host="frankfurt-1", incarnation=1)

    proof = audit_entries(added(entries, len(entries) - 2, here, stray, "digest"), blobs)

    assert wrong_of(proof) == (len(entries), "model")


def test_a_run_that_was_cut_off_early_is_ok_as_far_as_it_goes(
    entries: list[Entry], blobs: BlobFolder
) -> None:
    for count in range(2, len(entries)):
        proof = audit_entries(entries[:count], blobs)
        assert proof.ok, str(proof)
    assert audit_entries([e for e in entries if isinstance(e.body, Lead)][:0], blobs).ok


def test_a_checkpoint_of_another_size_is_refused(
    finished: RunFolder, entries: list[Entry], blobs: BlobFolder
) -> None:
    kept = next(entry.body for entry in entries if isinstance(entry.body, Checkpointed))

    with pytest.raises(DamagedError, match="expected 1000 parameters"):
        vectors(blobs, replace(checkpoint(0), blob=kept.blob))


def test_without_an_authority_from_outside_the_proof_says_so(
    finished: RunFolder, tmp_path: Path
) -> None:
    shutil.copytree(finished.logbook, tmp_path / "copy" / "logbook")

    proof = audit(RunFolder(tmp_path / "copy"))

    assert proof.ok
    assert "no authority from outside was checked" in str(proof)
    assert proof.to_json()["authority_checked"] is False
    assert "authority" not in str(audit(finished))
    assert audit(finished).to_json()["authority_checked"] is True


def test_a_wrong_log_without_an_authority_says_so_as_well(
    finished: RunFolder, tmp_path: Path
) -> None:
    (tmp_path / "copy" / "logbook").mkdir(parents=True)

    proof = audit(RunFolder(tmp_path / "copy"))

    assert not proof.ok
    assert proof.to_json()["authority_checked"] is False
