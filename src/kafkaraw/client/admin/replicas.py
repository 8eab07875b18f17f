"""Leaders and replicas of partitions for the admin client: elections, and moves of replicas between brokers.

Source: KIP-183, KIP-455, KIP-460, KIP-860; Kafka's Admin.electLeaders, alterPartitionReassignments and
listPartitionReassignments.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from kafkaraw.client.admin.calls import Calls, failure, milliseconds
from kafkaraw.client.arguments import by_partition, partitions_of
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkaraw.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkaraw.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kafkaraw.records import TopicPartition


class ElectionType(IntEnum):
    """The type of a leader election; the numbers are those of ElectLeaders requests.

    Attributes:
        PREFERRED: elects the first replica of each partition, if it is in sync.
        UNCLEAN: elects a replica that is not in sync, for partitions without a leader. Records may be lost.
    """

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """The move of a partition's replicas to other brokers.

    Attributes:
        replicas: ids of the brokers that have a replica now, old ones and new ones.
        adding_replicas: ids of the brokers whose new replica is not in sync yet.
        removing_replicas: ids of the brokers whose replica is removed at the end of the move.
    """

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class ReplicaAdmin:
    """The operations on leaders and replicas.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, bool]:
        if not isinstance(election_type, ElectionType):
            raise UsageError(f"elect_leaders: {election_type!r} is not an ElectionType; write ElectionType.PREFERRED")
        wanted = None if partitions is None else partitions_of(partitions, "elect_leaders")
        deadline = self._calls.deadline(timeout)

        async def once() -> dict[TopicPartition, tuple[int, str | None]]:
            request = ElectLeadersRequest(
                election_type=election_type,
                topic_partitions=None
                if wanted is None
                else [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in _by_topic(wanted).items()],
                timeout_ms=milliseconds(deadline),
            )
            answer = await self._calls.ask_controller(request, deadline)
            if answer.error_code:
                raise failure(answer.error_code, None, "elect leaders", operation="ALTER")
            return {
                TopicPartition(topic.topic, result.partition_id): (result.error_code, result.error_message)
                for topic in answer.replica_election_results
                for result in topic.partition_result
            }

        outcomes = await self._calls.retry(once, deadline)
        # As in Java, an error of a partition is final: its replica may stay unavailable for long.
        failures: dict[TopicPartition, KafkaError] = {
            key: failure(code, message, f"elect a leader of {key.topic}-{key.partition}")
            for key, (code, message) in outcomes.items()
            if code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
        }
        self._calls.raise_first(failures)
        return {key: code == ErrorCode.NONE for key, (code, _) in outcomes.items()}

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> None:
        call = "alter_partition_reassignments"
        wanted = {
            key: None if brokers is None else _broker_ids(brokers, key, call)
            for key, brokers in by_partition(reassignments, call, "brokers").items()
        }
        deadline = self._calls.deadline(timeout)

        async def once(keys: Sequence[TopicPartition]) -> dict[TopicPartition, KafkaError]:
            request = AlterPartitionReassignmentsRequest(
                timeout_ms=milliseconds(deadline),
                allow_replication_factor_change=allow_replication_factor_change,
                topics=[
                    ReassignableTopic(
                        name=topic,
                        partitions=[
                            ReassignablePartition(
                                partition_index=number, replicas=wanted[TopicPartition(topic, number)]
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in _by_topic(keys).items()
                ],
            )
            answer = await self._calls.ask_controller(request, deadline)
            if answer.error_code:
                raise failure(answer.error_code, answer.error_message, "reassign partitions", operation="ALTER")
            return {
                TopicPartition(topic.name, one.partition_index): failure(
                    one.error_code,
                    one.error_message,
                    _what(TopicPartition(topic.name, one.partition_index), wanted),
                    resource=topic.name,
                    operation="ALTER",
                )
                for topic in answer.responses
                for one in topic.partitions
                if one.error_code
            }

        await self._calls.each(wanted, once, deadline)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        wanted = None if partitions is None else partitions_of(partitions, "list_partition_reassignments")
        deadline = self._calls.deadline(timeout)

        async def once() -> dict[TopicPartition, PartitionReassignment]:
            request = ListPartitionReassignmentsRequest(
                timeout_ms=milliseconds(deadline),
                topics=None
                if wanted is None
                else [
                    ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
                    for topic, numbers in _by_topic(wanted).items()
                ],
            )
            answer = await self._calls.ask_controller(request, deadline)
            if answer.error_code:
                what = "list the partition reassignments"
                raise failure(answer.error_code, answer.error_message, what, operation="DESCRIBE")
            return {
                TopicPartition(topic.name, one.partition_index): PartitionReassignment(
                    tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
                )
                for topic in answer.topics
                for one in topic.partitions
            }

        return await self._calls.retry(once, deadline)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for key in dict.fromkeys(partitions):
        topics.setdefault(key.topic, []).append(key.partition)
    return topics


def _broker_ids(brokers: object, key: TopicPartition, call: str) -> list[int]:
    if isinstance(brokers, str) or not isinstance(brokers, Iterable):
        raise UsageError(f"{call}: {brokers!r} for {key.topic}-{key.partition} must be ids of brokers, as in [1, 2]")
    found = list(brokers)
    for broker in found:
        if not isinstance(broker, int) or isinstance(broker, bool):
            raise UsageError(f"{call}: {broker!r} in {brokers!r} for {key.topic}-{key.partition} is no id of a broker")
    return found


def _what(key: TopicPartition, wanted: Mapping[TopicPartition, list[int] | None]) -> str:
    brokers = wanted.get(key)
    if brokers is None:
        return f"cancel the reassignment of {key.topic}-{key.partition}"
    return f"reassign {key.topic}-{key.partition} to brokers {brokers}"
