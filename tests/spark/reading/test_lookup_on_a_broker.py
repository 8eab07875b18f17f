"""What the driver asks an embedded broker that answers with faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import NewTopic
from kafkaraw.errors import UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.reading.cluster_client import ClusterClient
from kafkaraw.spark.reading.lookup import ClusterLookup
from kafkaraw.spark.source import KafkaBatchReader

OTHER, T0, T1 = TopicPartition("other", 0), TopicPartition("read", 0), TopicPartition("read", 1)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as embedded:
        servers = embedded.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            admin.create_topics([NewTopic("read", 2), NewTopic("other", 1)])
            for partition, count in ((0, 3), (1, 4)):
                for _ in range(count):
                    producer.send("read", b"1", partition=partition)
            producer.flush()
        yield embedded


@pytest.fixture
def look(broker) -> Iterator[Callable[..., ClusterLookup]]:
    made: list[ClusterLookup] = []

    def make(**options: str) -> ClusterLookup:
        servers = {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.isolation.level": "read_committed"}
        made.append(ClusterLookup(parse_options(servers | options)))
        return made[-1]

    yield make
    broker.faults.clear()
    for lookup in made:
        lookup.close()


BEYOND = {
    "the latest offset": ({"startingOffsets": '{"read":{"0":1,"1":9}}'}, "startingOffsets .* read-1: .* 9 up to 4"),
    "the ending offset": (
        {"startingOffsets": '{"read":{"0":2,"1":4}}', "endingOffsets": '{"read":{"0":1,"1":3}}'},
        "startingOffsets is beyond the end of read-0, read-1: read-0 is to be read from offset 2 up to 1",
    ),
    "the ending time": (
        {"startingOffsets": '{"read":{"0":2,"1":1}}', "endingTimestamp": "0"},
        r"beyond the end of read-0, read-1: .* from offset 2 up to 0 \(endingTimestamp\)",
    ),
}


@pytest.mark.parametrize("strict", ["true", "false"])
@pytest.mark.parametrize(("given", "message"), BEYOND.values(), ids=BEYOND)
def test_a_batch_that_starts_beyond_its_end_is_refused_even_without_fail_on_data_loss(broker, given, message, strict):
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "read", "failOnDataLoss": strict}
    schema = StructType([StructField("value", BinaryType())])
    with pytest.raises(UsageError, match=message):
        KafkaBatchReader(parse_options(servers | given), schema).partitions()


def test_a_leader_without_an_end_offset_does_not_end_the_query(broker, look, caplog):
    lookup = look(subscribe="read")
    assert lookup.ends() == {T0: 3, T1: 4}
    fault = broker.faults.on("ListOffsets", topic="read", partition=1, times=None).answer(
        ErrorCode.OFFSET_NOT_AVAILABLE
    )
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("read", b"1", partition=0).result(10)
    assert lookup.ends() == {T0: 4, T1: 4}
    assert fault.consumed
    assert "read-1: the leader does not return the end offset" in caplog.text
    broker.faults.clear()
    assert lookup.ends() == {T0: 4, T1: 4}


def test_a_restarted_query_reads_up_to_its_start_while_the_leader_returns_no_end_offset(broker, look):
    broker.faults.on("ListOffsets", topic="read", partition=1, times=None).answer(ErrorCode.OFFSET_NOT_AVAILABLE)
    assert look(subscribe="read").ends({T0: 0, T1: 2})[T1] == 2


def test_a_topic_missing_from_one_metadata_response_is_found(broker, look, monkeypatch):
    lookup = look(subscribePattern="read|other")
    assert lookup.partitions() == [OTHER, T0, T1]
    listed = ClusterClient.list_topics
    monkeypatch.setattr(
        ClusterClient, "list_topics", lambda self: [topic for topic in listed(self) if topic.name != "read"]
    )
    fault = broker.faults.on("Metadata", topic="read", times=2).answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    lookup.expect({"read", "other"})
    assert lookup.topic_ids(newest=True).keys() == {"read", "other"}
    assert lookup.partitions() == [OTHER, T0, T1]
    assert fault.consumed
