"""One Fetch request as a value: what to ask one broker for, and how that is written down."""

from __future__ import annotations

from dataclasses import dataclass

from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.records import TopicPartition

_BY_NAME_UP_TO_VERSION = 12


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What bounds a Fetch: sizes in bytes, the wait in milliseconds; and whether only committed records are wanted."""

    min_bytes: int = 1
    max_wait_ms: int = 500
    max_bytes: int = 52_428_800
    partition_max_bytes: int = 1_048_576
    committed_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTarget:
    """One partition in a Fetch, with what it takes to tell later whether the answer is still wanted."""

    topic_partition: TopicPartition
    topic_id: Uuid
    offset: int
    generation: int
    leader_epoch: int
    size_wanted_bytes: int


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """One Fetch: the broker, and the partitions in the order in which it should serve them."""

    node_id: int
    targets: tuple[FetchTarget, ...]

    def name_of(self, topic_id: Uuid) -> str:
        """The topic that was asked for under this id; empty when there is none."""
        return next((t.topic_partition.topic for t in self.targets if t.topic_id == topic_id), "")

    @property
    def version_max(self) -> int | None:
        """The last version that goes by names, when the id of a topic is not known; else None."""
        return _BY_NAME_UP_TO_VERSION if any(t.topic_id == ZERO_UUID for t in self.targets) else None

    def request(self, limits: FetchLimits) -> FetchRequest:
        """Write the request, without a fetch session (id 0, epoch -1).

        Names and ids are both given: a version sends the one that it has (ids from 13 on, KIP-516). Neighbours of
        one topic share an entry; the order of partitions is kept.
        """
        topics: list[FetchTopic] = []
        for target in self.targets:
            name = target.topic_partition.topic
            if not topics or topics[-1].topic != name:
                topics.append(FetchTopic(topic=name, topic_id=target.topic_id, partitions=[]))
            topics[-1].partitions.append(
                FetchPartition(
                    partition=target.topic_partition.partition,
                    current_leader_epoch=target.leader_epoch,
                    fetch_offset=target.offset,
                    partition_max_bytes=max(limits.partition_max_bytes, target.size_wanted_bytes),
                )
            )
        wanted = max(target.size_wanted_bytes for target in self.targets)
        return FetchRequest(
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=max(limits.max_bytes, wanted),
            isolation_level=int(limits.committed_only),
            topics=topics,
        )
