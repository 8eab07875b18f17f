"""Produce as values: the request that carries numbered batches, and what its response says about each partition.

No I/O and no decisions. A batch's bytes are a memoryview from the builder to the socket: nothing here copies them.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkaraw.core.cluster import BrokerNode, ClusterView
from kafkaraw.core.producer.events import PartitionOutcome, SendProduce
from kafkaraw.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkaraw.records import TopicPartition

RECORD_ERRORS_LISTED_MAX = 3


def produce_request(
    action: SendProduce, cluster: ClusterView, *, acks: int, timeout_ms: int, transactional_id: str | None = None
) -> ProduceRequest:
    """The request for some batches; compresses those that were not yet.

    Args:
        action: the batches with their numbers, one per partition at most.
        cluster: for the topic ids (used from version 13 on).
        acks: 0, 1 or -1.
        timeout_ms: how long the leader may wait for its followers.
        transactional_id: the producer's, when the records are part of a transaction.
    """
    transactional = transactional_id is not None
    topics: dict[str, TopicProduceData] = {}
    for batch, (producer_id, epoch), base_sequence in (
        (numbered.batch, numbered.identity, numbered.base_sequence) for numbered in action.batches
    ):
        topic = topics.get(batch.topic)
        if topic is None:
            topic = TopicProduceData(name=batch.topic, topic_id=cluster.topic_id_of(batch.topic), partition_data=[])
            topics[batch.topic] = topic
        records = batch.encode(producer_id, epoch, base_sequence, transactional=transactional)
        topic.partition_data.append(PartitionProduceData(index=batch.partition, records=records))
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values())
    )


def outcomes_of(
    request: ProduceRequest, response: ProduceResponse, cluster: ClusterView, node_id: int
) -> Mapping[TopicPartition, PartitionOutcome]:
    """What the response says, by the names that the request used; leaders that it names are taken over (KIP-951).

    Args:
        request: what was asked.
        response: the answer.
        cluster: learns the new leaders and their addresses.
        node_id: the broker that answered.
    """
    names = {topic.topic_id: topic.name for topic in request.topic_data}
    cluster.add_brokers(BrokerNode(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints)
    outcomes: dict[TopicPartition, PartitionOutcome] = {}
    for topic in response.responses:
        for answer in topic.partition_responses:
            topic_partition = TopicPartition(topic.name or names.get(topic.topic_id, ""), answer.index)
            if answer.error_code:
                led_elsewhere = _leads_elsewhere(answer, topic_partition, cluster, node_id)
                outcomes[topic_partition] = _outcome(answer, led_elsewhere)
            else:
                outcomes[topic_partition] = PartitionOutcome(
                    0, answer.base_offset, answer.log_append_time_ms, log_start_offset=answer.log_start_offset
                )
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
    """What is assumed of a request with acks=0, which no broker answers: success, at an unknown offset."""
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
