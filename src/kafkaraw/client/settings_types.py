"""The settings of the clients as types: what editors complete, and type checkers check.

Written by docs/generate_settings.py from the declarations in `src/kafkaraw/client/config.py`; change those, not this
module. Programs that pass settings on use these types, too. No client imports this module when it runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from ssl import SSLContext
from typing import Literal, TypedDict

from kafkaraw.client.deserializers import DeserializerLike
from kafkaraw.client.interceptors import ConsumerInterceptorLike, ProducerInterceptorLike
from kafkaraw.client.serializers import SerializerLike
from kafkaraw.core.group.assignors import Assignor
from kafkaraw.records import PartitionerName, PartitionFunction


class SecuritySettings(TypedDict, total=False):
    """Settings of TLS and authentication."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """Protocol of the brokers: with TLS (SSL), with authentication (SASL), or both. Default: 'PLAINTEXT'."""

    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"] | None
    """SASL mechanism for authentication."""

    sasl_username: str | None
    """User name for PLAIN and SCRAM."""

    sasl_password: str | None
    """Password for PLAIN and SCRAM."""

    sasl_token_auth: bool
    """The user is the id of a delegation token, and the password its HMAC in base64; with SCRAM. Default: False."""

    sasl_oauth_token_provider: Callable[[], str | Awaitable[str]] | None
    """Function that returns a token for OAUTHBEARER; called for each authentication."""

    sasl_oauthbearer_token_endpoint_url: str | None
    """Token endpoint for OAUTHBEARER with client credentials; https, or http on this machine."""

    sasl_oauthbearer_client_id: str | None
    """Client id for the token endpoint."""

    sasl_oauthbearer_client_secret: str | None
    """Client secret for the token endpoint."""

    sasl_oauthbearer_assertion_file: str | None
    """File with a client assertion, a JWT, to send in place of the client's secret; read for each token."""

    sasl_oauthbearer_assertion_private_key_file: str | None
    """Private key (PEM) that signs client assertions, to send in place of the client's secret."""

    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    """Passphrase of the private key of client assertions."""

    sasl_oauthbearer_assertion_algorithm: Literal["RS256", "ES256"]
    """Algorithm of client assertions. Default: 'RS256'."""

    sasl_oauthbearer_assertion_claim_aud: str | None
    """Claim aud of client assertions: often the URL of the token endpoint."""

    sasl_oauthbearer_assertion_claim_iss: str | None
    """Claim iss of client assertions: often the client id."""

    sasl_oauthbearer_assertion_claim_sub: str | None
    """Claim sub of client assertions: often the client id."""

    sasl_oauthbearer_assertion_claim_exp_seconds: int
    """Time from the creation of a client assertion to its claim exp. Default: 300 s."""

    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    """Time from the claim nbf of a client assertion to its creation. Default: 60 s."""

    sasl_oauthbearer_assertion_claim_jti_include: bool
    """Give each client assertion a claim jti of its own. Default: False."""

    sasl_oauthbearer_assertion_template_file: str | None
    """JSON file with further fields of client assertions, in the objects header and payload."""

    sasl_oauthbearer_scope: str | None
    """Scope to request from the token endpoint."""

    sasl_oauthbearer_extensions: str | Mapping[str, str] | None
    """SASL extensions to send with the token (KIP-342), as a mapping or "name=value,name=value"; Confluent Cloud
    takes logicalCluster and identityPoolId.
    """

    sasl_oauthbearer_allowed_urls: str | Sequence[str]
    """Allowed token endpoints; if empty, any https URL is allowed."""

    sasl_oauthbearer_cafile: str | None
    """CA certificates for the token endpoint: a PEM file, or PEM text; by default those of the system."""

    sasl_oauthbearer_header_urlencode: bool
    """URL-encode client id and secret in the Authorization header (RFC 6749); not every provider supports it.
    Default: False.
    """

    sasl_login_connect_timeout_ms: int
    """Maximum time to connect to the token endpoint. Default: 10000 ms."""

    sasl_login_read_timeout_ms: int
    """Maximum time to wait for data from the token endpoint. Default: 10000 ms."""

    sasl_login_retry_backoff_ms: int
    """Wait before a token request is retried; doubles each time. Default: 100 ms."""

    sasl_login_retry_backoff_max_ms: int
    """Maximum wait before a token request is retried. Default: 10000 ms."""

    sasl_kerberos_service_name: str
    """Service name of the brokers' Kerberos principals, with GSSAPI. Default: 'kafka'."""

    sasl_aws_msk_region: str | None
    """Region of the cluster, with AWS_MSK_IAM."""

    ssl_cafile: str | None
    """PEM file with the CA certificates to trust; by default those of the system."""

    ssl_cadata: str | None
    """CA certificates to trust, as PEM text."""

    ssl_certfile: str | None
    """This client's certificate chain: a PEM file, or PEM text."""

    ssl_keyfile: str | None
    """Its private key: a PEM file, or PEM text."""

    ssl_password: str | None
    """Password of the private key."""

    ssl_check_hostname: bool
    """Require that the broker's certificate is valid for the host name of the connection. Default: True."""

    ssl_context: SSLContext | None
    """TLS context of your own, instead of the other ssl_ settings."""


class ClientSettings(SecuritySettings, total=False):
    """Settings that all clients share."""

    bootstrap_servers: str | Iterable[str]
    """Bootstrap servers: "host:port,host:port" or a list."""

    bootstrap_timeout_ms: int
    """How long the first call retries the bootstrap servers, within its own timeout; 0 tries each of them once.
    Default: 0 ms.
    """

    client_id: str
    """Name of this client in the broker's logs, metrics and quotas. Default: 'kafkaraw'."""

    request_timeout_ms: int
    """Maximum time to wait for the response to a request. Default: 30000 ms."""

    default_api_timeout_ms: int
    """Timeout of calls that have no timeout argument of their own. Default: 60000 ms."""

    socket_connection_setup_timeout_ms: int
    """Maximum time to resolve, connect and negotiate with one broker. Default: 10000 ms."""

    socket_connection_setup_timeout_max_ms: int
    """Upper limit of that time, which doubles with each consecutive failure; at least the initial time. Default:
    30000 ms.
    """

    reconnect_backoff_ms: int
    """Wait before reconnecting to a broker; doubles with each failure. Default: 50 ms."""

    reconnect_backoff_max_ms: int
    """Maximum wait before reconnecting to a broker; at least the initial wait. Default: 1000 ms."""

    connections_max_idle_ms: int
    """Close connections that were idle for this long; -1 never closes them. Default: 540000 ms."""

    retry_backoff_ms: int
    """Wait before the first retry; doubles with each failure. Default: 100 ms."""

    retry_backoff_max_ms: int
    """Maximum wait between retries. Default: 1000 ms."""

    enable_metrics_push: bool
    """Push metrics of this client to the brokers that request them (KIP-714); the extra `metrics` has what encodes
    them. Brokers without a metrics reporter request none, and are not asked. Default: True.
    """

    metadata_max_age_ms: int
    """Age at which metadata is refreshed even without an error. Default: 300000 ms."""

    allow_auto_create_topics: bool
    """Allow the broker to create an unknown topic on a metadata request, if auto.create.topics.enable is set there.
    Default: True.
    """


class AdminSettings(ClientSettings, total=False):
    """Settings of `Admin` and `AsyncAdmin`."""


class ProducerSettings(ClientSettings, total=False):
    """Settings of `Producer` and `AsyncProducer`."""

    acks: Literal["all", "1", "0", "-1", 1, 0, -1]
    """Acknowledgements required before a send succeeds: 'all' in-sync replicas (-1), 1 (the leader), or 0 (none).
    Default: -1.
    """

    enable_idempotence: bool
    """Retries cause neither duplicates nor reordering; requires acks='all'. Default: True."""

    linger_ms: int
    """How long an open batch waits for more records. Default: 5 ms."""

    batch_size: int
    """Size at which a batch is sealed. Default: 262144 bytes."""

    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    """Codec of the batches. Default: 'none'."""

    compression_level: int | None
    """Compression level: gzip -1 to 9, lz4 up to 17 (3 and above compress better and are slow), zstd -131072 to 22;
    snappy has none. None is the codec's default.
    """

    partitioner: PartitionerName | PartitionFunction
    """How to choose the partition of records sent without one: 'default' (murmur2 of the key, as in Java; without a
    key, sticky), 'round_robin', 'sticky' (ignores keys), librdkafka's 'consistent_random', 'consistent',
    'murmur2_random', 'murmur2', 'fnv1a_random', 'fnv1a', or a function of topic, key, value and number of
    partitions that returns a partition, or None for the default. Default: 'default'.
    """

    partitioner_ignore_keys: bool
    """Ignore keys when choosing partitions. Default: False."""

    partitioner_adaptive_partitioning_enable: bool
    """The sticky partitioner prefers partitions with fewer queued batches. Default: True."""

    partitioner_availability_timeout_ms: int
    """The sticky partitioner skips brokers that have accepted no request for this long; 0 never skips. Default: 0
    ms.
    """

    metadata_max_idle_ms: int
    """Drop the metadata of topics to which nothing was sent for this long. Default: 300000 ms."""

    buffer_memory: int
    """Maximum size of all records without an acknowledgement; when it is reached, send() blocks. Default: 33554432
    bytes.
    """

    max_block_ms: int
    """How long send() may block on buffer memory or on the topic's metadata. Default: 60000 ms."""

    max_request_size: int
    """Maximum size of a record before compression, and of a request. Default: 1048576 bytes."""

    delivery_timeout_ms: int
    """Maximum time until a record is acknowledged; then its ticket fails. Default: 120000 ms."""

    max_in_flight_requests_per_connection: int
    """Maximum number of unanswered Produce requests for each broker. Default: 5."""

    transactional_id: str | None
    """Id for transactions; a new producer with the same id fences the old one. Requires enable_idempotence."""

    transaction_timeout_ms: int
    """The coordinator aborts transactions that are open for longer. Default: 60000 ms."""

    key_serializer: SerializerLike | None
    """Serializes keys: a function of the key, or of the key and a SerializationContext, or an object with
    serialize(topic, headers, data).
    """

    value_serializer: SerializerLike | None
    """Serializes values; as key_serializer."""

    interceptors: ProducerInterceptorLike | Sequence[ProducerInterceptorLike]
    """Objects with on_send(record), on_acknowledgement(metadata, error) or both; they are not called for rows of
    send_arrow.
    """

    retries: int
    """Maximum number of retries of a batch, within delivery_timeout_ms. Default: 2147483647."""


class ConsumerSettings(ClientSettings, total=False):
    """Settings of `Consumer` and `AsyncConsumer`."""

    auto_offset_reset: Literal["earliest", "latest", "none"] | str
    """Where to start if there is no committed offset, or it no longer exists: "earliest", "latest", "none" (an
    error), or "by_duration:" and an ISO 8601 duration before now, as in "by_duration:PT1H". Default: 'latest'.
    """

    key_deserializer: DeserializerLike | None
    """Deserializes keys: a function of the bytes, or of the bytes and a context, or an object with
    deserialize(topic, headers, data). Null stays None; Arrow columns stay bytes.
    """

    value_deserializer: DeserializerLike | None
    """Deserializes values; as key_deserializer."""

    interceptors: ConsumerInterceptorLike | Sequence[ConsumerInterceptorLike]
    """Objects with on_consume(records), on_commit(offsets) or both."""

    client_rack: str
    """Rack of this consumer, as in the brokers' broker.rack: a broker may let it fetch from a replica in the same
    rack (KIP-392), and assignors prefer partitions with a replica there (KIP-881). Default: ''.
    """

    fetch_min_bytes: int
    """The broker waits for this many bytes before it responds. Default: 1 bytes."""

    fetch_max_wait_ms: int
    """Maximum time that the broker waits for fetch_min_bytes. Default: 500 ms."""

    fetch_max_bytes: int
    """Maximum bytes of a response (the first batch is returned even if it is larger). Default: 52428800 bytes."""

    max_partition_fetch_bytes: int | None
    """Maximum bytes of a partition in a response (the first batch is returned even if it is larger). None starts at
    Kafka's 1048576 and grows to 2097152 while responses are full and arrive within 250 ms.
    """

    isolation_level: Literal["read_uncommitted", "read_committed"]
    """Whether to return records of open and aborted transactions. Default: 'read_uncommitted'."""

    check_crcs: bool
    """Check the CRC-32C of every batch. Default: True."""

    max_poll_records: int | None
    """Maximum number of records that poll() returns; None returns all that were fetched."""

    group_id: str | None
    """Consumer group: its members share the partitions of their subscriptions, and it stores committed offsets."""

    group_instance_id: str | None
    """Instance id of a static member: it keeps its partitions if it rejoins within session_timeout_ms (KIP-345)."""

    group_protocol: Literal["classic", "consumer"]
    """Rebalance protocol: 'classic' (a member assigns partitions) or 'consumer' (the broker does, KIP-848). Default:
    'classic'.
    """

    group_remote_assignor: str | None
    """The broker's assignor with group_protocol='consumer'; if None, the broker chooses."""

    partition_assignment_strategy: str | type[Assignor] | Sequence[str | type[Assignor]]
    """Assignors of a classic group, the preferred one first: range, roundrobin, sticky, cooperative-sticky, or a
    class derived from Assignor. Default: range, cooperative-sticky.
    """

    session_timeout_ms: int
    """The coordinator removes a classic member that sends no heartbeat for this long. Default: 45000 ms."""

    heartbeat_interval_ms: int
    """Time between two heartbeats of a classic member. Default: 3000 ms."""

    max_poll_interval_ms: int | None
    """A member leaves the group if the application does not poll for this long; None disables this. Default: 300000
    ms.
    """

    enable_auto_commit: bool
    """Commit offsets automatically. Only records returned by earlier calls are committed. Default: True."""

    auto_commit_interval_ms: int
    """Time between two automatic commits. Default: 5000 ms."""

    enable_auto_offset_store: bool
    """Commit the offsets of returned records; if false, only offsets passed to store_offsets(). Default: True."""


class ShareConsumerSettings(ClientSettings, total=False):
    """Settings of `ShareConsumer` and `AsyncShareConsumer`."""

    group_id: str
    """Share group: its members share the records of their subscriptions (KIP-932). Default: ''."""

    share_acknowledgement_mode: Literal["implicit", "explicit"]
    """'implicit' accepts the records of a poll with the next poll or commit; 'explicit' needs acknowledge() for each
    record before the next poll. Default: 'implicit'.
    """

    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    """'batch_optimized' acquires whole batches, so a poll may return more than max_poll_records; 'record_limit'
    never acquires more (KIP-1206, from Kafka 4.2). Default: 'batch_optimized'.
    """

    max_poll_records: int
    """Number of records to acquire with one request; see share_acquire_mode. Default: 500."""

    max_poll_interval_ms: int | None
    """A member leaves the group if the application does not poll for this long; None disables this. Default: 300000
    ms.
    """

    key_deserializer: DeserializerLike | None
    """Deserializes keys; as of a consumer."""

    value_deserializer: DeserializerLike | None
    """Deserializes values; as of a consumer."""

    interceptors: ConsumerInterceptorLike | Sequence[ConsumerInterceptorLike]
    """Objects with on_consume(records); on_commit is never called: a share group has no offsets to commit."""

    client_rack: str
    """Rack of this consumer, as in the brokers' broker.rack. Default: ''."""

    fetch_min_bytes: int
    """The broker waits for this many bytes before it responds. Default: 1 bytes."""

    fetch_max_wait_ms: int
    """Maximum time that the broker waits for fetch_min_bytes. Default: 500 ms."""

    fetch_max_bytes: int
    """Maximum bytes of a response (the first batch is returned even if it is larger). Default: 52428800 bytes."""

    check_crcs: bool
    """Check the CRC-32C of every batch. Default: True."""
