"""Snapshots made by hand, for tests of what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkaraw import GroupState, GroupType, LogDirDescription, MemberDescription, TopicDescription, TopicPartition
from kafkaraw.client.admin.group_descriptions import GroupDescription
from kafkaraw.client.admin.log_dirs import ReplicaInfo
from kafkaraw.core.cluster import BrokerNode, PartitionView
from kafkaraw.monitoring import GroupSnapshot, Missing, Part, Snapshot
from kafkaraw.protocol import Uuid

NODE = BrokerNode(1, "one", 9092)


def partition(number: int, leader: int = 1, replicas: tuple[int, ...] = (1,), isr: tuple[int, ...] | None = None):
    return PartitionView(number, leader, 0, replicas, replicas if isr is None else isr, ())


def topic(name: str, partitions: Iterable[PartitionView], topic_id: int = 1, *, internal: bool = False):
    return TopicDescription(name, Uuid(topic_id.to_bytes(16, "big")), internal, tuple(partitions))


def directory(sizes: Mapping[TopicPartition, int], **more: object) -> LogDirDescription:
    replicas = {key: ReplicaInfo(size, 0, False) for key, size in sizes.items()}
    given = {"error": None, "total_bytes": 1000, "usable_bytes": 400, "is_cordoned": False, **more}
    return LogDirDescription(path="/logs", replicas=replicas, **given)  # type: ignore[arg-type]


def member(name: str, *owned: TopicPartition) -> MemberDescription:
    return MemberDescription(name, None, f"client of {name}", "/10.0.0.1", owned)


def group(
    name: str,
    offsets: Mapping[TopicPartition, int],
    *members: MemberDescription,
    kind: GroupType = GroupType.CONSUMER,
    state: GroupState | None = None,
    share_lags: Mapping[TopicPartition, int] | None = None,
) -> GroupSnapshot:
    found = state or (GroupState.STABLE if members else GroupState.EMPTY)
    described = GroupDescription(name, kind, found, "consumer", "range", NODE, members) if members else None
    return GroupSnapshot(name, kind, found, "consumer", offsets, share_lags or {}, described)


def snapshot(
    at_ms: int,
    ends: Mapping[TopicPartition, int],
    *,
    starts: Mapping[TopicPartition, int] | None = None,
    topics: Iterable[TopicDescription] | None = None,
    topic_ids: Mapping[str, int] | None = None,
    brokers: Iterable[BrokerNode] = (NODE,),
    log_dirs: Mapping[int, tuple[LogDirDescription, ...]] | None = None,
    groups: Iterable[GroupSnapshot] | None = None,
    missing: tuple[Missing, ...] = (),
    cluster_id: str = "c",
) -> Snapshot:
    """A snapshot; without topics, those of the ends, led by broker 1."""
    if topics is None:
        names = sorted({key.topic for key in ends})
        ids = topic_ids or {}
        topics = [
            topic(name, [partition(key.partition) for key in sorted(ends) if key.topic == name], ids.get(name, 1))
            for name in names
        ]
    times = {Part.SIZES: at_ms} if log_dirs is not None else {}
    if groups is not None:
        times[Part.GROUPS] = at_ms
    return Snapshot(
        at_ms=at_ms,
        cluster_id=cluster_id,
        controller_id=1,
        metadata_version=30,
        brokers={each.node_id: each for each in brokers},
        topics={each.name: each for each in topics},
        starts=dict.fromkeys(ends, 0) if starts is None else starts,
        ends=ends,
        log_dirs=log_dirs or {},
        groups={each.group_id: each for each in groups or ()},
        group_ends=ends if groups is not None else {},
        part_times_ms=times,
        missing=missing,
    )
