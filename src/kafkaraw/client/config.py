"""Every setting of the clients, declared once: name, type, default, unit, limits, meaning.

Names are those that Python users know; defaults are those of Java 4.3's clients except `batch_size`. The classes are
frozen and passed whole, so that no other code lists their fields again. Start at `parse()`; `settings.py` checks the
declarations.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from kafkaraw.client.producer_settings import settled
from kafkaraw.client.settings import build, setting, settings_of
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import NamedTuple, dataclass

if TYPE_CHECKING:
    import ssl

    from kafkaraw.client.deserializers import DeserializerLike
    from kafkaraw.client.group_settings import Strategy
    from kafkaraw.client.serializers import SerializerLike
    from kafkaraw.records import PartitionerName, PartitionFunction

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
    from kafkaraw.records import PARTITIONERS  # only for producers

    if callable(value) or value in PARTITIONERS:
        return value
    import difflib  # only for the message of an error

    near = difflib.get_close_matches(str(value).lower(), PARTITIONERS, n=1)
    raise ValueError(
        f"must be one of {', '.join(map(repr, PARTITIONERS))}, or a function of topic, key, value and the number of "
        f"partitions{f'; did you mean {near[0]!r}?' if near else ''}"
    )


def _given(**settings: object) -> dict[str, object]:
    return {name: value for name, value in settings.items() if value is not None}


def _serializer(value: object) -> object:
    from kafkaraw.client.serializers import is_serializer  # most producers have none

    if value is None or is_serializer(value):
        return value
    raise ValueError(f"must be a function, or an object with a method serialize(), not {type(value).__name__}")


def _interceptors(*methods: str) -> Callable[[object], object]:
    def check(value: object) -> object:
        from kafkaraw.client.interceptors import is_interceptor  # as in `_serializer`

        given = tuple(value) if isinstance(value, list | tuple) else (value,)
        for interceptor in given:
            if not is_interceptor(interceptor, methods):
                what = f"no {methods[0]}()" if len(methods) == 1 else f"neither {'() nor '.join(methods)}()"
                raise ValueError(f"{type(interceptor).__name__} has {what}")
        return given

    return check


def _names(value: object) -> object:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError('must be a list of texts, or "one,two"')
    return tuple(part.strip() for part in parts if part.strip())


def _extensions(value: object) -> object:
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        if not all(equals for _, equals, _ in pairs):
            raise ValueError('must be a mapping, or "name=value,name=value"')
        value = {name.strip(): text.strip() for name, _, text in pairs}
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError('must be a mapping, or "name=value,name=value"')
    from kafkaraw.core.sasl.oauthbearer import extension_fault  # few clients have extensions

    for name, text in value.items():
        if fault := extension_fault(name, text):
            raise ValueError(fault)
    return dict(value)


def _deserializer(value: object) -> object:
    from kafkaraw.client.deserializers import is_deserializer  # most consumers have none

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


def _strategies(value: object) -> object:
    from kafkaraw.client.group_settings import parse_strategies  # only consumers have groups

    return parse_strategies(value)


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
        (),
        'Bootstrap servers: "host:port,host:port" or a list.',
        convert=parse_addresses,
        accepts="str | Iterable[str]",
    )
    bootstrap_timeout_ms: int = setting(
        0,
        "How long the first call retries the bootstrap servers, within its own timeout; 0 tries each of them once.",
        unit="ms",
        minimum=0,
        maximum=_DAY_MS,
    )
    client_id: str = setting("kafkaraw", "Name of this client in the broker's logs, metrics and quotas.")
    request_timeout_ms: int = setting(
        30_000, "Maximum time to wait for the response to a request.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    default_api_timeout_ms: int = setting(
        60_000, "Timeout of calls that have no timeout argument of their own.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    socket_connection_setup_timeout_ms: int = setting(
        10_000,
        "Maximum time to resolve, connect and negotiate with one broker.",
        unit="ms",
        minimum=1,
        maximum=_DAY_MS,
    )
    socket_connection_setup_timeout_max_ms: int = setting(
        30_000,
        "Upper limit of that time, which doubles with each consecutive failure; at least the initial time.",
        unit="ms",
        minimum=1,
        maximum=_DAY_MS,
    )
    reconnect_backoff_ms: int = setting(
        50, "Wait before reconnecting to a broker; doubles with each failure.", unit="ms", minimum=0, maximum=_DAY_MS
    )
    reconnect_backoff_max_ms: int = setting(
        1_000,
        "Maximum wait before reconnecting to a broker; at least the initial wait.",
        unit="ms",
        minimum=0,
        maximum=_DAY_MS,
    )
    connections_max_idle_ms: int = setting(
        540_000, "Close connections that were idle for this long; -1 never closes them.", unit="ms", minimum=-1
    )
    retry_backoff_ms: int = setting(
        100, "Wait before the first retry; doubles with each failure.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    retry_backoff_max_ms: int = setting(1_000, "Maximum wait between retries.", unit="ms", minimum=1, maximum=_DAY_MS)
    enable_metrics_push: bool = setting(
        True,
        "Push metrics of this client to the brokers that request them (KIP-714); the extra `metrics` has what encodes "
        "them. Brokers without a metrics reporter request none, and are not asked.",
    )
    metadata_max_age_ms: int = setting(
        300_000,
        "Age at which metadata is refreshed even without an error.",
        unit="ms",
        minimum=100,
        maximum=7 * _DAY_MS,
    )
    allow_auto_create_topics: bool = setting(
        True,
        "Allow the broker to create an unknown topic on a metadata request, if auto.create.topics.enable is set there.",
    )
    security_protocol: str = setting(
        "PLAINTEXT",
        "Protocol of the brokers: with TLS (SSL), with authentication (SASL), or both.",
        choices=SECURITY_PROTOCOLS,
    )
    sasl_mechanism: str | None = setting(None, "SASL mechanism for authentication.", choices=(None, *SASL_MECHANISMS))
    sasl_username: str | None = setting(None, "User name for PLAIN and SCRAM.")
    sasl_password: str | None = setting(None, "Password for PLAIN and SCRAM.", secret=True)
    sasl_token_auth: bool = setting(
        False, "The user is the id of a delegation token, and the password its HMAC in base64; with SCRAM."
    )
    sasl_oauth_token_provider: Callable[[], str | Awaitable[str]] | None = setting(
        None, "Function that returns a token for OAUTHBEARER; called for each authentication.", convert=_callable
    )
    sasl_oauthbearer_token_endpoint_url: str | None = setting(
        None, "Token endpoint for OAUTHBEARER with client credentials; https, or http on this machine."
    )
    sasl_oauthbearer_client_id: str | None = setting(None, "Client id for the token endpoint.")
    sasl_oauthbearer_client_secret: str | None = setting(None, "Client secret for the token endpoint.", secret=True)
    sasl_oauthbearer_assertion_file: str | None = setting(
        None, "File with a client assertion, a JWT, to send in place of the client's secret; read for each token."
    )
    sasl_oauthbearer_assertion_private_key_file: str | None = setting(
        None, "Private key (PEM) that signs client assertions, to send in place of the client's secret."
    )
    sasl_oauthbearer_assertion_private_key_passphrase: str | None = setting(
        None, "Passphrase of the private key of client assertions.", secret=True
    )
    sasl_oauthbearer_assertion_algorithm: str = setting(
        "RS256", "Algorithm of client assertions.", choices=("RS256", "ES256")
    )
    sasl_oauthbearer_assertion_claim_aud: str | None = setting(
        None, "Claim aud of client assertions: often the URL of the token endpoint."
    )
    sasl_oauthbearer_assertion_claim_iss: str | None = setting(
        None, "Claim iss of client assertions: often the client id."
    )
    sasl_oauthbearer_assertion_claim_sub: str | None = setting(
        None, "Claim sub of client assertions: often the client id."
    )
    sasl_oauthbearer_assertion_claim_exp_seconds: int = setting(
        300, "Time from the creation of a client assertion to its claim exp.", unit="s", minimum=1, maximum=86_400
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = setting(
        60, "Time from the claim nbf of a client assertion to its creation.", unit="s", minimum=0, maximum=3_600
    )
    sasl_oauthbearer_assertion_claim_jti_include: bool = setting(
        False, "Give each client assertion a claim jti of its own."
    )
    sasl_oauthbearer_assertion_template_file: str | None = setting(
        None, "JSON file with further fields of client assertions, in the objects header and payload."
    )
    sasl_oauthbearer_scope: str | None = setting(None, "Scope to request from the token endpoint.")
    sasl_oauthbearer_extensions: Mapping[str, str] | None = setting(
        None,
        'SASL extensions to send with the token (KIP-342), as a mapping or "name=value,name=value"; Confluent Cloud '
        "takes logicalCluster and identityPoolId.",
        convert=_extensions,
        accepts="str | Mapping[str, str] | None",
    )
    sasl_oauthbearer_allowed_urls: tuple[str, ...] = setting(
        (),
        "Allowed token endpoints; if empty, any https URL is allowed.",
        convert=_names,
        accepts="str | Sequence[str]",
    )
    sasl_oauthbearer_cafile: str | None = setting(
        None, "CA certificates for the token endpoint: a PEM file, or PEM text; by default those of the system."
    )
    sasl_oauthbearer_header_urlencode: bool = setting(
        False, "URL-encode client id and secret in the Authorization header (RFC 6749); not every provider supports it."
    )
    sasl_login_connect_timeout_ms: int = setting(
        10_000, "Maximum time to connect to the token endpoint.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    sasl_login_read_timeout_ms: int = setting(
        10_000, "Maximum time to wait for data from the token endpoint.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    sasl_login_retry_backoff_ms: int = setting(
        100, "Wait before a token request is retried; doubles each time.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    sasl_login_retry_backoff_max_ms: int = setting(
        10_000, "Maximum wait before a token request is retried.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    sasl_kerberos_service_name: str = setting("kafka", "Service name of the brokers' Kerberos principals, with GSSAPI.")
    sasl_aws_msk_region: str | None = setting(None, "Region of the cluster, with AWS_MSK_IAM.")
    ssl_cafile: str | None = setting(
        None, "PEM file with the CA certificates to trust; by default those of the system."
    )
    ssl_cadata: str | None = setting(None, "CA certificates to trust, as PEM text.")
    ssl_certfile: str | None = setting(None, "This client's certificate chain: a PEM file, or PEM text.", secret=True)
    ssl_keyfile: str | None = setting(None, "Its private key: a PEM file, or PEM text.", secret=True)
    ssl_password: str | None = setting(None, "Password of the private key.", secret=True)
    ssl_check_hostname: bool = setting(
        True, "Require that the broker's certificate is valid for the host name of the connection."
    )
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
        -1,
        "Acknowledgements required before a send succeeds: 'all' in-sync replicas (-1), 1 (the leader), or 0 (none).",
        convert=_acks,
        accepts='Literal["all", "1", "0", "-1", 1, 0, -1]',
    )
    enable_idempotence: bool = setting(True, "Retries cause neither duplicates nor reordering; requires acks='all'.")
    linger_ms: int = setting(5, "How long an open batch waits for more records.", unit="ms", minimum=0, maximum=_DAY_MS)
    batch_size: int = setting(262_144, "Size at which a batch is sealed.", unit="bytes", minimum=1, maximum=INT32_MAX)
    compression_type: str = setting("none", "Codec of the batches.", choices=("none", "gzip", "snappy", "lz4", "zstd"))
    compression_level: int | None = setting(
        None,
        "Compression level: gzip -1 to 9, lz4 up to 17 (3 and above compress better and are slow), zstd -131072 to 22; "
        "snappy has none. None is the codec's default.",
        minimum=-131_072,
        maximum=22,
    )
    partitioner: PartitionerName | PartitionFunction = setting(
        "default",
        "How to choose the partition of records sent without one: 'default' (murmur2 of the key, as in Java; without a "
        "key, sticky), 'round_robin', 'sticky' (ignores keys), librdkafka's 'consistent_random', 'consistent', "
        "'murmur2_random', 'murmur2', 'fnv1a_random', 'fnv1a', or a function of topic, key, value and number of "
        "partitions that returns a partition, or None for the default.",
        convert=_partitioner,
    )
    partitioner_ignore_keys: bool = setting(False, "Ignore keys when choosing partitions.")
    partitioner_adaptive_partitioning_enable: bool = setting(
        True, "The sticky partitioner prefers partitions with fewer queued batches."
    )
    partitioner_availability_timeout_ms: int = setting(
        0,
        "The sticky partitioner skips brokers that have accepted no request for this long; 0 never skips.",
        unit="ms",
        minimum=0,
        maximum=_DAY_MS,
    )
    metadata_max_idle_ms: int = setting(
        300_000,
        "Drop the metadata of topics to which nothing was sent for this long.",
        unit="ms",
        minimum=5_000,
        maximum=7 * _DAY_MS,
    )
    buffer_memory: int = setting(
        33_554_432,
        "Maximum size of all records without an acknowledgement; when it is reached, send() blocks.",
        unit="bytes",
        minimum=1,
    )
    max_block_ms: int = setting(
        60_000,
        "How long send() may block on buffer memory or on the topic's metadata.",
        unit="ms",
        minimum=0,
        maximum=_DAY_MS,
    )
    max_request_size: int = setting(
        1_048_576,
        "Maximum size of a record before compression, and of a request.",
        unit="bytes",
        minimum=1,
        maximum=INT32_MAX,
    )
    delivery_timeout_ms: int = setting(
        120_000,
        "Maximum time until a record is acknowledged; then its ticket fails.",
        unit="ms",
        minimum=1,
        maximum=7 * _DAY_MS,
    )
    max_in_flight_requests_per_connection: int = setting(
        5, "Maximum number of unanswered Produce requests for each broker.", minimum=1, maximum=1_000
    )
    transactional_id: str | None = setting(
        None, "Id for transactions; a new producer with the same id fences the old one. Requires enable_idempotence."
    )
    transaction_timeout_ms: int = setting(
        60_000, "The coordinator aborts transactions that are open for longer.", unit="ms", minimum=1, maximum=INT32_MAX
    )
    key_serializer: SerializerLike | None = setting(
        None,
        "Serializes keys: a function of the key, or of the key and a SerializationContext, or an object with "
        "serialize(topic, headers, data).",
        convert=_serializer,
    )
    value_serializer: SerializerLike | None = setting(
        None, "Serializes values; as key_serializer.", convert=_serializer
    )
    interceptors: tuple[object, ...] = setting(
        (),
        "Objects with on_send(record), on_acknowledgement(metadata, error) or both; they are not called for rows of "
        "send_arrow.",
        convert=_interceptors("on_send", "on_acknowledgement"),
        accepts="ProducerInterceptorLike | Sequence[ProducerInterceptorLike]",
    )
    retries: int = setting(
        INT32_MAX, "Maximum number of retries of a batch, within delivery_timeout_ms.", minimum=0, maximum=INT32_MAX
    )

    @property
    def serializers(self) -> dict[str, object]:
        """The serializers that are given, by the name of the setting."""
        return _given(key_serializer=self.key_serializer, value_serializer=self.value_serializer)


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Settings of a consumer."""

    auto_offset_reset: str = setting(
        "latest",
        'Where to start if there is no committed offset, or it no longer exists: "earliest", "latest", "none" '
        '(an error), or "by_duration:" and an ISO 8601 duration before now, as in "by_duration:PT1H".',
        convert=_reset_policy,
        accepts='Literal["earliest", "latest", "none"] | str',
    )
    key_deserializer: DeserializerLike | None = setting(
        None,
        "Deserializes keys: a function of the bytes, or of the bytes and a context, or an object with "
        "deserialize(topic, headers, data). Null stays None; Arrow columns stay bytes.",
        convert=_deserializer,
    )
    value_deserializer: DeserializerLike | None = setting(
        None, "Deserializes values; as key_deserializer.", convert=_deserializer
    )
    interceptors: tuple[object, ...] = setting(
        (),
        "Objects with on_consume(records), on_commit(offsets) or both.",
        convert=_interceptors("on_consume", "on_commit"),
        accepts="ConsumerInterceptorLike | Sequence[ConsumerInterceptorLike]",
    )
    client_rack: str = setting(
        "",
        "Rack of this consumer, as in the brokers' broker.rack: a broker may let it fetch from a replica in the same "
        "rack (KIP-392), and assignors prefer partitions with a replica there (KIP-881).",
    )
    fetch_min_bytes: int = setting(
        1, "The broker waits for this many bytes before it responds.", unit="bytes", minimum=0, maximum=INT32_MAX
    )
    fetch_max_wait_ms: int = setting(
        500, "Maximum time that the broker waits for fetch_min_bytes.", unit="ms", minimum=0, maximum=_DAY_MS
    )
    fetch_max_bytes: int = setting(
        52_428_800,
        "Maximum bytes of a response (the first batch is returned even if it is larger).",
        unit="bytes",
        minimum=1,
        maximum=FETCH_BYTES_MAX,
    )
    max_partition_fetch_bytes: int | None = setting(
        None,
        "Maximum bytes of a partition in a response (the first batch is returned even if it is larger). None starts at "
        "Kafka's 1048576 and grows to 2097152 while responses are full and arrive within 250 ms.",
        unit="bytes",
        minimum=1,
        maximum=FETCH_BYTES_MAX,
    )
    isolation_level: str = setting(
        "read_uncommitted",
        "Whether to return records of open and aborted transactions.",
        choices=("read_uncommitted", "read_committed"),
    )
    check_crcs: bool = setting(True, "Check the CRC-32C of every batch.")
    max_poll_records: int | None = setting(
        None, "Maximum number of records that poll() returns; None returns all that were fetched.", minimum=1
    )

    group_id: str | None = setting(
        None,
        "Consumer group: its members share the partitions of their subscriptions, and it stores committed offsets.",
    )
    group_instance_id: str | None = setting(
        None,
        "Instance id of a static member: it keeps its partitions if it rejoins within session_timeout_ms (KIP-345).",
    )
    group_protocol: str = setting(
        "classic",
        "Rebalance protocol: 'classic' (a member assigns partitions) or 'consumer' (the broker does, KIP-848).",
        choices=("classic", "consumer"),
    )
    group_remote_assignor: str | None = setting(
        None, "The broker's assignor with group_protocol='consumer'; if None, the broker chooses."
    )
    partition_assignment_strategy: tuple[Strategy, ...] = setting(
        ("range", "cooperative-sticky"),
        "Assignors of a classic group, the preferred one first: range, roundrobin, sticky, cooperative-sticky, or a "
        "class derived from Assignor.",
        convert=_strategies,
        accepts="str | type[Assignor] | Sequence[str | type[Assignor]]",
    )
    session_timeout_ms: int = setting(
        45_000,
        "The coordinator removes a classic member that sends no heartbeat for this long.",
        unit="ms",
        minimum=1,
        maximum=_DAY_MS,
    )
    heartbeat_interval_ms: int = setting(
        3_000, "Time between two heartbeats of a classic member.", unit="ms", minimum=1, maximum=_DAY_MS
    )
    max_poll_interval_ms: int | None = setting(
        300_000,
        "A member leaves the group if the application does not poll for this long; None disables this.",
        unit="ms",
        minimum=1,
        maximum=INT32_MAX,
    )
    enable_auto_commit: bool = setting(
        True, "Commit offsets automatically. Only records returned by earlier calls are committed."
    )
    auto_commit_interval_ms: int = setting(
        5_000, "Time between two automatic commits.", unit="ms", minimum=1, maximum=_DAY_MS
    )

    enable_auto_offset_store: bool = setting(
        True,
        "Commit the offsets of returned records; if false, only offsets passed to store_offsets().",
    )

    @property
    def deserializers(self) -> dict[str, object]:
        """The deserializers that are given, by the name of the setting."""
        return _given(key_deserializer=self.key_deserializer, value_deserializer=self.value_deserializer)

    @property
    def commits_itself(self) -> bool:
        """Whether positions are committed automatically."""
        return self.enable_auto_commit and self.group_id is not None

    @property
    def answer_timeout_ms(self) -> int:
        """How long a broker may owe an answer; a Fetch is held back on purpose for a part of it."""
        return self.request_timeout_ms + self.fetch_max_wait_ms


@dataclass(frozen=True, kw_only=True)
class ShareConsumerConfig(ClientConfig):
    """Settings of a share consumer."""

    group_id: str = setting("", "Share group: its members share the records of their subscriptions (KIP-932).")
    share_acknowledgement_mode: str = setting(
        "implicit",
        "'implicit' accepts the records of a poll with the next poll or commit; 'explicit' needs acknowledge() for "
        "each record before the next poll.",
        choices=("implicit", "explicit"),
    )
    share_acquire_mode: str = setting(
        "batch_optimized",
        "'batch_optimized' acquires whole batches, so a poll may return more than max_poll_records; 'record_limit' "
        "never acquires more (KIP-1206, from Kafka 4.2).",
        choices=("batch_optimized", "record_limit"),
    )
    max_poll_records: int = setting(
        500, "Number of records to acquire with one request; see share_acquire_mode.", minimum=1, maximum=INT32_MAX
    )
    max_poll_interval_ms: int | None = setting(
        300_000,
        "A member leaves the group if the application does not poll for this long; None disables this.",
        unit="ms",
        minimum=1,
        maximum=INT32_MAX,
    )
    key_deserializer: DeserializerLike | None = setting(
        None, "Deserializes keys; as of a consumer.", convert=_deserializer
    )
    value_deserializer: DeserializerLike | None = setting(
        None, "Deserializes values; as of a consumer.", convert=_deserializer
    )
    interceptors: tuple[object, ...] = setting(
        (),
        "Objects with on_consume(records); on_commit is never called: a share group has no offsets to commit.",
        convert=_interceptors("on_consume"),
        accepts="ConsumerInterceptorLike | Sequence[ConsumerInterceptorLike]",
    )
    client_rack: str = setting("", "Rack of this consumer, as in the brokers' broker.rack.")
    fetch_min_bytes: int = setting(
        1, "The broker waits for this many bytes before it responds.", unit="bytes", minimum=0, maximum=INT32_MAX
    )
    fetch_max_wait_ms: int = setting(
        500, "Maximum time that the broker waits for fetch_min_bytes.", unit="ms", minimum=0, maximum=_DAY_MS
    )
    fetch_max_bytes: int = setting(
        52_428_800,
        "Maximum bytes of a response (the first batch is returned even if it is larger).",
        unit="bytes",
        minimum=1,
        maximum=FETCH_BYTES_MAX,
    )
    check_crcs: bool = setting(True, "Check the CRC-32C of every batch.")

    @property
    def deserializers(self) -> dict[str, object]:
        """The deserializers that are given, by the name of the setting."""
        return _given(key_deserializer=self.key_deserializer, value_deserializer=self.value_deserializer)

    @property
    def answer_timeout_ms(self) -> int:
        """How long a broker may owe an answer; a ShareFetch is held back on purpose for a part of it."""
        return self.request_timeout_ms + self.fetch_max_wait_ms


K = TypeVar("K", bound=ClientConfig)

_KINDS: dict[str, type[ClientConfig]] = {
    "producer": ProducerConfig,
    "share consumer": ShareConsumerConfig,
    "consumer": ConsumerConfig,
    "admin": AdminConfig,
}
"""In the reverse order in which an error names one of several clients that have a setting."""


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
        kind: `ProducerConfig`, `ConsumerConfig`, `ShareConsumerConfig` or `AdminConfig`.
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
        from kafkaraw.client.group_settings import check_group  # as in `_strategies`

        check_group(config, given)
    if isinstance(config, ShareConsumerConfig) and not config.group_id:
        raise ConfigError("group_id is missing: give the name of the share group")
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
    if config.sasl_token_auth and not config.sasl_mechanism.startswith("SCRAM"):
        raise ConfigError(f"sasl_token_auth needs a SCRAM mechanism, not sasl_mechanism={config.sasl_mechanism!r}")
    if config.sasl_oauthbearer_extensions and config.sasl_mechanism != "OAUTHBEARER":
        raise ConfigError(
            f"sasl_oauthbearer_extensions needs OAUTHBEARER, not sasl_mechanism={config.sasl_mechanism!r}"
        )
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
        if config.sasl_oauthbearer_assertion_file or config.sasl_oauthbearer_assertion_private_key_file:
            return ()
        return "sasl_oauthbearer_client_id", "sasl_oauthbearer_client_secret"
    others = {"GSSAPI": ("sasl_kerberos_service_name",), "AWS_MSK_IAM": ("sasl_aws_msk_region",)}
    return others.get(str(config.sasl_mechanism), ("sasl_username", "sasl_password"))
