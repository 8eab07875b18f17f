"""The broker's settings about streams groups, with Kafka's names, defaults and limits.

Source: org.apache.kafka.coordinator.group.GroupCoordinatorConfig of Kafka 4.3; KIP-1071.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaraw.broker.settings import INT_MAX, Setting, Value, number
from kafkaraw.light_classes import dataclass, replace

STREAMS_SETTINGS: Final = (
    Setting("group.streams.assignment.interval.ms", 1_000,
            "shortest time between two assignments of a streams group, in milliseconds", low=0, high=INT_MAX),
    Setting("group.streams.heartbeat.interval.ms", 5_000,
            "milliseconds between heartbeats of a streams group's members", low=1, high=INT_MAX),
    Setting("group.streams.initial.rebalance.delay.ms", 3_000,
            "milliseconds that a new streams group waits for more members", low=0, high=INT_MAX),
    Setting("group.streams.max.assignment.interval.ms", 15_000, "largest value of a group, in milliseconds", low=0,
            high=INT_MAX),
    Setting("group.streams.max.heartbeat.interval.ms", 15_000, "largest value of a group, in milliseconds", low=1,
            high=INT_MAX),
    Setting("group.streams.max.session.timeout.ms", 60_000, "largest value of a group, in milliseconds", low=1,
            high=INT_MAX),
    Setting("group.streams.max.size", INT_MAX, "most members of a streams group", low=1, high=INT_MAX),
    Setting("group.streams.max.standby.replicas", 2, "most standby replicas of a task", low=0, high=INT_MAX),
    Setting("group.streams.min.assignment.interval.ms", 0, "smallest value of a group, in milliseconds", low=0,
            high=INT_MAX),
    Setting("group.streams.min.heartbeat.interval.ms", 5_000, "smallest value of a group, in milliseconds", low=1,
            high=INT_MAX),
    Setting("group.streams.min.session.timeout.ms", 45_000, "smallest value of a group, in milliseconds", low=1,
            high=INT_MAX),
    Setting("group.streams.num.standby.replicas", 0, "standby replicas of a task", low=0, high=INT_MAX),
    Setting("group.streams.session.timeout.ms", 45_000,
            "session timeout of a streams group's members, in milliseconds", low=1, high=INT_MAX),
    Setting("streams.version", 1,
            "whether there are streams groups (KIP-1071): 1 for yes; a level that a client has set overrides it",
            low=0, high=1),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamsLimits:
    """What the coordinators of streams groups follow; Kafka's names in the comments."""

    session_ms: int = 45_000  # group.streams.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # group.streams.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # group.streams.assignment.interval.ms
    initial_rebalance_delay_ms: int = 3_000  # group.streams.initial.rebalance.delay.ms
    size_max: int = INT_MAX  # group.streams.max.size
    standby_replicas: int = 0  # group.streams.num.standby.replicas


_OF_ONE_GROUP: Final[dict[str, str]] = {
    "streams.assignment.interval.ms": "assignment_interval_ms",
    "streams.heartbeat.interval.ms": "heartbeat_interval_ms",
    "streams.initial.rebalance.delay.ms": "initial_rebalance_delay_ms",
    "streams.num.standby.replicas": "standby_replicas",
    "streams.session.timeout.ms": "session_ms",
}


def streams_limits_of_group(limits: StreamsLimits, configs: Mapping[str, str]) -> StreamsLimits:
    """Return the limits of one group.

    Args:
        limits: the broker's settings.
        configs: what is set for the group alone, by Kafka's names.
    """
    own = {_OF_ONE_GROUP[name]: int(value) for name, value in configs.items() if name in _OF_ONE_GROUP}
    return replace(limits, **own) if own else limits


def parse_streams(values: Mapping[str, Value]) -> StreamsLimits:
    """Read the limits from the broker's parsed properties."""
    return StreamsLimits(
        session_ms=number(values, "group.streams.session.timeout.ms"),
        heartbeat_interval_ms=number(values, "group.streams.heartbeat.interval.ms"),
        assignment_interval_ms=number(values, "group.streams.assignment.interval.ms"),
        initial_rebalance_delay_ms=number(values, "group.streams.initial.rebalance.delay.ms"),
        size_max=number(values, "group.streams.max.size"),
        standby_replicas=number(values, "group.streams.num.standby.replicas"),
    )
