"""The broker's settings about share groups, with Kafka's names, defaults and limits, and what one group may override.

Source: org.apache.kafka.coordinator.group.GroupCoordinatorConfig, modern.share.ShareGroupConfig and
org.apache.kafka.coordinator.share.ShareCoordinatorConfig of Kafka 4.3; KIP-932, KIP-1240.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaraw.broker.settings import INT_MAX, Setting, Value, number, text
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, replace

READ_COMMITTED: Final = "read_committed"
LATEST: Final = "latest"
EARLIEST: Final = "earliest"
BY_DURATION: Final = "by_duration:"


def _limited(name: str, default: int, doc: str, low: int, high: int, *, floor: int = 0) -> tuple[Setting, ...]:
    """Return a setting that one group may override, with the settings that limit the group's value."""
    return (
        Setting(f"group.share.{name}", default, doc, low=floor, high=INT_MAX),
        Setting(f"group.share.min.{name}", low, "smallest value of a group", low=floor, high=INT_MAX),
        Setting(f"group.share.max.{name}", high, "largest value of a group", low=floor, high=INT_MAX),
    )


SHARE_SETTINGS: Final = (
    *_limited("assignment.interval.ms", 1_000,
              "shortest time between two assignments of a share group, in milliseconds", 0, 15_000),
    Setting("group.share.assignors", "simple", "assignors of share groups", choices=("simple",), is_list=True),
    *_limited("delivery.count.limit", 5, "how often a record is delivered before it is archived", 2, 10, floor=2),
    *_limited("heartbeat.interval.ms", 5_000,
              "milliseconds between heartbeats of a share group's members", 5_000, 15_000, floor=1),
    Setting("group.share.initialize.retry.interval.ms", 30_000,
            "milliseconds until the initialization of share partitions is tried again", low=1, high=INT_MAX),
    Setting("group.share.max.share.sessions", 2_000, "share sessions of a broker", low=1, high=INT_MAX),
    Setting("group.share.max.size", 200, "most members of a share group", low=1, high=1_000),
    *_limited("partition.max.record.locks", 2_000, "records in flight per share partition", 100, 4_000, floor=100),
    *_limited("record.lock.duration.ms", 30_000,
              "milliseconds for which a record is locked for a member", 15_000, 60_000, floor=1),
    *_limited("session.timeout.ms", 45_000,
              "session timeout of a share group's members, in milliseconds", 45_000, 60_000, floor=1),
    Setting("share.coordinator.cold.partition.snapshot.interval.ms", 300_000,
            "milliseconds after which a state that does not change is written as a snapshot", low=1, high=INT_MAX),
    Setting("share.coordinator.snapshot.update.records.per.snapshot", 500,
            "updates of a share partition's state between two snapshots", low=0, high=INT_MAX),
    Setting("share.coordinator.state.topic.min.isr", 2,
            "min.insync.replicas of __share_group_state, limited to its replication factor", low=1, high=INT_MAX),
    Setting("share.coordinator.state.topic.num.partitions", 50, "partitions of __share_group_state", low=1,
            high=INT_MAX),
    Setting("share.coordinator.state.topic.prune.interval.ms", 300_000,
            "milliseconds between two deletions of outdated records of __share_group_state", low=1, high=INT_MAX),
    Setting("share.coordinator.state.topic.replication.factor", 3,
            "its replication factor, limited to the number of nodes", low=1, high=32767),
    Setting("share.coordinator.state.topic.segment.bytes", 104_857_600, "its segment.bytes", low=1_048_576,
            high=INT_MAX),
    Setting("share.version", 1, "level of this feature: 0 disables share groups; not a property of Kafka, for tests",
            low=0, high=1),
)  # fmt: skip

_RELATED: Final = (
    "heartbeat.interval.ms",
    "session.timeout.ms",
    "assignment.interval.ms",
    "delivery.count.limit",
    "record.lock.duration.ms",
    "partition.max.record.locks",
)


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """What one share group follows; Kafka's names in the comments."""

    session_ms: int = 45_000  # group.share.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # group.share.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # group.share.assignment.interval.ms
    size_max: int = 200  # group.share.max.size
    initialize_retry_ms: int = 30_000  # group.share.initialize.retry.interval.ms
    delivery_count_limit: int = 5  # group.share.delivery.count.limit
    lock_duration_ms: int = 30_000  # group.share.record.lock.duration.ms
    records_in_flight_max: int = 2_000  # group.share.partition.max.record.locks
    renews: bool = True  # share.renew.acknowledge.enable
    reads_committed: bool = False  # share.isolation.level
    offset_reset: str = LATEST  # share.auto.offset.reset


# What may be set for one group alone, and the limit that this is.
_NUMBERS_OF_ONE_GROUP: Final[dict[str, str]] = {
    "share.assignment.interval.ms": "assignment_interval_ms",
    "share.delivery.count.limit": "delivery_count_limit",
    "share.heartbeat.interval.ms": "heartbeat_interval_ms",
    "share.partition.max.record.locks": "records_in_flight_max",
    "share.record.lock.duration.ms": "lock_duration_ms",
    "share.session.timeout.ms": "session_ms",
}


def share_limits_of_group(limits: ShareLimits, configs: Mapping[str, str]) -> ShareLimits:
    """Return the limits of one group.

    Args:
        limits: the broker's settings.
        configs: what is set for the group alone, by Kafka's names.
    """
    if not configs:
        return limits
    numbers = {
        _NUMBERS_OF_ONE_GROUP[name]: int(value) for name, value in configs.items() if name in _NUMBERS_OF_ONE_GROUP
    }
    return replace(
        limits,
        renews=configs.get("share.renew.acknowledge.enable", "true").lower() == "true",
        reads_committed=configs.get("share.isolation.level") == READ_COMMITTED,
        offset_reset=configs.get("share.auto.offset.reset", limits.offset_reset),
        **numbers,
    )


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """Those settings, as configured.

    Attributes:
        limits: what groups follow that override nothing.
        sessions_max: share sessions of a broker.
        topic_partitions: of `__share_group_state`, when it is created.
        topic_replication_factor: its replicas, when it is created.
        topic_min_isr: its min.insync.replicas, when it is created.
        topic_segment_bytes: its segment.bytes, when it is created.
        updates_per_snapshot: updates of a state between two snapshots.
        prune_interval_ms: time between two deletions of outdated records.
        cold_interval_ms: time after which an unchanged state is written as a snapshot.
        version: the level of the feature `share.version` in a new cluster.
    """

    limits: ShareLimits
    sessions_max: int
    topic_partitions: int
    topic_replication_factor: int
    topic_min_isr: int
    topic_segment_bytes: int
    updates_per_snapshot: int
    prune_interval_ms: int
    cold_interval_ms: int
    version: int


def parse_shares(values: Mapping[str, Value]) -> ShareSettings:
    """Read them from the broker's parsed properties.

    Raises:
        ConfigError: two of them contradict each other.
    """
    _check_relations(values)
    coordinator = "share.coordinator."
    return ShareSettings(
        limits=ShareLimits(
            session_ms=number(values, "group.share.session.timeout.ms"),
            heartbeat_interval_ms=number(values, "group.share.heartbeat.interval.ms"),
            assignment_interval_ms=number(values, "group.share.assignment.interval.ms"),
            size_max=number(values, "group.share.max.size"),
            initialize_retry_ms=number(values, "group.share.initialize.retry.interval.ms"),
            delivery_count_limit=number(values, "group.share.delivery.count.limit"),
            lock_duration_ms=number(values, "group.share.record.lock.duration.ms"),
            records_in_flight_max=number(values, "group.share.partition.max.record.locks"),
        ),
        sessions_max=number(values, "group.share.max.share.sessions"),
        topic_partitions=number(values, f"{coordinator}state.topic.num.partitions"),
        topic_replication_factor=number(values, f"{coordinator}state.topic.replication.factor"),
        topic_min_isr=number(values, f"{coordinator}state.topic.min.isr"),
        topic_segment_bytes=number(values, f"{coordinator}state.topic.segment.bytes"),
        updates_per_snapshot=number(values, f"{coordinator}snapshot.update.records.per.snapshot"),
        prune_interval_ms=number(values, f"{coordinator}state.topic.prune.interval.ms"),
        cold_interval_ms=number(values, f"{coordinator}cold.partition.snapshot.interval.ms"),
        version=number(values, "share.version"),
    )


def _check_relations(values: Mapping[str, Value]) -> None:
    if not text(values, "group.share.assignors").strip():
        raise ConfigError("Configuration 'group.share.assignors' must not be empty. Valid values include: simple")
    for rest in _RELATED:
        low, own, high = (number(values, f"group.share.{kind}{rest}") for kind in ("min.", "", "max."))
        for fits, word, other, limit in (
            (high >= low, "max.", "min.", (high, low)),
            (own >= low, "", "min.", (own, low)),
            (own <= high, "", "max.", (own, high)),
        ):
            if not fits:
                compared = "less" if other == "max." else "greater"
                raise ConfigError(
                    f"group.share.{word}{rest} must be {compared} than or equal to group.share.{other}{rest}, got "
                    f"{limit[0]} and {limit[1]}"
                )
    if number(values, "group.share.heartbeat.interval.ms") >= number(values, "group.share.session.timeout.ms"):
        raise ConfigError("group.share.heartbeat.interval.ms must be less than group.share.session.timeout.ms")
    sessions, size = (number(values, f"group.share.{name}") for name in ("max.share.sessions", "max.size"))
    if sessions < size:
        raise ConfigError(
            f"group.share.max.share.sessions must be greater than or equal to group.share.max.size, got {sessions} and "
            f"{size}"
        )
