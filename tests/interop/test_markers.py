"""Markers that WriteTxnMarkers writes, compared with Apache Kafka: which epochs are let in (KIP-1228)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkaraw.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.odd_batches import batch
from tests.interop.raw_client import RawClient

TOPIC = "markers"
WAIT_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker: epochs relative to the producer's."""

    epoch: int
    version: int
    coordinator_epoch: int = 0


CASES: dict[str, list[Marker]] = {
    "of before, with the same epoch": [Marker(0, 0)],
    "of before, with an older epoch": [Marker(-1, 0)],
    "of before, with a later epoch": [Marker(1, 0)],
    "with the same epoch": [Marker(0, 2)],
    "with an older epoch": [Marker(-1, 2)],
    "with a later epoch": [Marker(1, 2)],
    "twice": [Marker(1, 2), Marker(1, 2)],
    "twice, then of before": [Marker(1, 2), Marker(0, 0), Marker(0, 2)],
    "of an older coordinator": [Marker(1, 2, 5), Marker(2, 2, 4), Marker(2, 2, 5)],
    "of an older coordinator, before": [Marker(0, 1, 5), Marker(0, 1, 4), Marker(0, 1, 6)],
}


def until_right(client: RawClient, request: object, version: int) -> object:
    """The answer, once topic and coordinator are there."""
    until = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        answer = client.ask(request, version)
        results = getattr(answer, "results_by_topic_v3_and_below", None) or getattr(answer, "responses", None)
        parts = (
            [] if not results else getattr(results[0], "results_by_partition", None) or results[0].partition_responses
        )
        codes = [getattr(part, "partition_error_code", None) or getattr(part, "error_code", 0) for part in parts]
        if not any([getattr(answer, "error_code", 0), *codes]) or time.monotonic() > until:
            assert not any(codes), answer
            return answer


def begin(client: RawClient, partition: int, transactional_id: str) -> tuple[int, int]:
    """Write a record of a transaction; gives the producer's id and epoch."""
    client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id]), 4)
    # The coordinator could never abort it behind these markers, and would try without a pause.
    init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=900_000)
    until_right(client, init, 4)
    producer = until_right(client, init, 4)  # for an epoch above 0
    identity = (producer.producer_id, producer.producer_epoch)  # type: ignore[attr-defined]
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity[0],
        v3_and_below_producer_epoch=identity[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[partition])],
    )
    until_right(client, added, 3)
    records = batch(attributes=0x10, producer_id=identity[0], producer_epoch=identity[1], base_sequence=0)
    data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=partition, records=records)])]
    until_right(client, ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=9000, topic_data=data), 9)
    return identity


def told(servers: str, name: str) -> list[ErrorCode]:
    """The code of each marker of a case, in a partition of its own."""
    partition = list(CASES).index(name)
    found = []
    with RawClient(servers) as client:
        producer_id, epoch = begin(client, partition, f"markers-{partition}")
        for marker in CASES[name]:
            wire = WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=epoch + marker.epoch,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[partition])],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.version,
            )
            answer = client.ask(WriteTxnMarkersRequest(markers=[wire]), 2)
            found.append(ErrorCode(answer.markers[0].topics[0].partitions[0].error_code))
    return found


def make_topic(servers: str) -> str:
    topic = CreatableTopic(name=TOPIC, num_partitions=len(CASES), replication_factor=1, assignments=[], configs=[])
    with RawClient(servers) as client:
        client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    return servers


@pytest.fixture(scope="module")
def both(apache_kafka: ApacheKafka) -> Iterator[tuple[str, str]]:
    with EmbeddedBroker() as broker:
        yield make_topic(apache_kafka.bootstrap_servers), make_topic(broker.bootstrap_servers)


@pytest.mark.parametrize("name", CASES)
def test_a_marker_is_let_in_or_refused_as_by_apache_kafka(both: tuple[str, str], name: str) -> None:
    apache, ours = (told(servers, name) for servers in both)
    assert ours == apache
