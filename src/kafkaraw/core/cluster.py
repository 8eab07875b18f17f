"""The metadata of the cluster: brokers, topics, leaders, leader epochs, topic ids. Pure.

`ClusterView.update_in_steps()` merges a Metadata response; the queries (`leader_of`, `partitions_of`, `topic_id_of`)
are dictionary look-ups. It sends no requests: `client/network/metadata.py` does, and decides when by `refresh_due_ms`.

Three rules keep the metadata from going backwards. A partition with a lower leader epoch than the known one is ignored,
because the response may come from a broker that is behind (KIP-320). A topic that was deleted and recreated has another
id; then all its metadata is replaced (KIP-516). A response about some topics leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Mapping
from itertools import takewhile
from types import MappingProxyType
from typing import TypeVar

from kafkaraw.light_classes import dataclass, replace
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kafkaraw.protocol.metadata_frames import DecodedMetadata
from kafkaraw.records import TopicPartition

T = TypeVar("T")

NO_LEADER = -1
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """One broker as the cluster advertises it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """Host and port, as they appear in messages."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition: its leader, its leader epoch, and its replicas."""

    partition: int
    leader_id: int
    leader_epoch: int
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic: its id, and its partitions by number."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: Mapping[int, PartitionView]


class ClusterView:
    """The newest metadata of the cluster, merged from Metadata responses.

    Attributes:
        brokers: by node id.
        cluster_id: None until a response contains it.
        controller_id: node to send controller requests to; -1 when unknown.
        updated_ms: when the last response arrived, on the caller's clock; None before the first.
        changes: the number of changes so far; the `TopicView` of a changed topic is a new object.
    """

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerNode] = {}
        self.cluster_id: str | None = None
        self.controller_id: int = NO_LEADER
        self.updated_ms: int | None = None
        self.changes: int = 0
        self._topics: dict[str, TopicView] = {}
        self._names: dict[Uuid, str] = {}
        self._complete_ms: int | None = None
        self._told_ms: dict[str, int] = {}  # when the last response about a topic arrived, the oldest first
        self._errors: dict[str, int] = {}
        self._encoded: dict[str, bytes] = {}

    # -- questions

    @property
    def topics(self) -> Mapping[str, TopicView]:
        """The known topics, by name."""
        return MappingProxyType(self._topics)

    @property
    def encoded(self) -> Mapping[str, bytes]:
        """The bytes by which `read_in_steps` recognizes topics that have not changed; see `DecodedMetadata.encoded`."""
        return self._encoded

    def leader_of(self, topic_partition: TopicPartition) -> int | None:
        """Return the node id of the leader; None when it is unknown, missing, or not among the known brokers."""
        partition = self.partition(topic_partition)
        if partition is None or partition.leader_id not in self.brokers:
            return None
        return partition.leader_id

    def leader_epoch_of(self, topic_partition: TopicPartition) -> int:
        """Return the leader epoch for requests, by which a leader of another epoch refuses them; -1 when unknown."""
        partition = self.partition(topic_partition)
        return NO_EPOCH if partition is None else partition.leader_epoch

    def partition(self, topic_partition: TopicPartition) -> PartitionView | None:
        """Return the metadata of one partition."""
        topic = self._topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def partitions_of(self, topic: str) -> list[TopicPartition] | None:
        """All partitions of a topic in order; None when the topic is not known."""
        view = self._topics.get(topic)
        return None if view is None else [TopicPartition(topic, number) for number in sorted(view.partitions)]

    def topic_id_of(self, topic: str) -> Uuid:
        """The topic's id; zero when it has none or is not known."""
        view = self._topics.get(topic)
        return ZERO_UUID if view is None else view.topic_id

    def name_of(self, topic_id: Uuid) -> str | None:
        """The name that belongs to a topic id."""
        return self._names.get(topic_id)

    def error_of(self, topic: str) -> int:
        """Return the error code of this topic in the last response; 0 for none."""
        return self._errors.get(topic, 0)

    def node_at(self, host: str, port: int) -> int | None:
        """Return the node id of the broker that advertises this address."""
        return next((node.node_id for node in self.brokers.values() if (node.host, node.port) == (host, port)), None)

    def is_newer(self, topic: str, than_ms: int) -> bool:
        """Return whether the last response about a topic arrived later than at `than_ms`, on the clock of `update`."""
        return self._told_ms.get(topic, than_ms) > than_ms

    def refresh_due_ms(self, max_age_ms: int) -> int:
        """Return when the metadata must be refreshed, on the clock of `update`; 0 before the first response."""
        return 0 if self._complete_ms is None else self._complete_ms + max_age_ms

    # -- news

    def update(
        self, response: MetadataResponse, now_ms: int, *, all_topics: bool = False, in_part: bool = False
    ) -> None:
        """Merge a Metadata response; arguments as those of `update_in_steps`."""
        for _ in self.update_in_steps(DecodedMetadata(response), now_ms, all_topics=all_topics, in_part=in_part):
            pass

    def update_in_steps(
        self, found: DecodedMetadata, now_ms: int, *, all_topics: bool = False, in_part: bool = False
    ) -> Generator[None, None, None]:
        """Merge a Metadata response, with stops. Between them, each topic is as before or as after.

        Args:
            found: the response.
            now_ms: the time, on the caller's clock.
            all_topics: the request was for all topics, so topics that are not in the response do not exist any more.
            in_part: the request was for some of the topics in use, so the others are as old as before.
        """
        response = found.response
        # A broker that is just starting may name no broker at all: keep what is known.
        if response.brokers:
            self.brokers = {b.node_id: BrokerNode(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        self.cluster_id = response.cluster_id or self.cluster_id
        self.controller_id = response.controller_id
        if all_topics:
            answered = {topic.name for topic in response.topics}.union(found.unchanged)
            for name in self._topics.keys() - answered:
                self._forget(name)
            self._errors.clear()
        for name in found.unchanged:
            self._told_ms.pop(name, None)
            self._told_ms[name] = now_ms
            self._errors.pop(name, None)
        for topic in response.topics:
            if topic.name is not None:
                self._told_ms.pop(topic.name, None)
                self._told_ms[topic.name] = now_ms
                yield from self._update_topic(topic.name, topic)
                self._keep_encoded(topic.name, found.encoded.get(topic.name))
        self.changes += 1
        self.updated_ms = now_ms
        if not in_part:
            self._complete_ms = now_ms

    def update_leader(self, topic_partition: TopicPartition, leader_id: int, leader_epoch: int) -> bool:
        """Update the leader of a partition from an error response (KIP-951).

        Returns:
            Whether the leader was updated: the epoch is newer than the known one.
        """
        topic = self._topics.get(topic_partition.topic)
        known = self.partition(topic_partition)
        if topic is None or known is None or leader_id == NO_LEADER or leader_epoch <= known.leader_epoch:
            return False
        moved = replace(known, leader_id=leader_id, leader_epoch=leader_epoch)
        self._topics[topic.name] = replace(topic, partitions={**topic.partitions, topic_partition.partition: moved})
        self._encoded.pop(topic.name, None)
        self.changes += 1
        return True

    def add_brokers(self, brokers: Iterable[BrokerNode]) -> None:
        """Add broker addresses from a response other than Metadata (KIP-951)."""
        for broker in brokers:
            if self.brokers.get(broker.node_id) != broker:
                self.brokers[broker.node_id] = broker
                self.changes += 1

    def forget_old(self, before_ms: int, in_use: Container[str]) -> None:
        """Drop topics and errors whose last response is older than `before_ms`.

        Args:
            before_ms: on the clock of `update`.
            in_use: topics that are kept, regardless of their age.
        """
        old = takewhile(lambda topic: self._told_ms[topic] < before_ms, self._told_ms)
        for topic in [topic for topic in old if topic not in in_use]:
            self._forget(topic)

    def forget_topic(self, topic: str) -> None:
        """Drop a topic, for example after deleting it."""
        self._forget(topic)

    # -- inside

    def _forget(self, name: str) -> None:
        view = self._topics.pop(name, None)
        if view is not None:
            self.changes += 1
            self._names.pop(view.topic_id, None)
        self._errors.pop(name, None)
        self._told_ms.pop(name, None)
        self._encoded.pop(name, None)

    def _keep_encoded(self, name: str, encoded: bytes | None) -> None:
        if encoded is None or name not in self._topics:
            self._encoded.pop(name, None)
        else:
            self._encoded[name] = encoded

    def _update_topic(self, name: str, topic: MetadataResponseTopic) -> Generator[None, None, None]:
        if topic.error_code:
            self._topic_failed(name, topic.error_code)
            return
        at_first = self._topics.get(name)
        partitions = yield from _newest_partitions(at_first, topic)
        known = self._topics.get(name)
        if known is not at_first:  # a leader was updated meanwhile
            partitions = _without_stops(_newest_partitions(known, topic))
        self._errors.pop(name, None)
        if known is not None and known.topic_id != topic.topic_id:
            self._names.pop(known.topic_id, None)
            known = None
        if known is not None and known.is_internal == topic.is_internal and known.partitions == partitions:
            return
        self._topics[name] = TopicView(name, topic.topic_id, topic.is_internal, partitions)
        if topic.topic_id != ZERO_UUID:
            self._names[topic.topic_id] = name

    def _topic_failed(self, name: str, error_code: int) -> None:
        """Drop a topic that does not exist any more; after any other error, keep its metadata."""
        if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            told_ms = self._told_ms[name]
            self._forget(name)
            self._told_ms[name] = told_ms
        self._errors[name] = error_code


def _newest_partitions(
    known: TopicView | None, topic: MetadataResponseTopic
) -> Generator[None, None, dict[int, PartitionView]]:
    """Return the newest view of each partition of a topic; views of a deleted topic of that name do not count."""
    before = known.partitions if known is not None and known.topic_id == topic.topic_id else {}
    replica_sets: dict[tuple[int, ...], tuple[int, ...]] = {}
    newest: dict[int, PartitionView] = {}
    for partition in topic.partitions:
        newest[partition.partition_index] = _newest(before.get(partition.partition_index), partition, replica_sets)
        yield
    return newest


def _without_stops(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def _partition_view(
    partition: MetadataResponsePartition, replica_sets: dict[tuple[int, ...], tuple[int, ...]]
) -> PartitionView:
    """Make a view; equal sets of replicas are one object, which halves the memory of large topics."""

    def shared(nodes: Iterable[int]) -> tuple[int, ...]:
        made = tuple(nodes)
        return replica_sets.setdefault(made, made)

    return PartitionView(
        partition=partition.partition_index,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=shared(partition.replica_nodes),
        isr_nodes=shared(partition.isr_nodes),
        offline_replicas=shared(partition.offline_replicas),
        error_code=partition.error_code,
    )


def _newest(
    known: PartitionView | None,
    news: MetadataResponsePartition,
    replica_sets: dict[tuple[int, ...], tuple[int, ...]],
) -> PartitionView:
    """Return the newer view of a partition: leader epochs only increase while the topic id is the same.

    A view that says the same is kept: of 100,000 partitions, few change between two responses.
    """
    if known is None:
        return _partition_view(news, replica_sets)
    if news.leader_epoch != NO_EPOCH and news.leader_epoch < known.leader_epoch:
        return known
    is_same = (
        known.leader_epoch == news.leader_epoch
        and known.leader_id == news.leader_id
        and known.error_code == news.error_code
        and known.replica_nodes == tuple(news.replica_nodes)
        and known.isr_nodes == tuple(news.isr_nodes)
        and known.offline_replicas == tuple(news.offline_replicas)
    )
    return known if is_same else _partition_view(news, replica_sets)
