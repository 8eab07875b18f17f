"""What protects the listeners: TLS, and who may log in how. Checked before the broker starts.

Authentication never fails open: a listener that asks for a login or for TLS, and lacks what that takes, is an error.
Passwords stay in here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.settings import Setting, Value, flag, number, split_list, text
from kafkaraw.core.sasl.saslprep import saslprep
from kafkaraw.core.sasl.scram import HASHES
from kafkaraw.errors import ConfigError
from kafkaraw.net.tls import server_context

if TYPE_CHECKING:
    import ssl

PASSWORD_MECHANISMS: Final = ("PLAIN", *HASHES)
MECHANISMS: Final = (*PASSWORD_MECHANISMS, "OAUTHBEARER")
ANONYMOUS: Final = "User:ANONYMOUS"

SECURITY_SETTINGS: Final = (
    Setting("sasl.enabled.mechanisms", "", "how clients may log in", choices=MECHANISMS, is_list=True),
    Setting("connections.max.reauth.ms", 0, "how long a login lasts before it has to be renewed; 0 is for ever"),
    Setting("sasl.server.max.receive.size", 524_288, "largest request before the login, in bytes", low=1),
    Setting(
        "sasl.oauthbearer.unsecured.enable", False, "take OAuth tokens that nobody signed; not Kafka's, for tests only"
    ),
    Setting("ssl.client.auth", "none", "ask clients for certificates", choices=("none", "requested", "required")),
    Setting("ssl.keystore.type", "PEM", "form of the broker's key and certificate", choices=("PEM",)),
    Setting("ssl.keystore.location", "", "PEM file with the broker's private key and certificate chain"),
    Setting("ssl.keystore.certificate.chain", "", "the broker's certificate chain, as PEM text"),
    Setting("ssl.keystore.key", "", "the broker's private key, as PEM text"),
    Setting("ssl.key.password", "", "password of the private key"),
    Setting("ssl.truststore.type", "PEM", "form of the trusted certificates", choices=("PEM",)),
    Setting("ssl.truststore.location", "", "PEM file with the authorities whose clients to trust"),
    Setting("ssl.truststore.certificates", "", "the same, as PEM text"),
)


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """The checked security settings.

    Attributes:
        protocols: the security protocol of each listener that listens, by name.
        mechanisms: how clients may log in.
        users: passwords, by user name.
        tls: what TLS listeners speak.
        frame_size_max: largest request before the login, in bytes.
        reauth_ms: how long a login lasts, in milliseconds; None is for ever.
    """

    protocols: Mapping[str, str]
    mechanisms: tuple[str, ...]
    users: Mapping[str, str] = field(repr=False)
    tls: ssl.SSLContext | None = field(repr=False)
    frame_size_max: int
    reauth_ms: int | None

    def wants_login(self, listener: str) -> bool:
        """Whether clients of a listener have to log in."""
        return self.protocols[listener].startswith("SASL")

    def tls_of(self, listener: str) -> ssl.SSLContext | None:
        """What a listener speaks; None is plain TCP."""
        return self.tls if "SSL" in self.protocols[listener] else None


def parse_security(
    values: Mapping[str, Value], protocols: Mapping[str, str], users: Mapping[str, str]
) -> BrokerSecurity:
    """Check what the listeners need.

    Args:
        values: the broker's properties, parsed.
        protocols: the security protocol of each listener that listens.
        users: passwords, by user name.

    Raises:
        ConfigError: something is missing, contradictory or unusable.
    """
    mechanisms = tuple(split_list(text(values, "sasl.enabled.mechanisms")))
    if users and not mechanisms:
        mechanisms = PASSWORD_MECHANISMS
    _check_login(values, protocols.values(), mechanisms, users)
    encrypted = any("SSL" in protocol for protocol in protocols.values())
    tls = _tls(values) if encrypted else None
    return BrokerSecurity(
        protocols,
        mechanisms,
        users,
        tls,
        frame_size_max=number(values, "sasl.server.max.receive.size"),
        reauth_ms=number(values, "connections.max.reauth.ms") or None,
    )


def _check_login(
    values: Mapping[str, Value], protocols: Iterable[str], mechanisms: tuple[str, ...], users: Mapping[str, str]
) -> None:
    wanted = any(protocol.startswith("SASL") for protocol in protocols)
    if wanted and not mechanisms:
        raise ConfigError(
            "a listener asks for a login, but nobody could: set sasl.enabled.mechanisms, and give users (--user)"
        )
    if users and not wanted:
        raise ConfigError(
            "users are given, but no listener asks for a login: set listeners to SASL_PLAINTEXT or SASL_SSL"
        )
    by_password = [name for name in mechanisms if name in PASSWORD_MECHANISMS]
    if wanted and by_password and not users:
        raise ConfigError(f"{', '.join(by_password)} without users would refuse everybody: give users (--user)")
    if "OAUTHBEARER" in mechanisms and not flag(values, "sasl.oauthbearer.unsecured.enable"):
        raise ConfigError(
            "OAUTHBEARER: this broker cannot check signatures of tokens; leave it out, or, in a test, set "
            "sasl.oauthbearer.unsecured.enable=true to take tokens that nobody signed"
        )
    for name, password in users.items():
        if not name or not password:
            raise ConfigError(f"user {name!r}: a user needs a name and a password")
        try:
            saslprep(password)
        except ValueError as error:
            raise ConfigError(f"user {name!r}: the password has {error}") from None


def _tls(values: Mapping[str, Value]) -> ssl.SSLContext:
    location, chain = text(values, "ssl.keystore.location"), text(values, "ssl.keystore.certificate.chain")
    if bool(location) == bool(chain):
        raise ConfigError(
            "a listener speaks TLS: give its certificate either by ssl.keystore.location or by "
            "ssl.keystore.certificate.chain and ssl.keystore.key"
        )
    key = text(values, "ssl.keystore.key")
    if bool(chain) != bool(key):
        raise ConfigError("ssl.keystore.certificate.chain and ssl.keystore.key go together")
    trusted = text(values, "ssl.truststore.certificates") or text(values, "ssl.truststore.location")
    client_auth = text(values, "ssl.client.auth")
    if client_auth != "none" and not trusted:
        raise ConfigError(f"ssl.client.auth={client_auth} needs ssl.truststore.location or ssl.truststore.certificates")
    return server_context(
        certificate=location or chain,
        key=key or None,
        password=text(values, "ssl.key.password") or None,
        trusted=trusted or None,
        client_auth=client_auth,
    )
