"""The broker's properties: Kafka's own names, defaults and limits, declared once in a table.

`BrokerConfig.parse` turns a mapping of properties into a frozen object; an unknown name is an error that suggests the
nearest one. Topic settings and their defaults live in `topic_config`.
Source: AbstractKafkaConfig of Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from kafkaraw.broker.acl.settings import ACL_SETTINGS, AccessSettings, parse_access
from kafkaraw.broker.configs.group_settings import GROUP_SETTINGS, GroupSettings, parse_groups
from kafkaraw.broker.configs.kafka_properties import IGNORED, REFUSED
from kafkaraw.broker.configs.log_settings import LOG_SETTINGS, LogSettings, check_times, parse_logs
from kafkaraw.broker.configs.share_settings import SHARE_SETTINGS, ShareSettings, parse_shares
from kafkaraw.broker.configs.streams_settings import STREAMS_SETTINGS
from kafkaraw.broker.configs.topic_config import BROKER_PROPERTY, TOPIC_SETTINGS
from kafkaraw.broker.connection_limits import LIMIT_SETTINGS, ConnectionLimits, parse_limits
from kafkaraw.broker.listeners import (
    PROTOCOLS,
    Endpoint,
    advertised_endpoints,
    parse_endpoints,
    without_controllers,
)
from kafkaraw.broker.quotas.rates import Windows
from kafkaraw.broker.security.delegation_tokens import TOKEN_SETTINGS, TokenSettings, parse_tokens
from kafkaraw.broker.security.listener_security import (
    LISTENER_PREFIX,
    SECURITY_SETTINGS,
    BrokerSecurity,
    listener_setting,
    parse_security,
)
from kafkaraw.broker.security.mechanisms import JAAS
from kafkaraw.broker.settings import INT_MAX, LONG_MAX, Setting, Value, by_name, flag, number, text, unknown
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field, replace

_logger = logging.getLogger("kafkaraw.broker")

HOUR_MS: Final = 3_600_000
FOR_EVER: Final = -1
FULL: Final = "full"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
CONTROLLERS: Final = "controller.listener.names"
_PROTOCOL_MAP: Final = ",".join(f"{name}:{name}" for name in PROTOCOLS)

BROKER_SETTINGS: Final[dict[str, Setting]] = by_name(
    (
        Setting("node.id", 0, "the broker's id", low=0, high=INT_MAX),
        Setting("broker.rack", "", "the rack of this broker, which Metadata responses contain"),
        Setting("listeners", "PLAINTEXT://127.0.0.1:9092",
                "addresses to listen on: NAME://host:port; port 0 is any free one"),
        Setting("advertised.listeners", "", "addresses for clients; empty: those of listeners"),
        Setting("listener.security.protocol.map", _PROTOCOL_MAP, "the protocol of each listener name"),
        Setting("num.partitions", 1, "partitions of a topic that is created without a number", low=1, high=INT_MAX),
        Setting("default.replication.factor", 1,
                "replicas of a topic that is created without a number", low=1, high=32767),
        Setting("auto.create.topics.enable", True, "create a topic when a client asks for its metadata"),
        Setting("delete.topic.enable", True, "let clients delete topics"),
        Setting("unstable.api.versions.enable", False, "offer versions of APIs that no release has enabled"),
        Setting("socket.request.max.bytes", 104_857_600, "largest request, in bytes", low=1, high=INT_MAX),
        Setting("fetch.max.bytes", 57_671_680, "largest fetch response, in bytes", low=1024, high=INT_MAX),
        Setting("telemetry.max.bytes", 1_048_576, "largest push of a client's metrics, in bytes", low=1, high=INT_MAX),
        Setting("replica.selector.class", "",
                "class that selects the replica that a consumer reads from; empty: the leader",
                choices=("", RACK_AWARE)),
        Setting("max.incremental.fetch.session.cache.slots", 1000, "fetch sessions that are kept", high=INT_MAX),
        Setting("connections.max.idle.ms", 600_000,
                "close a connection that is idle for longer, in milliseconds; negative: never"),
        Setting("offset.metadata.max.bytes", 4096, "longest metadata of a committed offset", low=0, high=INT_MAX),
        Setting("producer.id.expiration.ms", 86_400_000,
                "milliseconds until an idle producer's sequence numbers expire", low=1),
        Setting("replica.lag.time.max.ms", 30_000,
                "a follower that lags for longer is out of sync, in milliseconds", low=1),
        Setting("transaction.max.timeout.ms", 900_000,
                "longest transaction timeout that a producer may request, in milliseconds", low=1,
                high=INT_MAX),
        Setting("transactional.id.expiration.ms", 604_800_000,
                "milliseconds until an unused transactional id expires", low=1),
        Setting("add.partitions.to.txn.retry.backoff.ms", 20, "longest time between two tries to add partitions to a "
                "transaction whose predecessor is not complete, in milliseconds", low=1, high=INT_MAX),
        Setting("add.partitions.to.txn.retry.backoff.max.ms", 100,
                "milliseconds until the producer gets CONCURRENT_TRANSACTIONS",
                low=0, high=INT_MAX),
        Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000,
                "milliseconds between two checks for transactions that timed out", low=1, high=INT_MAX),
        Setting("transaction.state.log.num.partitions", 50, "partitions of __transaction_state", low=1, high=INT_MAX),
        Setting("transaction.state.log.replication.factor", 3, "its replication factor, limited to the number of nodes",
                low=1, high=32767),
        Setting("transaction.state.log.min.isr", 2, "its min.insync.replicas, limited to its replication factor", low=1,
                high=INT_MAX),
        Setting("transaction.state.log.segment.bytes", 104_857_600, "its segment.bytes", low=1_048_576, high=INT_MAX),
        Setting("transaction.partition.verification.enable", True,
                "verify that a partition was added to the transaction"),
        Setting("transaction.version", 2,
                "level of this feature: 2 bumps epochs; not a property of Kafka, for tests", low=0,
                high=2),
        Setting("validate", "needed",
                "needed: read records if settings require it; full: always; not a property of Kafka, for tests",
                choices=("needed", FULL)),
        Setting("read.only", False,
                "serve the directory without changing it, and refuse every change; not a property of Kafka"),
        Setting("quota.window.num", 11, "samples that client quotas are computed from", low=1, high=INT_MAX),
        Setting("quota.window.size.seconds", 1, "duration of each sample, in seconds", low=1, high=INT_MAX // 1000),
        Setting("controller.quota.window.num", 11,
                "samples that the quota of topic changes is computed from", low=1, high=INT_MAX),
        Setting("controller.quota.window.size.seconds", 1,
                "duration of each sample, in seconds", low=1, high=INT_MAX // 1000),
        *LOG_SETTINGS,
        *LIMIT_SETTINGS,
        *GROUP_SETTINGS,
        *SHARE_SETTINGS,
        *STREAMS_SETTINGS,
        *SECURITY_SETTINGS,
        *TOKEN_SETTINGS,
        *ACL_SETTINGS,
    )
)  # fmt: skip
ALIASES: Final = {"broker.id": "node.id", "log.dir": "log.dirs"}
# Kafka's broker properties whose default differs from that of the topic setting, or that are looser.
_TOPIC_PROPERTY: Final = {broker: topic for topic, broker in BROKER_PROPERTY.items()}
COARSER: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    "retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", HOUR_MS)),
    "segment.ms": (("log.roll.hours", HOUR_MS),),
    "segment.jitter.ms": (("log.roll.jitter.hours", HOUR_MS),),
    "flush.ms": (("log.flush.scheduler.interval.ms", 1),),
}


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The broker's properties, checked. Attributes are Kafka's names in snake_case.

    Attributes:
        logs: the data directories, and the schedules of retention, syncs, checkpoints and the cleaner.
        groups: what the coordinators of groups follow.
        shares: what share groups and their coordinators follow.
        connection_limits: how many connections it takes, and how long a login may take.
        security: TLS and logins of the listeners.
        tokens: settings of delegation tokens.
        access: settings of the authorizer; None without an authorizer, which permits every operation.
        quota_windows: over which time clients' rates are measured.
        mutation_windows: the same for changes of topics.
        topic_defaults: what a topic without settings of its own gets, by topic setting.
        validates_all_records: judge every record of every batch, not only where settings depend on them.
        read_only: nothing on the disk is changed, and requests that change something are refused.
        properties: those that were given, as text.
    """

    node_id: int
    rack: str | None
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    logs: LogSettings
    num_partitions: int
    default_replication_factor: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    unstable_api_versions_enable: bool
    socket_request_max_bytes: int
    fetch_max_bytes: int
    fetch_session_slots: int
    telemetry_max_bytes: int
    selects_replica_by_rack: bool
    connection_limits: ConnectionLimits
    groups: GroupSettings
    shares: ShareSettings
    connections_max_idle_ms: int
    offset_metadata_max_bytes: int
    producer_id_expiration_ms: int
    quota_windows: Windows
    mutation_windows: Windows
    replica_lag_time_max_ms: int
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    add_partitions_to_txn_retry_backoff_ms: int
    add_partitions_to_txn_retry_backoff_max_ms: int
    transaction_abort_interval_ms: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_min_isr: int
    transaction_state_log_segment_bytes: int
    transaction_partition_verification_enable: bool
    transaction_version: int
    validates_all_records: bool
    read_only: bool
    topic_defaults: Mapping[str, Value]
    security: BrokerSecurity
    tokens: TokenSettings
    access: AccessSettings | None
    properties: Mapping[str, Value] = field(repr=False)

    @classmethod
    def parse(
        cls, properties: Mapping[str, Value] | None = None, users: Mapping[str, str] | None = None
    ) -> BrokerConfig:
        """Check properties and fill in defaults.

        Args:
            properties: by Kafka's names.
            users: users that may authenticate: passwords by user name.

        Raises:
            ConfigError: a name is unknown, a value is not allowed, or two of them contradict each other.
        """
        given = _known(properties or {})
        values = {name: setting.default for name, setting in BROKER_SETTINGS.items()}
        values.update({name: value for name, value in given.items() if name in BROKER_SETTINGS})
        logs = parse_logs(values)
        if flag(values, "read.only") and not logs.directories:
            raise ConfigError("read.only: name the data directory to serve (--data-dir, or the property log.dirs)")
        for name in ("listeners", "advertised.listeners"):
            values[name] = without_controllers(text(values, name), str((properties or {}).get(CONTROLLERS, "")))
        listeners = parse_endpoints("listeners", text(values, "listeners"), protocols(values))
        advertised = advertised_endpoints(text(values, "advertised.listeners"), listeners, protocols(values))
        return cls(
            node_id=number(values, "node.id"),
            rack=text(values, "broker.rack") or None,
            listeners=listeners,
            advertised_listeners=advertised,
            logs=logs,
            num_partitions=number(values, "num.partitions"),
            default_replication_factor=number(values, "default.replication.factor"),
            auto_create_topics_enable=flag(values, "auto.create.topics.enable") and not flag(values, "read.only"),
            delete_topic_enable=flag(values, "delete.topic.enable"),
            unstable_api_versions_enable=flag(values, "unstable.api.versions.enable"),
            socket_request_max_bytes=number(values, "socket.request.max.bytes"),
            fetch_max_bytes=number(values, "fetch.max.bytes"),
            selects_replica_by_rack=text(values, "replica.selector.class") == RACK_AWARE,
            telemetry_max_bytes=number(values, "telemetry.max.bytes"),
            fetch_session_slots=number(values, "max.incremental.fetch.session.cache.slots"),
            connection_limits=parse_limits(values),
            groups=parse_groups(values),
            shares=parse_shares(values),
            connections_max_idle_ms=number(values, "connections.max.idle.ms"),
            offset_metadata_max_bytes=number(values, "offset.metadata.max.bytes"),
            producer_id_expiration_ms=number(values, "producer.id.expiration.ms"),
            quota_windows=_windows(values, "quota"),
            mutation_windows=_windows(values, "controller.quota"),
            replica_lag_time_max_ms=number(values, "replica.lag.time.max.ms"),
            transaction_max_timeout_ms=number(values, "transaction.max.timeout.ms"),
            transactional_id_expiration_ms=number(values, "transactional.id.expiration.ms"),
            add_partitions_to_txn_retry_backoff_ms=number(values, "add.partitions.to.txn.retry.backoff.ms"),
            add_partitions_to_txn_retry_backoff_max_ms=number(values, "add.partitions.to.txn.retry.backoff.max.ms"),
            transaction_abort_interval_ms=number(values, "transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            transaction_state_log_num_partitions=number(values, "transaction.state.log.num.partitions"),
            transaction_state_log_replication_factor=number(values, "transaction.state.log.replication.factor"),
            transaction_state_log_min_isr=number(values, "transaction.state.log.min.isr"),
            transaction_state_log_segment_bytes=number(values, "transaction.state.log.segment.bytes"),
            transaction_partition_verification_enable=flag(values, "transaction.partition.verification.enable"),
            transaction_version=number(values, "transaction.version"),
            validates_all_records=text(values, "validate") == FULL,
            read_only=flag(values, "read.only"),
            topic_defaults=check_times(_topic_defaults(given)),
            security=parse_security(values, given, _protocols_used(listeners, protocols(values)), dict(users or {})),
            tokens=parse_tokens(values),
            access=parse_access(values),
            properties=given,
        )

    def reconfigured(self, changes: Mapping[str, str]) -> BrokerConfig:
        """This configuration, with those values of a running broker that take effect without a restart.

        Args:
            changes: by Kafka's names, each value checked by itself; what is not acted on is passed over.

        Raises:
            ConfigError: two values contradict each other.
        """
        known = {name: BROKER_SETTINGS.get(name) or _topic_setting(name) for name in changes}
        parsed = {name: setting.parse(changes[name], name=name) for name, setting in known.items() if setting}
        limits = self.connection_limits
        values = {
            "max.connections": limits.total,
            "max.connections.per.ip": limits.per_address,
            "producer.id.expiration.ms": self.producer_id_expiration_ms,
        }
        values.update({name: value for name, value in parsed.items() if name in values and isinstance(value, int)})
        total, per_address = values["max.connections"], values["max.connections.per.ip"]
        of_logs = {setting.name: setting.default for setting in LOG_SETTINGS}
        of_logs.update({name: value for name, value in {**self.properties, **parsed}.items() if name in of_logs})
        return replace(
            self,
            logs=parse_logs(of_logs),
            connection_limits=replace(limits, total=total, per_address=per_address),
            producer_id_expiration_ms=values["producer.id.expiration.ms"],
            topic_defaults=_topic_defaults({**self.properties, **parsed}),
        )


def _windows(values: Mapping[str, Value], prefix: str) -> Windows:
    return Windows(number(values, f"{prefix}.window.num"), number(values, f"{prefix}.window.size.seconds") * 1000)


def protocols(values: Mapping[str, Value]) -> dict[str, str]:
    """The security protocol of each listener name.

    Raises:
        ConfigError: an entry is not NAME:PROTOCOL.
    """
    found = {name: name for name in PROTOCOLS}
    for entry in text(values, "listener.security.protocol.map").split(","):
        name, colon, protocol = entry.strip().partition(":")
        if not (name and colon and protocol):
            raise ConfigError(f"listener.security.protocol.map: {entry.strip()!r} is not NAME:PROTOCOL")
        found[name.upper()] = protocol.upper()
    return found


def _protocols_used(listeners: tuple[Endpoint, ...], by_name: Mapping[str, str]) -> dict[str, str]:
    return {endpoint.name: by_name[endpoint.name] for endpoint in listeners}


def _known(properties: Mapping[str, Value]) -> dict[str, Value]:
    """The given properties, parsed, under their main names."""
    known: dict[str, Value] = {}
    ignored: list[str] = []
    for given_name, value in properties.items():
        name = ALIASES.get(given_name, given_name)
        setting = _setting(name)
        if setting is not None:
            parsed = setting.parse(value, name=name)
            if known.get(name, parsed) != parsed:
                raise ConfigError(f"{given_name} is given twice, as {known[name]} and as {parsed}")
            known[name] = parsed
            if not setting.acted_on:
                ignored.append(name)
        elif name in IGNORED:
            ignored.append(name)
        elif name == JAAS:
            raise ConfigError(f"{name}: say for which listener and mechanism: listener.name.X.plain.{name}")
        elif name in REFUSED:
            raise ConfigError(f"{name}: this broker has none of that; remove it, or use Apache Kafka for that")
        else:
            names = {*BROKER_SETTINGS, *ALIASES, *_TOPIC_PROPERTY, *IGNORED}
            raise unknown(name, names, "broker property")
    if ignored:
        _logger.warning("properties that this broker ignores: %s", ", ".join(sorted(ignored)))
    return known


def _setting(name: str) -> Setting | None:
    return (
        listener_setting(name)
        if name.startswith(LISTENER_PREFIX)
        else BROKER_SETTINGS.get(name) or _topic_setting(name)
    )


def _topic_setting(name: str) -> Setting | None:
    topic_name = _TOPIC_PROPERTY.get(name)
    return None if topic_name is None else TOPIC_SETTINGS[topic_name]


def _topic_defaults(given: Mapping[str, Value]) -> dict[str, Value]:
    defaults: dict[str, Value] = {}
    for name, setting in TOPIC_SETTINGS.items():
        defaults[name] = setting.default
        for coarser, factor in COARSER.get(name, ()):
            value = given.get(coarser)
            if isinstance(value, int):
                defaults[name] = max(FOR_EVER, min(value * factor, LONG_MAX))
                break
        broker_name = BROKER_PROPERTY.get(name, "")
        if broker_name in given:
            defaults[name] = given[broker_name]
    return defaults
