"""Partitions for the admin client: add partitions to a topic, and delete records from the start of a log."""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkaraw.client.admin.calls import Calls, failure, milliseconds
from kafkaraw.client.arguments import by_partition, offset_of
from kafkaraw.client.deadline import Deadline
from kafkaraw.errors import KafkaError, StaleMetadataError, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkaraw.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkaraw.records import TopicPartition

HIGH_WATERMARK = -1


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The new number of partitions of a topic.

    Attributes:
        count: the total number, existing partitions included.
        assignments: node ids of the replicas of each new one; None lets the broker choose.
    """

    count: int
    assignments: Sequence[Sequence[int]] | None = None


class PartitionAdmin:
    """The operations on partitions.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._engine = calls.engine

    async def create_partitions(
        self,
        topics: Mapping[str, int | NewPartitions],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
    ) -> None:
        if not isinstance(topics, Mapping):
            raise UsageError(f"create_partitions({topics!r}): give numbers by topic, as in {{'orders': 6}}")
        wanted = {
            name: given if isinstance(given, NewPartitions) else NewPartitions(given) for name, given in topics.items()
        }
        for name, grown in wanted.items():
            if type(grown.count) is not int:
                raise UsageError(
                    f"create_partitions: the number of partitions of {name!r}, {grown.count!r}, must be a whole "
                    f"number, not {type(grown.count).__name__}"
                )
        deadline = self._calls.deadline(timeout)

        async def once(names: Sequence[str]) -> dict[str, KafkaError]:
            request = CreatePartitionsRequest(
                topics=[_growing(name, wanted[name]) for name in names],
                timeout_ms=milliseconds(deadline),
                validate_only=validate_only,
            )
            answer = await self._calls.ask_controller(request, deadline)
            return {
                result.name: failure(
                    result.error_code,
                    result.error_message,
                    f"add partitions to {result.name!r}",
                    resource=result.name,
                    operation="ALTER",
                )
                for result in answer.results
                if result.error_code
            }

        await self._calls.each(wanted, once, deadline)
        if not validate_only:
            await self._wait_for(wanted, deadline)

    async def _wait_for(self, wanted: Mapping[str, NewPartitions], deadline: Deadline) -> None:
        """Wait until the metadata has the new partitions: brokers learn of them one after the other."""

        async def look(names: Sequence[str]) -> dict[str, KafkaError]:
            await self._engine.refresh(names, timeout=deadline.remaining)
            known = {name: len(self._engine.cluster.partitions_of(name) or ()) for name in names}
            return {
                name: StaleMetadataError(f"topic {name!r} was given {wanted[name].count} partitions, {count} are known")
                for name, count in known.items()
                if count < wanted[name].count
            }

        await self._calls.each(wanted, look, deadline)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        wanted = {
            key: HIGH_WATERMARK if at == HIGH_WATERMARK else offset_of(at, _what(key, at), "-1 deletes all records")
            for key, at in by_partition(offsets, "delete_records", "offsets").items()
        }
        deadline = self._calls.deadline(timeout)
        starts: dict[TopicPartition, int] = {}

        async def ask(node_id: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, KafkaError]:
            request = _deletion({key: wanted[key] for key in keys}, milliseconds(deadline))
            answer = await self._calls.ask_node(node_id, request, deadline)
            failures: dict[TopicPartition, KafkaError] = {}
            for topic in answer.topics:
                for result in topic.partitions:
                    key = TopicPartition(topic.name, result.partition_index)
                    if result.error_code:
                        what = _what(key, wanted[key])
                        failures[key] = failure(result.error_code, None, what, resource=key.topic, operation="DELETE")
                    else:
                        starts[key] = result.low_watermark
            return failures

        await self._calls.each_leader(wanted, ask, deadline, lambda key: _what(key, wanted[key]))
        return {key: starts[key] for key in wanted if key in starts}


def _growing(name: str, wanted: NewPartitions) -> CreatePartitionsTopic:
    chosen = wanted.assignments
    return CreatePartitionsTopic(
        name=name,
        count=wanted.count,
        assignments=None
        if chosen is None
        else [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in chosen],
    )


def _deletion(offsets: Mapping[TopicPartition, int], timeout_ms: int) -> DeleteRecordsRequest:
    topics: dict[str, DeleteRecordsTopic] = {}
    for key, offset in offsets.items():
        topic = topics.setdefault(key.topic, DeleteRecordsTopic(name=key.topic, partitions=[]))
        topic.partitions.append(DeleteRecordsPartition(partition_index=key.partition, offset=offset))
    return DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=timeout_ms)


def _what(key: TopicPartition, offset: object) -> str:
    until = "all records" if offset == HIGH_WATERMARK else f"the records before offset {offset}"
    return f"delete {until} of {key.topic}-{key.partition}"
