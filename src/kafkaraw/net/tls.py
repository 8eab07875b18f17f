"""Builds the TLS contexts of clients and brokers: TLS 1.2 or newer, certificates and host names checked.

Keys and certificates are PEM, in files or as text, or in PKCS12 stores (`net.stores`). Nothing here opens a connection.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.net.stores import pem_of

_OPEN_FILES: Final = "/proc/self/fd"


def client_context(
    *,
    trusted: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    password: str | None = None,
    check_hostname: bool = True,
) -> ssl.SSLContext:
    """What a client speaks.

    Args:
        trusted: certificates of the authorities to trust, a file or PEM text; None trusts those of the system.
        certificate: our own certificate chain, a file or PEM text; for brokers that ask for one.
        key: its private key, a file or PEM text; None when it is in the same file.
        password: of the key.
        check_hostname: the broker's certificate must name the host that was dialled.

    Raises:
        ConfigError: a file cannot be read, or is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = check_hostname
    if trusted is None:
        context.load_default_certs()
    else:
        _trust(context, trusted)
    if certificate is not None:
        _identify(context, certificate, key, password)
    return context


def handshake_context() -> ssl.SSLContext:
    """Completes a handshake with any peer, to find out whether a port speaks TLS; never for data."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def server_context(
    *, certificate: str, key: str | None, password: str | None = None, trusted: str | None = None, client_auth: str
) -> ssl.SSLContext:
    """What a broker's listener speaks.

    Args:
        certificate: its certificate chain, a file or PEM text.
        key: its private key, a file or PEM text; None when it is in the same file.
        password: of the key.
        trusted: certificates of the authorities whose clients to trust.
        client_auth: "required", "requested" or "none", as in Kafka's `ssl.client.auth`.

    Raises:
        ConfigError: a file cannot be read, or is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _identify(context, certificate, key, password)
    if trusted is not None:
        _trust(context, trusted)
    modes = {"required": ssl.CERT_REQUIRED, "requested": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}
    context.verify_mode = modes[client_auth]
    return context


def _trust(context: ssl.SSLContext, trusted: str) -> None:
    try:
        context.load_verify_locations(cadata=pem_of(trusted))
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"the trusted certificates cannot be used: {_reason(error)}") from None


@contextlib.contextmanager
def _private_file(text: str) -> Iterator[str]:
    """A file that holds a text for now, by its path: in memory where the system can do that, so that no disk has it."""
    if hasattr(os, "memfd_create") and os.path.isdir(_OPEN_FILES):
        with open(os.memfd_create("kafkaraw"), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            yield f"{_OPEN_FILES}/{file.fileno()}"
    else:
        import tempfile  # only for certificates given as text

        with tempfile.NamedTemporaryFile("w", suffix=".pem", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            yield file.name


def _identify(context: ssl.SSLContext, certificate: str, key: str | None, password: str | None) -> None:
    """Load certificate and key. Python reads them from a file only, so this writes a temporary one and deletes it."""
    try:
        text = pem_of(certificate, password) + ("" if key is None else "\n" + pem_of(key, password))
        with _private_file(text) as path:
            # Without a password given, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(path, password=password or "")
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the certificate and its private key cannot be used: {_reason(error)}; give PEM, the key that belongs to "
            "the certificate, and its password if it has one"
        ) from None


def _reason(error: OSError | ValueError) -> str:
    """Say why, without content of a key."""
    if isinstance(error, ssl.SSLError):
        return error.reason or "not PEM"
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else "not PEM"
