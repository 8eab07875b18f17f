"""The metadata of a cluster: its id, brokers, topics, partition states, and authorizer.

All nodes share one copy. This module only stores and looks up; `topic_creation` decides which topics can be created,
and `state` handles files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kafkaraw.broker.acl.authorizer import Authorizer
from kafkaraw.broker.listeners import Endpoint
from kafkaraw.broker.partitions.elections import PartitionState, first_state
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol import Uuid
from kafkaraw.records import TopicPartition

INTERNAL_TOPICS: Final = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic.

    Attributes:
        assignments: for each partition the ids of the brokers that hold it, the preferred leader first.
        configs: settings that were given for it, as text.
    """

    name: str
    topic_id: Uuid
    assignments: tuple[tuple[int, ...], ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        """Whether it is an internal topic of Kafka."""
        return self.name in INTERNAL_TOPICS

    @property
    def partitions_count(self) -> int:
        """Number of partitions."""
        return len(self.assignments)

    @property
    def replication_factor(self) -> int:
        """Number of brokers that hold a partition."""
        return len(self.assignments[0])

    def partitions(self) -> list[TopicPartition]:
        """Its partitions, in order."""
        return [TopicPartition(self.name, index) for index in range(len(self.assignments))]


@dataclass(frozen=True, slots=True)
class Broker:
    """One node of the cluster, as in Metadata responses.

    Attributes:
        endpoints: its addresses, by the name of the listener that the client uses.
    """

    node_id: int
    endpoints: Mapping[str, Endpoint]
    rack: str | None = None


class Catalog:
    """The cluster's brokers and topics.

    Args:
        cluster_id: identifies the cluster.
        controller_id: the broker that clients send topic changes to.

    Attributes:
        authorizer: decides about permissions; None permits every operation to every client.
        brokers: the running, reachable brokers.
        controller_epoch: incremented when another node becomes the controller.
        version: incremented when a topic is created, deleted or changed.
        racks: the rack of every node that belongs to the cluster, running or not.
    """

    def __init__(self, cluster_id: str, controller_id: int) -> None:
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.controller_epoch = 0
        self.brokers: dict[int, Broker] = {}
        self.authorizer: Authorizer | None = None
        self.racks: dict[int, str | None] = {}
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._by_metric_name: dict[str, dict[str, None]] = {}
        self._states: dict[TopicPartition, PartitionState] = {}
        self._announced: dict[str, Topic] = {}
        self.version: int = 0

    def topics(self) -> list[Topic]:
        """All topics, by name."""
        return [self._topics[name] for name in sorted(self._topics)]

    def topic(self, name: str | None) -> Topic | None:
        """The topic of that name."""
        return None if name is None else self._topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic with that id."""
        return self._by_id.get(topic_id)

    def colliding(self, name: str) -> str | None:
        """A topic whose metrics would have the same names: it differs in '.' and '_' only."""
        return next(iter(self._by_metric_name.get(_metric_name(name), ())), None)

    def announce(self, topic: Topic) -> None:
        """Keep the name of a topic that is being made, until `add` or `withdraw`. It is not there yet."""
        self._announced[topic.name] = topic
        self._by_metric_name.setdefault(_metric_name(topic.name), {})[topic.name] = None

    def withdraw(self, topic: Topic) -> None:
        """End an `announce`; nothing happens where there was none."""
        if self._announced.pop(topic.name, None) is not None:
            self._forget_metric_name(topic.name)

    def is_taken(self, name: str) -> bool:
        """Whether a topic has a name, or will have it soon."""
        return name in self._topics or name in self._announced

    def add(self, topic: Topic, states: Sequence[PartitionState] = ()) -> None:
        """Take in a topic whose name is not taken, or a new form of one that is there.

        Args:
            topic: the topic; one that was there keeps its id and its partitions, and may have more of them.
            states: states of its partitions; a new partition without a state starts with all replicas in sync.
        """
        self.version += 1
        self._announced.pop(topic.name, None)
        self._topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._by_metric_name.setdefault(_metric_name(topic.name), {})[topic.name] = None
        for index, (key, replicas) in enumerate(zip(topic.partitions(), topic.assignments, strict=True)):
            if index < len(states):
                self._states[key] = states[index]
            elif key not in self._states:
                self._states[key] = first_state(replicas)

    def remove(self, topic: Topic) -> None:
        """Forget a topic."""
        self.version += 1
        del self._topics[topic.name]
        del self._by_id[topic.topic_id]
        self._forget_metric_name(topic.name)
        for key in topic.partitions():
            del self._states[key]

    def _forget_metric_name(self, name: str) -> None:
        same_metrics = self._by_metric_name[_metric_name(name)]
        del same_metrics[name]
        if not same_metrics:
            del self._by_metric_name[_metric_name(name)]

    @property
    def partitions_count(self) -> int:
        """Partitions of all topics, those included that are being made."""
        return len(self._states) + sum(topic.partitions_count for topic in self._announced.values())

    def state_of(self, topic_partition: TopicPartition) -> PartitionState | None:
        """Return the state of a partition; None if the partition does not exist."""
        return self._states.get(topic_partition)

    def states_of(self, topic: Topic) -> list[PartitionState]:
        """Return the states of all partitions of a topic."""
        return [self._states[key] for key in topic.partitions()]

    def set_state(self, topic_partition: TopicPartition, state: PartitionState) -> None:
        """Set the state of a partition."""
        self._states[topic_partition] = state


def _metric_name(topic: str) -> str:
    """How a topic is called in the names of metrics, which take no '.'."""
    return topic.replace(".", "_")
