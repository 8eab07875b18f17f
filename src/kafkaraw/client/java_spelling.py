"""How errors call settings that were given by the names of Java's clients.

What is wrong with settings is found where they are declared, under their own names: `ssl_cadata` for what a user has
given as `ssl.truststore.location`. Here an error gets the names that stand in the user's file or options. Must not
check anything. Start at `named_as_given` and `spelled`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from kafkaraw.client.config import every_setting
from kafkaraw.client.librdkafka_names import names_of_settings
from kafkaraw.errors import ConfigError

_LOGIN: Final = "sasl.jaas.config"

# Setting -> the properties that it may have come from, the last word of each; the first is named when none was given.
_SOURCES: Final = {
    "compression_level": ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
    "partitioner": ("partitioner.class",),
    "sasl_oauth_token_provider": ("sasl.oauthbearer.token.endpoint.url",),
    "sasl_oauthbearer_client_id": ("sasl.oauthbearer.client.credentials.client.id", f"clientId in {_LOGIN}"),
    "sasl_oauthbearer_client_secret": (
        "sasl.oauthbearer.client.credentials.client.secret",
        f"clientSecret in {_LOGIN}",
    ),
    "sasl_oauthbearer_extensions": (f"extension_ in {_LOGIN}",),
    "sasl_password": (f"password in {_LOGIN}",),
    "sasl_token_auth": (f"tokenauth in {_LOGIN}",),
    "sasl_username": (f"username in {_LOGIN}",),
    "ssl_cafile": ("ssl.truststore.location",),
    "ssl_cadata": ("ssl.truststore.location", "ssl.truststore.certificates"),
    "ssl_certfile": ("ssl.keystore.location", "ssl.keystore.certificate.chain"),
    "ssl_check_hostname": ("ssl.endpoint.identification.algorithm",),
    "ssl_keyfile": ("ssl.keystore.key",),
    "ssl_password": ("ssl.key.password",),
}

# Settings that Java's clients lack, by any name.
_ONLY_HERE: Final = frozenset(
    {
        "bootstrap_timeout_ms",
        "enable_auto_offset_store",
        "interceptors",
        "sasl_aws_msk_region",
        "sasl_oauth_token_provider",
        "sasl_oauthbearer_allowed_urls",  # a system property of Java's
        "sasl_oauthbearer_cafile",
        "ssl_context",
    }
)

_LIBRDKAFKAS: Final = names_of_settings()
_OURS: Final = every_setting()
_JAVAS: Final = frozenset(
    {
        *(name.replace("_", ".") for name in _OURS),
        *(source.rpartition(" ")[2] for sources in _SOURCES.values() for source in sources),
    }
)


def java_names_of(setting: str) -> tuple[str, ...]:
    """The names in a Java client's configuration from which a setting is read; none for a setting that Java lacks."""
    if setting in _ONLY_HERE:
        return ()
    return _SOURCES.get(setting, (setting.replace("_", "."),))


@contextmanager
def named_as_given(properties: Mapping[str, str], *, prefix: str = "", own: Container[str] = ()) -> Iterator[None]:
    """Let errors of settings name them as the user did.

    Args:
        properties: what the user gave, by name.
        prefix: stands before each name where the user wrote it.
        own: settings that the user has given by their own names besides.
    """
    try:
        yield
    except ConfigError as error:
        raise ConfigError(spelled(str(error), properties, prefix=prefix, own=own)) from None


def spelled(text: str, properties: Collection[str] = (), *, prefix: str = "", own: Container[str] = ()) -> str:
    """A message with the names of settings, ours and Java's, as the user writes them; see `named_as_given`."""

    def name(found: re.Match[str]) -> str:
        if found[0] in own:
            return found[0]
        return _name(found[0], properties, prefix) if found[0] in _OURS else f"{prefix}{found[0]}"

    return _whole_names(_OURS | _JAVAS | {*properties}).sub(name, text)


def _whole_names(names: Collection[str]) -> re.Pattern[str]:
    """Finds whole names only, and not what looks like a value (in quotes, or a part of a path) or like a plain word."""
    words = [name for name in names if name.isalnum()]
    compound = "|".join(sorted(map(re.escape, {*names} - {*words}), key=len, reverse=True))
    plain = "|".join(sorted(map(re.escape, words)))
    return re.compile(rf"(?<![\w'\"./-])(?:(?:{compound})(?![\w'\"/-]|\.\w)|(?:{plain})(?==))")


def _name(setting: str, properties: Container[str], prefix: str) -> str:
    dotted = setting.replace("_", ".")
    if dotted not in properties and setting in properties:
        return setting
    sources = (dotted,) if dotted in properties else (*_SOURCES.get(setting, (dotted,)), *_LIBRDKAFKAS.get(setting, ()))
    given = [source for source in sources if source.rpartition(" ")[2] in properties]
    words, space, name = (given or sources)[0].rpartition(" ")
    return f"{words}{space}{prefix}{name}"
