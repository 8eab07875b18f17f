"""The group coordinators of a node, their logs, and their timers.

The leader of a partition of `__consumer_offsets` is the coordinator of the groups in it. `GroupNode` starts and stops
coordinators when leaders change. It does not know requests; handlers call it.
Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime; GroupCoordinatorService.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.configs.group_settings import Limits, limits_of_group
from kafkaraw.broker.configs.share_settings import ShareLimits, share_limits_of_group
from kafkaraw.broker.coordinator_runtime.hosting import Alarm, Hosting, loop_ms
from kafkaraw.broker.coordinator_runtime.internal_topic import InternalTopic
from kafkaraw.broker.ids import RandomBits, random_uuid_text
from kafkaraw.protocol.config_codes import ConfigResourceType
from kafkaraw.records import ControlType, TopicPartition

if TYPE_CHECKING:
    from kafkaraw.broker.configs.config import BrokerConfig
    from kafkaraw.broker.controller import Controller
    from kafkaraw.broker.groups.coordinator import GroupCoordinator
    from kafkaraw.broker.groups.hosted import HostedCoordinator
    from kafkaraw.broker.partitions.partition import Partition
    from kafkaraw.broker.shares.node import ShareNode
    from kafkaraw.net import Clock

OFFSETS_TOPIC: Final = "__consumer_offsets"

_logger = logging.getLogger("kafkaraw.broker.groups")


class GroupNode:
    """The group coordinators of one node.

    Args:
        node_id: id of the node.
        controller: the cluster's controller.
        config: the node's properties.
        clock: wall clock.
        rng: source of random member ids.
        shares: the node's access to share coordinators.
    """

    def __init__(  # what it depends on
        self,
        node_id: int,
        controller: Controller,
        config: BrokerConfig,
        clock: Clock,
        rng: RandomBits,
        shares: ShareNode,
    ) -> None:
        self._node_id = node_id
        self._controller = controller
        self._config = config
        self._clock = clock
        self._rng = rng
        self._shares = shares
        self._hosting = Hosting(OFFSETS_TOPIC, self._make, lambda here: here.coordinator.resign())
        self._alarm = Alarm(self._look)
        self._closed = False
        self.topic: InternalTopic = InternalTopic(
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
        """Start or stop the coordinator of a partition of `__consumer_offsets`, as its new state says."""
        self._hosting.lead_or_follow(partition)

    def _make(self, partition: Partition) -> tuple[HostedCoordinator, Callable[[], None]] | None:
        # Imported when the first client uses groups: a broker without them never creates the topic.
        from kafkaraw.broker.coordinator_runtime.coordinator_log import CoordinatorLog
        from kafkaraw.broker.coordinator_runtime.timers import Timers
        from kafkaraw.broker.groups.coordinator import GroupCoordinator, Shares
        from kafkaraw.broker.groups.hosted import HostedCoordinator, KnownTopics, PartitionJournal, ShareStatesOfNode

        journal = PartitionJournal(CoordinatorLog(partition, self._clock.time_ms))
        timers = Timers(loop_ms, self._alarm.set)
        coordinator = GroupCoordinator(
            journal,
            KnownTopics(self._controller.catalog),
            timers,
            self._clock.time_ms,
            lambda: random_uuid_text(self._rng),
            self._config.groups.limits,
            self._limits_of,
            shares=Shares(self.share_limits_of, ShareStatesOfNode(self._shares)),
        )
        try:
            found = list(journal.read())
        except OSError as error:
            index = partition.topic_partition.partition
            _logger.error("%s-%d cannot be read, its groups are not available: %s", OFFSETS_TOPIC, index, error)
            return None
        return HostedCoordinator(coordinator, timers), lambda: coordinator.load(found)

    def _limits_of(self, group_id: str) -> Limits:
        configs = self._controller.dynamic_configs.of(ConfigResourceType.GROUP, group_id)
        return limits_of_group(self._config.groups.limits, configs)

    def share_limits_of(self, group_id: str) -> ShareLimits:
        """Return the settings of one share group."""
        configs = self._controller.dynamic_configs.of(ConfigResourceType.GROUP, group_id)
        return share_limits_of_group(self._config.shares.limits, configs)

    def drop(self, topic_partition: TopicPartition) -> None:
        """Stop the coordinator of a partition of `__consumer_offsets` whose replica is removed from this node."""
        self._hosting.drop(topic_partition.partition)

    def close(self) -> None:
        """Stop: answer the requests that wait."""
        self._closed = True
        self._hosting.close()
        self._alarm.cancel()

    def hosted(self) -> list[GroupCoordinator]:
        """Return the coordinators on this node."""
        return [here.coordinator for here in self._hosting.all()]

    def coordinator(self, group_id: str) -> GroupCoordinator:
        """Return the coordinator of a group, which this node hosts.

        Raises:
            ApiError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, or COORDINATOR_NOT_AVAILABLE while there is none.
        """
        return self._hosting.coordinator(self.partition_for(group_id).partition).coordinator

    def partition_for(self, group_id: str) -> TopicPartition:
        """Return the partition of `__consumer_offsets` that a group belongs to.

        Raises:
            ApiError: that topic cannot be created.
        """
        self.topic.create_if_missing(self._controller, self._config)
        return self.topic.partition_for(group_id, self._controller.catalog)

    def leader_for(self, group_id: str) -> int | None:
        """Return the node that coordinates a group; None while no node does.

        Raises:
            ApiError: `__consumer_offsets` cannot be created.
        """
        self.topic.create_if_missing(self._controller, self._config)
        return self.topic.leader_for(group_id, self._controller.catalog)

    # -- what happens ------------------------------------------------------------------------------------------------

    def marked(self, topic_partition: TopicPartition, producer_id: int, kind: ControlType) -> None:
        """Apply a transaction marker that is replicated in a partition of `__consumer_offsets`."""
        here = self._hosting.find(topic_partition.partition)
        if here is not None:
            here.coordinator.end_transaction(producer_id, commit=kind is ControlType.COMMIT)

    def forget_topic(self, name: str) -> None:
        """Delete the committed offsets of a deleted topic."""
        for coordinator in self.hosted():
            coordinator.forget_topic(name)

    # -- time --------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        for here in self._hosting.all():
            here.timers.tick()
        due = [at_ms for here in self._hosting.all() if (at_ms := here.timers.deadline_ms()) is not None]
        if due and not self._closed:
            self._alarm.set(min(due))
