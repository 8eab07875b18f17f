"""Check whether this node is the leader of a partition, and find the current leader for clients.

Source: KIP-320 (leader epochs), KIP-951 (the leader in the answer); kafka.cluster.Partition.getLocalLog,
kafka.server.{ReplicaManager.getPartitionOrError, KafkaApis.getCurrentLeader}.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.listeners import Endpoint
from kafkaraw.broker.partitions.elections import NO_LEADER
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Broker
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition

NO_EPOCH: Final = -1


def led_partition(
    state: BrokerState, topic_partition: TopicPartition, epoch: int = NO_EPOCH, *, follower_may_do: bool = False
) -> Partition:
    """Return a partition of which this node is leader.

    Args:
        state: the node's state.
        topic_partition: the partition.
        epoch: the client's leader epoch; -1 skips the check.
        follower_may_do: accept a follower, too.

    Raises:
        ApiError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER; KAFKA_STORAGE_ERROR if the replica's log directory
            is offline; FENCED_LEADER_EPOCH if the client's epoch is
            older, UNKNOWN_LEADER_EPOCH if it is newer.
    """
    partition = state.partition(topic_partition)
    if state.is_offline(topic_partition):
        folder = f"{topic_partition.topic}-{topic_partition.partition}"
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {folder} is in an offline log directory")
    if partition is None:
        if state.catalog.state_of(topic_partition) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        raise _not_leader(state)
    _check_leader_epoch(partition, epoch)
    if not partition.is_leader and not follower_may_do:
        raise _not_leader(state)
    return partition


def _not_leader(state: BrokerState) -> ApiError:
    return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Leader not local on broker {state.node_id}")


def _check_leader_epoch(partition: Partition, epoch: int) -> None:
    if epoch == NO_EPOCH or epoch == partition.leader_epoch:
        return
    behind = epoch < partition.leader_epoch
    code = ErrorCode.FENCED_LEADER_EPOCH if behind else ErrorCode.UNKNOWN_LEADER_EPOCH
    raise ApiError(code, f"the leader epoch is {partition.leader_epoch}, the request says {epoch}")


@dataclass(slots=True)
class CurrentLeaders:
    """Collects, for one response, the leaders of partitions that this node does not lead.

    Attributes:
        brokers: the leaders in the response, by id; their addresses are listed once, at its end.
    """

    state: BrokerState
    listener: str
    brokers: dict[int, Broker] = field(default_factory=dict)

    def leader_of(self, topic_partition: TopicPartition) -> tuple[int, int]:
        """Return the leader of a partition and its epoch; -1 if unknown."""
        found = self.state.catalog.state_of(topic_partition)
        if found is None:
            return NO_LEADER, NO_EPOCH
        broker = self.state.catalog.brokers.get(found.leader)
        if broker is not None and self.listener in broker.endpoints:
            self.brokers[found.leader] = broker
        return found.leader, found.leader_epoch

    def endpoints(self) -> list[tuple[Broker, Endpoint]]:
        """Return the collected leaders with their addresses on the client's listener."""
        return [(broker, broker.endpoints[self.listener]) for broker in self.brokers.values()]
