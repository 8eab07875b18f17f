"""What is shown of a cluster: brokers, topics, groups, and what belongs to one of them, as plain numbers.

`ClusterStatus` is made from a snapshot and what earlier ones said; it does not change any more, and any thread may read
it. None means that a number is not known (yet). Start at `ClusterStatus`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from kafkaraw.light_classes import dataclass
from kafkaraw.monitoring.history import Age
from kafkaraw.monitoring.snapshot import GroupSnapshot, Part, Snapshot
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.admin import GroupState, GroupType, LogDirDescription, MemberDescription, TopicDescription
    from kafkaraw.errors import KafkaError

TimeLag: TypeAlias = Age
"""How long a group is behind: seconds, and whether it may be longer."""


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A broker.

    Attributes:
        node_id: its id.
        address: host and port; None of a broker that is away.
        rack: its rack; None if it has none.
        is_controller: whether it is the controller, or leads the metadata quorum.
        is_online: whether it runs; a broker that is away still has replicas.
        leaders: partitions that it leads.
        replicas: partitions of which it has a replica.
        out_of_sync: replicas on it that are not in sync.
        records_per_s: written to the partitions that it leads.
        bytes_per_s: written to the partitions that it leads.
        size_bytes: size of the logs on it.
        disk_bytes: size of the volumes of its log directories; a volume that several have counts once.
        free_bytes: free space of these volumes.
        log_dirs: its log directories.
    """

    node_id: int
    address: str | None
    rack: str | None
    is_controller: bool
    is_online: bool
    leaders: int
    replicas: int
    out_of_sync: int
    records_per_s: float | None
    bytes_per_s: float | None
    size_bytes: int | None
    disk_bytes: int | None
    free_bytes: int | None
    log_dirs: tuple[LogDirDescription, ...]

    @property
    def disk_used(self) -> float | None:
        """The share of the disks that is in use, from 0 to 1."""
        if not self.disk_bytes or self.free_bytes is None:
            return None
        return 1 - self.free_bytes / self.disk_bytes


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic.

    Attributes:
        name: its name.
        is_internal: whether it is an internal topic of Kafka.
        partitions: the number of its partitions.
        replication_factor: the largest number of replicas of a partition.
        under_replicated: partitions with a replica that is not in sync.
        offline: partitions without a leader.
        records: offsets in its logs; more than the records if the topic is compacted or has transactions.
        records_per_s: written.
        size_bytes: size of the leaders' logs.
        bytes_per_s: written.
        groups: groups that have committed offsets of it.
        lag: the largest lag of a group in this topic.
    """

    name: str
    is_internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int
    offline: int
    records: int | None
    records_per_s: float | None
    size_bytes: int | None
    bytes_per_s: float | None
    groups: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition.

    Attributes:
        partition: its number.
        leader_id: its leader; None if it has none.
        replicas: the brokers of its replicas.
        in_sync: those of them that are in sync.
        start_offset: its log start offset.
        end_offset: its end.
        records_per_s: written.
        size_bytes: size of the leader's log.
        bytes_per_s: written.
        lag: the largest lag of a group.
    """

    partition: int
    leader_id: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    start_offset: int | None
    end_offset: int | None
    records_per_s: float | None
    size_bytes: int | None
    bytes_per_s: float | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group.

    Attributes:
        group_id: its name.
        group_type: its protocol.
        state: its state.
        members: how many it has; None if it was not asked for yet.
        topics: topics with committed offsets.
        lag: records that it has not committed, of all partitions; None if it has committed none.
        time_lag: the age of the oldest of them.
        lag_per_s: by how much the lag grows; negative if it falls.
        gone_in_s: seconds until there is no lag, if it falls as now; None if it does not fall.
        consumed_per_s: offsets that it commits.
    """

    group_id: str
    group_type: GroupType | None
    state: GroupState | None
    members: int | None
    topics: int
    lag: int | None
    time_lag: TimeLag | None
    lag_per_s: float | None
    gone_in_s: float | None
    consumed_per_s: float | None


@dataclass(frozen=True, slots=True)
class GroupPartitionStatus:
    """A partition that a group has committed, or that one of its members owns.

    Attributes:
        topic: the topic.
        partition: the number of the partition.
        committed: the committed offset, or the start offset of a share group; None if there is none.
        end_offset: the end of the partition; None if it does not exist any more, or has no leader.
        lag: records that are not committed.
        time_lag: the age of the oldest of them.
        consumed_per_s: offsets that the group commits.
        deleted_unread: records that were deleted before the group has committed them.
        member: the member that owns it; None if none does. In a share group several can.
    """

    topic: str
    partition: int
    committed: int | None
    end_offset: int | None
    lag: int | None
    time_lag: TimeLag | None
    consumed_per_s: float | None
    deleted_unread: int
    member: MemberDescription | None


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """A member of a group.

    Attributes:
        member: as the coordinator describes it.
        lag: of the partitions that it owns; None in a share group, whose members share partitions.
        consumed_per_s: offsets that are committed in them.
    """

    member: MemberDescription
    lag: int | None
    consumed_per_s: float | None


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A cluster at one moment. What belongs to one topic or group is computed when a method is called.

    Attributes:
        snapshot: what the cluster answered; a part that was not asked for is that of an earlier snapshot, and
            `snapshot.part_times_ms` has its time.
        sizes: sizes of the leaders' logs.
        record_rates: records per second by partition.
        byte_rates: bytes per second by partition.
        commit_rates: offsets per second by group and partition.
        time_lags: by group and partition, of partitions with a lag.
        partition_lags: the largest lag of a group, by partition.
        brokers: the brokers, by id, with those that are away.
        topics: the topics, by name.
        groups: the groups, by name.
    """

    snapshot: Snapshot
    sizes: Mapping[TopicPartition, int]
    record_rates: Mapping[TopicPartition, float]
    byte_rates: Mapping[TopicPartition, float]
    commit_rates: Mapping[str, Mapping[TopicPartition, float]]
    time_lags: Mapping[str, Mapping[TopicPartition, TimeLag]]
    partition_lags: Mapping[TopicPartition, int]
    brokers: tuple[BrokerStatus, ...]
    topics: tuple[TopicStatus, ...]
    groups: tuple[GroupStatus, ...]

    def partitions(self, topic: str) -> tuple[PartitionStatus, ...] | None:
        """Return the partitions of a topic; None if it does not exist."""
        described = self.snapshot.topics.get(topic)
        if described is None:
            return None
        return tuple(
            PartitionStatus(
                each.partition,
                each.leader_id if each.leader_id >= 0 else None,
                each.replica_nodes,
                each.isr_nodes,
                self.snapshot.starts.get(key),
                self.snapshot.ends.get(key),
                self.record_rates.get(key),
                self.sizes.get(key),
                self.byte_rates.get(key),
                self.partition_lags.get(key),
            )
            for each in described.partitions
            for key in (TopicPartition(topic, each.partition),)
        )

    def group_partitions(self, group_id: str) -> tuple[GroupPartitionStatus, ...] | None:
        """Return the partitions of a group, in order; None if the group does not exist."""
        group = self.snapshot.groups.get(group_id)
        if group is None:
            return None
        return partitions_of_group(
            group,
            self.snapshot.group_ends,
            starts=self.snapshot.starts,
            time_lags=self.time_lags.get(group_id, {}),
            rates=self.commit_rates.get(group_id, {}),
        )

    def members(self, group_id: str) -> tuple[MemberStatus, ...] | None:
        """Return the members of a group; None if the group does not exist."""
        group = self.snapshot.groups.get(group_id)
        if group is None:
            return None
        return members_of_group(group, self.snapshot.group_ends, rates=self.commit_rates.get(group_id, {}))

    def topic(self, name: str) -> TopicStatus | None:
        """Return a topic; None if it does not exist."""
        return next((topic for topic in self.topics if topic.name == name), None)

    def group(self, group_id: str) -> GroupStatus | None:
        """Return a group; None if it does not exist."""
        return next((group for group in self.groups if group.group_id == group_id), None)

    @property
    def records_per_s(self) -> float | None:
        """Records written to the cluster, per second."""
        return sum(self.record_rates.values()) if self.record_rates else None

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes written to the cluster, per second, without replication."""
        return sum(self.byte_rates.values()) if self.byte_rates else None

    def why_missing(self, what: str) -> KafkaError | None:
        """Return why something is missing, by the beginning of `Missing.what`; None if it is not."""
        return next((each.error for each in self.snapshot.missing if each.what.startswith(what)), None)


def partitions_of_group(
    group: GroupSnapshot,
    ends: Mapping[TopicPartition, int],
    *,
    starts: Mapping[TopicPartition, int] | None = None,
    time_lags: Mapping[TopicPartition, TimeLag] | None = None,
    rates: Mapping[TopicPartition, float] | None = None,
) -> tuple[GroupPartitionStatus, ...]:
    """Return the partitions of a group, in order: those with offsets, and those that its members own.

    Args:
        group: the group.
        ends: the end offsets of partitions, not older than the group.
        starts: their first offsets.
        time_lags: how old the first record is that the group has not committed, by partition.
        rates: offsets per second that the group commits, by partition.
    """
    owners = {key: member for member in _members(group) for key in member.assignment}
    found = []
    for key in sorted({*group.offsets, *owners}):
        committed, lag = group.offsets.get(key), lag_of(ends, group, key)
        at_end = TimeLag(0.0, False) if lag == 0 else None
        found.append(
            GroupPartitionStatus(
                key.topic,
                key.partition,
                committed,
                ends.get(key),
                lag,
                (time_lags or {}).get(key, at_end),
                (rates or {}).get(key),
                0 if committed is None else max(0, (starts or {}).get(key, 0) - committed),
                owners.get(key),
            )
        )
    return tuple(found)


def members_of_group(
    group: GroupSnapshot, ends: Mapping[TopicPartition, int], *, rates: Mapping[TopicPartition, float] | None = None
) -> tuple[MemberStatus, ...]:
    """Return the members of a group; arguments as of `partitions_of_group`."""
    found = []
    for member in _members(group):
        lags = [lag_of(ends, group, key) for key in member.assignment]
        owned = [rates[key] for key in member.assignment if key in rates] if rates else []
        is_shared = group.group_type == "share"
        known = [lag for lag in lags if lag is not None]
        found.append(
            MemberStatus(
                member,
                sum(known) if known and not is_shared else None,
                sum(owned) if owned and not is_shared else None,
            )
        )
    return tuple(found)


def largest_lags(snapshot: Snapshot) -> dict[TopicPartition, int]:
    """Return the largest lag of a group in each partition that a group has committed."""
    found: dict[TopicPartition, int] = {}
    for group in snapshot.groups.values():
        for key in group.offsets:
            lag = lag_of(snapshot.group_ends, group, key)
            if lag is not None and lag >= found.get(key, 0):
                found[key] = lag
    return found


def lag_of(ends: Mapping[TopicPartition, int], group: GroupSnapshot, key: TopicPartition) -> int | None:
    """Return the records of a partition that a group has not committed; None if unknown."""
    if key in group.share_lags:
        return group.share_lags[key]
    committed, end = group.offsets.get(key), ends.get(key)
    return None if committed is None or end is None else max(0, end - committed)


def _members(group: GroupSnapshot) -> tuple[MemberDescription, ...]:
    return () if group.description is None else group.description.members


def broker_statuses(
    snapshot: Snapshot,
    record_rates: Mapping[TopicPartition, float],
    byte_rates: Mapping[TopicPartition, float],
) -> tuple[BrokerStatus, ...]:
    """Return the brokers, and those that have replicas and do not run."""
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    behind: dict[int, int] = {}
    records: dict[int, float] = {}
    written: dict[int, float] = {}
    for name, topic in snapshot.topics.items():
        for each in topic.partitions:
            leader = each.leader_id
            leaders[leader] = leaders.get(leader, 0) + 1
            for node_id in each.replica_nodes:
                replicas[node_id] = replicas.get(node_id, 0) + 1
            if len(each.isr_nodes) < len(each.replica_nodes):
                for node_id in set(each.replica_nodes).difference(each.isr_nodes):
                    behind[node_id] = behind.get(node_id, 0) + 1
            key = TopicPartition(name, each.partition)
            if key in record_rates:
                records[leader] = records.get(leader, 0.0) + record_rates[key]
            if key in byte_rates:
                written[leader] = written.get(leader, 0.0) + byte_rates[key]
    known = sorted({*snapshot.brokers, *replicas})
    return tuple(
        _broker(snapshot, node_id, leaders, replicas, behind, records, written) for node_id in known if node_id >= 0
    )


def _broker(
    snapshot: Snapshot,
    node_id: int,
    leaders: Mapping[int, int],
    replicas: Mapping[int, int],
    behind: Mapping[int, int],
    records: Mapping[int, float],
    written: Mapping[int, float],
) -> BrokerStatus:
    node = snapshot.brokers.get(node_id)
    directories = snapshot.log_dirs.get(node_id, ()) if node is not None else ()
    # Directories with the same size and free space are taken for directories of one volume.
    volumes = {(each.total_bytes, each.usable_bytes) for each in directories if each.total_bytes is not None}
    return BrokerStatus(
        node_id=node_id,
        address=None if node is None else node.address,
        rack=None if node is None else node.rack,
        is_controller=node_id == snapshot.controller_id,
        is_online=node is not None,
        leaders=leaders.get(node_id, 0),
        replicas=replicas.get(node_id, 0),
        out_of_sync=behind.get(node_id, 0),
        records_per_s=records.get(node_id),
        bytes_per_s=written.get(node_id),
        size_bytes=_sum(replica.size_bytes for each in directories for replica in each.replicas.values())
        if directories
        else None,
        disk_bytes=_sum(total for total, _ in volumes) if volumes else None,
        free_bytes=_sum(free for _, free in volumes) if volumes else None,
        log_dirs=directories,
    )


def _sum(numbers: Iterable[int | None]) -> int:
    return sum(number for number in numbers if number is not None)


def topic_statuses(
    snapshot: Snapshot,
    sizes: Mapping[TopicPartition, int],
    record_rates: Mapping[TopicPartition, float],
    byte_rates: Mapping[TopicPartition, float],
) -> tuple[TopicStatus, ...]:
    """Return the topics, by name."""
    groups = _groups_by_topic(snapshot) if Part.GROUPS in snapshot.part_times_ms else None
    return tuple(
        _topic(snapshot, topic, sizes, record_rates, byte_rates, groups) for _, topic in sorted(snapshot.topics.items())
    )


def _groups_by_topic(snapshot: Snapshot) -> dict[str, tuple[int, int]]:
    """Return the number of groups of each topic, and the largest lag of one of them."""
    found: dict[str, tuple[int, int]] = {}
    for group in snapshot.groups.values():
        lags: dict[str, int] = {}
        for key in group.offsets:
            lags[key.topic] = lags.get(key.topic, 0) + (lag_of(snapshot.group_ends, group, key) or 0)
        for topic, lag in lags.items():
            count, largest = found.get(topic, (0, 0))
            found[topic] = (count + 1, max(largest, lag))
    return found


def _topic(
    snapshot: Snapshot,
    topic: TopicDescription,
    sizes: Mapping[TopicPartition, int],
    record_rates: Mapping[TopicPartition, float],
    byte_rates: Mapping[TopicPartition, float],
    groups: Mapping[str, tuple[int, int]] | None,
) -> TopicStatus:
    keys = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
    starts, ends = snapshot.starts, snapshot.ends
    held = [ends[key] - starts[key] for key in keys if key in ends and key in starts]
    size = [sizes[key] for key in keys if key in sizes]
    records = [record_rates[key] for key in keys if key in record_rates]
    written = [byte_rates[key] for key in keys if key in byte_rates]
    count, lag = (None, None) if groups is None else groups.get(topic.name, (0, None))
    return TopicStatus(
        name=topic.name,
        is_internal=topic.is_internal,
        partitions=len(topic.partitions),
        replication_factor=max((len(each.replica_nodes) for each in topic.partitions), default=0),
        under_replicated=sum(len(each.isr_nodes) < len(each.replica_nodes) for each in topic.partitions),
        offline=sum(each.leader_id < 0 for each in topic.partitions),
        records=max(0, sum(held)) if held else None,
        records_per_s=sum(records) if records else None,
        size_bytes=sum(size) if size else None,
        bytes_per_s=sum(written) if written else None,
        groups=count,
        lag=lag,
    )
