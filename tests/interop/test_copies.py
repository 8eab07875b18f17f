"""Snapshots and backups of Apache Kafka's topics, restored into Apache Kafka and the embedded broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaraw import Admin, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.mirror.backups.backup import BackupOptions
from kafkaraw.mirror.backups.manifest import FileFormat
from kafkaraw.mirror.backups.restore import RestoreOptions
from kafkaraw.mirror.slices import Bounds
from kafkaraw.mirror.snapshot import SnapshotOptions
from tests.interop.both_brokers import Broker
from tests.mirror.copies import (
    FEW_PARTITIONS,
    TIME_MS,
    backup,
    compared,
    ends_of,
    fill,
    restored,
    rows_of,
    snapshot,
)

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")

TOPIC = "copies-of-apache-kafka"


@pytest.fixture(scope="module")
def kafka(both_brokers: tuple[Broker, Broker]) -> str:
    """Apache Kafka, with a topic that has plain, committed and aborted records."""
    servers = both_brokers[0].servers
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics(
            [NewTopic(TOPIC, partitions=2, configs={"retention.ms": "-1", "cleanup.policy": "compact"})]
        )
        fill(servers, TOPIC, range(40), compression_type="zstd")
        with Producer(bootstrap_servers=servers, transactional_id=TOPIC) as producer:
            producer.init_transactions()
            for is_committed in (True, False, True):
                producer.begin_transaction()
                for number in range(6):
                    producer.send(TOPIC, b"t%d" % number, b"k%d" % number, partition=number % 2, timestamp_ms=TIME_MS)
                producer.flush()
                if is_committed:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
        admin.alter_group_offsets(f"of-{TOPIC}", {TopicPartition(TOPIC, 0): 30, TopicPartition(TOPIC, 1): 5})
    return servers


def test_a_snapshot_of_apache_kafka_has_the_same_offsets(kafka: str, tmp_path: Path) -> None:
    options = SnapshotOptions(Bounds(last=20), groups=[f"of-{TOPIC}"])
    snapshot(kafka, [TOPIC], tmp_path / "copy", options)
    ends = ends_of(kafka, TOPIC)
    with EmbeddedBroker(data_dir=str(tmp_path / "copy"), properties=FEW_PARTITIONS) as copy:
        assert ends_of(copy.bootstrap_servers, TOPIC) == {number: (end - 20, end) for number, (_, end) in ends.items()}
        expected = [row for row in rows_of(kafka, TOPIC) if row[1] >= ends[row[0]][1] - 20]
        assert rows_of(copy.bootstrap_servers, TOPIC) == expected
        with Admin(bootstrap_servers=copy.bootstrap_servers) as admin:
            offsets = admin.list_group_offsets([f"of-{TOPIC}"])[f"of-{TOPIC}"]
        assert {key.partition: one.offset for key, one in offsets.items()} == {0: 30, 1: 5}


@pytest.mark.parametrize("file_format", FileFormat)
def test_a_backup_of_apache_kafka_is_restored_there(kafka: str, tmp_path: Path, file_format: FileFormat) -> None:
    name = f"{TOPIC}-{file_format.value}"
    options = BackupOptions(file_format, groups=[f"of-{TOPIC}"], acls=False)
    backup(kafka, [TOPIC], tmp_path, options)
    found = restored(kafka, tmp_path, RestoreOptions(rename={TOPIC: name}))
    assert [(one.equal_count, one.is_equal) for one in compared(kafka, kafka, (TOPIC, name))] == [(26, True)] * 2
    rows = rows_of(kafka, TOPIC)
    for number, offset in ((0, 30), (1, 5)):
        expected = sum(row[0] == number and row[1] < offset for row in rows)
        assert found.groups[f"of-{TOPIC}"][TopicPartition(name, number)].offset == expected
