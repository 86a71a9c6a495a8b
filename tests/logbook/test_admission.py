from dataclasses import replace
from pathlib import Path

import pytest
from fakes.logbook import Signing, event

from argosy.core.errors import DamagedError, FencedError
from argosy.core.records import (
    CONTROLLER,
    Body,
    Checkpointed,
    Commit,
    Crew,
    Drain,
    Ended,
    Lead,
    Roster,
    Unknown,
)
from argosy.logbook.admission import Admission
from argosy.logbook.encoding import canonical, parse
from argosy.logbook.envelope import LONGEST_NAME, check_name, named_blobs, open_envelope
from argosy.logbook.keys import Authority, Pen


def take(admission: Admission, raw: bytes) -> None:
    admission.admit(*admission.check(raw))


def begun(signing: Signing, pen: Pen) -> Admission:
    admission = Admission(signing.authority.pem)
    for raw in signing.opening(pen):
        take(admission, raw)
    return admission


def test_the_first_record_must_be_the_run(tmp_path: Path) -> None:
    signing = Signing(tmp_path)

    with pytest.raises(DamagedError, match="first record"):
        Admission().check(signing.pen().sign(Lead(term=1), 1))


def test_only_the_controller_begins_a_run(tmp_path: Path) -> None:
    signing = Signing(tmp_path)

    with pytest.raises(DamagedError, match="only the controller begins"):
        Admission().check(signing.pen("tokyo-1").sign(signing.begun(), 1))


def test_a_run_under_another_authority_than_expected_is_refused(tmp_path: Path) -> None:
    signing = Signing(tmp_path / "a")
    expected = Authority.make(tmp_path / "b")

    with pytest.raises(DamagedError, match="another certificate authority"):
        Admission(expected.pem).check(signing.pen().sign(signing.begun(), 1))


def test_a_run_record_of_another_run_than_its_envelope_is_refused(tmp_path: Path) -> None:
    signing = Signing(tmp_path)

    with pytest.raises(DamagedError, match="the envelope says"):
        Admission().check(signing.pen().sign(replace(signing.begun(), run="other"), 1))


def test_the_second_record_must_be_the_roster(tmp_path: Path) -> None:
    signing = Signing(tmp_path)
    pen, admission = signing.pen(), Admission()
    take(admission, pen.sign(signing.begun(), 1))

    with pytest.raises(DamagedError, match="second record"):
        admission.check(pen.sign(Lead(term=1), 2))


def test_the_roster_must_hold_the_key_that_signed_the_run_record(tmp_path: Path) -> None:
    signing = Signing(tmp_path)
    admission = Admission()
    take(admission, signing.pen().sign(signing.begun(), 1))
    signing.seats.clear()
    signing.seat(CONTROLLER, CONTROLLER)  # a new key under the same name
    pen = signing.pen(incarnation=2)

    with pytest.raises(DamagedError, match="signature"):
        admission.check(pen.sign(signing.roster(), 2))


def test_the_first_roster_is_written_by_who_began_the_run(tmp_path: Path) -> None:
    signing = Signing(tmp_path)
    signing.seat(CONTROLLER, "checkpointer")
    admission = Admission()
    take(admission, signing.pen().sign(signing.begun(), 1))

    with pytest.raises(DamagedError, match="who began the run"):
        admission.check(signing.pen("checkpointer").sign(signing.roster(), 2))


def test_a_roster_without_its_writer_is_refused(tmp_path: Path) -> None:
    signing = Signing(tmp_path)
    pen = signing.pen()
    admission = begun(signing, pen)
    seats = tuple(seat for seat in signing.seats if seat.site != CONTROLLER)

    with pytest.raises(DamagedError, match="its writer has no seat"):
        admission.check(pen.sign(Roster(seats=seats, torch=""), 3))


def test_a_roster_with_two_seats_for_one_host_is_refused(tmp_path: Path) -> None:
    signing = Signing(tmp_path)
    pen = signing.pen()
    admission = begun(signing, pen)
    signing.seats.append(signing.seats[1])

    with pytest.raises(DamagedError, match="two seats"):
        admission.check(pen.sign(signing.roster(), 3))


def test_a_roster_with_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    signing, other = Signing(tmp_path / "a"), Signing(tmp_path / "b")
    pen = signing.pen()
    admission = begun(signing, pen)
    signing.seats[1] = other.seats[1]

    with pytest.raises(DamagedError, match="not issued by the authority"):
        admission.check(pen.sign(signing.roster(), 3))


def test_who_is_no_longer_in_the_newest_roster_may_not_write(tmp_path: Path) -> None:
    signing = Signing(tmp_path)
    pen, tokyo = signing.pen(), signing.pen("tokyo-1")
    admission = begun(signing, pen)
    take(admission, tokyo.sign(event(), 1))
    seats = tuple(seat for seat in signing.seats if seat.site != "tokyo")

    take(admission, pen.sign(Roster(seats=seats, torch=""), 3))

    with pytest.raises(DamagedError, match="no seat for tokyo/tokyo-1"):
        admission.check(tokyo.sign(event(), 2))


def test_a_host_with_a_new_key_writes_with_that_one_only(tmp_path: Path) -> None:
    signing = Signing(tmp_path)
    pen, before = signing.pen(), signing.pen("tokyo-1")
    admission = begun(signing, pen)
    signing.seats = [seat for seat in signing.seats if seat.site != "tokyo"]
    signing.seat("tokyo", "tokyo-1")
    take(admission, pen.sign(signing.roster(), 3))

    with pytest.raises(DamagedError, match="signature"):
        admission.check(before.sign(event(), 1))
    take(admission, signing.pen("tokyo-1").sign(event(), 1))


CONTROLLERS: list[Body] = [
    Lead(term=1),
    Crew(site="tokyo", epoch=1, hosts=("tokyo-1",)),
    Commit(fragment=0, round=1, term=1, plan=1, members=(), expired=(), tokens=0, last=False,
           head_seq=0, head_chain=""),
    Drain(term=1, reason="done"),
    Checkpointed(round=1, at_seq=1, blob="b", bytes=1, digest="", parameters=1, table="[]"),
    Ended(outcome="done", rounds=1, tokens=1, head_seq=1, head_chain=""),
]  # fmt: skip


@pytest.mark.parametrize("body", CONTROLLERS, ids=lambda body: type(body).__name__)
def test_a_site_cannot_write_what_decides_the_run(tmp_path: Path, body: Body) -> None:
    signing = Signing(tmp_path)
    pen = signing.pen()
    admission = begun(signing, pen)

    admission.check(pen.sign(body, 3))
    with pytest.raises(DamagedError, match="only the controller"):
        admission.check(signing.pen("tokyo-1").sign(body, 1))


@pytest.mark.parametrize("body", CONTROLLERS, ids=lambda body: type(body).__name__)
def test_the_checkpointer_writes_checkpoints_and_decides_nothing(
    tmp_path: Path, body: Body
) -> None:
    signing = Signing(tmp_path)
    signing.seat(CONTROLLER, "checkpointer")
    admission = begun(signing, signing.pen())
    pen = signing.pen("checkpointer")

    if isinstance(body, Checkpointed):
        admission.check(pen.sign(body, 1))
    else:
        with pytest.raises(DamagedError, match="not checkpointer"):
            admission.check(pen.sign(body, 1))


def test_a_site_cannot_write_under_the_controllers_name(tmp_path: Path) -> None:
    signing = Signing(tmp_path)
    admission = begun(signing, signing.pen())
    tokyo = signing.pen("tokyo-1")
    tokyo.site, tokyo.host, tokyo.incarnation = CONTROLLER, CONTROLLER, 2

    with pytest.raises(DamagedError, match="not made with the key of controller/controller"):
        admission.check(tokyo.sign(Lead(term=9), 1))


def test_a_record_of_another_run_is_refused(tmp_path: Path) -> None:
    signing = Signing(tmp_path)
    admission = begun(signing, signing.pen())
    tokyo = signing.pen("tokyo-1")
    tokyo.run = "another"

    with pytest.raises(DamagedError, match="the record is of another"):
        admission.check(tokyo.sign(event(), 1))


def test_a_new_life_begins_its_own_numbering(tmp_path: Path) -> None:
    signing = Signing(tmp_path)
    admission = begun(signing, signing.pen())
    first = signing.pen("tokyo-1", 1)
    take(admission, first.sign(event(), 1))
    take(admission, first.sign(event(), 2))

    take(admission, signing.pen("tokyo-1", 5).sign(event(), 3))

    with pytest.raises(FencedError, match="incarnation 5"):
        admission.check(first.sign(event(), 4))


def test_a_kind_from_the_future_may_be_written_by_any_seat(tmp_path: Path) -> None:
    signing = Signing(tmp_path)
    admission = begun(signing, signing.pen())

    take(admission, signing.pen("tokyo-1").sign(Unknown(kind="sealed", body="{}"), 1))

    assert admission.seq == 3


def change(raw: bytes, **fields: object) -> bytes:
    return canonical(parse(raw) | fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"v": 2}, "version 2"),
        ({"v": "1"}, "v must be given as int"),
        ({"counter": 0}, "count from 1"),
        ({"incarnation": -1}, "count from 1"),
        ({"host": ""}, "no name"),
        ({"site": "a/b"}, "no name"),
        ({"site": "a\nb"}, "no name"),
        ({"signature": "00"}, "64 bytes"),
        ({"signature": "AA" * 64}, "64 bytes"),
        ({"signature": "x" * 128}, "64 bytes"),
        ({"body": []}, "body must be"),
    ],
)
def test_an_envelope_of_another_form_is_refused(
    tmp_path: Path, fields: dict[str, object], said: str
) -> None:
    raw = Signing(tmp_path).pen("tokyo-1").sign(event(), 1)

    with pytest.raises(DamagedError, match=said):
        open_envelope(change(raw, **fields))


def test_an_envelope_may_hold_fields_of_a_newer_minor_version(tmp_path: Path) -> None:
    raw = Signing(tmp_path).pen("tokyo-1").sign(event(), 1)

    assert open_envelope(change(raw, mood="good")).kind == "event"


def test_a_name_is_as_long_as_it_may_be() -> None:
    check_name("x" * LONGEST_NAME)
    with pytest.raises(DamagedError):
        check_name("x" * (LONGEST_NAME + 1))


def test_only_contributions_and_checkpoints_name_blobs() -> None:
    assert named_blobs(Lead(term=1)) == ()
    assert named_blobs(CONTROLLERS[4]) == (("b", 1),)
