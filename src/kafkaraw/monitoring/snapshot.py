"""`Snapshot`: what a cluster answered at one moment. Data only: nothing here sends requests or remembers.

The types of descriptions are those of the admin client. Start at `Snapshot`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from kafkaraw.light_classes import dataclass, field
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.admin import GroupDescription, GroupState, GroupType, LogDirDescription, TopicDescription
    from kafkaraw.core.cluster import BrokerNode
    from kafkaraw.errors import KafkaError

_FIRST_LEVELS: Final = (
    (30, "4.3"), (28, "4.2"), (26, "4.1"), (22, "4.0"), (21, "3.9"), (20, "3.8"), (15, "3.7"), (12, "3.6"),
    (9, "3.5"), (8, "3.4"), (4, "3.3"), (3, "3.2"), (2, "3.1"), (1, "3.0"),
)  # fmt: skip
"""The first level of `metadata.version` in each release of Apache Kafka (its class MetadataVersion)."""
_NEWEST_LEVEL: Final = 30


class Part(StrEnum):
    """What can be left out of a snapshot; brokers, topics and the ends of partitions are in each.

    Attributes:
        SIZES: sizes of logs, and the free space of disks.
        GROUPS: groups, their members and their offsets.
    """

    SIZES = "sizes"
    GROUPS = "groups"


ALL_PARTS: Final = frozenset(Part)
"""Every part."""


@dataclass(frozen=True, slots=True)
class Missing:
    """What a snapshot does not have, though it was asked for.

    Attributes:
        what: what is missing, such as "log directories of broker 3".
        error: why.
    """

    what: str
    error: KafkaError


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group.

    Attributes:
        group_id: its name.
        group_type: its protocol; None from brokers before 3.8.
        state: its state; None from brokers before 2.6.
        protocol_type: "consumer" for consumers; empty if only offsets were committed under that name.
        offsets: the committed offsets; the start offsets of a share group.
        share_lags: the records that a share group has not processed, by partition, as the broker says; empty for other
            groups, and from brokers before 4.2.
        description: with its members, at most half a minute old; None if it was not asked for, or could not be had.
    """

    group_id: str
    group_type: GroupType | None
    state: GroupState | None
    protocol_type: str
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    share_lags: Mapping[TopicPartition, int] = field(default_factory=dict)
    description: GroupDescription | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a cluster answered at one moment.

    Attributes:
        at_ms: when the ends of partitions were asked for, in milliseconds since 1970.
        cluster_id: the id of the cluster; None if the broker does not return it.
        controller_id: the node that leads the metadata quorum, or else the controller; None if unknown.
        metadata_version: the level of the feature `metadata.version`; None if the cluster has none.
        brokers: the running brokers, by id.
        topics: the topics that this client may describe, by name.
        starts: the log start offsets of partitions, at most a minute old.
        ends: the end offsets of partitions.
        log_dirs: the log directories of brokers; empty without `Part.SIZES`.
        groups: the groups by name; empty without `Part.GROUPS`.
        group_ends: the end offsets with which the offsets of `groups` are compared: they are as old as these.
        part_times_ms: when each part was asked for, in milliseconds since 1970; a part that is not here is missing.
        took_s: the duration of each part, in seconds, and that of the rest under "topics".
        missing: what could not be had, and why.
    """

    at_ms: int
    cluster_id: str | None
    controller_id: int | None
    metadata_version: int | None
    brokers: Mapping[int, BrokerNode]
    topics: Mapping[str, TopicDescription]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    log_dirs: Mapping[int, tuple[LogDirDescription, ...]] = field(default_factory=dict)
    groups: Mapping[str, GroupSnapshot] = field(default_factory=dict)
    group_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    part_times_ms: Mapping[Part, int] = field(default_factory=dict)
    took_s: Mapping[str, float] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()

    @property
    def release(self) -> str | None:
        """The release of Apache Kafka whose metadata format is in use, such as "4.3"; None if unknown."""
        level = self.metadata_version
        if level is None or level < 1:
            return None
        if level > _NEWEST_LEVEL:
            return f"{_FIRST_LEVELS[0][1]} or newer"
        return next(release for first, release in _FIRST_LEVELS if level >= first)

    def leader_sizes(self) -> dict[TopicPartition, int]:
        """Return the sizes of the logs of leaders, in bytes, of partitions whose leader has answered."""
        of_brokers = {node_id: _sizes(directories) for node_id, directories in self.log_dirs.items()}
        nothing: dict[TopicPartition, int] = {}
        found: dict[TopicPartition, int] = {}
        for name, topic in self.topics.items():
            for each in topic.partitions:
                key = TopicPartition(name, each.partition)
                size = of_brokers.get(each.leader_id, nothing).get(key)
                if size is not None:
                    found[key] = size
        return found


def _sizes(directories: tuple[LogDirDescription, ...]) -> dict[TopicPartition, int]:
    return {
        key: replica.size_bytes
        for directory in directories
        for key, replica in directory.replicas.items()
        if not replica.is_future
    }
