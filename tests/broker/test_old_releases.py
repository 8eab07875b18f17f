"""A node that poses as an old Kafka: the table is right, and clients get along with it."""

from __future__ import annotations

from pathlib import Path

import kafka
import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.broker.handlers.registration import load_handlers
from kafkaraw.broker.old_releases import MAX_VERSIONS, NOT_OFFERED, Offer
from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.protocol import decode_response
from kafkaraw.protocol.apis import API_BY_KEY, API_TABLE
from kafkaraw.protocol.declare import NO_VERSIONS
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_topics import CreateTopicsRequest
from kafkaraw.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkaraw.protocol.messages.metadata import MetadataRequest
from kafkaraw.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaraw.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.testing.virtual import run_virtual
from tests.broker.handlers.test_metadata import create
from tests.broker.handlers.test_topics import topic
from tests.broker.support import NOW_MS, append_sent, ask, batch, make_state
from tests.broker.test_connection import Peer
from tests.kafka_python import closing_client

CAPTURED = Path(__file__).parents[1] / "protocol/vectors/api_versions_v0_response.hex"


def table(release: str) -> dict[int, int]:
    return {key: version for key, version in enumerate(MAX_VERSIONS[release]) if version != NOT_OFFERED}


def test_the_table_for_2_4_is_what_a_broker_of_2_4_answered():
    frame = bytes.fromhex(CAPTURED.read_text())[4:]
    answer = decode_response(frame, 18, 0)[1]
    assert table("2.4") == {row.api_key: row.max_version for row in answer.api_keys}


@pytest.mark.parametrize("release", MAX_VERSIONS)
def test_the_table_agrees_with_that_of_kafka_python(release: str):
    theirs = BROKER_API_VERSIONS[tuple(map(int, release.split(".")))]
    assert table(release) == {key: largest for key, (_, largest) in theirs.items()}


@pytest.mark.parametrize("release", MAX_VERSIONS)
def test_the_smallest_versions_agree_too_where_we_have_the_api(release: str):
    theirs = BROKER_API_VERSIONS[tuple(map(int, release.split(".")))]
    offered = {key: Offer(release).versions(API_BY_KEY[key]) for key in load_handlers()}
    for key, versions in offered.items():
        assert (key in theirs) == (versions != NO_VERSIONS)
        assert key not in theirs or tuple(versions) == theirs[key]


def test_without_a_release_nothing_is_offered_that_4_0_removed():
    for api in API_TABLE:
        assert Offer().versions(api) == api.supported


def test_no_api_is_offered_in_a_version_that_we_do_not_speak():
    for release in MAX_VERSIONS:
        for api in API_TABLE:
            versions = Offer(release).versions(api)
            if versions != NO_VERSIONS:
                assert api.versions.min <= versions.min <= versions.max <= api.supported.max


@pytest.mark.parametrize("release", MAX_VERSIONS)
def test_our_clients_get_along_with_an_old_broker(release: str):
    with EmbeddedBroker(max_versions=release) as broker:
        servers = {"bootstrap_servers": broker.bootstrap_servers}
        with Admin(**servers) as admin:
            admin.create_topics([NewTopic("t", 1, 1)], timeout=10)
        with Producer(**servers) as producer:
            assert [producer.send("t", b"%d" % n).result(10).offset for n in range(3)] == [0, 1, 2]
        with Consumer(auto_offset_reset="earliest", **servers) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            values = [record.value for batch in consumer.poll(10).values() for record in batch]
    assert values == [b"0", b"1", b"2"]


@pytest.mark.parametrize("release", ["0.11", "1.0", "2.4"])
def test_kafka_python_gets_along_that_takes_the_broker_for_an_old_one(release: str):
    """It is told the release, and asks in versions of that time."""
    api_version = tuple(map(int, release.split(".")))
    with EmbeddedBroker(max_versions=release) as broker:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "api_version": api_version}
        with closing_client(KafkaProducer(**settings)) as producer:
            assert [producer.send("t", b"%d" % n).get(10).offset for n in range(3)] == [0, 1, 2]
        with closing_client(KafkaConsumer(auto_offset_reset="earliest", **settings)) as consumer:
            consumer.assign([kafka.TopicPartition("t", 0)])
            records = [record for batch in consumer.poll(10_000).values() for record in batch]
    assert [record.value for record in records] == [b"0", b"1", b"2"]


# Requests as clients of the first releases sent them, and what shows that they were understood.
FIRST_VERSIONS = [
    (CreateTopicsRequest(topics=[topic("new", 2, 1)], timeout_ms=1000), lambda r: r.topics[0].error_code == 0),
    (DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), lambda r: r.responses[0].error_code == 0),
    (MetadataRequest(topics=[]), lambda r: [one.name for one in r.topics] == ["t"]),
    (FindCoordinatorRequest(key="g"), lambda r: r.error_code == 0 and r.port == 9092),
    (
        OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata="m")
                    ],
                )
            ],
        ),
        lambda r: r.topics[0].partitions[0].error_code == 0,
    ),
    (
        OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]),
        lambda r: r.topics[0].partitions[0].committed_offset == -1,
    ),
    (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), lambda r: r.producer_id >= 0),
]


@pytest.mark.parametrize(("request_", "understood"), FIRST_VERSIONS, ids=lambda value: type(value).__name__)
def test_the_first_version_of_every_api_is_understood(request_, understood):
    state = make_state()
    create(state, "t")
    assert understood(ask(state, request_, 0))


def test_version_0_of_list_offsets_gives_several():
    state = make_state()
    create(state, "t")
    partition = state.partition(TopicPartition("t", 0))

    def offsets(timestamp: int, number: int = 10) -> list[int]:
        part = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=number)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[part])])
        return ask(state, request, 0).topics[0].partitions[0].old_style_offsets

    assert offsets(-1) == [0]
    append_sent(partition, memoryview(bytearray(batch(b"a", b"b", b"c", timestamp_ms=NOW_MS))))
    assert offsets(-1) == [3, 0]
    assert offsets(-1, 1) == [3]
    assert offsets(-2) == [0]
    assert offsets(NOW_MS + 1) == [3, 0]
    assert offsets(NOW_MS) == []


@pytest.mark.parametrize("version", range(3))
def test_records_of_producers_before_0_11_are_refused(version: int):
    state = make_state()
    create(state, "t")
    data = bytearray(batch(b"a"))
    data[16] = 1
    answer = ask(
        state,
        ProduceRequest(
            acks=1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=bytes(data))])
            ],
        ),
        version,
    )
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize("version", range(4))
def test_consumers_before_0_11_get_unsupported_version_for_new_records(version: int):
    state = make_state()
    create(state, "t")
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[part])])
    answer = ask(state, request, version)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNSUPPORTED_VERSION


def test_an_unknown_release_is_refused_with_those_that_are_known():
    with pytest.raises(ConfigError, match=r"'9\.9' is not a known release; known are 0\.11, 1\.0"):
        EmbeddedBroker(max_versions="9.9")


def test_a_broker_in_another_process_has_the_newest_versions_only():
    with pytest.raises(UsageError, match="process=True"):
        EmbeddedBroker(process=True, max_versions="2.4")


def test_a_request_newer_than_the_release_closes_the_connection():
    async def main(_: object) -> None:
        peer = Peer()
        peer.state.offer = Offer("2.4")
        peer.send(MetadataRequest(topics=[]), 9)
        assert len(peer.link.sent) == 1
        peer.send(MetadataRequest(topics=[]), 10)
        assert len(peer.link.sent) == 1
        assert "close" in peer.link.log

    run_virtual(main, 1)
