from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from fakes.logbook import RUN, Signing, entries, event

from argosy.core.errors import DamagedError, HostError
from argosy.core.records import Lead, Writer
from argosy.logbook.envelope import open_envelope
from argosy.logbook.keys import (
    Authority,
    Identity,
    Pen,
    check_certificate,
    fingerprint,
    identity,
    identity_of_uri,
    next_incarnation,
    public_key,
    read_private,
    verify,
)


def test_a_host_gets_a_key_that_only_its_owner_can_read(tmp_path: Path) -> None:
    Authority.make(tmp_path / "ca").issue(RUN, "tokyo", "tokyo-1", tmp_path / "tokyo-1")

    assert sorted(p.name for p in (tmp_path / "tokyo-1").iterdir()) == [
        "ca.pem", "host.key", "host.pem",
    ]  # fmt: skip
    assert (tmp_path / "tokyo-1" / "host.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "tokyo-1").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "ca" / "ca.key").stat().st_mode & 0o777 == 0o600


def test_an_authority_that_is_opened_again_issues_as_before(tmp_path: Path) -> None:
    made = Authority.make(tmp_path / "ca")

    certificate = Authority.open(tmp_path / "ca").issue(RUN, "s", "h", tmp_path / "h")

    check_certificate(certificate, made.pem, Identity(run=RUN, site="s", host="h"))


def test_a_certificate_is_valid_from_a_day_before_it_was_issued(tmp_path: Path) -> None:
    at = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    pem = Authority.make(tmp_path / "ca", at=at).issue(RUN, "s", "h", tmp_path / "h", at=at)

    certificate = x509.load_pem_x509_certificate(pem.encode())

    assert certificate.not_valid_before_utc == at - timedelta(hours=24)
    assert certificate.not_valid_after_utc > at + timedelta(days=3000)


@pytest.mark.parametrize("site", ["tokyo", "são paulo", "a%2Fb", "東京"])
def test_a_certificate_says_whose_it_is_whatever_the_name(tmp_path: Path, site: str) -> None:
    pem = Authority.make(tmp_path / "ca").issue(RUN, site, "host 1", tmp_path / "h")

    assert identity(pem) == Identity(run=RUN, site=site, host="host 1")


@pytest.mark.parametrize(
    "uri",
    [
        "https://r/s/h", "argosy://r/s", "argosy://r/s/h/x", "argosy://r//h", "argosy:r/s/h", "",
        "argosy://r/%73/h", "argosy://[/s/h",
    ],
)  # fmt: skip
def test_a_name_of_another_form_is_no_identity(uri: str) -> None:
    with pytest.raises(DamagedError):
        identity_of_uri(uri)


def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    mine, other = Authority.make(tmp_path / "a"), Authority.make(tmp_path / "b")
    who = Identity(run=RUN, site="s", host="h")

    with pytest.raises(DamagedError, match="not issued by"):
        check_certificate(other.issue(RUN, "s", "h", tmp_path / "h"), mine.pem, who)


def test_a_certificate_of_another_host_is_refused(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "a")

    with pytest.raises(DamagedError, match="expected argosy://"):
        check_certificate(
            authority.issue(RUN, "s", "other", tmp_path / "h"),
            authority.pem,
            Identity(run=RUN, site="s", host="h"),
        )


def test_the_authority_itself_is_nobodys_identity(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="names no"):
        identity(Authority.make(tmp_path / "a").pem)


def test_what_is_no_certificate_is_refused() -> None:
    with pytest.raises(DamagedError, match="PEM"):
        fingerprint("nonsense")


def test_a_pen_numbers_its_records_and_ties_each_to_the_one_before(tmp_path: Path) -> None:
    pen = Signing(tmp_path).pen("tokyo-1", 3)

    first, second = (open_envelope(pen.sign(event(str(i)), 10 + i)) for i in range(2))

    assert (first.counter, first.prev, first.at_ms) == (1, "", 10)
    assert (second.counter, second.prev) == (2, first.sha256)
    assert second.writer == Writer(site="tokyo", host="tokyo-1", incarnation=3)


def test_a_record_that_was_taken_back_leaves_its_number_to_the_next(tmp_path: Path) -> None:
    pen = Signing(tmp_path).pen("tokyo-1")
    first = open_envelope(pen.sign(event("kept"), 1))
    refused = pen.sign(event("refused"), 2)

    pen.take_back(refused)
    after = open_envelope(pen.sign(event("next"), 3))

    assert (after.counter, after.prev) == (2, first.sha256)
    with pytest.raises(AssertionError):
        pen.take_back(refused)


def test_a_signature_holds_for_its_own_certificate_only(tmp_path: Path) -> None:
    signing = Signing(tmp_path)
    raw = signing.pen("tokyo-1").sign(event(), 1)
    seats = {seat.host: seat.certificate for seat in signing.seats}

    verify(raw, seats["tokyo-1"])

    with pytest.raises(DamagedError, match="not made with the key of frankfurt/frankfurt-1"):
        verify(raw, seats["frankfurt-1"])
    with pytest.raises(DamagedError, match="signature"):
        verify(raw.replace(b'"at_ms":1', b'"at_ms":2'), seats["tokyo-1"])


def test_the_next_incarnation_is_one_above_the_highest_of_that_host() -> None:
    seen = entries(
        Lead(term=1),
        (Writer(site="tokyo", host="tokyo-1", incarnation=4), event()),
        (Writer(site="tokyo", host="tokyo-2", incarnation=9), event()),
        (Writer(site="tokyo", host="tokyo-1", incarnation=6), event()),
    )

    assert next_incarnation(seen, "tokyo", "tokyo-1") == 7
    assert next_incarnation(seen, "osaka", "tokyo-1") == 1


def test_keys_that_are_missing_or_no_keys_are_said_with_their_path(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot read") as missing:
        Pen.open(tmp_path, 1)
    assert missing.value.where == str(tmp_path / "host.pem")

    (tmp_path / "host.key").write_text("nonsense")
    with pytest.raises(HostError, match="not a private key"):
        read_private(tmp_path / "host.key")

    curve = generate_private_key(SECP256R1())
    (tmp_path / "host.key").write_bytes(
        curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    with pytest.raises(HostError, match="not an Ed25519 key"):
        read_private(tmp_path / "host.key")


def test_a_certificate_over_another_sort_of_key_is_refused() -> None:
    key = generate_private_key(SECP256R1())
    name = x509.Name([])
    now = datetime(2030, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now)
    )
    from cryptography.hazmat.primitives.hashes import SHA256

    pem = certificate.sign(key, SHA256()).public_bytes(Encoding.PEM).decode()

    with pytest.raises(DamagedError, match="not Ed25519"):
        public_key(pem)
