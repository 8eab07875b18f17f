"""The produce requests: which batches are in flight to which node, what a request says, and what its response means.

No I/O and no decisions. A batch's bytes are a memoryview from the builder to the socket: nothing here copies them.
Start at `Requests.make`, `produce_request` and `outcomes_of`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kafkaraw.core.cluster import BrokerNode, ClusterView
from kafkaraw.core.producer.batches import ProducerBatch
from kafkaraw.core.producer.events import NO_IDENTITY, NumberedBatch, PartitionOutcome, SendProduce
from kafkaraw.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from kafkaraw.protocol.produce_frames import Produce, Written
from kafkaraw.records import TopicPartition

RECORD_ERRORS_LISTED_MAX: Final = 3


class Requests:
    """The requests in flight.

    Args:
        in_flight_max: how many one node may have.
    """

    def __init__(self, in_flight_max: int) -> None:
        self._in_flight_max = in_flight_max
        self._requests: dict[int, tuple[int, Sequence[ProducerBatch]]] = {}
        self._counts: dict[int, int] = {}
        self._next_id = 0

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._requests)

    def room_at(self, node_id: int) -> bool:
        """Whether one more request may be in flight to the node."""
        return self._counts.get(node_id, 0) < self._in_flight_max

    def make(self, node_id: int, batches: Sequence[ProducerBatch]) -> SendProduce:
        """Note that these batches are in flight to a node, and return the action that sends them."""
        request_id = self._next_id
        self._next_id += 1
        self._requests[request_id] = (node_id, batches)
        self._counts[node_id] = self._counts.get(node_id, 0) + 1
        numbered = [
            NumberedBatch(s.sealed, s.identity or NO_IDENTITY, s.sequence, s.attempts + s.is_split) for s in batches
        ]
        return SendProduce(request_id, node_id, numbered)

    def land(self, request_id: int) -> Sequence[ProducerBatch]:
        """Note that a request was answered, or never will be; returns its batches."""
        node_id, batches = self._requests.pop(request_id)
        self._counts[node_id] -= 1
        return batches


def produce_request(
    action: SendProduce, cluster: ClusterView, *, acks: int, timeout_ms: int, transactional_id: str | None = None
) -> Produce:
    """Build the request for some batches; compresses those that are not compressed yet.

    Args:
        action: the batches with their numbers, one per partition at most.
        cluster: for the topic ids (used from version 13 on).
        acks: 0, 1 or -1.
        timeout_ms: how long the leader may wait for its followers.
        transactional_id: the producer's, when the records are part of a transaction.
    """
    transactional = transactional_id is not None
    topics: dict[str, list[tuple[int, memoryview]]] = {}
    for numbered in action.batches:
        batch, (producer_id, epoch) = numbered.batch, numbered.identity
        records = batch.encode(producer_id, epoch, numbered.base_sequence, transactional=transactional)
        batches = topics.get(batch.topic)
        if batches is None:
            batches = topics[batch.topic] = []
        batches.append((batch.partition, records))
    named = [(name, cluster.topic_id_of(name), batches) for name, batches in topics.items()]
    return Produce(transactional_id, acks, timeout_ms, named)


def outcomes_of(
    request: Produce, response: Written | ProduceResponse, cluster: ClusterView, node_id: int
) -> Mapping[TopicPartition, PartitionOutcome]:
    """Translate the response, by the topic names of the request. Leaders that it names go to the metadata (KIP-951).

    Args:
        request: that was sent.
        response: to it.
        cluster: learns the new leaders and their addresses.
        node_id: the broker that responded.
    """
    if type(response) is Written:
        return {
            TopicPartition(name, index): PartitionOutcome(0, base_offset, append_time_ms, None, False, log_start)
            for name, index, base_offset, append_time_ms, log_start in response.partitions
        }
    assert isinstance(response, ProduceResponse)
    names = {topic_id: name for name, topic_id, _ in request.topics}
    cluster.add_brokers(BrokerNode(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints)
    outcomes: dict[TopicPartition, PartitionOutcome] = {}
    for topic in response.responses:
        for answer in topic.partition_responses:
            topic_partition = TopicPartition(topic.name or names.get(topic.topic_id, ""), answer.index)
            led_elsewhere = bool(answer.error_code) and _leads_elsewhere(answer, topic_partition, cluster, node_id)
            outcomes[topic_partition] = _outcome(answer, led_elsewhere)
    return outcomes


def _leads_elsewhere(
    answer: PartitionProduceResponse, topic_partition: TopicPartition, cluster: ClusterView, node_id: int
) -> bool:
    """Whether the response names a leader that metadata knows, and it is not the broker that responded."""
    hint = answer.current_leader
    if hint.leader_id < 0:
        return False
    cluster.update_leader(topic_partition, hint.leader_id, hint.leader_epoch)
    return cluster.leader_of(topic_partition) not in (None, node_id)


def unanswered(action: SendProduce) -> Mapping[TopicPartition, PartitionOutcome]:
    """Outcomes of a request with acks=0 whose bytes have left: assumed success, at an unknown offset."""
    return {TopicPartition(n.batch.topic, n.batch.partition): PartitionOutcome(0) for n in action.batches}


def _outcome(answer: PartitionProduceResponse, new_leader_known: bool) -> PartitionOutcome:
    return PartitionOutcome(
        answer.error_code,
        answer.base_offset,
        answer.log_append_time_ms,
        _explanation(answer),
        new_leader_known,
        answer.log_start_offset,
    )


def _explanation(answer: PartitionProduceResponse) -> str | None:
    """The broker's error message, and which records of the batch it rejects.  Source: KIP-467."""
    faults = [
        f"record {fault.batch_index} of the batch: {fault.batch_index_error_message or 'refused'}"
        for fault in answer.record_errors[:RECORD_ERRORS_LISTED_MAX]
    ]
    left_out = len(answer.record_errors) - len(faults)
    if left_out:
        faults.append(f"and {left_out} more records")
    parts = [answer.error_message, *faults]
    return "; ".join(part for part in parts if part) or None
