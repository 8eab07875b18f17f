"""Reads certificates and keys in the forms they come in: PEM text, PEM files, PKCS12 stores; JKS is refused.

PKCS12 is read by the package cryptography (extra `pkcs12`). Nothing here judges what it reads, or keeps it.
"""

from __future__ import annotations

import os
from typing import Final

from kafkaraw.errors import ConfigError

PEM_MARK: Final = "-----BEGIN "
_JKS_MARKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER_SEQUENCE: Final = b"\x30"


def pem_of(given: str, password: str | None = None) -> str:
    """What is in a store, as PEM text: private key, its certificate, then all others.

    Args:
        given: PEM text, or the path of a PEM file or a PKCS12 store.
        password: of a PKCS12 store.

    Raises:
        ConfigError: a Java store, or a PKCS12 store that cannot be read; says what to do.
        OSError: the file cannot be read.
    """
    if PEM_MARK in given:
        return given
    with open(given, "rb") as file:
        data = file.read()
    if data.startswith(_JKS_MARKS):
        raise ConfigError(
            f"{given} is a Java keystore (JKS), which only Java reads; convert it: keytool -importkeystore "
            f"-srckeystore {given} -destkeystore {_stem(given)}.p12 -deststoretype PKCS12"
        )
    if data.startswith(_DER_SEQUENCE) and PEM_MARK.encode() not in data:
        return _from_pkcs12(given, data, password)
    return data.decode("ascii", errors="replace")


def _from_pkcs12(path: str, data: bytes, password: str | None) -> str:
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError:
        raise ConfigError(
            f"{path} is a PKCS12 store: reading it needs the package cryptography, pip install 'kafkaraw[pkcs12]'; or "
            f"convert it: openssl pkcs12 -in {path} -out {_stem(path)}.pem"
        ) from None
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        opens = "opens without a password" if password is None else "this password opens"
        raise ConfigError(
            f"{path} is neither PEM nor a PKCS12 store that {opens}; a single certificate in DER becomes "
            f"PEM by: openssl x509 -inform der -in {path}"
        ) from None
    parts = [entry.certificate.public_bytes(Encoding.PEM) for entry in (store.cert, *store.additional_certs) if entry]
    if store.key is not None:
        parts.insert(0, store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return b"".join(parts).decode()


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]
