"""An internal topic in which coordinators keep their state: made when it is needed first, divided by the keys' hashes.

The node that leads a partition of it coordinates the keys in that partition.
Source: kafka.server.AutoTopicCreationManager; GroupCoordinatorService.partitionFor.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.controller import Controller
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.state_topics.coordinators import partition_of
from kafkaraw.broker.topics.catalog import Catalog
from kafkaraw.broker.topics.topic_creation import Wish, plan_topic
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition


@dataclass(frozen=True, slots=True)
class StateTopic:
    """One such topic.

    Attributes:
        partitions: how many it is made with.
        replication_factor: how many replicas, at most as many as there are nodes.
        min_isr: its min.insync.replicas, at most its replicas.
        configs: its other settings.
    """

    name: str
    partitions: int
    replication_factor: int
    min_isr: int
    configs: Mapping[str, str] = field(default_factory=dict)

    def have(self, controller: Controller, config: BrokerConfig) -> None:
        """Create it when it is not there.

        Raises:
            Refusal: COORDINATOR_NOT_AVAILABLE, it cannot be created.
        """
        controller.finish_changes_of(self.name)
        catalog = controller.catalog
        if catalog.topic(self.name) is not None:
            return
        replicas = min(self.replication_factor, len(catalog.brokers))
        configs = {**self.configs, "min.insync.replicas": str(min(self.min_isr, replicas))}
        try:
            wish = Wish(self.name, self.partitions, replicas, configs=configs)
            controller.create_topic(plan_topic(wish, catalog, config))
        except (OSError, Refusal) as error:
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.name} cannot be created: {error}") from error

    def partition_for(self, key: str, catalog: Catalog) -> TopicPartition:
        """The partition that a key belongs to, whether the topic is there already or not."""
        topic = catalog.topic(self.name)
        count = self.partitions if topic is None else topic.partitions_count
        return TopicPartition(self.name, partition_of(key, count))

    def leader_for(self, key: str, catalog: Catalog) -> int | None:
        """The node that coordinates a key; None when none does just now."""
        state = catalog.state_of(self.partition_for(key, catalog))
        return state.leader if state is not None and state.leader in catalog.brokers else None
