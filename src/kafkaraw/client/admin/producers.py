"""Producer states of partitions for the admin client: list them, and end transactions that no coordinator ends.

Source: KIP-664; Kafka's Admin.describeProducers, Admin.abortTransaction.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkaraw.client.admin.calls import Calls, failure
from kafkaraw.client.arguments import instance_of, partition_of, partitions_of
from kafkaraw.errors import KafkaError, StaleMetadataError, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from kafkaraw.protocol.messages.describe_producers import ProducerState as ProducerEntry
from kafkaraw.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkaraw.records import TopicPartition


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer that has written to a partition with idempotence or in a transaction.

    Attributes:
        producer_id: its id.
        producer_epoch: its epoch.
        last_sequence: the sequence number of its last record; -1 if it has none.
        last_timestamp_ms: when it wrote last, in milliseconds since 1970; -1 if unknown.
        coordinator_epoch: the epoch of its transaction coordinator; None if it has ended no transaction here.
        transaction_start_offset: the first offset of its open transaction; None if it has none.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that a partition has open.

    Attributes:
        partition: the partition.
        producer: the producer's state there.
        transactional_id: the id of the producer; None if no coordinator has it.
        is_hanging: whether no coordinator has the transaction open in this partition, so that none will end it.
    """

    partition: TopicPartition
    producer: ProducerState
    transactional_id: str | None
    is_hanging: bool


class ProducerAdmin:
    """The operations on producer states.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker: int | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        wanted = list(dict.fromkeys(partitions_of(partitions, "describe_producers")))
        deadline = self._calls.deadline(timeout)
        found: dict[TopicPartition, tuple[ProducerState, ...]] = {}

        async def ask(node_id: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, KafkaError]:
            topics: dict[str, TopicRequest] = {}
            for key in keys:
                topic = topics.setdefault(key.topic, TopicRequest(name=key.topic, partition_indexes=[]))
                topic.partition_indexes.append(key.partition)
            request = DescribeProducersRequest(topics=list(topics.values()))
            answer = await self._calls.ask_node(node_id, request, deadline)
            failures: dict[TopicPartition, KafkaError] = {}
            for one in answer.topics:
                for result in one.partitions:
                    key = TopicPartition(one.name, result.partition_index)
                    if result.error_code:
                        failures[key] = failure(
                            result.error_code, result.error_message, _what(key), resource=key.topic, operation="READ"
                        )
                    else:
                        found[key] = tuple(map(_state, result.active_producers))
            return failures

        if broker is None:
            await self._calls.each_leader(wanted, ask, deadline, _what)
        else:
            await self._calls.engine.refresh_brokers(timeout=deadline.remaining)
            if broker not in self._calls.engine.cluster.brokers:
                raise UsageError(f"describe_producers: there is no broker {broker!r} that runs")
            node_id = broker
            await self._calls.each(wanted, lambda keys: ask(node_id, keys), deadline)
        return {key: found[key] for key in wanted}

    async def abort_transaction(
        self, partition: TopicPartition, producer: ProducerState, *, timeout: float | None = None
    ) -> None:
        key = partition_of(partition, "abort_transaction")
        instance_of(producer, ProducerState, "abort_transaction", "one of describe_producers([partition])[partition]")
        deadline = self._calls.deadline(timeout)
        epoch = producer.coordinator_epoch
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    transaction_result=False,
                    # 0 if no transaction of this producer has ended here, as Kafka's own tool sends
                    coordinator_epoch=0 if epoch is None else epoch,
                    topics=[WritableTxnMarkerTopic(name=key.topic, partition_indexes=[key.partition])],
                )
            ]
        )
        what = f"abort the transaction of producer {producer.producer_id} in {key.topic}-{key.partition}"

        async def ask(node_id: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, KafkaError]:
            answer = await self._calls.ask_node(node_id, request, deadline)
            results = [
                result
                for marker in answer.markers
                for topic in marker.topics
                for result in topic.partitions
                if (topic.name, result.partition_index) == key
            ]
            if not results:
                return {key: StaleMetadataError(f"{what}: the broker's answer leaves the partition out; try again")}
            code = results[0].error_code
            return {key: failure(code, None, what, operation="ALTER")} if code else {}

        await self._calls.each_leader([key], ask, deadline, lambda _: what)


def _state(one: ProducerEntry) -> ProducerState:
    return ProducerState(
        one.producer_id,
        one.producer_epoch,
        one.last_sequence,
        one.last_timestamp,
        one.coordinator_epoch if one.coordinator_epoch >= 0 else None,
        one.current_txn_start_offset if one.current_txn_start_offset >= 0 else None,
    )


def _what(key: TopicPartition) -> str:
    return f"describe the producers of {key.topic}-{key.partition}"
