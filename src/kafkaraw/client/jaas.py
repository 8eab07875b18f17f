"""What a client makes of `sasl.jaas.config`: settings for the login modules that are known.

`core.sasl.jaas` parses the text; no module is loaded (CVE-2023-25194 was code loaded by such a line), and one that is
not known is an error. Start at `settings_of_jaas`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kafkaraw.core.sasl.jaas import parse_jaas
from kafkaraw.errors import ConfigError

_WHAT: Final = "sasl.jaas.config"
Options = Mapping[str, str]


def settings_of_jaas(text: str, mechanism: str) -> dict[str, str]:
    """Our settings for a line of login configuration.

    Args:
        text: it.
        mechanism: what `sasl.mechanism` says; empty when nothing.

    Raises:
        ConfigError: it cannot be read, or names a module or an option that has no counterpart, or a module that is not
            for the mechanism; shows no option's value.
    """
    entry = parse_jaas(text, _WHAT)
    name = entry.module.rpartition(".")[2]
    if name not in _MODULES:
        known = ", ".join(sorted(_MODULES))
        raise ConfigError(f"{_WHAT}: the login module {entry.module!r} is not known; known are {known}")
    read, mechanisms = _MODULES[name]
    if mechanism and mechanism not in mechanisms:
        # With PLAIN, Java would send a password in the clear that is meant for SCRAM. The other way it fails, too.
        raise ConfigError(f"{_WHAT}: {name} is for {' and '.join(mechanisms)}, but sasl.mechanism is {mechanism}")
    return read(entry.options)


_EXTENSION: Final = "extension_"


def _password(options: Options) -> dict[str, str]:
    return _renamed(options, {"username": "sasl_username", "password": "sasl_password"})


def _scram(options: Options) -> dict[str, str]:
    token = {"sasl_token_auth": "true"} if options.get("tokenauth", "").lower() == "true" else {}
    return _password(options) | token


def _oauth(options: Options) -> dict[str, str]:
    if any(name.startswith("unsecuredLogin") for name in options):
        raise ConfigError(
            f"{_WHAT}: unsigned tokens (unsecuredLogin...) are not supported; signed tokens come "
            "from sasl.oauthbearer.token.endpoint.url"
        )
    extensions = {
        name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)
    }
    if any("," in value for value in extensions.values()):
        raise ConfigError(f"{_WHAT}: the value of an extension has a comma: set sasl_oauthbearer_extensions instead")
    text = ",".join(f"{name}={value}" for name, value in extensions.items())
    names = ("clientId", "client_id"), ("clientSecret", "client_secret"), ("scope", "scope")
    found = _renamed(options, {java: f"sasl_oauthbearer_{ours}" for java, ours in names})
    return found | ({"sasl_oauthbearer_extensions": text} if text else {})


def _kerberos(options: Options) -> dict[str, str]:
    return {"sasl_mechanism": "GSSAPI"} | _renamed(options, {"serviceName": "sasl_kerberos_service_name"})


def _iam(options: Options) -> dict[str, str]:
    if options:
        raise ConfigError(
            f"{_WHAT}: {', '.join(sorted(options))}: choose AWS credentials by AWS's own means, such as "
            "AWS_PROFILE in the environment"
        )
    return {"sasl_mechanism": "AWS_MSK_IAM"}


def _renamed(options: Options, names: Mapping[str, str]) -> dict[str, str]:
    return {ours: options[java] for java, ours in names.items() if java in options}


# Login module -> how its options are read, and the mechanisms that it is for.
_MODULES: Final[dict[str, tuple[Callable[[Options], dict[str, str]], Sequence[str]]]] = {
    "PlainLoginModule": (_password, ["PLAIN"]),
    "ScramLoginModule": (_scram, ["SCRAM-SHA-256", "SCRAM-SHA-512"]),
    "OAuthBearerLoginModule": (_oauth, ["OAUTHBEARER"]),
    "Krb5LoginModule": (_kerberos, ["GSSAPI"]),
    "IAMLoginModule": (_iam, ["AWS_MSK_IAM"]),
}
