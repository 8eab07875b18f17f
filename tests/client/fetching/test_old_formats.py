"""A topic that brokers and producers from before Kafka 0.11 wrote is consumed like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaraw import Admin, Consumer, NewTopic, Producer, Record, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from tests.records.test_legacy import CODECS, KINDS, TIME, WRITTEN, vector

P0 = TopicPartition("old", 0)


def put_old_segment(folder: Path, data: bytes) -> None:
    """Replace a partition's log by one of an old broker."""
    for segment in folder.glob("*.log"):
        segment.unlink()
    (folder / f"{1000:020d}.log").write_bytes(data)


@pytest.mark.parametrize("codec", CODECS)
def test_old_and_new_records_of_a_topic_are_consumed_in_order(tmp_path: Path, codec: str) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(P0.topic, partitions=len(KINDS))])
    for partition, kind in enumerate(KINDS):
        put_old_segment(tmp_path / f"{P0.topic}-{partition}", vector(kind, codec))
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        servers = broker.bootstrap_servers
        with Producer(bootstrap_servers=servers) as producer:
            for partition in range(len(KINDS)):
                producer.send(P0.topic, b"of today", partition=partition)
        with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            for partition, kind in enumerate(KINDS):
                found = consumed(consumer, TopicPartition(P0.topic, partition), len(WRITTEN) + 1)
                assert [(record.offset, record.key, record.value) for record in found] == [
                    *((offset, key, value) for offset, _, key, value in WRITTEN),
                    (1029, None, b"of today"),
                ]
                assert [record.timestamp_type for record in found[:-1]] == [KINDS[kind]] * len(WRITTEN)
            by_time = consumer.offsets_for_times({TopicPartition(P0.topic, 1): TIME + 1})
            assert by_time[TopicPartition(P0.topic, 1)].offset == 1001


def consumed(consumer: Consumer, partition: TopicPartition, count: int) -> list[Record]:
    consumer.assign([partition])
    found: list[Record] = []
    while len(found) < count:
        got = consumer.poll(timeout=10.0)
        assert got, f"only {len(found)} of {count} came"
        found += [record for batch in got.values() for record in batch]
    return found
