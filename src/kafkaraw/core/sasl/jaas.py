"""Reads `sasl.jaas.config` texts: which login module, with which options. Nothing that they name is ever loaded.

Only Kafka's own modules for the mechanisms here are known; a text is parsed, never executed (CVE-2023-25194). Errors
show names of modules and options, never values: those are passwords.
Source: KIP-85, org.apache.kafka.common.security.JaasConfig.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field

_PACKAGE: Final = "org.apache.kafka.common.security."
PLAIN_MODULE: Final = f"{_PACKAGE}plain.PlainLoginModule"
SCRAM_MODULE: Final = f"{_PACKAGE}scram.ScramLoginModule"
OAUTH_MODULE: Final = f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule"
MODULE_OF_MECHANISM: Final = {
    "PLAIN": PLAIN_MODULE,
    "SCRAM-SHA-256": SCRAM_MODULE,
    "SCRAM-SHA-512": SCRAM_MODULE,
    "OAUTHBEARER": OAUTH_MODULE,
}
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""\s*(?:"(?P<double>(?:\\.|[^"\\])*)"|'(?P<single>(?:\\.|[^'\\])*)'|(?P<sign>[=;])|(?P<word>[^\s=;"']+))""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b"}


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module.

    Attributes:
        module: its class name.
        options: may hold passwords.
    """

    module: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str, what: str) -> JaasEntry:
    """Read the text of a `sasl.jaas.config`: `MODULE required name="value" ...;`.

    Args:
        text: it.
        what: the name of the property, for errors.

    Raises:
        ConfigError: it is not of that form, or names more than one module.
    """
    tokens = _tokens(text, what)
    if ("sign", ";") in tokens[:-1]:
        raise ConfigError(f"{what}: names more than one login module; only one is allowed")
    if len(tokens) < 3 or tokens[-1] != ("sign", ";"):
        raise ConfigError(f'{what}: is not of the form: MODULE required name="value" ...; with a semicolon at the end')
    (_, module), (_, flag), *pairs = tokens[:-1]
    if flag.lower() not in _FLAGS:
        raise ConfigError(f"{what}: the control flag after the login module must be one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    for at in range(0, len(pairs), 3):
        triple = pairs[at : at + 3]
        if len(triple) < 3 or triple[1] != ("sign", "=") or "sign" in (triple[0][0], triple[2][0]):
            raise ConfigError(f'{what}: option number {at // 3 + 1} is not of the form name="value"')
        options[triple[0][1]] = triple[2][1]
    return JaasEntry(module, options)


def parse_module(text: str, mechanism: str, what: str) -> Mapping[str, str]:
    """The options of the login module for a mechanism.

    Raises:
        ConfigError: the text is malformed, or names another module; says which one to use.
    """
    entry = parse_jaas(text, what)
    wanted = MODULE_OF_MECHANISM[mechanism]
    if entry.module != wanted:
        raise ConfigError(
            f"{what}: the login module {entry.module} is not known here, and no setting loads code; "
            f"for {mechanism} use {wanted}"
        )
    return entry.options


def _tokens(text: str, what: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise ConfigError(f"{what}: a quotation mark has no partner")
        kind = found.lastgroup or ""
        value = found[kind]
        quoted = kind in ("double", "single")
        tokens.append(("text" if quoted else kind, _ESCAPE.sub(_unescape, value) if quoted else value))
        at = found.end()
    return tokens


def _unescape(found: re.Match[str]) -> str:
    return _ESCAPED.get(found[1], found[1])
