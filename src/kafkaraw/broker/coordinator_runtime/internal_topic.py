"""An internal topic in which coordinators store their state. It is created on first use; keys are partitioned by hash.

The leader of a partition of the topic is the coordinator of the keys in that partition.
Source: kafka.server.AutoTopicCreationManager;
org.apache.kafka.coordinator.group.GroupCoordinatorService.partitionFor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.controller import Controller
from kafkaraw.broker.topics.catalog import Catalog
from kafkaraw.broker.topics.topic_creation import TopicSpec, plan_topic
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition

_INT32: Final = 1 << 32
_SIGN: Final = 1 << 31


def partition_of(key: str, partitions: int) -> int:
    """Return Java's String.hashCode, made positive, modulo the number of partitions."""
    number = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        number = (31 * number + (units[at] << 8 | units[at + 1])) % _INT32
    signed = number - _INT32 if number >= _SIGN else number
    return (0 if signed == -_SIGN else abs(signed)) % partitions


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """One such topic.

    Attributes:
        partitions: number of partitions at creation.
        replication_factor: number of replicas, limited to the number of nodes.
        min_isr: its min.insync.replicas, limited to the number of replicas.
        configs: its other settings.
    """

    name: str
    partitions: int
    replication_factor: int
    min_isr: int
    configs: Mapping[str, str] = field(default_factory=dict)

    def create_if_missing(self, controller: Controller, config: BrokerConfig) -> None:
        """Create the topic if it does not exist.

        Raises:
            ApiError: COORDINATOR_NOT_AVAILABLE, the topic cannot be created.
        """
        controller.finish_changes_of(self.name)
        catalog = controller.catalog
        if catalog.topic(self.name) is not None:
            return
        replicas = min(self.replication_factor, len(catalog.brokers))
        configs = {**self.configs, "min.insync.replicas": str(min(self.min_isr, replicas))}
        try:
            spec = TopicSpec(self.name, self.partitions, replicas, configs=configs)
            controller.create_topic(plan_topic(spec, catalog, config))
        except (OSError, ApiError) as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.name} cannot be created: {error}") from error

    def partition_for(self, key: str, catalog: Catalog) -> TopicPartition:
        """Return the partition of a key, even if the topic does not exist yet."""
        topic = catalog.topic(self.name)
        count = self.partitions if topic is None else topic.partitions_count
        return TopicPartition(self.name, partition_of(key, count))

    def leader_for(self, key: str, catalog: Catalog) -> int | None:
        """Return the id of the node that coordinates a key; None if there is none at the moment."""
        state = catalog.state_of(self.partition_for(key, catalog))
        return state.leader if state is not None and state.leader in catalog.brokers else None
