"""Share consumers against the embedded broker: records are given again until they are accepted or rejected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkaraw import (
    AcknowledgeType,
    Admin,
    ConfigError,
    ConfigResource,
    ConfigResourceType,
    KafkaError,
    NewTopic,
    Producer,
    ShareConsumer,
    TopicPartition,
    UsageError,
)
from kafkaraw.broker import EmbeddedBroker

TOPIC = GROUP = "jobs"
PARTITION = TopicPartition(TOPIC, 0)
QUICK = {
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.assignment.interval.ms": "0",
}


@pytest.fixture
def servers() -> Iterator[str]:
    """A broker with four records, and a share group that begins at the first one."""
    with EmbeddedBroker(properties=QUICK) as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(TOPIC, 1)])
            group = ConfigResource(ConfigResourceType.GROUP, GROUP)
            admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
        with Producer(bootstrap_servers=servers) as producer:
            for number in range(4):
                producer.send(TOPIC, b"%d" % number)
        yield servers


def test_each_record_gets_its_own_answer(servers: str):
    answers = {
        (0, 1): AcknowledgeType.ACCEPT,
        (1, 1): AcknowledgeType.RELEASE,
        (2, 1): AcknowledgeType.RELEASE,
        (3, 1): AcknowledgeType.REJECT,
    }
    told: list[tuple[dict[TopicPartition, list[int]], KafkaError | None]] = []
    given = list[tuple[int, int]]()
    with ShareConsumer(bootstrap_servers=servers, group_id=GROUP, share_acknowledgement_mode="explicit") as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append((offsets, error)))
        consumer.subscribe([TOPIC])
        while len(given) < 6:
            for batch in consumer.poll(10).values():
                for record in batch:
                    delivery = record.offset, record.delivery_count
                    given.append(delivery)
                    consumer.acknowledge(record, answers.get(delivery, AcknowledgeType.ACCEPT))
        assert consumer.commit() == {PARTITION: None}
        with pytest.raises(UsageError, match="not in hand"):
            consumer.acknowledge_offset(PARTITION, 0)
    assert given == [(0, 1), (1, 1), (2, 1), (3, 1), (1, 2), (2, 2)]
    assert told == [({PARTITION: [0, 1, 2, 3]}, None), ({PARTITION: [1, 2]}, None)]


def test_failed_iteration_releases_its_last_record_and_those_behind(servers: str):
    def fail() -> None:
        with ShareConsumer(bootstrap_servers=servers, group_id=GROUP) as consumer:
            consumer.subscribe([TOPIC])
            for record in consumer:
                if record.offset == 2:
                    raise ValueError("cannot be processed")

    with pytest.raises(ValueError, match="cannot be processed"):
        fail()
    with ShareConsumer(bootstrap_servers=servers, group_id=GROUP) as consumer:
        consumer.subscribe([TOPIC])
        records = [record for batch in consumer.poll(10).values() for record in batch]
    assert [(record.offset, record.delivery_count) for record in records] == [(2, 2), (3, 2)]


def test_iteration_returns_a_record_with_a_renewed_lock_again(servers: str):
    read = list[int]()
    with ShareConsumer(bootstrap_servers=servers, group_id=GROUP, share_acknowledgement_mode="explicit") as consumer:
        consumer.subscribe([TOPIC])
        for record in consumer:
            consumer.acknowledge(record, AcknowledgeType.ACCEPT if read else AcknowledgeType.RENEW)
            read.append(record.offset)
            if len(read) == 5:
                break
        assert consumer.commit() == {PARTITION: None}
    assert read == [0, 1, 2, 3, 0]


def test_renewing_a_lock_needs_explicit_acknowledgement(servers: str):
    with ShareConsumer(bootstrap_servers=servers, group_id=GROUP) as consumer:
        consumer.subscribe([TOPIC])
        record = next(consumer)
        with pytest.raises(UsageError, match="explicit"):
            consumer.acknowledge(record, AcknowledgeType.RENEW)


def test_group_id_is_required():
    with pytest.raises(ConfigError, match="name of the share group"):
        ShareConsumer(bootstrap_servers="localhost:9092")


def test_reading_without_a_subscription_is_refused(servers: str):
    with ShareConsumer(bootstrap_servers=servers, group_id=GROUP) as one, pytest.raises(UsageError, match="subscribe"):
        one.poll(1)
