"""The settings of a registry, and those of Confluent's property names that it takes. Pure.

Start at `RegistrySettings`. Source: Confluent's `SchemaRegistryConfig`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from kafkaraw.client.config import ClientConfig
from kafkaraw.client.java_names import settings_from_properties
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field, replace
from kafkaraw.schemas.model import CompatibilityLevel
from kafkaraw.schemas.server.elector import ElectionSettings
from kafkaraw.schemas.server.topic import TopicSettings

T = TypeVar("T")

_STORE: Final = "kafkastore."
_SCHEMES: Final = ("PLAINTEXT://", "SSL://", "SASL_PLAINTEXT://", "SASL_SSL://")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How the registry speaks TLS.

    Attributes:
        certificate: its certificate chain, a PEM file or PEM text.
        key: its private key, a file or text; None if it is in the same file.
        password: of the key.
        trusted: certificates of the authorities whose clients, and whose other instances, are trusted.
        client_auth: "required", "requested" or "none": whether clients need a certificate.
    """

    certificate: str
    key: str | None = None
    password: str | None = field(default=None, repr=False)
    trusted: str | None = None
    client_auth: str = "none"


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The settings of a registry.

    Attributes:
        client: settings of its Kafka clients, such as `bootstrap_servers`; None keeps the state in memory.
        topic: how it uses Kafka.
        election: how instances elect the primary.
        host: address to listen on.
        port: port to listen on; 0 for a free one.
        advertised_host: host at which the other instances reach this one; None is `host`, or the machine's name.
        advertised_port: port at which they do; None is the port that it listens on.
        elect: elect the primary with other instances; False for the only instance.
        eligible: whether this instance may become the primary.
        read_only: refuse every change; reads a topic and writes nothing.
        mode_changes: accept changes of modes.
        compatibility_level: the level where no configuration sets one.
        users: passwords by user name; requests must then authenticate.
        tls: TLS; None speaks plain HTTP.
        body_bytes_max: larger bodies are refused.
    """

    client: Mapping[str, object] | None = None
    topic: TopicSettings = field(default_factory=TopicSettings)
    election: ElectionSettings = field(default_factory=ElectionSettings)
    host: str = "127.0.0.1"
    port: int = 0
    advertised_host: str | None = None
    advertised_port: int | None = None
    elect: bool = True
    eligible: bool = True
    read_only: bool = False
    mode_changes: bool = True
    compatibility_level: CompatibilityLevel = CompatibilityLevel.BACKWARD
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: TlsSettings | None = None
    body_bytes_max: int = 8 << 20

    def with_properties(self, properties: Mapping[str, object]) -> RegistrySettings:
        """Return the settings with properties under Confluent's names.

        Args:
            properties: such as `{"schema.compatibility.level": "full", "kafkastore.security.protocol": "SSL"}`.

        Raises:
            ConfigError: a name is unknown, or a value does not fit.
        """
        settings, store = self, dict[str, object]()
        for name, value in properties.items():
            text = str(value).lower() if isinstance(value, bool) else str(value).strip()
            change = _PROPERTIES.get(name)
            if change is not None:
                try:
                    settings = change(settings, text)
                except ValueError as error:
                    raise ConfigError(f"property {name}={text!r}: {error}") from error
            elif name.startswith(_STORE):
                store[name.removeprefix(_STORE)] = _servers(text) if name.endswith("bootstrap.servers") else text
            else:
                raise ConfigError(_unknown(name))
        if store:
            client = settings_from_properties(ClientConfig, store)
            settings = replace(settings, client={**(settings.client or {}), **client})
        return settings


def _servers(text: str) -> str:
    for scheme in _SCHEMES:
        text = text.replace(scheme, "")
    return text


def _unknown(name: str) -> str:
    import difflib  # only for the message of an error

    near = difflib.get_close_matches(name, [*_PROPERTIES, "kafkastore.bootstrap.servers"], n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else "; see docs/registry.md for those that are"
    return f"property {name} is not one that this registry takes{hint}"


def _integer(text: str) -> int:
    if not text.isdigit():
        raise ValueError("must be a number, 0 or more")
    return int(text)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def _level(text: str) -> CompatibilityLevel:
    if text.upper() not in CompatibilityLevel.__members__:
        raise ValueError(f"must be one of {', '.join(level.lower() for level in CompatibilityLevel)}")
    return CompatibilityLevel(text.upper())


def _listener(settings: RegistrySettings, text: str) -> RegistrySettings:
    if "," in text:
        raise ValueError("this registry has one listener")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or parts.port is None:
        raise ValueError("must be http://HOST:PORT or https://HOST:PORT")
    if parts.scheme == "https" and settings.tls is None:
        raise ValueError("https needs a certificate: give it to EmbeddedRegistry or with --tls-cert")
    return replace(settings, host=parts.hostname or "0.0.0.0", port=parts.port)


_Change = Callable[[RegistrySettings, str], RegistrySettings]


def _own(name: str, read: Callable[[str], Any]) -> _Change:
    return lambda settings, text: replace(settings, **{name: read(text)})


def _of_topic(name: str, read: Callable[[str], Any]) -> _Change:
    return lambda settings, text: replace(settings, topic=replace(settings.topic, **{name: read(text)}))


def _of_election(name: str, read: Callable[[str], Any]) -> _Change:
    return lambda settings, text: replace(settings, election=replace(settings.election, **{name: read(text)}))


def _seconds(text: str) -> float:
    return _integer(text) / 1000


_PROPERTIES: Final[Mapping[str, _Change]] = {
    "listeners": _listener,
    "host.name": _own("advertised_host", str),
    "host.port": _own("advertised_port", _integer),
    "leader.eligibility": _own("eligible", _boolean),
    "master.eligibility": _own("eligible", _boolean),
    "mode.mutability": _own("mode_changes", _boolean),
    "schema.compatibility.level": _own("compatibility_level", _level),
    "avro.compatibility.level": _own("compatibility_level", _level),
    "max.req.body.size": _own("body_bytes_max", _integer),
    "kafkastore.topic": _of_topic("topic", str),
    "kafkastore.topic.replication.factor": _of_topic("replication_factor", _integer),
    "kafkastore.init.timeout.ms": _of_topic("start_timeout_s", _seconds),
    "kafkastore.timeout.ms": _of_topic("write_timeout_s", _seconds),
    "schema.registry.group.id": _of_election("group", str),
    "kafkagroup.heartbeat.interval.ms": _of_election("heartbeat_interval_ms", _integer),
    "kafkagroup.session.timeout.ms": _of_election("session_timeout_ms", _integer),
    "kafkagroup.rebalance.timeout.ms": _of_election("rebalance_timeout_ms", _integer),
}
