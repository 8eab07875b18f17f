"""The broker's key, certificate and trusted authorities, from a listener's `ssl.*` properties.

PEM in files or as text, PKCS12 in files; what a file is, its content says (`net.stores`). Java's own form (JKS) is
refused with the command that converts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.settings import Setting, Value, text
from kafkaraw.errors import ConfigError

if TYPE_CHECKING:
    import ssl

FORMS: Final = ("PEM", "PKCS12", "JKS")
STORE_SETTINGS: Final = (
    Setting(
        "ssl.client.auth",
        "none",
        "whether clients must present certificates",
        choices=("none", "requested", "required"),
    ),
    Setting("ssl.keystore.type", "PEM", "format of the broker's key and certificate", choices=FORMS),
    Setting("ssl.keystore.location", "", "file with the broker's private key and certificate chain"),
    Setting("ssl.keystore.password", "", "password of a PKCS12 file"),
    Setting("ssl.keystore.certificate.chain", "", "the broker's certificate chain, as PEM text"),
    Setting("ssl.keystore.key", "", "the broker's private key, as PEM text"),
    Setting("ssl.key.password", "", "password of the private key"),
    Setting("ssl.truststore.type", "PEM", "format of the trusted certificates", choices=FORMS),
    Setting("ssl.truststore.location", "", "file with the certificates of trusted authorities"),
    Setting("ssl.truststore.password", "", "password of a PKCS12 file"),
    Setting("ssl.truststore.certificates", "", "certificates of trusted authorities, as PEM text"),
)
_NAMES: Final = tuple(setting.name for setting in STORE_SETTINGS)
_JKS: Final = (
    "only Java reads JKS; convert it: keytool -importkeystore -srckeystore STORE.jks -destkeystore STORE.p12 "
    "-deststoretype PKCS12"
)


class Keystores:
    """Makes what TLS listeners speak; listeners with the same stores share it."""

    def __init__(self) -> None:
        self._made: dict[tuple[Value, ...], ssl.SSLContext] = {}

    def context(self, values: Mapping[str, Value]) -> ssl.SSLContext:
        """What a listener with these properties speaks.

        Raises:
            ConfigError: something is missing, contradictory or unusable.
        """
        key = tuple(values[name] for name in _NAMES)
        if key not in self._made:
            self._made[key] = _context(values)
        return self._made[key]


def _context(values: Mapping[str, Value]) -> ssl.SSLContext:
    from kafkaraw.net.tls import server_context  # only for TLS

    for name in ("ssl.keystore.type", "ssl.truststore.type"):
        if text(values, name) == "JKS":
            raise ConfigError(f"{name}=JKS: {_JKS}, and set {name}=PKCS12")
    location, chain = text(values, "ssl.keystore.location"), text(values, "ssl.keystore.certificate.chain")
    if bool(location) == bool(chain):
        raise ConfigError(
            "a listener speaks TLS: give its certificate either by ssl.keystore.location or by "
            "ssl.keystore.certificate.chain and ssl.keystore.key"
        )
    key = text(values, "ssl.keystore.key")
    if bool(chain) != bool(key):
        raise ConfigError("ssl.keystore.certificate.chain and ssl.keystore.key go together")
    trusted = text(values, "ssl.truststore.certificates") or _content(values, "ssl.truststore")
    client_auth = text(values, "ssl.client.auth")
    if client_auth != "none" and not trusted:
        raise ConfigError(f"ssl.client.auth={client_auth} needs ssl.truststore.location or ssl.truststore.certificates")
    return server_context(
        certificate=_content(values, "ssl.keystore") or chain,
        key=key or None,
        password=text(values, "ssl.key.password") or None,
        trusted=trusted or None,
        client_auth=client_auth,
    )


def _content(values: Mapping[str, Value], store: str) -> str:
    """What is in a file, as PEM text; nothing when none is named."""
    location = text(values, f"{store}.location")
    if not location:
        return ""
    from kafkaraw.net.stores import pem_of  # only for TLS

    try:
        return pem_of(location, text(values, f"{store}.password") or None)
    except OSError as error:
        raise ConfigError(f"{store}.location: {location} cannot be read: {error.strerror}") from None
