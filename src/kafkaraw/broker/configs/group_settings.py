"""The broker's settings about groups, with Kafka's names, defaults and limits.

Source: org.apache.kafka.coordinator.group.{GroupCoordinatorConfig, ConsumerGroupMigrationPolicy} of Kafka 4.3.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from kafkaraw.broker.configs.streams_settings import StreamsLimits, parse_streams, streams_limits_of_group
from kafkaraw.broker.settings import INT_MAX, Setting, Value, number, split_list, text
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field, replace


class MigrationPolicy(Enum):
    """Which way groups with members may go; the values are Kafka's names, in the order of its errors."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """Whether a classic group may become one of the new protocol."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group may be converted to a classic group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


GROUP_SETTINGS: Final = (
    Setting("group.initial.rebalance.delay.ms", 3_000,
            "milliseconds that a new classic group waits for more members", low=0,
            high=INT_MAX),
    Setting("group.min.session.timeout.ms", 6_000,
            "shortest session timeout of a classic member, in milliseconds", low=0, high=INT_MAX),
    Setting("group.max.session.timeout.ms", 1_800_000,
            "longest session timeout of a classic member, in milliseconds", low=0, high=INT_MAX),
    Setting("group.max.size", INT_MAX, "most members of a classic group", low=1, high=INT_MAX),
    Setting("group.consumer.assignment.interval.ms", 1_000,
            "shortest time between two assignments, in milliseconds", low=0,
            high=INT_MAX),
    Setting("group.consumer.assignors", "uniform,range", "assignors of consumer groups, the default first",
            choices=("uniform", "range"), is_list=True),
    Setting("group.consumer.heartbeat.interval.ms", 5_000,
            "milliseconds between heartbeats of a consumer group's members", low=1,
            high=INT_MAX),
    Setting("group.consumer.max.assignment.interval.ms", 15_000, "largest value of a group, in milliseconds", low=0,
            high=INT_MAX),
    Setting("group.consumer.max.heartbeat.interval.ms", 15_000, "largest value of a group, in milliseconds", low=1,
            high=INT_MAX),
    Setting("group.consumer.max.session.timeout.ms", 60_000,
            "largest value of a group, in milliseconds", low=1, high=INT_MAX),
    Setting("group.consumer.max.size", INT_MAX, "most members of a consumer group", low=1, high=INT_MAX),
    Setting("group.consumer.migration.policy", "bidirectional",
            "between which protocols groups with members may migrate",
            choices=tuple(policy.value for policy in MigrationPolicy), any_case=True),
    Setting("group.consumer.min.assignment.interval.ms", 0, "smallest value of a group, in milliseconds", low=0,
            high=INT_MAX),
    Setting("group.consumer.min.heartbeat.interval.ms", 5_000, "smallest value of a group, in milliseconds", low=1,
            high=INT_MAX),
    Setting("group.consumer.min.session.timeout.ms", 45_000, "smallest value of a group, in milliseconds", low=1,
            high=INT_MAX),
    Setting("group.consumer.session.timeout.ms", 45_000,
            "session timeout of a consumer group's members, in milliseconds", low=1,
            high=INT_MAX),
    Setting("offsets.retention.minutes", 10_080,
            "minutes that the offsets of an empty group are kept", low=1, high=INT_MAX),
    Setting("offsets.retention.check.interval.ms", 600_000,
            "milliseconds between two checks for expired offsets", low=1),
    Setting("offsets.topic.num.partitions", 50, "partitions of __consumer_offsets", low=1, high=INT_MAX),
    Setting("offsets.topic.replication.factor", 3, "its replication factor, limited to the number of nodes", low=1,
            high=32767),
    Setting("offsets.topic.segment.bytes", 104_857_600, "its segment.bytes", low=1, high=INT_MAX),
)  # fmt: skip

_Compares = tuple[Callable[[int, int], bool], str]
_AT_LEAST: Final[_Compares] = (operator.ge, "greater than or equal to")
_AT_MOST: Final[_Compares] = (operator.le, "less than or equal to")
_BELOW: Final[_Compares] = (operator.lt, "less than")
# What must hold between settings of consumer groups, in Kafka's order; their names begin with "group.consumer.". The
# same holds for those that begin with "group.streams.".
_RELATIONS: Final[tuple[tuple[str, _Compares, str], ...]] = (
    ("max.heartbeat.interval.ms", _AT_LEAST, "min.heartbeat.interval.ms"),
    ("heartbeat.interval.ms", _AT_LEAST, "min.heartbeat.interval.ms"),
    ("heartbeat.interval.ms", _AT_MOST, "max.heartbeat.interval.ms"),
    ("max.session.timeout.ms", _AT_LEAST, "min.session.timeout.ms"),
    ("session.timeout.ms", _AT_LEAST, "min.session.timeout.ms"),
    ("session.timeout.ms", _AT_MOST, "max.session.timeout.ms"),
    ("heartbeat.interval.ms", _BELOW, "session.timeout.ms"),
    ("max.assignment.interval.ms", _AT_LEAST, "min.assignment.interval.ms"),
    ("assignment.interval.ms", _AT_LEAST, "min.assignment.interval.ms"),
    ("assignment.interval.ms", _AT_MOST, "max.assignment.interval.ms"),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The broker's settings; Kafka's names in the comments."""

    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    session_min_ms: int = 6_000  # group.min.session.timeout.ms
    session_max_ms: int = 1_800_000  # group.max.session.timeout.ms
    size_max: int = (1 << 31) - 1  # group.max.size
    consumer_session_ms: int = 45_000  # group.consumer.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # group.consumer.heartbeat.interval.ms
    consumer_size_max: int = (1 << 31) - 1  # group.consumer.max.size
    assignment_interval_ms: int = 1_000  # group.consumer.assignment.interval.ms
    assignors: tuple[str, ...] = ("uniform", "range")  # group.consumer.assignors
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL  # group.consumer.migration.policy
    new_member_join_timeout_ms: int = 300_000  # of a new member's JoinGroup: it cannot send heartbeats
    offsets_retention_ms: int = 604_800_000  # offsets.retention.minutes
    offsets_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    streams: StreamsLimits = field(default_factory=StreamsLimits)


# What may be set for one group alone, and the limit that this is.
_OF_ONE_GROUP: Final[dict[str, str]] = {
    "consumer.assignment.interval.ms": "assignment_interval_ms",
    "consumer.heartbeat.interval.ms": "heartbeat_interval_ms",
    "consumer.session.timeout.ms": "consumer_session_ms",
}

OF_ONE_GROUP: Final = tuple(_OF_ONE_GROUP)
"""The names; each overrides the broker's property of the same name behind `group.`."""


def limits_of_group(limits: Limits, configs: Mapping[str, str]) -> Limits:
    """The limits of one group.

    Args:
        limits: the broker's settings.
        configs: what is set for the group alone, by Kafka's names.
    """
    own = {_OF_ONE_GROUP[name]: int(value) for name, value in configs.items() if name in _OF_ONE_GROUP}
    streams = streams_limits_of_group(limits.streams, configs)
    if not own and streams is limits.streams:
        return limits
    # The fields are named in a table, so their types cannot be known here: all are whole numbers.
    return replace(limits, streams=streams, **own)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Those settings, as configured.

    Attributes:
        limits: what the coordinators follow.
        topic_partitions: of `__consumer_offsets`, when it is made.
        topic_replication_factor: its replicas, when it is made.
        topic_segment_bytes: its segment.bytes, when it is made.
        streams_version: the level of the feature `streams.version`, unless a client has set it.
    """

    limits: Limits
    topic_partitions: int
    topic_replication_factor: int
    topic_segment_bytes: int
    streams_version: int


def parse_groups(values: Mapping[str, Value]) -> GroupSettings:
    """Read them from the broker's parsed properties.

    Raises:
        ConfigError: two of them contradict each other.
    """
    _check_relations(values)
    return GroupSettings(
        limits=Limits(
            initial_rebalance_delay_ms=number(values, "group.initial.rebalance.delay.ms"),
            session_min_ms=number(values, "group.min.session.timeout.ms"),
            session_max_ms=number(values, "group.max.session.timeout.ms"),
            size_max=number(values, "group.max.size"),
            consumer_session_ms=number(values, "group.consumer.session.timeout.ms"),
            heartbeat_interval_ms=number(values, "group.consumer.heartbeat.interval.ms"),
            consumer_size_max=number(values, "group.consumer.max.size"),
            assignment_interval_ms=number(values, "group.consumer.assignment.interval.ms"),
            assignors=_assignors(values),
            migration=MigrationPolicy(text(values, "group.consumer.migration.policy").lower()),
            offsets_retention_ms=number(values, "offsets.retention.minutes") * 60_000,
            offsets_check_interval_ms=number(values, "offsets.retention.check.interval.ms"),
            streams=parse_streams(values),
        ),
        topic_partitions=number(values, "offsets.topic.num.partitions"),
        topic_replication_factor=number(values, "offsets.topic.replication.factor"),
        topic_segment_bytes=number(values, "offsets.topic.segment.bytes"),
        streams_version=number(values, "streams.version"),
    )


def _check_relations(values: Mapping[str, Value]) -> None:
    of_streams = (*_RELATIONS, ("num.standby.replicas", _AT_MOST, "max.standby.replicas"))
    for kind, relations in (("consumer", _RELATIONS), ("streams", of_streams)):
        for one, (fits, words), other in relations:
            one_name, other_name = f"group.{kind}.{one}", f"group.{kind}.{other}"
            first, second = number(values, one_name), number(values, other_name)
            if not fits(first, second):
                raise ConfigError(f"{one_name} must be {words} {other_name}, got {first} and {second}")


def _assignors(values: Mapping[str, Value]) -> tuple[str, ...]:
    name = "group.consumer.assignors"
    found = tuple(dict.fromkeys(split_list(text(values, name))))
    if not found:
        raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: any non-empty value")
    return found
