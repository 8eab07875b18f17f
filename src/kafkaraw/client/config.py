"""Every setting of the clients, declared once: name, type, default, unit, limits, meaning.

Names are those that Python users know; defaults are those of Java 4.3's clients except `batch_size`. The classes are
frozen and passed whole, so that no other code lists their fields again. Start at `parse()`; `settings.py` checks the
declarations.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from kafkaraw.client.deserializers import DeserializerLike, is_deserializer
from kafkaraw.client.group_settings import check_group, parse_strategies
from kafkaraw.client.interceptors import OF_CONSUMERS, OF_PRODUCERS, is_interceptor
from kafkaraw.client.producer_settings import settled
from kafkaraw.client.serializers import SerializerLike, is_serializer
from kafkaraw.client.settings import build, setting, settings_of
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.records import PARTITIONERS, PartitionFunction

if TYPE_CHECKING:
    import ssl

    from kafkaraw.client.group_settings import Strategy

INT32_MAX = 2**31 - 1
# An answer must fit into a frame, and `client/network/connection.py` takes none of 256 MiB or more.
FETCH_BYTES_MAX = 255 * 1024 * 1024
_DAY_MS = 24 * 3600 * 1000


class Address(NamedTuple):
    """Host and port of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(value: object) -> tuple[Address, ...]:
    """Read `bootstrap_servers`: "host:port,host:port", or a sequence of "host:port".

    Raises:
        ValueError: no address, or one without a usable host and port.
    """
    parts: list[object]
    if isinstance(value, str):
        parts = [*value.split(",")]
    elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], int) and not isinstance(value, Address):
        raise ValueError(f'must be "host:port"; write {f"{value[0]}:{value[1]}"!r}')
    elif isinstance(value, Iterable) and not isinstance(value, bytes):
        parts = [str(part) if isinstance(part, Address) else part for part in value]
    else:
        raise ValueError(f'must be "host:port,host:port" or a list of "host:port", not {type(value).__name__}')
    addresses = tuple(
        dict.fromkeys(_address(part) for part in parts if not (isinstance(part, str) and not part.strip()))
    )
    if not addresses:
        raise ValueError('names no server; give "host:port"')
    return addresses


def _address(part: object) -> Address:
    if not isinstance(part, str):
        raise ValueError(f'{part!r} is not "host:port"')
    text = part.strip()
    if len(several := re.split(r"[\s;]+", text)) > 1:
        raise ValueError(f"{text!r}: separate servers with commas; write {','.join(several)!r}")
    # Java allows a listener's name in front, as in PLAINTEXT://host:9092; those are in capitals.
    listener, _, address = text.rpartition("://")
    if listener != listener.upper():
        raise ValueError(f'{text!r} is a URL; leave {listener + "://"!r} out, and give "host:port" of a broker')
    host, colon, port = address.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        raise ValueError(f"{text!r} has no port; did you mean {text + ':9092'!r}?")
    host = host.removeprefix("[").removesuffix("]")
    if not host:
        raise ValueError(f"{text!r} has no host")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) <= 65535:
        raise ValueError(f"{text!r}: the port must be a number from 1 to 65535")
    return Address(host, int(port))


def _acks(value: object) -> int:
    meaning = {"all": -1, "-1": -1, "0": 0, "1": 1}
    acks = None if isinstance(value, bool) else meaning.get(str(value).strip().lower())
    if acks is None:
        raise ValueError("must be 'all' (or -1), 1 or 0")
    return acks


def _callable(value: object) -> object:
    if value is not None and not callable(value):
        raise ValueError("must be a function without arguments that returns the token")
    return value


def _partitioner(value: object) -> object:
    if callable(value) or value in PARTITIONERS:
        return value
    import difflib  # only for the message of an error

    near = difflib.get_close_matches(str(value).lower(), PARTITIONERS, n=1)
    raise ValueError(
        f"must be one of {', '.join(map(repr, PARTITIONERS))}, or a function of topic, key, value and the number of "
        f"partitions{f'; did you mean {near[0]!r}?' if near else ''}"
    )


def _serializer(value: object) -> object:
    if value is None or is_serializer(value):
        return value
    raise ValueError(f"must be a function, or an object with a method serialize(), not {type(value).__name__}")


def _interceptors(*methods: str) -> Callable[[object], object]:
    def check(value: object) -> object:
        given = tuple(value) if isinstance(value, list | tuple) else (value,)
        for interceptor in given:
            if not is_interceptor(interceptor, methods):
                raise ValueError(f"{type(interceptor).__name__} has neither {'() nor '.join(methods)}()")
        return given

    return check


def _names(value: object) -> object:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError('must be a list of texts, or "one,two"')
    return tuple(part.strip() for part in parts if part.strip())


def _deserializer(value: object) -> object:
    if value is None or is_deserializer(value):
        return value
    raise ValueError(f"must be a function, or an object with a method deserialize(), not {type(value).__name__}")


def _reset_policy(value: object) -> object:
    from kafkaraw.core.fetch.offsets import parse_reset_policy  # only consumers have one

    try:
        parse_reset_policy(str(value))
    except ValueError as error:
        import difflib  # only for the message of an error

        near = difflib.get_close_matches(str(value).lower(), ("earliest", "latest", "none", "by_duration:PT1H"), n=1)
        raise ValueError(f"{error}{f'; did you mean {near[0]!r}?' if near else ''}") from None
    return value


def _tls_context(value: object) -> object:
    if value is not None and not hasattr(value, "wrap_bio"):
        raise ValueError("must be an ssl.SSLContext")
    return value


SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """Settings that every client has (and all that an admin client has)."""

    bootstrap_servers: tuple[Address, ...] = setting(
        (), 'Servers to find the cluster through: "host:port,host:port" or a list.', convert=parse_addresses
    )
    bootstrap_timeout_ms: int = setting(
        0,
        "How long the first call goes on looking for a server that can be reached, within its own timeout; with 0 each "
        "is tried once.",
        unit="ms",
        minimum=0,
        maximum=_DAY_MS,
    )
    client_id: str = setting("kafkaraw", "Name of this client in the broker's logs, metrics and quotas.")
    request_timeout_ms: int = setting(
        30_000, "How long one request may go unanswered.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    default_api_timeout_ms: int = setting(
        60_000, "Timeout of a call that is given none.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    socket_connection_setup_timeout_ms: int = setting(
        10_000,
        "How long resolving, connecting and negotiating with one broker may take.",
        unit="ms",
        minimum=1,
        maximum=_DAY_MS,
    )
    socket_connection_setup_timeout_max_ms: int = setting(
        30_000,
        "What that time grows to, doubling with each failure in a row; never less than the first.",
        unit="ms",
        minimum=1,
        maximum=_DAY_MS,
    )
    reconnect_backoff_ms: int = setting(
        50, "Pause before a broker is dialled again; doubles with each failure.", unit="ms", minimum=0, maximum=_DAY_MS
    )
    reconnect_backoff_max_ms: int = setting(
        1_000,
        "Longest pause before a broker is dialled again; never less than the first.",
        unit="ms",
        minimum=0,
        maximum=_DAY_MS,
    )
    connections_max_idle_ms: int = setting(
        540_000, "Close a connection that was not used for so long; -1 never does.", unit="ms", minimum=-1
    )
    retry_backoff_ms: int = setting(
        100, "Pause before the first retry; doubles with each failure.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    retry_backoff_max_ms: int = setting(1_000, "Longest pause between retries.", unit="ms", minimum=1, maximum=_DAY_MS)
    metadata_max_age_ms: int = setting(
        300_000, "Age at which the view of the cluster is renewed unasked.", unit="ms", minimum=100, maximum=7 * _DAY_MS
    )
    allow_auto_create_topics: bool = setting(
        True, "Let the broker create a topic that is asked for and does not exist, if its own settings allow it."
    )
    security_protocol: str = setting(
        "PLAINTEXT", "Whether to speak TLS (SSL), to log in (SASL), or both.", choices=SECURITY_PROTOCOLS
    )
    sasl_mechanism: str | None = setting(None, "How to log in.", choices=(None, *SASL_MECHANISMS))
    sasl_username: str | None = setting(None, "Who logs in, with PLAIN and SCRAM.")
    sasl_password: str | None = setting(None, "Their password.", secret=True)
    sasl_oauth_token_provider: Callable[[], str | Awaitable[str]] | None = setting(
        None, "Returns a token for OAUTHBEARER; called for each login.", convert=_callable
    )
    sasl_oauthbearer_token_endpoint_url: str | None = setting(
        None, "Where OAUTHBEARER gets its tokens, by client credentials; https only, or this machine."
    )
    sasl_oauthbearer_client_id: str | None = setting(None, "Who asks for a token there.")
    sasl_oauthbearer_client_secret: str | None = setting(None, "Their secret.", secret=True)
    sasl_oauthbearer_scope: str | None = setting(None, "What the token is to be good for.")
    sasl_oauthbearer_allowed_urls: tuple[str, ...] = setting(
        (), "The only addresses that tokens may be fetched from; when empty, any https one.", convert=_names
    )
    sasl_oauthbearer_cafile: str | None = setting(
        None, "PEM file, or PEM text, of the authorities to trust for the token endpoint; else those of the system."
    )
    sasl_oauthbearer_header_urlencode: bool = setting(
        False, "Encode client id and secret for the Authorization header as RFC 6749 says; not every provider does."
    )
    sasl_login_connect_timeout_ms: int = setting(
        10_000, "How long connecting to the token endpoint may take.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    sasl_login_read_timeout_ms: int = setting(
        10_000, "How long the token endpoint may be silent.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    sasl_login_retry_backoff_ms: int = setting(
        100, "Pause before the token endpoint is asked again; doubles each time.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    sasl_login_retry_backoff_max_ms: int = setting(
        10_000, "Longest pause before the token endpoint is asked again.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    sasl_kerberos_service_name: str = setting("kafka", "Service name of the brokers' Kerberos principals, with GSSAPI.")
    sasl_aws_msk_region: str | None = setting(None, "Region of the cluster, with AWS_MSK_IAM.")
    ssl_cafile: str | None = setting(None, "PEM file of the authorities to trust; else those of the system.")
    ssl_cadata: str | None = setting(None, "The same as PEM text.")
    ssl_certfile: str | None = setting(None, "This client's certificate chain: a PEM file, or PEM text.", secret=True)
    ssl_keyfile: str | None = setting(None, "Its private key: a PEM file, or PEM text.", secret=True)
    ssl_password: str | None = setting(None, "Password of the private key.", secret=True)
    ssl_check_hostname: bool = setting(True, "The broker's certificate must name the host that was dialled.")
    ssl_context: ssl.SSLContext | None = setting(
        None, "TLS context of your own, instead of the other ssl_ settings.", convert=_tls_context
    )

    @property
    def answer_timeout_ms(self) -> int:
        """How long a broker may leave a request unanswered before the connection ends."""
        return self.request_timeout_ms


@dataclass(frozen=True, kw_only=True)
class AdminConfig(ClientConfig):
    """Settings of an admin client."""


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Settings of a producer."""

    acks: int = setting(
        -1, "Who must have the record before it counts: 'all' replicas in sync, 1 the leader, 0 nobody.", convert=_acks
    )
    enable_idempotence: bool = setting(True, "No duplicates and no reordering through retries; needs acks='all'.")
    linger_ms: int = setting(5, "How long an open batch waits for more records.", unit="ms", minimum=0, maximum=_DAY_MS)
    batch_size: int = setting(262_144, "Size at which a batch is sealed.", unit="bytes", minimum=1, maximum=INT32_MAX)
    compression_type: str = setting("none", "Codec of the batches.", choices=("none", "gzip", "snappy", "lz4", "zstd"))
    compression_level: int | None = setting(
        None,
        "Level of the codec: gzip -1 to 9, lz4 up to 17 (from 3 on it is slow and packs better), zstd -131072 to 22; "
        "snappy has none. None is the codec's own default.",
        minimum=-131_072,
        maximum=22,
    )
    partitioner: str | PartitionFunction = setting(
        "default",
        "Where records go that are given no partition: 'default' (murmur2 of the key, as Java; without one, batch by "
        "batch), 'round_robin', 'sticky' (whatever the key), librdkafka's 'consistent_random', 'consistent', "
        "'murmur2_random', 'murmur2', 'fnv1a_random', 'fnv1a', or a function: topic, key, value and number of "
        "partitions give a partition, or None for the default.",
        convert=_partitioner,
    )
    partitioner_ignore_keys: bool = setting(False, "Keys do not decide about the partition.")
    partitioner_adaptive_partitioning_enable: bool = setting(
        True, "Records that go by no key go more often to partitions with fewer batches waiting."
    )
    partitioner_availability_timeout_ms: int = setting(
        0,
        "Such records pass over brokers that could not be sent what waits for them for so long; 0 passes over none.",
        unit="ms",
        minimum=0,
        maximum=_DAY_MS,
    )
    metadata_max_idle_ms: int = setting(
        300_000,
        "A topic to which nothing was sent for so long is forgotten, until it is sent to again.",
        unit="ms",
        minimum=5_000,
        maximum=7 * _DAY_MS,
    )
    buffer_memory: int = setting(
        33_554_432, "Most bytes of records not yet acknowledged; above it send() waits.", unit="bytes", minimum=1
    )
    max_block_ms: int = setting(
        60_000, "How long send() may wait for room or for the topic's metadata.", unit="ms", minimum=0, maximum=_DAY_MS
    )
    max_request_size: int = setting(
        1_048_576,
        "Largest record, before compression, and largest request.",
        unit="bytes",
        minimum=1,
        maximum=INT32_MAX,
    )
    delivery_timeout_ms: int = setting(
        120_000,
        "Time within which a record is acknowledged or its ticket fails.",
        unit="ms",
        minimum=1,
        maximum=7 * _DAY_MS,
    )
    max_in_flight_requests_per_connection: int = setting(
        5, "Produce requests on their way to one broker.", minimum=1, maximum=1_000
    )
    transactional_id: str | None = setting(
        None, "Name under which transactions are made; one producer at a time has it. Needs enable_idempotence."
    )
    transaction_timeout_ms: int = setting(
        60_000, "The coordinator aborts a transaction that is open for longer.", unit="ms", minimum=1, maximum=INT32_MAX
    )
    key_serializer: SerializerLike | None = setting(
        None,
        "Makes bytes of keys: a function of the key, or of the key and a SerializationContext, or an object with "
        "serialize(topic, headers, data).",
        convert=_serializer,
    )
    value_serializer: SerializerLike | None = setting(None, "Makes bytes of values, likewise.", convert=_serializer)
    interceptors: tuple[object, ...] = setting(
        (),
        "Objects with on_send(record), on_acknowledgement(metadata, error) or both; rows of send_arrow pass them by.",
        convert=_interceptors(*OF_PRODUCERS),
    )
    retries: int = setting(
        INT32_MAX, "Tries after the first one, within delivery_timeout_ms.", minimum=0, maximum=INT32_MAX
    )


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Settings of a consumer."""

    auto_offset_reset: str = setting(
        "latest",
        'Where to start without a position, or with one that is gone: "earliest", "latest", "none", or '
        '"by_duration:" and how long ago in ISO 8601, as in "by_duration:PT1H".',
        convert=_reset_policy,
    )
    key_deserializer: DeserializerLike | None = setting(
        None,
        "Makes of a key's bytes what records give: a function of the bytes, or of the bytes and a context, or an "
        "object with deserialize(topic, headers, data). Null stays None; columns stay bytes.",
        convert=_deserializer,
    )
    value_deserializer: DeserializerLike | None = setting(None, "The same for values.", convert=_deserializer)
    interceptors: tuple[object, ...] = setting(
        (), "Objects with on_consume(records), on_commit(offsets) or both.", convert=_interceptors(*OF_CONSUMERS)
    )
    client_rack: str = setting(
        "",
        "Where this consumer is, as a broker's broker.rack says it: a broker may have it read from a replica in the "
        "same rack (KIP-392), and its group give it partitions with one there (KIP-881).",
    )
    fetch_min_bytes: int = setting(
        1, "Bytes that the broker waits for before it answers.", unit="bytes", minimum=0, maximum=INT32_MAX
    )
    fetch_max_wait_ms: int = setting(
        500, "Longest that the broker waits for fetch_min_bytes.", unit="ms", minimum=0, maximum=_DAY_MS
    )
    fetch_max_bytes: int = setting(
        52_428_800,
        "Most bytes of one answer (a single larger batch still comes).",
        unit="bytes",
        minimum=1,
        maximum=FETCH_BYTES_MAX,
    )
    max_partition_fetch_bytes: int | None = setting(
        None,
        "Most bytes of one partition in one answer (a single larger batch still comes). None begins with Kafka's "
        "1048576, and goes up to 2097152 where answers come full and within 250 ms.",
        unit="bytes",
        minimum=1,
        maximum=FETCH_BYTES_MAX,
    )
    isolation_level: str = setting(
        "read_uncommitted",
        "Whether records of transactions that are open or were aborted are given, too.",
        choices=("read_uncommitted", "read_committed"),
    )
    check_crcs: bool = setting(True, "Check the CRC-32C of every batch.")
    max_poll_records: int | None = setting(
        None, "Most records that one poll() gives; None gives what one fetch brought.", minimum=1
    )

    group_id: str | None = setting(
        None, "The group whose members share the partitions of what they subscribe to, and that keeps positions."
    )
    group_instance_id: str | None = setting(
        None, "Name of a static member: it keeps its partitions when it is back within session_timeout_ms."
    )
    group_protocol: str = setting(
        "classic",
        "How members share partitions: among themselves, or as the broker decides (KIP-848).",
        choices=("classic", "consumer"),
    )
    group_remote_assignor: str | None = setting(
        None, "How the broker shares partitions out with group_protocol='consumer'; its own choice when None."
    )
    partition_assignment_strategy: tuple[Strategy, ...] = setting(
        ("range", "cooperative-sticky"),
        "Assignors of a classic group, the preferred one first: range, roundrobin, sticky, cooperative-sticky, or a "
        "class derived from Assignor.",
        convert=parse_strategies,
    )
    session_timeout_ms: int = setting(
        45_000,
        "A classic member is out when nothing is heard of it for so long.",
        unit="ms",
        minimum=1,
        maximum=_DAY_MS,
    )
    heartbeat_interval_ms: int = setting(
        3_000, "Time between two heartbeats of a classic member.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    max_poll_interval_ms: int | None = setting(
        300_000,
        "A member that is not asked for records for so long leaves the group; None switches this off.",
        unit="ms",
        minimum=1,
        maximum=INT32_MAX,
    )
    enable_auto_commit: bool = setting(
        True, "Commit by itself what was processed: records that were given before the call under way."
    )
    auto_commit_interval_ms: int = setting(
        5_000, "Time between two automatic commits.", unit="ms", minimum=1, maximum=_DAY_MS
    )

    enable_auto_offset_store: bool = setting(
        True,
        "Commit what was given, by itself and by commit() without offsets; if false, what store_offsets() was given.",
    )

    @property
    def commits_itself(self) -> bool:
        """Whether positions are committed automatically."""
        return self.enable_auto_commit and self.group_id is not None

    @property
    def answer_timeout_ms(self) -> int:
        """How long a broker may owe an answer; a Fetch is held back on purpose for a part of it."""
        return self.request_timeout_ms + self.fetch_max_wait_ms


K = TypeVar("K", bound=ClientConfig)

_KINDS: dict[str, type[ClientConfig]] = {"producer": ProducerConfig, "consumer": ConsumerConfig, "admin": AdminConfig}


def every_setting() -> frozenset[str]:
    """The names of all settings of all clients."""
    return frozenset(name for kind in _KINDS.values() for name in settings_of(kind))


def _elsewhere(kind: type[ClientConfig]) -> dict[str, str]:
    """Names that exist, but not for this client."""
    own = settings_of(kind)
    others = {
        name: f"it is a setting of the {other}"
        for other, config in _KINDS.items()
        for name in settings_of(config)
        if name not in own
    }
    return others


def parse(kind: type[K], given: Mapping[str, object], *, from_text: bool = False) -> K:
    """Check what the user gave and build the configuration.

    Args:
        kind: `ProducerConfig`, `ConsumerConfig` or `AdminConfig`.
        given: settings by name.
        from_text: values may be strings, as in Spark options.

    Raises:
        ConfigError: an unknown name (with the nearest one), a value that does not fit, or settings that exclude each
            other; no server to start from.
    """
    config = build(kind, given, elsewhere=_elsewhere(kind), from_text=from_text)
    if not config.bootstrap_servers:
        raise ConfigError(
            "bootstrap_servers is missing: give the address of one or more brokers, as in 'localhost:9092'"
        )
    if config.retry_backoff_max_ms < config.retry_backoff_ms:
        raise ConfigError(
            f"retry_backoff_max_ms={config.retry_backoff_max_ms} must be at least "
            f"retry_backoff_ms={config.retry_backoff_ms}"
        )
    _check_security(config, given)
    if isinstance(config, ConsumerConfig):
        check_group(config, given)
    return cast("K", settled(config, given)) if isinstance(config, ProducerConfig) else config


def _check_security(config: ClientConfig, given: Mapping[str, object]) -> None:
    """Half a login, or half of TLS, is an error: never a connection that is less protected than was meant."""
    protocol = config.security_protocol
    for prefix, wanted, has in (("sasl_", "SASL", protocol.startswith("SASL")), ("ssl_", "SSL", "SSL" in protocol)):
        idle = sorted(name for name, value in given.items() if name.startswith(prefix) and value is not None)
        if idle and not has:
            raise ConfigError(
                f"{', '.join(idle)}: no effect with security_protocol={protocol!r}; choose one with {wanted}"
            )
    if protocol.startswith("SASL"):
        _check_login(config)
    if config.ssl_cafile and config.ssl_cadata:
        raise ConfigError("ssl_cafile and ssl_cadata: give one of them")
    if (config.ssl_keyfile or config.ssl_password) and not config.ssl_certfile:
        raise ConfigError("ssl_keyfile and ssl_password belong to an ssl_certfile, which is missing")
    others = sorted(name for name in given if name.startswith("ssl_") and name != "ssl_context")
    if config.ssl_context is not None and others:
        raise ConfigError(f"ssl_context excludes {', '.join(others)}: set these in the context")


def _check_login(config: ClientConfig) -> None:
    if config.sasl_mechanism is None:
        raise ConfigError(f"sasl_mechanism is missing; choose one of {', '.join(SASL_MECHANISMS)}")
    missing = [name for name in _login_needs(config) if not getattr(config, name)]
    if missing:
        raise ConfigError(f"sasl_mechanism={config.sasl_mechanism!r} needs {' and '.join(missing)}")
    url = config.sasl_oauthbearer_token_endpoint_url
    if url is None:
        return
    if config.sasl_oauth_token_provider is not None:
        raise ConfigError("sasl_oauth_token_provider and sasl_oauthbearer_token_endpoint_url: give one of them")
    from kafkaraw.client.credentials.oidc import url_fault  # only OAUTHBEARER has a URL

    if fault := url_fault(url, config.sasl_oauthbearer_allowed_urls):
        raise ConfigError(f"sasl_oauthbearer_token_endpoint_url: {fault}")


def _login_needs(config: ClientConfig) -> tuple[str, ...]:
    """Names of settings without which the mechanism cannot work."""
    if config.sasl_mechanism == "OAUTHBEARER":
        if config.sasl_oauthbearer_token_endpoint_url is None:
            return ("sasl_oauth_token_provider",)
        return "sasl_oauthbearer_client_id", "sasl_oauthbearer_client_secret"
    others = {"GSSAPI": ("sasl_kerberos_service_name",), "AWS_MSK_IAM": ("sasl_aws_msk_region",)}
    return others.get(str(config.sasl_mechanism), ("sasl_username", "sasl_password"))
