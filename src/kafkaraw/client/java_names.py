"""Every name of the Java clients' configuration (Kafka 4.3), and what becomes of it here: one table.

A name is mapped to a setting of ours, ignored with one warning, or refused with what to use instead. The names of our
own settings are taken with dots, too. What no table has is an error that suggests the nearest name. Values stay text,
and are checked where the settings are declared. Start at `settings_from_properties` and `translated`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from kafkaraw.client.config import ClientConfig, every_setting
from kafkaraw.client.jaas import settings_of_jaas
from kafkaraw.client.java_spelling import named_as_given
from kafkaraw.client.librdkafka_names import ignored_names, in_our_names
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.settings import build, settings_of
from kafkaraw.core.java_properties import parse_java_properties
from kafkaraw.errors import ConfigError
from kafkaraw.net.stores import PEM_MARK, pem_of

log: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
Properties = str | os.PathLike[str] | Mapping[str, object]

_RENAMED: Final = {
    "sasl.oauthbearer.client.credentials.client.id": "sasl_oauthbearer_client_id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl_oauthbearer_client_secret",
}

# They change nothing that a program could rely on, or this client always does what they ask for.
_IGNORED_TEXT: Final = """
client.dns.lookup exclude.internal.topics
internal.throw.on.fetch.stable.offset.unsupported metadata.recovery.rebootstrap.trigger.ms
metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
receive.buffer.bytes
sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name send.buffer.bytes
ssl.keymanager.algorithm ssl.secure.random.implementation ssl.trustmanager.algorithm
"""
_IGNORED: Final = frozenset(_IGNORED_TEXT.split())

_NO_CODE: Final = "settings name no code here"
_CONTEXT: Final = "give ssl_context, an ssl.SSLContext of your own, for that"
_REFUSED: Final = {
    "bootstrap.controllers": "this client asks brokers; give bootstrap.servers",
    "config.providers": "values are taken as they stand; resolve them before, as from os.environ",
    "interceptor.classes": f"{_NO_CODE}; give interceptors=[...] with objects of your own",
    "sasl.login.class": f"{_NO_CODE}; see sasl_mechanism",
    "security.providers": f"{_NO_CODE}; {_CONTEXT}",
    "ssl.cipher.suites": _CONTEXT,
    "ssl.engine.factory.class": f"{_NO_CODE}; {_CONTEXT}",
    "ssl.provider": f"{_NO_CODE}; {_CONTEXT}",
}

_SERDES: Final = "org.apache.kafka.common.serialization.(ByteArray|Bytes|ByteBuffer|String)"
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."
_HANDLERS: Final = (
    rf"({_OAUTH}(secured\.|internals\.secured\.)?OAuthBearerLoginCallbackHandler)|"
    r"software\.amazon\.msk\.auth\.iam\.IAMClientCallbackHandler"
)

_PARTITIONERS: Final = {
    "RoundRobinPartitioner": {"partitioner": "round_robin"},
    "UniformStickyPartitioner": {"partitioner": "sticky"},  # before Kafka 4.0, as the next
    "internals.DefaultPartitioner": {"partitioner": "default"},
}
_OF_PARTITIONERS: Final = "org.apache.kafka.clients.producer."

# Names with a few values that are known here, as a pattern, and what to use instead of all others.
_ONLY: Final = {
    "key.serializer": (
        f"{_SERDES}Serializer",
        "keys and values are bytes; give the setting of the same name a function",
    ),
    "value.serializer": (
        f"{_SERDES}Serializer",
        "keys and values are bytes; give the setting of the same name a function",
    ),
    "key.deserializer": (f"{_SERDES}Deserializer", f"{_NO_CODE}; give key_deserializer a function"),
    "value.deserializer": (f"{_SERDES}Deserializer", f"{_NO_CODE}; give value_deserializer a function"),
    "partitioner.class": (
        f"|({_OF_PARTITIONERS})?({'|'.join(_PARTITIONERS)})",
        f"{_NO_CODE}; give the setting partitioner a function, or send() a partition",
    ),
    "transaction.two.phase.commit.enable": ("false", "transactions are committed in one step here"),
    "sasl.client.callback.handler.class": (_HANDLERS, f"{_NO_CODE}; give sasl_username and sasl_password"),
    "sasl.login.callback.handler.class": (_HANDLERS, f"{_NO_CODE}; give sasl_oauth_token_provider a function"),
    "sasl.oauthbearer.jwt.retriever.class": (
        f"{_OAUTH}(Default|ClientCredentials)JwtRetriever",
        f"{_NO_CODE}; give sasl_oauth_token_provider a function",
    ),
    "sasl.oauthbearer.jwt.validator.class": (f"{_OAUTH}(Default|Client)JwtValidator", _NO_CODE),
    "ssl.protocol": ("TLS|TLSv1.[23]", _CONTEXT),
    "ssl.enabled.protocols": (r"(TLSv1\.[23],?\s*)+", _CONTEXT),
}

_TOPIC_CONFIG: Final = "default.topic.config"  # of older versions of confluent-kafka
_MSK_HOST: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")


def settings_from_properties(kind: type[ClientConfig], properties: Properties) -> dict[str, Any]:
    """Settings for a client's constructor.

    Args:
        kind: the client's configuration class.
        properties: the path of a `.properties` file, or names and values; names are Java's, librdkafka's or ours.

    Raises:
        ConfigError: the file cannot be read; a name is refused or unknown; a value does not fit.
    """
    objects = _objects(kind, properties)
    given = {name: value for name, value in read_properties(properties).items() if _our_name(name) not in objects}
    settings = translated(in_our_names(given), kind)
    if ignored := ignored_names(given):
        log.warning("without effect on this client: %s", ", ".join(ignored))
    with named_as_given(given):
        config = build(kind, settings | objects, from_text=True)  # the constructor checks whether they go together
    return {name: getattr(config, name) for name in settings | objects}


def made_from_properties(
    make: Callable[..., T],
    kind: type[ClientConfig],
    properties: Properties,
    runtime: Runtime | None,
    settings: Mapping[str, object],
) -> T:
    """A client from the configuration of a Java client or of librdkafka, and settings of ours, which go first.

    Raises:
        ConfigError: as from `settings_from_properties`, or they do not go together.
    """
    given = read_properties(properties)
    chosen = {
        **settings_from_properties(kind, properties if isinstance(properties, Mapping) else given),
        **settings,
    }
    with named_as_given(given, own=settings):
        return make(runtime=runtime, **chosen)


def translated(
    properties: Mapping[str, str], *kinds: type[ClientConfig], instead: Mapping[str, str] = _NOTHING
) -> dict[str, str]:
    """Our settings for Java's names, as text; what no client of these kinds has is ignored.

    Args:
        properties: what the user gave.
        kinds: whose settings.
        instead: what to use instead of a name or its value, where the user cannot do what a Python program can.

    Raises:
        ConfigError: a name is refused or unknown; all of them are named.
    """
    own = {name for kind in kinds for name in settings_of(kind)}
    settings: dict[str, str] = {}
    ignored: list[str] = []
    problems: list[str] = []
    for name, value in properties.items():
        ours = _RENAMED.get(name, name.replace(".", "_"))
        if name in _ONLY:  # first: serializers are settings, too, but no Java classes
            pattern, other = _ONLY[name]
            if not re.fullmatch(pattern, value.strip()):
                problems.append(f"{name} is not accepted with this value: {instead.get(name, other)}")
        elif ours in own:
            settings[ours] = value.strip()
        elif name in _REFUSED:
            if value.strip():
                problems.append(f"{name} is not accepted: {instead.get(name, _REFUSED[name])}")
        elif name in _IGNORED or ours in every_setting():
            ignored.append(name)
        elif name not in _TOGETHER:
            problems.append(_unknown(name))
    if problems:
        raise ConfigError("; ".join(problems))
    for read in dict.fromkeys(_TOGETHER[name] for name in properties if name in _TOGETHER):
        for setting, value in read(properties).items():
            if setting in own:
                settings.setdefault(setting, value)
    if ignored:
        log.warning("without effect on this client: %s", ", ".join(sorted(ignored)))
    return _completed(settings)


def known_names() -> frozenset[str]:
    """Every name that is mapped, ignored or refused."""
    ours = (name.replace("_", ".") for name in every_setting())
    return frozenset({*ours, *_RENAMED, *_IGNORED, *_REFUSED, *_ONLY, *_TOGETHER})


def other_names() -> dict[str, str]:
    """What becomes of each of Java's names that is not the name of a setting with dots, in words; for the reference."""
    return {
        **dict.fromkeys(_IGNORED, "ignored, with a warning"),
        **{name: f"refused: {instead}" for name, instead in _REFUSED.items()},
        **{name: f"accepted with the values `{values}`; else: {instead}" for name, (values, instead) in _ONLY.items()},
        **dict.fromkeys(_TOGETHER, "read together with others of its kind"),
        **{name: f"`{ours}`" for name, ours in _RENAMED.items()},
    }


def read_properties(properties: Properties) -> dict[str, str]:
    """Names and values of a `.properties` file, or of a mapping, as text.

    Raises:
        ConfigError: the file cannot be read.
    """
    if isinstance(properties, Mapping):
        for name in properties:
            if not isinstance(name, str):
                raise ConfigError(
                    f"property {name!r} must be a name, as 'bootstrap.servers', not {type(name).__name__}"
                )
        topic = properties.get(_TOPIC_CONFIG)
        nested = read_properties(topic) if isinstance(topic, Mapping) else {}
        return nested | {
            name: _text(value) for name, value in properties.items() if value is not None and name != _TOPIC_CONFIG
        }
    if not isinstance(properties, str | os.PathLike):
        raise ConfigError(
            f"properties {properties!r} must be a dict of Java's or librdkafka's names, or the path of a "
            f".properties file, not {type(properties).__name__}"
        )
    try:
        return parse_java_properties(Path(properties).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the properties file {os.fspath(properties)} cannot be read: {error}") from error


def _objects(kind: type[ClientConfig], properties: Properties) -> dict[str, object]:
    """Return the settings of a dict whose values cannot be text, such as functions, by our names."""
    if not isinstance(properties, Mapping):
        return {}
    own = settings_of(kind)
    return {
        _our_name(name): value
        for name, value in properties.items()
        if _our_name(name) in own and not isinstance(value, str | int | float | list | tuple | None)
    }


def _our_name(name: object) -> str:
    return str(name).replace(".", "_")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _unknown(name: str) -> str:
    import difflib  # only for the message of an error

    near = difflib.get_close_matches(name.lower(), known_names(), n=1, cutoff=0.6)
    return f"unknown property {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _completed(settings: dict[str, str]) -> dict[str, str]:
    """Java's defaults where ours differ, and what a setting of Java's says without being asked."""
    if settings.get("security_protocol", "").startswith("SASL") and "sasl_username" not in settings:
        settings.setdefault("sasl_mechanism", "GSSAPI")
    if settings.get("sasl_mechanism") == "AWS_MSK_IAM" and (
        region := _MSK_HOST.search(settings.get("bootstrap_servers", ""))
    ):
        settings.setdefault("sasl_aws_msk_region", region[1])
    if settings.get("batch_size") == "0":  # Java's way of saying: no batches
        settings["batch_size"] = "1"
    return settings


# -- properties that are read together with others ----------------------------------------------------------------


def _jaas(properties: Mapping[str, str]) -> dict[str, str]:
    mechanism = properties.get("sasl.mechanism", properties.get("sasl_mechanism", ""))
    return settings_of_jaas(properties["sasl.jaas.config"], mechanism.strip())


def _compression_level(properties: Mapping[str, str]) -> dict[str, str]:
    codec = properties.get("compression.type", "none").strip()
    level = properties.get(f"compression.{codec}.level", "").strip()
    return {} if level in ("", _LEVEL_OF_NO_LEVEL.get(codec)) else {"compression_level": level}


def _partitioner(properties: Mapping[str, str]) -> dict[str, str]:
    name = properties["partitioner.class"].strip()
    return dict(_PARTITIONERS[name.removeprefix(_OF_PARTITIONERS)]) if name else {}


def _check_hostname(properties: Mapping[str, str]) -> dict[str, str]:
    algorithm = properties["ssl.endpoint.identification.algorithm"].strip().lower()
    if algorithm not in ("https", ""):
        raise ConfigError(f"ssl.endpoint.identification.algorithm={algorithm!r}: must be https, or empty for no check")
    return {"ssl_check_hostname": "true" if algorithm else "false"}


def _trusted(properties: Mapping[str, str]) -> dict[str, str]:
    if text := properties.get("ssl.truststore.certificates"):
        return {"ssl_cadata": text}
    return {"ssl_cadata": text} if (text := _store(properties, "ssl.truststore")) else {}


def _identity(properties: Mapping[str, str]) -> dict[str, str]:
    password = properties.get("ssl.key.password")
    found = {} if password is None else {"ssl_password": password}
    chain, key = (properties.get(f"ssl.keystore.{part}", "") for part in ("certificate.chain", "key"))
    if bool(chain) != bool(key):
        raise ConfigError("ssl.keystore.certificate.chain and ssl.keystore.key belong together: one is missing")
    if chain:
        return found | {"ssl_certfile": chain, "ssl_keyfile": key}
    text = _store(properties, "ssl.keystore")
    return found | {"ssl_certfile": text} if text else {}


def _store(properties: Mapping[str, str], prefix: str) -> str:
    """The content of a store, as PEM text; its first byte shows the format, because Java's default type is JKS."""
    location = properties.get(f"{prefix}.location", "").strip()
    if not location:
        return ""
    try:
        text = pem_of(location, properties.get(f"{prefix}.password"))
    except ConfigError as error:
        raise ConfigError(f"{prefix}.location: {error}") from None
    except OSError as error:
        raise ConfigError(f"{prefix}.location: {location}: {error.strerror}") from None
    if PEM_MARK not in text:
        raise ConfigError(f"{prefix}.location: {location} is neither PEM nor a PKCS12 store")
    return text


def _all(names: Iterable[str], read: Callable[[Mapping[str, str]], dict[str, str]]) -> dict[str, _Reader]:
    return dict.fromkeys(names, read)


# Java's default, by which it chooses the fast compressor (Lz4BlockOutputStream): 8 and 10 compress hard, 9 does not.
_LEVEL_OF_NO_LEVEL: Final = {"lz4": "9"}
_Reader = Callable[[Mapping[str, str]], dict[str, str]]
_STORE: Final = ("location", "password", "type")
_TOGETHER: Final[dict[str, _Reader]] = {
    "partitioner.class": _partitioner,
    "sasl.jaas.config": _jaas,
    "ssl.endpoint.identification.algorithm": _check_hostname,
    **_all((f"compression.{codec}.level" for codec in ("gzip", "lz4", "zstd")), _compression_level),
    **_all((f"ssl.truststore.{part}" for part in (*_STORE, "certificates")), _trusted),
    **_all((f"ssl.keystore.{part}" for part in (*_STORE, "certificate.chain", "key")), _identity),
    "ssl.key.password": _identity,
}
