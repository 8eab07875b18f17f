"""The SASL settings of one listener: its mechanisms, their users, and the options of the login modules.

Authentication never fails open: an enabled mechanism with incomplete settings is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.settings import Setting, Value, flag, number, split_list, text
from kafkaraw.core.sasl.scram import HASHES
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field

if TYPE_CHECKING:
    from kafkaraw.core.sasl.oauthbearer import UnsecuredRules

PASSWORD_MECHANISMS: Final = ("PLAIN", *HASHES)
MECHANISMS: Final = (*PASSWORD_MECHANISMS, "OAUTHBEARER")
UNSECURED_HANDLER: Final = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
JAAS: Final = "sasl.jaas.config"
HANDLER: Final = "sasl.server.callback.handler.class"
REAUTH: Final = "connections.max.reauth.ms"
LOGIN_SETTINGS: Final = (
    Setting("sasl.enabled.mechanisms", "", "SASL mechanisms that clients may use", choices=MECHANISMS, is_list=True),
    Setting(REAUTH, 0, "lifetime of a session before reauthentication, in milliseconds; 0 is for ever"),
    Setting("sasl.server.max.receive.size", 524_288, "largest request before authentication, in bytes", low=1),
    Setting(
        "sasl.oauthbearer.unsecured.enable",
        False,
        "accept unsigned OAuth tokens; not a property of Kafka, for tests only",
    ),
)
MECHANISM_SETTINGS: Final = (
    Setting(JAAS, "", "the mechanism's login module, with its options"),
    Setting(HANDLER, "", "the only known class accepts unsigned OAuth tokens", choices=(UNSECURED_HANDLER,)),
    Setting(REAUTH, 0, "lifetime of a session by this mechanism, in milliseconds"),
)
_USER: Final = "user_"
_OWN_LOGIN: Final = ("username", "password")
_OWN_TOKEN: Final = "unsecuredLogin"
_RULES: Final = {
    "unsecuredValidatorPrincipalClaimName": "principal_claim",
    "unsecuredValidatorScopeClaimName": "scope_claim",
    "unsecuredValidatorRequiredScope": "required_scope",
    "unsecuredValidatorAllowableClockSkewMs": "clock_skew_ms",
}


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """The checked settings of one listener.

    Attributes:
        mechanisms: the enabled mechanisms.
        passwords: users of PLAIN: passwords by user name.
        unsecured: the required claims of unsigned OAuth tokens; None if they are not accepted.
        reauth_ms: session lifetime by mechanism, in milliseconds; without an entry, sessions do not expire.
    """

    mechanisms: tuple[str, ...] = ()
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    unsecured: UnsecuredRules | None = None
    reauth_ms: Mapping[str, int] = field(default_factory=dict)


def parse_sasl(
    listener: str,
    values: Mapping[str, Value],
    by_mechanism: Mapping[str, Mapping[str, Value]],
    users: Mapping[str, str],
) -> SaslSettings:
    """Check the SASL settings of a listener.

    Args:
        listener: its name.
        values: the properties that hold for it.
        by_mechanism: those that hold for one of its mechanisms.
        users: users of all listeners: passwords by user name.

    Raises:
        ConfigError: something is missing or contradictory.
    """
    mechanisms = tuple(split_list(text(values, "sasl.enabled.mechanisms")))
    if users and not mechanisms:
        mechanisms = PASSWORD_MECHANISMS
    if not mechanisms:
        raise ConfigError(
            "a listener requires SASL, but no mechanism is enabled: set sasl.enabled.mechanisms, and give users "
            "(--user)"
        )
    options = _options(listener, mechanisms, by_mechanism)
    passwords = {**users, **_plain_users(listener, options.get("PLAIN", {}))}
    _check_passwords(listener, mechanisms, options, passwords, users)
    return SaslSettings(
        mechanisms,
        passwords,
        _unsecured(listener, values, by_mechanism, options) if "OAUTHBEARER" in mechanisms else None,
        _reauth(values, by_mechanism, mechanisms),
    )


def _options(
    listener: str, mechanisms: tuple[str, ...], by_mechanism: Mapping[str, Mapping[str, Value]]
) -> dict[str, Mapping[str, str]]:
    """The options of the login modules that are given, by mechanism."""
    options = {}
    for mechanism, values in by_mechanism.items():
        if mechanism not in mechanisms:
            raise ConfigError(
                f"{_name(listener, mechanism, next(iter(values)))}: {mechanism} is not among the "
                f"sasl.enabled.mechanisms of this listener, {', '.join(mechanisms)}"
            )
        if values.get(JAAS):
            from kafkaraw.core.sasl.jaas import parse_module  # only for users in login modules

            options[mechanism] = parse_module(text(values, JAAS), mechanism, _name(listener, mechanism, JAAS))
    for mechanism in HASHES:
        _refuse_others(listener, mechanism, options.get(mechanism, {}), _OWN_LOGIN)
    return options


def _plain_users(listener: str, options: Mapping[str, str]) -> dict[str, str]:
    """The users in the options of PlainLoginModule; its `username` is for brokers that talk to each other."""
    users = {name.removeprefix(_USER): value for name, value in options.items() if name.startswith(_USER)}
    _refuse_others(listener, "PLAIN", options, (*_OWN_LOGIN, *(_USER + name for name in users)))
    if not all(name and password for name, password in users.items()):
        raise ConfigError(f"{_name(listener, 'PLAIN', JAAS)}: a user needs a name and a password")
    return users


def _check_passwords(
    listener: str,
    mechanisms: tuple[str, ...],
    options: Mapping[str, Mapping[str, str]],
    passwords: Mapping[str, str],
    users: Mapping[str, str],
) -> None:
    without = [name for name in HASHES if name in mechanisms and name not in options and not users]
    if "PLAIN" in mechanisms and not passwords:
        without.insert(0, "PLAIN")
    if without:
        raise ConfigError(
            f"{', '.join(without)} has no users, so every authentication would fail: give users (--user), or a login "
            f"module in {_name(listener, without[0], JAAS)}"
        )


def check_users(users: Mapping[str, str]) -> None:
    """Check the user names and passwords.

    Raises:
        ConfigError: a name or a password is empty.
    """
    for name, password in users.items():
        if not name or not password:
            raise ConfigError(f"user {name!r}: a user needs a name and a password")


def _unsecured(
    listener: str,
    values: Mapping[str, Value],
    by_mechanism: Mapping[str, Mapping[str, Value]],
    options: Mapping[str, Mapping[str, str]],
) -> UnsecuredRules:
    from kafkaraw.core.sasl.oauthbearer import UnsecuredRules  # only for OAUTHBEARER

    own = by_mechanism.get("OAUTHBEARER", {})
    if not flag(values, "sasl.oauthbearer.unsecured.enable") and not own.get(HANDLER):
        raise ConfigError(
            "OAUTHBEARER: this broker cannot check signatures of tokens; leave it out, or, in a test, set "
            "sasl.oauthbearer.unsecured.enable=true to accept unsigned tokens"
        )
    given = options.get("OAUTHBEARER", {})
    logins = (name for name in given if name.startswith(_OWN_TOKEN))
    _refuse_others(listener, "OAUTHBEARER", given, (*logins, *_RULES))
    texts = {field_name: given[option] for option, field_name in _RULES.items() if option in given}
    skew_ms = texts.pop("clock_skew_ms", "0")
    if not skew_ms.isascii() or not skew_ms.isdigit():
        raise ConfigError(f"{_name(listener, 'OAUTHBEARER', JAAS)}: the clock skew is a number of milliseconds")
    return UnsecuredRules(**texts, clock_skew_ms=int(skew_ms))


def _reauth(
    values: Mapping[str, Value], by_mechanism: Mapping[str, Mapping[str, Value]], mechanisms: tuple[str, ...]
) -> dict[str, int]:
    found = {name: number({**values, **by_mechanism.get(name, {})}, REAUTH) for name in mechanisms}
    return {name: lifetime_ms for name, lifetime_ms in found.items() if lifetime_ms > 0}


def _refuse_others(listener: str, mechanism: str, options: Mapping[str, str], known: tuple[str, ...]) -> None:
    others = [name for name in options if name not in known]
    if others:
        raise ConfigError(f"{_name(listener, mechanism, JAAS)}: options not known here: {', '.join(sorted(others))}")


def _name(listener: str, mechanism: str, setting: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{setting}"
