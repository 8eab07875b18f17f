"""Share groups of our own share consumers, on Apache Kafka."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from kafkaraw import (
    AcknowledgeType,
    Admin,
    AsyncShareConsumer,
    ConfigResource,
    ConfigResourceType,
    GroupState,
    GroupType,
    KafkaError,
    NewTopic,
    Producer,
    ShareConsumer,
    ShareRecord,
    TopicPartition,
    UsageError,
)
from tests.interop.apache_kafka import ApacheKafka

WAIT_S = 40.0
LOCK_MS = 15_000  # Kafka's least
EXPLICIT = {"share_acknowledgement_mode": "explicit"}
ONE_BY_ONE = {"share_acquire_mode": "record_limit", "max_poll_records": 1}


@pytest.fixture
def servers(apache_kafka: ApacheKafka) -> str:
    return apache_kafka.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> Iterator[str]:
    """A topic with one partition, and a share group of the same name that begins at the first record."""
    name = f"share-{uuid.uuid4().hex[:12]}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
        group = ConfigResource(ConfigResourceType.GROUP, name)
        admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
    yield name


@pytest.fixture
def make(servers: str, topic: str) -> Iterator[Callable[..., ShareConsumer]]:
    """Makes members of the group, and closes them."""
    made: list[ShareConsumer] = []

    def member(**settings: object) -> ShareConsumer:
        consumer = ShareConsumer(bootstrap_servers=servers, group_id=topic, **settings)
        made.append(consumer)
        consumer.subscribe([topic])
        return consumer

    yield member
    for consumer in made:
        consumer.close(5)


def send(servers: str, topic: str, *values: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send(topic, value.encode()).result(30)


def first(consumer: ShareConsumer) -> list[ShareRecord]:
    """Poll until records come."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        batches = consumer.poll(1)
        if batches:
            return [record for batch in batches.values() for record in batch]
    raise AssertionError("no record came")


def offsets_and_counts(records: list[ShareRecord]) -> list[tuple[int, int]]:
    return [(record.offset, record.delivery_count) for record in records]


def test_implicit_acknowledgement_accepts_with_the_next_poll(
    servers: str, topic: str, make: Callable[..., ShareConsumer]
):
    send(servers, topic, "a", "b", "c")
    one = make()
    assert offsets_and_counts(first(one)) == [(0, 1), (1, 1), (2, 1)]
    assert one.commit() == {TopicPartition(topic, 0): None}
    one.close()
    send(servers, topic, "d")
    assert offsets_and_counts(first(make())) == [(3, 1)]


def test_released_record_comes_again_and_rejected_one_does_not(
    servers: str, topic: str, make: Callable[..., ShareConsumer]
):
    send(servers, topic, "a", "b", "c")
    one = make(**EXPLICIT)
    results: list[tuple[dict[TopicPartition, list[int]], KafkaError | None]] = []
    one.set_acknowledgement_commit_callback(lambda offsets, error: results.append((offsets, error)))
    accepted, released, rejected = first(one)
    with pytest.raises(UsageError, match=r"3 records .* not acknowledged"):
        one.poll(0)
    one.acknowledge(accepted)
    one.acknowledge(released, AcknowledgeType.RELEASE)
    one.acknowledge(rejected, AcknowledgeType.REJECT)
    again = first(one)
    assert offsets_and_counts(again) == [(1, 2)]
    one.acknowledge(again[0])
    assert one.commit() == {TopicPartition(topic, 0): None}
    assert results == [({TopicPartition(topic, 0): [0, 1, 2]}, None), ({TopicPartition(topic, 0): [1]}, None)]


def test_renewed_record_is_returned_again_with_the_same_count(
    servers: str, topic: str, make: Callable[..., ShareConsumer]
):
    send(servers, topic, "a")
    one = make(**EXPLICIT)
    (record,) = first(one)
    one.acknowledge(record, AcknowledgeType.RENEW)
    assert first(one) == [record]
    one.acknowledge(record)
    assert one.commit() == {TopicPartition(topic, 0): None}
    with pytest.raises(UsageError, match="not in hand"):
        one.acknowledge(record)


def test_two_members_share_one_partition(servers: str, topic: str, make: Callable[..., ShareConsumer]):
    members = [make(**ONE_BY_ONE), make(**ONE_BY_ONE)]
    for member in members:
        member.poll(0)
    send(servers, topic, *map(str, range(8)))
    got: list[list[int]] = [[], []]
    deadline = time.monotonic() + WAIT_S
    while sum(map(len, got)) < 8 and time.monotonic() < deadline:
        for offsets, member in zip(got, members, strict=True):
            offsets += [record.offset for batch in member.poll(0.5).values() for record in batch]
    assert sorted(got[0] + got[1]) == list(range(8))
    assert got[0]
    assert got[1]


def test_iteration_that_fails_releases_the_last_record_only(
    servers: str, topic: str, make: Callable[..., ShareConsumer]
):
    send(servers, topic, "a", "b", "c")

    def fail_at(value: bytes) -> None:
        with make() as consumer:
            for record in consumer:
                if record.value == value:
                    raise ValueError(record)

    with pytest.raises(ValueError, match="offset=1"):
        fail_at(b"b")
    assert offsets_and_counts(first(make())) == [(1, 2), (2, 2)]


@pytest.mark.soak
def test_expired_lock_is_told_and_the_record_comes_again(servers: str, topic: str, make: Callable[..., ShareConsumer]):
    with Admin(bootstrap_servers=servers) as admin:
        group = ConfigResource(ConfigResourceType.GROUP, topic)
        admin.alter_configs({group: {"share.record.lock.duration.ms": str(LOCK_MS)}})
    send(servers, topic, "a")
    slow, other = make(**EXPLICIT), make(**EXPLICIT)
    (record,) = first(slow)
    assert slow.acquisition_lock_timeout_ms() == LOCK_MS
    (again,) = first(other)
    assert offsets_and_counts([again]) == [(0, 2)]
    slow.acknowledge(record)
    (error,) = slow.commit().values()
    assert "acquisition lock" in str(error)
    other.acknowledge(again)
    assert other.commit() == {TopicPartition(topic, 0): None}


def test_group_is_described(servers: str, topic: str, make: Callable[..., ShareConsumer]):
    send(servers, topic, "a")
    first(make())
    with Admin(bootstrap_servers=servers) as admin:
        group = admin.describe_groups([topic])[topic]
    assert (group.group_type, group.state) == (GroupType.SHARE, GroupState.STABLE)
    assert [member.assignment for member in group.members] == [(TopicPartition(topic, 0),)]


def test_arrow_columns_have_the_delivery_count(servers: str, topic: str, make: Callable[..., ShareConsumer]):
    send(servers, topic, "a", "b")
    one = make()
    deadline = time.monotonic() + WAIT_S
    table = one.poll_arrow(1)
    while not table.num_rows and time.monotonic() < deadline:
        table = one.poll_arrow(1)
    assert table.select(["offset", "value", "delivery_count"]).to_pylist() == [
        {"offset": 0, "value": b"a", "delivery_count": 1},
        {"offset": 1, "value": b"b", "delivery_count": 1},
    ]


def test_record_that_cannot_be_deserialized_is_released_and_the_others_come(
    servers: str, topic: str, make: Callable[..., ShareConsumer]
):
    send(servers, topic, "1", "x", "3")
    one = make(value_deserializer=int)
    assert [record.value for record in first(one)] == [1]
    with pytest.raises(KafkaError, match="offset 1"):
        one.poll(1)
    one.acknowledge_offset(TopicPartition(topic, 0), 1, AcknowledgeType.REJECT)
    assert [record.value for record in first(one)] == [3]
    assert one.commit() == {TopicPartition(topic, 0): None}
    assert one.poll(0.5) == {}


def test_administrator_moves_an_empty_group_and_deletes_its_offsets(
    servers: str, topic: str, make: Callable[..., ShareConsumer]
):
    partition = TopicPartition(topic, 0)
    send(servers, topic, "a", "b", "c")
    one = make()
    first(one)
    assert one.commit() == {partition: None}
    with Admin(bootstrap_servers=servers) as admin:
        with pytest.raises(KafkaError, match="stop them first"):
            admin.alter_share_group_offsets(topic, {partition: 1})
        with pytest.raises(KafkaError, match="stop them first"):
            admin.delete_share_group_offsets(topic, [topic])
        one.close()
        admin.alter_share_group_offsets(topic, {partition: 1})
        info = admin.list_share_group_offsets([topic])[topic][partition]
        assert (info.start_offset, info.lag) == (1, 2)
        two = make()
        assert offsets_and_counts(first(two)) == [(1, 1), (2, 1)]
        two.close()
        admin.delete_share_group_offsets(topic, [topic])
        assert admin.list_share_group_offsets([topic]) == {topic: {}}


def test_asyncio_form(servers: str, topic: str):
    send(servers, topic, "a", "b")
    asyncio.run(_read_two(servers, topic))


async def _read_two(servers: str, topic: str) -> None:
    async with AsyncShareConsumer(bootstrap_servers=servers, group_id=topic) as consumer:
        consumer.subscribe([topic])
        async with asyncio.timeout(WAIT_S):
            async for record in consumer:
                if record.value == b"b":
                    break
        assert await consumer.commit() == {TopicPartition(topic, 0): None}


def test_group_of_another_type_is_told(servers: str, topic: str, make: Callable[..., ShareConsumer]):
    from kafkaraw import Consumer

    with Consumer(bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        send(servers, topic, "a")
        assert next(consumer).value == b"a"
        one = make()
        with pytest.raises(KafkaError, match=topic):
            first(one)
