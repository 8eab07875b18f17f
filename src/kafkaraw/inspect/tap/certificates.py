"""TLS with clients: a certificate that is made for one run, and the handshakes that fail.

Certificates need the package `cryptography`. Start at `own_certificate` and `FailedHandshakes`.
"""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from kafkaraw.errors import UsageError
from kafkaraw.net.os_errors import reason_of
from kafkaraw.net.tls import server_context

VALID_DAYS: Final = 7
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class OwnCertificate(NamedTuple):
    """A certificate that signs itself.

    Attributes:
        path: of the certificate (PEM), for clients to trust; without the private key, which no file has.
        context: what the tap speaks.
    """

    path: Path
    context: ssl.SSLContext


def own_certificate(advertised_host: str | None = None) -> OwnCertificate:
    """Make a certificate for this machine's names, and for the advertised host.

    Raises:
        UsageError: `cryptography` is not installed.
    """
    hosts = list(dict.fromkeys(filter(None, (*_LOCAL, socket.gethostname(), advertised_host))))
    certificate, key = _made(hosts)
    with tempfile.NamedTemporaryFile("wb", prefix="kafkaraw-tap-", suffix=".pem", delete=False) as file:
        file.write(certificate)
    context = server_context(certificate=certificate.decode(), key=key.decode(), client_auth="none")
    return OwnCertificate(Path(file.name), context)


_PLAIN: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE"})
_DISTRUSTED: Final = ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN")


class FailedHandshakes:
    """Notes why clients do not agree on TLS with the tap; asyncio closes such a connection without a word.

    Args:
        context: what the tap speaks with clients; `stop` leaves it as it was.
        note: is called with the reason in words.
    """

    def __init__(self, context: ssl.SSLContext, note: Callable[[str], None]) -> None:
        self._context = context
        self._before = context.sslobject_class

        class Noting(ssl.SSLObject):
            def do_handshake(self) -> None:
                try:
                    super().do_handshake()
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    raise
                except ssl.SSLError as error:
                    note(_handshake_words(error))
                    raise

        context.sslobject_class = Noting

    def stop(self) -> None:
        """Note nothing more."""
        self._context.sslobject_class = self._before


def _handshake_words(error: ssl.SSLError) -> str:
    reason = error.reason or ""
    advice = ""
    if reason in _PLAIN:
        advice = "; it does not speak TLS: set its security.protocol to SSL or SASL_SSL"
    elif reason.endswith(_DISTRUSTED):
        advice = "; it does not trust the tap's certificate: give it that as ssl.cafile (ssl.ca.location)"
    return f"a client's TLS handshake with the tap failed: {reason_of(error)}{advice}"


def _made(hosts: list[str]) -> tuple[bytes, bytes]:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise UsageError(
            "a certificate is made with the package cryptography: run `pip install cryptography`, or give one with "
            "--tls-cert"
        ) from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kafkaraw wire tap")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    return certificate.public_bytes(encoding), key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
