"""Our Producer, Consumer and Admin against a broker: each test runs on Apache Kafka and on our own.

What both brokers do the same is what the client may rely on, and what the embedded broker must keep.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkaraw import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicListing,
    TopicPartition,
)
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.core.fetch import requests
from kafkaraw.errors import BrokerError, ConfigError, KafkaError, RecordTooLargeError
from kafkaraw.testing.pytest_plugin import KEEP_RECORDS
from tests.interop.apache_kafka import SOON_BACK, ApacheKafka, why_missing

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def our_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties=KEEP_RECORDS) as broker:
        yield broker


@pytest.fixture(params=["Apache Kafka", "embedded broker"])
def bootstrap_servers(request: pytest.FixtureRequest) -> str:
    fixture = "apache_kafka" if request.param == "Apache Kafka" else "our_broker"
    return request.getfixturevalue(fixture).bootstrap_servers


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin) -> str:
    name = f"client-{uuid.uuid4().hex[:12]}"
    admin.create_topics([NewTopic(name, partitions=2, replication_factor=1)])
    return name


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < count:
        batches = consumer.poll(timeout=20)
        assert batches, f"only {len(values)} of {count} records came"
        for batch in batches.values():
            values += batch.values()
    return values


def listing_once(admin: Admin, holds: Callable[[dict[str, TopicListing]], bool]) -> dict[str, TopicListing]:
    """The topics, once something holds of them: in KRaft, brokers learn of changes after the controller's answer."""
    deadline = time.monotonic() + 20
    while True:
        listed = {listing.name: listing for listing in admin.list_topics()}
        if holds(listed) or time.monotonic() > deadline:
            return listed


def test_a_topic_is_created_listed_described_and_deleted(admin: Admin) -> None:
    name = f"life-{uuid.uuid4().hex[:12]}"
    settings = {"cleanup.policy": "compact", "segment.ms": "600000"}
    created = admin.create_topics([NewTopic(name, partitions=3, replication_factor=1, configs=settings)])
    assert (created[name].partitions, created[name].replication_factor) == (3, 1)
    assert {key: created[name].configs[key] for key in settings} == settings

    listed = listing_once(admin, lambda topics: name in topics)
    assert listed[name].partitions == 3
    assert not listed[name].is_internal

    described = admin.describe_topics([name])[name]
    assert described.topic_id == created[name].topic_id
    assert [partition.partition for partition in described.partitions] == [0, 1, 2]

    admin.delete_topics([name])
    assert name not in listing_once(admin, lambda topics: name not in topics)


def test_creating_a_topic_that_exists_says_so(admin: Admin, topic: str) -> None:
    with pytest.raises(BrokerError, match=topic) as caught:
        admin.create_topics([NewTopic(topic, partitions=1, replication_factor=1)])
    assert caught.value.name == "TOPIC_ALREADY_EXISTS"


def test_a_topic_with_an_unknown_setting_is_refused(admin: Admin) -> None:
    with pytest.raises(BrokerError) as caught:
        admin.create_topics([NewTopic("never-made", partitions=1, replication_factor=1, configs={"no.such": "1"})])
    assert caught.value.name == "INVALID_CONFIG"
    assert "never-made" not in {listing.name for listing in admin.list_topics()}


def test_validating_a_topic_makes_none(admin: Admin) -> None:
    admin.create_topics([NewTopic("only-validated", partitions=1, replication_factor=1)], validate_only=True)
    assert "only-validated" not in {listing.name for listing in admin.list_topics()}


def test_deleting_an_unknown_topic_says_so(admin: Admin) -> None:
    with pytest.raises(BrokerError, match="no-such-topic") as caught:
        admin.delete_topics(["no-such-topic"], timeout=20)
    assert caught.value.name == "UNKNOWN_TOPIC_OR_PARTITION"


def test_tickets_name_where_each_record_went(bootstrap_servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        tickets = [producer.send(topic, b"%d" % number, partition=number % 2) for number in range(100)]
        places = [ticket.result(timeout=20) for ticket in tickets]
    assert [(place.partition, place.offset) for place in places] == [(n % 2, n // 2) for n in range(100)]


def test_seek_goes_to_an_offset_to_the_beginning_and_to_the_end(bootstrap_servers: str, topic: str) -> None:
    partition = TopicPartition(topic, 1)
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=1)
    with Consumer(bootstrap_servers=bootstrap_servers) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 7)
        assert read(consumer, 3) == [b"7", b"8", b"9"]
        consumer.seek_to_beginning([partition])
        assert consumer.position(partition) == 0
        assert read(consumer, 10)[0] == b"0"
        consumer.seek_to_end([partition])
        assert consumer.position(partition) == 10


def test_offsets_are_found_at_both_ends_and_by_time(bootstrap_servers: str, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for hour in range(24):
            producer.send(topic, b"x", partition=0, timestamp_ms=START_MS + hour * HOUR_MS)
    with Consumer(bootstrap_servers=bootstrap_servers) as consumer:
        assert consumer.partitions_for(topic) == [first, second]
        assert consumer.beginning_offsets([first, second]) == {first: 0, second: 0}
        assert consumer.end_offsets([first, second]) == {first: 24, second: 0}
        found = consumer.offsets_for_times({first: START_MS + 5 * HOUR_MS - 1, second: START_MS})
        assert found[second] is None
        assert found[first] is not None
        assert (found[first].offset, found[first].timestamp_ms) == (5, START_MS + 5 * HOUR_MS)
        assert consumer.offsets_for_times({first: START_MS + 24 * HOUR_MS}) == {first: None}


def test_a_seek_behind_the_end_starts_anew_where_auto_offset_reset_says(bootstrap_servers: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        producer.send(topic, b"first", partition=0)
    with Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 1000)
        assert read(consumer, 1) == [b"first"]


@pytest.mark.parametrize("way", ["by its Fetch", "when asked"])
def test_a_position_behind_the_end_of_its_epoch_goes_back_to_that_end(
    way: str, bootstrap_servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "when asked":  # as leaders before Kafka 2.7 have to be
        monkeypatch.setattr(requests, "LAST_EPOCH_FROM_VERSION", 99)
    partition = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(5):
            producer.send(topic, b"%d" % number, partition=0)
    settings = {"group_id": f"g-{topic}", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with Consumer(bootstrap_servers=bootstrap_servers, **settings) as consumer:
        consumer.assign([partition])
        read(consumer, 5)
        assert consumer.next_offsets() == {partition: OffsetAndMetadata(5, leader_epoch=0)}
        consumer.commit()
    with Consumer(bootstrap_servers=bootstrap_servers, **settings) as consumer:
        consumer.assign([partition])
        assert consumer.committed([partition]) == {partition: OffsetAndMetadata(5, leader_epoch=0)}
        assert consumer.poll(0.5) == {}
        consumer.seek(partition, OffsetAndMetadata(9, leader_epoch=0))
        assert consumer.poll(0.5) == {}
        assert consumer.position(partition) == 5
        consumer.seek(partition, OffsetAndMetadata(3, leader_epoch=0))
        assert read(consumer, 2) == [b"3", b"4"]


def test_a_record_above_the_clients_limit_is_refused_at_once(bootstrap_servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap_servers, max_request_size=100_000) as producer:
        with pytest.raises(RecordTooLargeError, match="max_request_size"):
            producer.send(topic, bytes(200_000))
        assert producer.send(topic, b"small", partition=0).result(timeout=20).offset == 0


def test_a_record_above_the_topics_limit_fails_its_ticket_only(bootstrap_servers: str, admin: Admin) -> None:
    name = f"small-{uuid.uuid4().hex[:12]}"
    admin.create_topics([NewTopic(name, 1, 1, configs={"max.message.bytes": "10000"})])
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            producer.send(name, bytes(50_000)).result(timeout=20)
        assert producer.send(name, b"small").result(timeout=20).offset == 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_compressed_topic_gives_back_what_was_sent(codec: str, bootstrap_servers: str, topic: str) -> None:
    sent = [b"flight %05d " % number * 8 for number in range(5_000)]
    with Producer(bootstrap_servers=bootstrap_servers, compression_type=codec, batch_size=50_000) as producer:
        for value in sent:
            producer.send(topic, value, partition=0)
    with Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert read(consumer, len(sent)) == sent


def test_records_come_as_arrow_columns(bootstrap_servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(50):
            producer.send(topic, b"v%d" % number, b"k%d" % number, partition=0, timestamp_ms=START_MS + number)
    with Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        table = consumer.poll_arrow(timeout=20)
    assert table.column("offset").to_pylist() == list(range(table.num_rows))
    assert table.column("value").to_pylist()[:2] == [b"v0", b"v1"]
    assert table.column("key").to_pylist()[:2] == [b"k0", b"k1"]
    assert set(table.column("topic").to_pylist()) == {topic}


def test_an_unknown_topic_is_named_when_it_may_not_be_created(bootstrap_servers: str) -> None:
    settings = {"bootstrap_servers": bootstrap_servers, "allow_auto_create_topics": False}
    with Consumer(default_api_timeout_ms=1000, **settings) as consumer, pytest.raises(KafkaError, match="not-there"):
        consumer.partitions_for("not-there")


def test_an_unknown_setting_names_the_nearest_one(bootstrap_servers: str) -> None:
    with pytest.raises(ConfigError, match="linger_ms"):
        Producer(bootstrap_servers=bootstrap_servers, linger=5)


def test_the_async_face_does_the_same(bootstrap_servers: str) -> None:
    async def life() -> list[bytes | None]:
        name = f"async-{uuid.uuid4().hex[:12]}"
        async with AsyncAdmin(bootstrap_servers=bootstrap_servers) as admin:
            await admin.create_topics([NewTopic(name, partitions=1, replication_factor=1)])
        async with AsyncProducer(bootstrap_servers=bootstrap_servers) as producer:
            tickets = [await producer.send(name, b"%d" % number) for number in range(10)]
            assert [(await ticket).offset for ticket in tickets] == list(range(10))
        async with AsyncConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(await consumer.partitions_for(name))
            values: list[bytes | None] = []
            async with asyncio.timeout(20):
                async for record in consumer:
                    values.append(record.value)
                    if len(values) == 10:
                        return values
        return values

    assert asyncio.run(life()) == [b"%d" % number for number in range(10)]


def test_a_producer_outlives_a_restart_of_the_broker(tmp_path: Path) -> None:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with ApacheKafka(tmp_path / "kafka", SOON_BACK) as kafka:
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("lasting", partitions=1, replication_factor=1)])
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            before = [producer.send("lasting", b"before %d" % number) for number in range(100)]
            assert before[-1].result(timeout=20).offset == 99
            kafka.kill()
            during = [producer.send("lasting", b"during %d" % number) for number in range(100)]
            kafka.start()
            assert [ticket.result(timeout=60).offset for ticket in during] == list(range(100, 200))
