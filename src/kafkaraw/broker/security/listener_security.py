"""The security settings of the listeners: TLS, SASL mechanisms and users, and principals of certificates.

They are checked before the broker starts: a listener with incomplete settings for SASL or TLS is an error. A property
may be set for one listener (`listener.name.X.NAME`), and some for one mechanism of a listener
(`listener.name.X.plain.sasl.jaas.config`); these override the general property. No other module has the passwords.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.security.keystores import STORE_SETTINGS, Keystores
from kafkaraw.broker.security.mechanisms import (
    JAAS,
    LOGIN_SETTINGS,
    MECHANISM_SETTINGS,
    MECHANISMS,
    SaslSettings,
    check_users,
    parse_sasl,
)
from kafkaraw.broker.security.principals import DEFAULT, NAME, PrincipalMapping
from kafkaraw.broker.settings import Setting, Value, by_name, number, text, unknown
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field

if TYPE_CHECKING:
    import ssl

ANONYMOUS: Final = "User:ANONYMOUS"
LISTENER_PREFIX: Final = "listener.name."
SECURITY_SETTINGS: Final = (
    *LOGIN_SETTINGS,
    *STORE_SETTINGS,
    Setting(NAME, DEFAULT, "rules that map a certificate's subject to a principal's name"),
)
_OF_LISTENERS: Final = by_name(SECURITY_SETTINGS)
_OF_MECHANISMS: Final = by_name(MECHANISM_SETTINGS)


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The checked settings of one listener.

    Attributes:
        protocol: such as SASL_SSL.
        sasl: the SASL settings; empty without SASL.
        tls: the TLS settings; None is plain TCP.
        principals: the mapping from certificates to principals.
    """

    protocol: str
    sasl: SaslSettings
    tls: ssl.SSLContext | None = field(repr=False)
    principals: PrincipalMapping = field(repr=False)


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """The checked security settings.

    Attributes:
        listeners: by name, of those that listen.
        users: users of all listeners: passwords by user name.
        frame_size_max: largest request before authentication, in bytes.
    """

    listeners: Mapping[str, ListenerSecurity]
    users: Mapping[str, str] = field(repr=False)
    frame_size_max: int

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The enabled SASL mechanisms of all listeners."""
        enabled = {name for listener in self.listeners.values() for name in listener.sasl.mechanisms}
        return tuple(name for name in MECHANISMS if name in enabled)

    def requires_sasl(self, listener: str) -> bool:
        """Return whether clients of a listener have to authenticate."""
        return self.listeners[listener].protocol.startswith("SASL")

    def tls_of(self, listener: str) -> ssl.SSLContext | None:
        """Return the TLS settings of a listener; None is plain TCP."""
        return self.listeners[listener].tls


def listener_setting(name: str) -> Setting:
    """The setting behind a property that is for one listener, or one mechanism of a listener.

    Raises:
        ConfigError: there is none.
    """
    rest = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    mechanism, _, of_mechanism = rest.partition(".")
    if mechanism.upper() in MECHANISMS:
        known, rest = _OF_MECHANISMS, of_mechanism
    else:
        known = _OF_LISTENERS
    if rest == JAAS and known is _OF_LISTENERS:
        raise ConfigError(f"{name}: put the mechanism before it, as in listener.name.X.plain.{JAAS}")
    if rest not in known:
        raise unknown(rest, known, f"property of a listener, in {name}: it is to be")
    return known[rest]


def parse_security(
    values: Mapping[str, Value], given: Mapping[str, Value], protocols: Mapping[str, str], users: Mapping[str, str]
) -> BrokerSecurity:
    """Check what the listeners need.

    Args:
        values: the broker's properties that hold for all listeners, parsed.
        given: those that were given, parsed; among them those for one listener.
        protocols: the security protocol of each listener that listens.
        users: passwords, by user name.

    Raises:
        ConfigError: something is missing, contradictory or unusable.
    """
    if users and not any(protocol.startswith("SASL") for protocol in protocols.values()):
        raise ConfigError("users are given, but no listener requires SASL: set listeners to SASL_PLAINTEXT or SASL_SSL")
    check_users(users)
    own = _own_values(given, protocols)
    keystores = Keystores()
    listeners = {
        name: _listener(name, protocol, values, own[name], users, keystores) for name, protocol in protocols.items()
    }
    return BrokerSecurity(listeners, users, number(values, "sasl.server.max.receive.size"))


@dataclass(slots=True)
class _Own:
    """What is set for one listener, and for its mechanisms."""

    values: dict[str, Value] = field(default_factory=dict)
    by_mechanism: dict[str, dict[str, Value]] = field(default_factory=dict)


def _own_values(given: Mapping[str, Value], listeners: Mapping[str, str]) -> dict[str, _Own]:
    own = {name: _Own() for name in listeners}
    by_lower = {name.lower(): found for name, found in own.items()}
    for name, value in given.items():
        if not name.startswith(LISTENER_PREFIX):
            continue
        listener, _, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
        if listener not in by_lower:
            raise ConfigError(f"{name}: no listener has the name {listener}; there are {', '.join(by_lower)}")
        mechanism, _, of_mechanism = rest.partition(".")
        if mechanism.upper() in MECHANISMS:
            by_lower[listener].by_mechanism.setdefault(mechanism.upper(), {})[of_mechanism] = value
        else:
            by_lower[listener].values[rest] = value
    return own


def _listener(
    name: str,
    protocol: str,
    values: Mapping[str, Value],
    own: _Own,
    users: Mapping[str, str],
    keystores: Keystores,
) -> ListenerSecurity:
    merged = {**values, **own.values}
    if protocol == "SASL_SSL":  # clients log in: they need a certificate only where that is asked for by name
        merged["ssl.client.auth"] = own.values.get("ssl.client.auth", "none")
    login = protocol.startswith("SASL")
    return ListenerSecurity(
        protocol,
        parse_sasl(name, merged, own.by_mechanism, users) if login else SaslSettings(),
        keystores.context(merged) if "SSL" in protocol else None,
        PrincipalMapping(text(merged, NAME)),
    )
