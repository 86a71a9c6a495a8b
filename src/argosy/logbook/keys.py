"""Keys of a run: its own small certificate authority, one key per host, and the pens that sign."""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Self
from urllib.parse import quote, unquote

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from argosy.core.errors import DamagedError, HostError
from argosy.core.records import CONTROLLER, Body, Entry
from argosy.logbook.encoding import canonical, encode_body
from argosy.logbook.envelope import VERSION, open_envelope

SERVER_NAME = "logbook"  # what the server's certificate says it is, whatever its address
BEFORE = timedelta(hours=24)  # a host whose clock is hours behind can still connect
X509_WRONG = (
    x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType,
)  # fmt: skip
AFTER = timedelta(days=3650)  # the keys belong to one run and end with its folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Who holds a certificate: argosy://run/site/host."""

    run: str
    site: str
    host: str

    @property
    def uri(self) -> str:
        parts = (self.run, self.site, self.host)
        return "argosy://" + "/".join(quote(part, safe="") for part in parts)


def identity_of_uri(uri: str) -> Identity:
    scheme, _, rest = uri.partition("://")
    parts = [unquote(part) for part in rest.split("/")]
    if scheme != "argosy" or len(parts) != 3 or not all(parts):
        raise DamagedError(f"certificate: {uri!r} is not argosy://run/site/host")
    identity = Identity(run=parts[0], site=parts[1], host=parts[2])
    if identity.uri != uri:
        raise DamagedError(f"certificate: {uri!r} is spelled otherwise than {identity.uri!r}")
    return identity


class Authority:
    """The certificate authority of one run. Its key never leaves the controller."""

    def __init__(self, key: Ed25519PrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate
        self.pem = _pem(certificate)

    @classmethod
    def make(cls, folder: Path, *, at: datetime | None = None) -> Self:
        key = Ed25519PrivateKey.generate()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "argosy run authority")])
        certificate = (
            _builder(name, name, key.public_key(), at)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .sign(key, None)
        )
        _write(folder / "ca.key", _private_pem(key), mode=0o600)
        _write(folder / "ca.pem", _pem(certificate).encode(), mode=0o644)
        return cls(key, certificate)

    @classmethod
    def open(cls, folder: Path) -> Self:
        return cls(
            read_private(folder / "ca.key"),
            x509.load_pem_x509_certificate(_read(folder / "ca.pem")),
        )

    def issue(
        self, run: str, site: str, host: str, folder: Path, *, at: datetime | None = None
    ) -> str:
        """A new key for one host, in `folder`: ca.pem, host.pem, host.key. Its certificate, PEM."""
        who = Identity(run=run, site=site, host=host)
        return self._issue(who, folder, at, None)

    def issue_server(self, run: str, folder: Path, *, at: datetime | None = None) -> str:
        """The server's key. Only this certificate can stand for the logbook itself."""
        who = Identity(run=run, site=CONTROLLER, host="server")
        return self._issue(who, folder, at, SERVER_NAME)

    def _issue(
        self, who: Identity, folder: Path, at: datetime | None, server_name: str | None
    ) -> str:
        key = Ed25519PrivateKey.generate()
        subject = x509.Name(
            [x509.NameAttribute(NameOID.COMMON_NAME, f"{who.site}/{who.host}"[:64])]
        )
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(who.uri)]
        purpose = ExtendedKeyUsageOID.CLIENT_AUTH
        if server_name:
            names.append(x509.DNSName(server_name))
            purpose = ExtendedKeyUsageOID.SERVER_AUTH
        issuer = self._key.public_key()
        certificate = (
            _builder(subject, self._certificate.subject, key.public_key(), at)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), False)
            .add_extension(x509.SubjectAlternativeName(names), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), False)
            .sign(self._key, None)
        )
        _write(folder / "ca.pem", self.pem.encode(), mode=0o644)
        _write(folder / "host.key", _private_pem(key), mode=0o600)
        _write(folder / "host.pem", _pem(certificate).encode(), mode=0o644)
        return _pem(certificate)


class Pen:
    """Signs one host's records in order: its own counter, each after the hash of the one before."""

    def __init__(
        self, run: str, site: str, host: str, incarnation: int, key: Ed25519PrivateKey
    ) -> None:
        self.run = run
        self.site = site
        self.host = host
        self.incarnation = incarnation
        self._key = key
        self._counter = 0
        self._prev = ""
        self._undo: tuple[bytes, int, str] | None = None

    @classmethod
    def open(cls, folder: Path, incarnation: int) -> Self:
        """The pen of the host whose keys lie in `folder`."""
        who = identity(_read(folder / "host.pem").decode())
        return cls(who.run, who.site, who.host, incarnation, read_private(folder / "host.key"))

    def sign(self, body: Body, at_ms: int) -> bytes:
        kind, plain = encode_body(body)
        fields = {
            "v": VERSION, "kind": kind, "run": self.run, "site": self.site, "host": self.host,
            "incarnation": self.incarnation, "counter": self._counter + 1, "prev": self._prev,
            "at_ms": at_ms, "body": plain,
        }  # fmt: skip
        fields["signature"] = self._key.sign(canonical(fields)).hex()
        raw = canonical(fields)
        self._undo = (raw, self._counter, self._prev)
        self._counter += 1
        self._prev = hashlib.sha256(raw).hexdigest()
        return raw

    def take_back(self, raw: bytes) -> None:
        """Forget the record just signed: the logbook has refused it, so the next takes its place."""
        assert self._undo is not None, "only the last one signed, once"
        assert self._undo[0] == raw, "only the last one signed"
        _, self._counter, self._prev = self._undo
        self._undo = None


def verify(raw: bytes, certificate: str) -> None:
    """Raises DamagedError unless the record was signed with the key of this certificate (PEM)."""
    envelope = open_envelope(raw)
    check_signature(envelope.signature, envelope.signed, certificate)


def check_signature(signature: bytes, signed: bytes, certificate: str) -> None:
    try:
        public_key(certificate).verify(signature, signed)
    except InvalidSignature:
        who = identity(certificate)
        raise DamagedError(
            f"signature: not made with the key of {who.site}/{who.host}, or the record was changed"
        ) from None


def check_certificate(certificate: str, authority: str, who: Identity) -> None:
    """Raises DamagedError unless the authority (PEM) issued this certificate (PEM) to `who`."""
    found = identity(certificate)
    if found != who:
        raise DamagedError(f"certificate: expected {who.uri}, found {found.uri}")
    try:
        _load(certificate).verify_directly_issued_by(_load(authority))
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        raise DamagedError(
            f"certificate: {who.uri} was not issued by the authority of this run"
        ) from None


def identity(certificate: str) -> Identity:
    """Who a certificate (PEM) was issued to."""
    try:
        names = _load(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName)
        uris = names.value.get_values_for_type(x509.UniformResourceIdentifier)
    except (*X509_WRONG, ValueError):
        uris = []
    if len(uris) != 1:
        raise DamagedError("certificate: names no argosy://run/site/host")
    return identity_of_uri(uris[0])


def public_key(certificate: str) -> Ed25519PublicKey:
    try:
        key = _load(certificate).public_key()
    except (UnsupportedAlgorithm, ValueError):
        raise DamagedError("certificate: its key cannot be read") from None
    if not isinstance(key, Ed25519PublicKey):
        raise DamagedError("certificate: its key is not Ed25519")
    return key


def fingerprint(certificate: str) -> str:
    """SHA-256 over the certificate's DER form, the same however its PEM is wrapped."""
    der = _load(certificate).public_bytes(serialization.Encoding.DER)
    return hashlib.sha256(der).hexdigest()


def next_incarnation(entries: Iterable[Entry], site: str, host: str) -> int:
    """The number under which this host writes from now on; all its older lives are fenced."""
    return 1 + max(
        (e.writer.incarnation for e in entries if (e.writer.site, e.writer.host) == (site, host)),
        default=0,
    )


def read_private(path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(_read(path), None)
    except (ValueError, TypeError):
        raise HostError("not a private key", where=str(path)) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise HostError("not an Ed25519 key", where=str(path))
    return key


@lru_cache(maxsize=4096)
def _load(certificate: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(certificate.encode())
    except ValueError:
        raise DamagedError("certificate: not a certificate in PEM form") from None


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Ed25519PublicKey, at: datetime | None
) -> x509.CertificateBuilder:
    now = at or datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BEFORE)
        .not_valid_after(now + AFTER)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _private_pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as wrong:
        raise HostError(
            f"cannot read the key: {wrong.strerror}",
            where=str(path),
            hint="the folder must hold ca.pem, host.pem and host.key of this host",
        ) from None


def _write(path: Path, content: bytes, *, mode: int) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
