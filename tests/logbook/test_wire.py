from pathlib import Path

import pytest
from fakes.logbook import Signing, event

from argosy.core.errors import (
    DamagedError,
    DiskError,
    FencedError,
    HostError,
    PolicyError,
    UserError,
)
from argosy.logbook import wire
from argosy.logbook.chain import GENESIS, chain
from argosy.logbook.following import Following


@pytest.mark.parametrize("cls", [DamagedError, DiskError, FencedError, HostError, PolicyError])
def test_a_refusal_comes_back_as_what_it_was(cls: type[UserError]) -> None:
    said = cls("no", where="/secret/path", hint="do this")

    status, body = wire.refusal(said)
    heard = wire.refused(status, body, "https://h:1")

    assert type(heard) is cls
    assert (heard.what, heard.hint, heard.where) == ("no", "do this", "https://h:1")
    assert b"secret" not in body
    assert 400 <= status < 600


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error":"odd","what":"x"}', b"{}"])
def test_an_answer_of_something_else_is_a_host_error(body: bytes) -> None:
    heard = wire.refused(502, body, "https://h:1")

    assert isinstance(heard, HostError)
    assert "502" in heard.what


def test_a_batch_comes_back_as_it_was_packed() -> None:
    raws = [b'{"a":1}', b'{"b":"\\n"}']

    assert wire.unpack(wire.pack(7, GENESIS, raws)) == (7, GENESIS, raws)


@pytest.mark.parametrize(
    "body", [b"", b"7", b"7 abc\n{}", b"x " + b"0" * 64 + b"\n{}", b"7 " + b"0" * 64, b"\xff\n\n"]
)
def test_what_is_no_batch_is_refused(body: bytes) -> None:
    with pytest.raises(DamagedError, match="not a batch"):
        wire.unpack(body)


@pytest.fixture
def raws(tmp_path: Path) -> list[bytes]:
    signing = Signing(tmp_path)
    tokyo = signing.pen("tokyo-1")
    return [*signing.opening(signing.pen()), *(tokyo.sign(event(str(i)), i) for i in range(4))]


@pytest.fixture
def authority(tmp_path: Path, raws: list[bytes]) -> str:
    del raws
    return (tmp_path / "ca" / "ca.pem").read_text()


def chains(raws: list[bytes]) -> list[str]:
    values = [GENESIS]
    for raw in raws:
        values.append(chain(values[-1], raw))
    return values


def test_a_reader_follows_the_log_in_batches(raws: list[bytes], authority: str) -> None:
    following = Following(authority)
    values = chains(raws)

    first = following.take(1, GENESIS, raws[:3])
    again = following.take(2, values[1], raws[1:])

    assert [entry.chain for entry in first] == values[1:4]
    assert [entry.seq for entry in again] == [2, 3, 4, 5, 6]
    assert again[:2] == first[1:]
    assert following.seq == 6


def test_a_reader_refuses_a_record_that_may_not_stand(raws: list[bytes], authority: str) -> None:
    following = Following(authority)

    with pytest.raises(DamagedError, match="record 3: counter"):
        following.take(1, GENESIS, [*raws[:2], raws[3]])
    assert following.seq == 2
    assert [entry.seq for entry in following.take(3, chains(raws)[2], raws[2:])] == [3, 4, 5, 6]


def test_a_reader_refuses_another_past(raws: list[bytes], authority: str) -> None:
    following = Following(authority)
    following.take(1, GENESIS, raws)

    with pytest.raises(DamagedError, match="record 2: the logbook serves another"):
        following.take(3, "ab" * 32, raws[2:])
    with pytest.raises(DamagedError, match="record 3: the logbook serves another"):
        following.take(3, chains(raws)[2], [raws[3]])


def test_a_reader_does_not_follow_another_authority(raws: list[bytes], tmp_path: Path) -> None:
    other = Signing(tmp_path / "other").authority.pem

    with pytest.raises(DamagedError, match="record 1: run: names another"):
        Following(other).take(1, GENESIS, raws)
