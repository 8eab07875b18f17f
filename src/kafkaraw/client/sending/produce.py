"""Produce as values: the request that carries numbered batches, and what its response says about each partition.

No I/O and no decisions. A batch's bytes are a memoryview from the builder to the socket: nothing here copies them.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkaraw.core.cluster import BrokerNode, ClusterView
from kafkaraw.core.producer.events import PartitionOutcome, SendProduce
from kafkaraw.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from kafkaraw.protocol.produce_frames import Produce, Written
from kafkaraw.records import TopicPartition

RECORD_ERRORS_LISTED_MAX = 3


def produce_request(
    action: SendProduce, cluster: ClusterView, *, acks: int, timeout_ms: int, transactional_id: str | None = None
) -> Produce:
    """The request for some batches; compresses those that were not yet.

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
    """What the response says, by the names that the request used; leaders that it names are taken over (KIP-951).

    Args:
        request: what was asked.
        response: the answer.
        cluster: learns the new leaders and their addresses.
        node_id: the broker that answered.
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
    """Whether the answer names a leader, and it is (by now) known to be another broker than the one that was asked."""
    hint = answer.current_leader
    if hint.leader_id < 0:
        return False
    cluster.update_leader(topic_partition, hint.leader_id, hint.leader_epoch)
    return cluster.leader_of(topic_partition) not in (None, node_id)


def unanswered(action: SendProduce) -> Mapping[TopicPartition, PartitionOutcome]:
    """What is assumed of a request with acks=0 whose bytes have left: success, at an unknown offset."""
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
    """The broker's own words, and which records of the batch it objects to.  Source: KIP-467."""
    faults = [
        f"record {fault.batch_index} of the batch: {fault.batch_index_error_message or 'refused'}"
        for fault in answer.record_errors[:RECORD_ERRORS_LISTED_MAX]
    ]
    left_out = len(answer.record_errors) - len(faults)
    if left_out:
        faults.append(f"and {left_out} more records")
    parts = [answer.error_message, *faults]
    return "; ".join(part for part in parts if part) or None
