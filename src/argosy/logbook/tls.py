"""The TLS contexts of both ends: version 1.3, and nobody but holders of this run's keys."""

import ssl
from pathlib import Path

from argosy.core.errors import DamagedError, HostError
from argosy.logbook.keys import check_certificate, identity


def server_tls(keys: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0  # clients keep their connections, so tickets are bytes for nothing
    _load(context, keys)
    return context


def client_tls(keys: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    _load(context, keys)
    # A server drops a stranger without a word: find out here that it can't know these keys.
    certificate = (keys / "host.pem").read_text()
    try:
        check_certificate(certificate, (keys / "ca.pem").read_text(), identity(certificate))
    except DamagedError as wrong:
        raise HostError(wrong.what, where=str(keys), hint="take this run's own keys") from None
    return context


def broken_trust(wrong: BaseException) -> str | None:
    """What TLS said when the two ends do not trust each other; None when only the line broke."""
    link: BaseException | None = wrong
    while link is not None:
        if isinstance(link, ssl.SSLCertVerificationError):
            return link.verify_message
        if isinstance(link, ssl.SSLError) and "ALERT" in (link.reason or ""):
            return str(link.reason).lower().replace("_", " ")
        link = link.__cause__ or link.__context__
    return None


def _load(context: ssl.SSLContext, keys: Path) -> None:
    for name in ("ca.pem", "host.pem", "host.key"):
        if not (keys / name).is_file():
            raise HostError(
                f"no {name} among the keys", where=str(keys), hint="issue this host's keys first"
            )
    try:
        context.load_verify_locations(keys / "ca.pem")
        context.load_cert_chain(keys / "host.pem", keys / "host.key")
    except (ssl.SSLError, OSError) as wrong:
        raise HostError(
            f"cannot use these keys: {wrong.strerror or wrong}",
            where=str(keys),
            hint="host.key must belong to host.pem, both as issued for this host",
        ) from None
