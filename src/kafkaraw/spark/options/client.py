"""The options `kafka.*`: the client's settings by Java's names, translated and checked by the client's own tables.

`kafka.linger.ms` is the client's `linger_ms`. Start at `client_settings`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from kafkaraw.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig, parse
from kafkaraw.client.java_names import known_names, translated
from kafkaraw.client.java_spelling import named_as_given
from kafkaraw.client.network.security import network_for
from kafkaraw.client.settings import settings_of
from kafkaraw.errors import ConfigError
from kafkaraw.spark.errors import CLIENT_PREFIX
from kafkaraw.spark.options.unsupported import INSTEAD, OF_ONE_KIND, REFUSED_LOWER

_log = logging.getLogger(__name__)

GROUP_ID: Final = "group_id"

_KINDS: Final[tuple[type[ClientConfig], ...]] = (ConsumerConfig, ProducerConfig, AdminConfig)
_OURS: Final = frozenset({"auto.offset.reset", "max.poll.records", "allow.auto.create.topics"})
BOOTSTRAP: Final = "kafka.bootstrap.servers"
_ISOLATION: Final = "isolation.level"
_OF_FILES: Final = frozenset({_ISOLATION})
_METADATA_AGE: Final = "metadata.max.age.ms"
_METADATA_AGE_MIN_MS: Final = 100
"""The client's limit; Java's client also accepts 0."""

_SECRET: Final = frozenset(name for kind in _KINDS for name, about in settings_of(kind).items() if about.secret)


class Settings(dict[str, str]):
    """Settings of a client by its own names, as text. Its `repr` hides secrets, also inside another object's `repr`.

    The result of `|` hides secrets, too.
    """

    def __repr__(self) -> str:
        return repr({name: "[hidden]" if name in _SECRET else text for name, text in self.items()})

    def __or__(self, other: Mapping[str, str]) -> Settings:  # type: ignore[override]  # values are text only
        return Settings({**self, **other})

    def __ror__(self, other: Mapping[str, str]) -> Settings:  # type: ignore[override]
        return Settings({**other, **self})


CLIENT_NAMES: Final = frozenset(
    {CLIENT_PREFIX + name for name in known_names() - _OURS} - REFUSED_LOWER.keys() - OF_ONE_KIND
)
"""The options that are settings of the client, in lower case."""

# Streams and tasks outlive brokers: if no broker runs, a new one waits as long as a call does (decision 0024).
PATIENCE_OPTION: Final = ("kafka.bootstrap.timeout.ms", "60000")


def client_settings(java: Mapping[str, str]) -> Settings:
    """Return the client's settings for options by Java's names, without their prefix.

    Raises:
        ConfigError: the options contradict each other, or name no broker.
    """
    java = _with_metadata_age(java)
    with named_as_given(java, prefix=CLIENT_PREFIX):
        client = Settings(translated(java, *_KINDS, instead=INSTEAD))
    if "bootstrap_servers" not in client:
        raise ConfigError(f'the option {BOOTSTRAP} is missing: give "host:port" of one or more brokers')
    with named_as_given(java, prefix=CLIENT_PREFIX):
        _check(client)
    return client


def settings_without_brokers(java: Mapping[str, str], log_dirs: str) -> Settings:
    """Return the settings that apply to a read of log directories; arguments as for `client_settings`.

    Args:
        java: options by Java's names, without their prefix.
        log_dirs: name of the option that names the directories, for messages.

    Raises:
        ConfigError: an option is for a connection to brokers.
    """
    needless = [CLIENT_PREFIX + name for name in java if name not in _OF_FILES]
    if needless:
        raise ConfigError(
            f"{', '.join(sorted(needless))} cannot be combined with {log_dirs}: no broker is asked; "
            f"leave out one or the other (of the options kafka.*, only {CLIENT_PREFIX}{_ISOLATION} applies to files)"
        )
    with named_as_given(java, prefix=CLIENT_PREFIX):
        client = Settings(translated(java, ConsumerConfig, instead=INSTEAD))
        parse(ConsumerConfig, {**client, "bootstrap_servers": "localhost:9092"}, from_text=True)
    return client


def _with_metadata_age(java: Mapping[str, str]) -> Mapping[str, str]:
    """Return the same settings; an age below the client's minimum is raised to it, because Java's client accepts it."""
    text = java.get(_METADATA_AGE, "").strip()
    if not (text.isascii() and text.isdigit() and int(text) < _METADATA_AGE_MIN_MS):
        return java
    _log.warning("kafka.%s=%s is taken for %d ms, the least possible", _METADATA_AGE, text, _METADATA_AGE_MIN_MS)
    return {**java, _METADATA_AGE: str(_METADATA_AGE_MIN_MS)}


def _check(client: Settings) -> None:
    """Let the clients check their settings, certificates included, so that limits and messages are in one place."""
    configs = [parse(kind, settings_for(kind, client), from_text=True) for kind in _KINDS]
    network_for(configs[0])  # the TLS settings are the same for all kinds


def settings_for(kind: type[ClientConfig], client: Mapping[str, str]) -> Settings:
    """Return the settings that this kind of client has; a job may share one set between reading and writing."""
    return Settings({name: text for name, text in client.items() if name in settings_of(kind)})


def typed_settings(kind: type[ClientConfig], client: Mapping[str, str]) -> dict[str, Any]:
    """Return the same settings as values for the client's constructor."""
    config = parse(kind, client, from_text=True)
    return {name: getattr(config, name) for name in client}
