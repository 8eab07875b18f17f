"""What tests of snapshots and backups share: clusters to read, topics of every kind, and comparisons of copies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from pathlib import Path

from kafkaraw import Admin, Producer, TopicPartition
from kafkaraw.broker.system import real_import
from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.mirror.backups.backup import BackupOptions, BackupRun, back_up
from kafkaraw.mirror.backups.restore import Restored, RestoreOptions, Target, restore
from kafkaraw.mirror.backups.store import BackupStore
from kafkaraw.mirror.cluster_facts import Source
from kafkaraw.mirror.snapshot import Snapshot, SnapshotOptions, take_snapshot
from kafkaraw.mirror.verification import PartitionReport, verify_topic
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.records import CODECS, encode_batch

FEW_PARTITIONS = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
TIME_MS = 1_600_000_000_000

Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


def reader(servers: str) -> AsyncConsumer:
    return AsyncConsumer(
        bootstrap_servers=servers,
        isolation_level="read_committed",
        auto_offset_reset="none",
        allow_auto_create_topics=False,
    )


def source(servers: str) -> Source:
    return Source(lambda: reader(servers), lambda: AsyncAdmin(bootstrap_servers=servers))


def target(servers: str) -> Target:
    return Target(
        lambda: AsyncProducer(bootstrap_servers=servers, linger_ms=5, allow_auto_create_topics=False),
        lambda: AsyncConsumer(bootstrap_servers=servers, allow_auto_create_topics=False),
        lambda: AsyncAdmin(bootstrap_servers=servers),
    )


def snapshot(
    servers: str, topics: Collection[str], directory: Path, options: SnapshotOptions | None = None
) -> Snapshot:
    return asyncio.run(take_snapshot(source(servers), topics, directory, options))


def backup(
    servers: str, topics: Collection[str], url: object, options: BackupOptions | None = None, run_id: str = "00000000"
) -> BackupRun:
    work = back_up(
        source(servers), topics, BackupStore(str(url)), options or BackupOptions(), now_ms=TIME_MS, run_id=run_id
    )
    return asyncio.run(work)


def restored(servers: str, url: object, options: RestoreOptions | None = None) -> Restored:
    return asyncio.run(restore(BackupStore(str(url)), target(servers), options or RestoreOptions()))


def compared(servers: str, other: str, topics: tuple[str, str]) -> list[PartitionReport]:
    """Compare committed records of a topic with those of its copy, record by record."""
    return asyncio.run(verify_topic(lambda: reader(servers), lambda: reader(other), topics))


def rows_of(servers: str, topic: str) -> list[Row]:
    """All committed records with their offsets."""
    rows: list[Row] = []
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="none") as consumer:
        partitions = consumer.partitions_for(topic)
        starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        for key in partitions:
            if starts[key] == ends[key]:
                continue
            consumer.assign([key])
            consumer.seek(key, starts[key])
            while consumer.position(key) < ends[key]:
                for batch in consumer.poll(timeout=0.1).values():
                    rows += [
                        (key.partition, one.offset, one.key, one.value, tuple(one.headers or ()), one.timestamp_ms)
                        for one in batch
                    ]
    return sorted(rows, key=lambda row: row[:2])


def ends_of(servers: str, topic: str) -> dict[int, tuple[int, int]]:
    """Log start and end offsets by partition."""
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        partitions = consumer.partitions_for(topic)
        starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    return {key.partition: (starts[key], ends[key]) for key in partitions}


def fill(servers: str, topic: str, numbers: range, *, partitions: int = 2, **settings: object) -> None:
    """Send one record for each number, to the partition of its remainder."""
    given: dict[str, object] = {"compression_type": "lz4", "batch_size": 512, "linger_ms": 5, **settings}
    with Producer(bootstrap_servers=servers, **given) as producer:
        for number in numbers:
            producer.send(
                topic,
                b"v%d" % number,
                b"k%d" % number,
                headers=[("n", b"%d" % number)] if number % 3 == 0 else [],
                partition=number % partitions,
                timestamp_ms=TIME_MS + number,
            )


def compacted_log(directory: Path, topic: str, rng: random.Random, partitions: int = 2) -> None:
    """Make the data directory of a broker with a topic as compaction leaves it: with gaps, in all codecs."""
    made = real_import(directory)
    made.open()
    made.create_topic(topic, ZERO_UUID, partitions, {"segment.bytes": "1048576"})
    for number in range(partitions):
        offset = rng.choice([0, 7, 5_000_000_000])
        key = TopicPartition(topic, number)
        made.begin(key, offset)
        for _ in range(rng.randrange(1, 8)):
            offset += rng.randrange(4)
            records = [
                (TIME_MS + at, b"c%d" % (offset + at), rng.randbytes(rng.randrange(20)), ())
                for at in range(rng.randrange(1, 9))
            ]
            codec = rng.choice(CODECS).name
            made.append(key, encode_batch(records, codec=codec, base_offset=offset, partition_leader_epoch=0), 0)
            offset += len(records)
    made.close()


def random_topic(servers: str, topic: str, rng: random.Random, partitions: int = 2) -> None:
    """Write records in plain batches and in committed and aborted transactions, and delete some."""
    with Admin(bootstrap_servers=servers) as admin:
        for step in range(rng.randrange(2, 6)):
            begin = 1000 * step
            numbers = range(begin, begin + rng.randrange(1, 40))
            kind = rng.choice(["plain", "commit", "abort", "commit"])
            codec = rng.choice(CODECS).name
            if kind == "plain":
                fill(servers, topic, numbers, partitions=partitions, compression_type=codec)
                continue
            with Producer(bootstrap_servers=servers, transactional_id="t", compression_type=codec) as producer:
                producer.init_transactions()
                producer.begin_transaction()
                for number in numbers:
                    producer.send(topic, b"t%d" % number, b"k", partition=number % partitions, timestamp_ms=TIME_MS)
                producer.flush()
                if kind == "commit":
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
        if rng.random() < 0.5:
            starts = ends_of(servers, topic)
            admin.delete_records(
                {
                    TopicPartition(topic, number): rng.randrange(start, end + 1)
                    for number, (start, end) in starts.items()
                }
            )
