"""One node's part in groups: the coordinators that it hosts, their logs, and the time that passes for them.

The node that leads a partition of `__consumer_offsets` coordinates the groups in it. `GroupNode` makes and resigns
coordinators as leaders change. It knows nothing of requests; handlers ask it.
Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime; GroupCoordinatorService.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.configs.group_settings import Limits, limits_of_group
from kafkaraw.broker.groups.coordinator import GroupCoordinator
from kafkaraw.broker.groups.journal import Batch
from kafkaraw.broker.groups.means import Done
from kafkaraw.broker.groups.records import GroupRecord, decode_record, encode_record
from kafkaraw.broker.groups.timers import Timers
from kafkaraw.broker.ids import RandomBits, random_uuid_text
from kafkaraw.broker.state_topics.hosting import Hosting
from kafkaraw.broker.state_topics.replicated import ReplicatedLog
from kafkaraw.broker.state_topics.state_topic import StateTopic
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.config_codes import ConfigResourceType
from kafkaraw.records import ControlType, TopicPartition

if TYPE_CHECKING:
    from kafkaraw.broker.configs.config import BrokerConfig
    from kafkaraw.broker.controller import Controller
    from kafkaraw.broker.partitions.partition import Partition
    from kafkaraw.broker.topics.catalog import Catalog
    from kafkaraw.net import Clock

OFFSETS_TOPIC: Final = "__consumer_offsets"

_logger = logging.getLogger("kafkaraw.broker.groups")


class GroupNode:
    """The groups that one node has to do with.

    Args:
        node_id: the node.
        controller: what the cluster's nodes share.
        config: the node's properties.
        clock: wall clock.
        rng: for member ids.
    """

    def __init__(
        self, node_id: int, controller: Controller, config: BrokerConfig, clock: Clock, rng: RandomBits
    ) -> None:
        self._node_id = node_id
        self._controller = controller
        self._config = config
        self._clock = clock
        self._rng = rng
        self._hosting = Hosting(OFFSETS_TOPIC, self._make, lambda here: here.coordinator.resign())
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.topic = StateTopic(
            OFFSETS_TOPIC,
            config.groups.topic_partitions,
            config.groups.topic_replication_factor,
            1,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.groups.topic_segment_bytes),
            },
        )

    # -- which coordinators are here ---------------------------------------------------------------------------------

    def lead_or_follow(self, partition: Partition) -> None:
        """A partition of `__consumer_offsets` has a new state: begin to coordinate its groups, or stop."""
        self._hosting.lead_or_follow(partition)

    def _make(self, partition: Partition) -> tuple[_Coordinating, Callable[[], None]] | None:
        journal = _Journal(ReplicatedLog(partition, self._clock.time_ms))
        timers = Timers(_loop_ms, self._wake_at)
        coordinator = GroupCoordinator(
            journal,
            KnownTopics(self._controller.catalog),
            timers,
            self._clock.time_ms,
            lambda: random_uuid_text(self._rng),
            self._config.groups.limits,
            self._limits_of,
        )
        try:
            found = list(journal.read())
        except OSError as error:
            index = partition.topic_partition.partition
            _logger.error("%s-%d cannot be read, its groups are not served: %s", OFFSETS_TOPIC, index, error)
            return None
        return _Coordinating(coordinator, timers), lambda: coordinator.load(found)

    def _limits_of(self, group_id: str) -> Limits:
        configs = self._controller.dynamic_configs.of(ConfigResourceType.GROUP, group_id)
        return limits_of_group(self._config.groups.limits, configs)

    def drop(self, topic_partition: TopicPartition) -> None:
        """The node has no replica of a partition of `__consumer_offsets` any more."""
        self._hosting.drop(topic_partition.partition)

    def close(self) -> None:
        """The node stops: whoever waits for something from it is told that it will not come."""
        self._closed = True
        self._hosting.close()
        if self._timer is not None:
            self._timer.cancel()

    def hosted(self) -> list[GroupCoordinator]:
        """The coordinators on this node."""
        return [here.coordinator for here in self._hosting.all()]

    def coordinator(self, group_id: str) -> GroupCoordinator:
        """The coordinator of a group, which this node hosts.

        Raises:
            Refusal: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, or COORDINATOR_NOT_AVAILABLE when there is none yet.
        """
        return self._hosting.coordinator(self.partition_for(group_id).partition).coordinator

    def partition_for(self, group_id: str) -> TopicPartition:
        """The partition of `__consumer_offsets` that a group belongs to.

        Raises:
            Refusal: there is no room for that topic.
        """
        self.topic.have(self._controller, self._config)
        return self.topic.partition_for(group_id, self._controller.catalog)

    def leader_for(self, group_id: str) -> int | None:
        """The node that coordinates a group; None when none can just now.

        Raises:
            Refusal: there is no room for `__consumer_offsets`.
        """
        self.topic.have(self._controller, self._config)
        return self.topic.leader_for(group_id, self._controller.catalog)

    # -- what happens ------------------------------------------------------------------------------------------------

    def marked(self, topic_partition: TopicPartition, producer_id: int, kind: ControlType) -> None:
        """The end of a transaction is written in a partition of `__consumer_offsets`."""
        here = self._hosting.find(topic_partition.partition)
        if here is not None:
            here.coordinator.end_transaction(producer_id, commit=kind is ControlType.COMMIT)

    def forget_topic(self, name: str) -> None:
        """A topic was deleted."""
        for coordinator in self.hosted():
            coordinator.forget_topic(name)

    # -- time --------------------------------------------------------------------------------------------------------

    def _wake_at(self, at_ms: float) -> None:
        """See to it that timers are looked at by then."""
        at_s = at_ms / 1000
        if self._timer is not None:
            if self._timer.when() <= at_s:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at_s, self._look)

    def _look(self) -> None:
        self._timer = None
        for here in self._hosting.all():
            here.timers.tick()
        due = [at_ms for here in self._hosting.all() if (at_ms := here.timers.deadline_ms()) is not None]
        if due and not self._closed:
            self._wake_at(min(due))


class _Coordinating(NamedTuple):
    """A coordinator, and what is to happen for it later."""

    coordinator: GroupCoordinator
    timers: Timers


class KnownTopics:
    """The catalog's topics, as groups ask for them; implements `topics.Topics`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._catalog.version

    def find(self, name: str) -> tuple[Uuid, int] | None:
        """Id and number of partitions of a topic."""
        topic = self._catalog.topic(name)
        return None if topic is None else (topic.topic_id, topic.partitions_count)

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of a topic."""
        topic = self._catalog.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def names(self) -> list[str]:
        """All names, in order."""
        return [topic.name for topic in self._catalog.topics()]


class _Journal:
    """A partition's log as a coordinator's; implements `journal.Journal`."""

    def __init__(self, log: ReplicatedLog) -> None:
        self._log = log

    def append(self, records: Sequence[GroupRecord], producer: tuple[int, int]) -> int:
        return self._log.append([encode_record(record) for record in records], producer=producer)

    def when_safe(self, position: int, done: Done) -> None:
        self._log.when_replicated(position, done)

    def read(self) -> Iterator[Batch]:
        """Everything that was written and can be decoded.

        Raises:
            OSError: the storage is broken.
        """
        for found in self._log.read(lambda record: decode_record(record.key or b"", record.value)):
            producer_id = found.header.producer_id if found.header.is_transactional else -1
            if found.control is not None:
                yield Batch(producer_id, (), found.control is ControlType.COMMIT)
            else:
                yield Batch(producer_id, found.records)


def _loop_ms() -> float:
    return asyncio.get_running_loop().time() * 1000
