"""Batches are copied between Apache Kafka and the embedded broker, both ways, and between two Apache Kafka clusters."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from kafkaraw import Admin, Producer
from kafkaraw.client.admin import NewTopic
from kafkaraw.client.consumer import AsyncConsumer, engine_of
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.coordinator import Coordinator, CoordinatorKind
from kafkaraw.errors import KafkaTimeoutError, UnknownTopicError
from kafkaraw.mirror.flow import Flow
from kafkaraw.mirror.interfaces import CopiedBatch, CopiedTopic, Delivery, FlowSettings
from kafkaraw.mirror.verification import verify_topic
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkaraw.records import TopicPartition
from tests.interop.apache_kafka import ApacheKafka, why_missing
from tests.interop.both_brokers import Broker
from tests.waiting import wait_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3


class OneTopic:
    """Plans one topic, which exists on both sides."""

    def __init__(self, topic: str, copy: str) -> None:
        self._copied = CopiedTopic(topic, copy, {})

    async def refresh(self) -> Sequence[CopiedTopic]:
        return [self._copied]


def create(servers: str, topic: str, **configs: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        admin.create_topics([NewTopic(topic, PARTITIONS, configs=named)])


def write(servers: str, topic: str, first: int, count: int, **settings: object) -> None:
    """Write records of all forms: null keys, null values, headers, timestamps of their own."""
    with Producer(bootstrap_servers=servers, linger_ms=20, batch_size=4_000, **settings) as producer:
        for number in range(first, first + count):
            producer.send(
                topic,
                b"value %d" % number if number % 11 else None,
                b"key %d" % (number % 50) if number % 7 else None,
                headers=[("n", b"%d" % number), ("none", None)] if number % 5 == 0 else None,
                partition=number % PARTITIONS,
                timestamp_ms=1_760_000_000_000 + number,
            )


def transact(servers: str, topic: str, first: int) -> None:
    """Write a transaction that commits, and one that aborts, again and again."""
    with Producer(bootstrap_servers=servers, transactional_id=f"writer of {topic}") as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            for index in range(20):
                producer.send(topic, b"%d of transaction %d" % (index, first + number), partition=index % PARTITIONS)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


def consumer_of(servers: str) -> Callable[[], AsyncConsumer]:
    settings = {"auto_offset_reset": "none", "isolation_level": "read_committed", "allow_auto_create_topics": False}
    return lambda: AsyncConsumer(bootstrap_servers=servers, **settings)


async def copy(source: str, target: str, topic: str, delivery: Delivery) -> list[CopiedBatch]:
    """Run a flow until the positions are at the ends of the source."""
    copied: list[CopiedBatch] = []
    connections = [{"bootstrap_servers": servers} for servers in (source, target)]
    flow = Flow(
        FlowSettings("a", f"b of {topic}", *connections, delivery=delivery), OneTopic(topic, topic), copied.extend
    )
    task = asyncio.create_task(flow.run())
    async with consumer_of(source)() as consumer:
        ends = await consumer.end_offsets(await consumer.partitions_for(topic))
    try:
        async with asyncio.timeout(60):
            while not all(of in flow.positions and flow.positions[of].offset >= end for of, end in ends.items()):
                if task.done():
                    await task
                await asyncio.sleep(0.05)
    finally:
        flow.stop()
        await task
    return copied


async def differences(source: str, target: str, topic: str) -> list[object]:
    reports = await verify_topic(consumer_of(source), consumer_of(target), (topic, topic))
    return [report for report in reports if not report.is_equal or report.counts]


@pytest.mark.parametrize("delivery", list(Delivery))
@pytest.mark.parametrize("way", ["from", "to"])
def test_copies_between_apache_kafka_and_the_embedded_broker_are_equal(
    both_brokers: tuple[Broker, Broker], way: str, delivery: Delivery
) -> None:
    apache, embedded = (broker.servers for broker in both_brokers)
    source, target = (apache, embedded) if way == "from" else (embedded, apache)
    topic = f"mirrored-{way}-{delivery.value}"
    create(source, topic)
    create(target, topic, max_message_bytes="3000" if delivery is Delivery.EXACTLY_ONCE else "1048588")
    for number, codec in enumerate(CODECS):
        write(source, topic, 300 * number, 300, compression_type=codec)
    transact(source, topic, 0)
    copied = asyncio.run(copy(source, target, topic, delivery))
    assert not asyncio.run(differences(source, target, topic))
    settled: dict[TopicPartition, int] = {}
    for batch in copied:
        assert batch.source_offsets.start == settled.get(batch.source, 0)
        settled[batch.source] = batch.source_offsets.stop
    assert sum(batch.records_count for batch in copied) == 300 * len(CODECS) + 2 * 20


@pytest.mark.soak
def test_mirror_ends_an_offset_that_arrived_behind_the_end_of_its_transaction() -> None:
    """Apache Kafka before 4.0, or without verification, takes such a request: no coordinator ends it (KAFKA-14402)."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    unverified = {"transaction.partition.verification.enable": "false"}
    with ApacheKafka() as source, ApacheKafka(properties=unverified, features={"transaction.version": 0}) as target:
        servers = source.bootstrap_servers, target.bootstrap_servers
        for cluster in servers:
            create(cluster, "orders")
        write(servers[0], "orders", 0, 300)
        asyncio.run(copy(*servers, "orders", Delivery.EXACTLY_ONCE))
        assert not asyncio.run(differences(*servers, "orders"))
        group = FlowSettings("a", "b of orders", {}, {}).group_id
        with Admin(bootstrap_servers=servers[1]) as admin:
            producer = admin.describe_transactions([f"{group}-0"])[f"{group}-0"]
        late = TxnOffsetCommitRequest(
            transactional_id=f"{group}-0",
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="orders",
                    partitions=[
                        TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
                    ],
                )
            ],
        )
        assert asyncio.run(unstable_after(servers[1], late))
        write(servers[0], "orders", 300, 300)
        asyncio.run(copy(*servers, "orders", Delivery.EXACTLY_ONCE))
        assert not asyncio.run(differences(*servers, "orders"))


async def unstable_after(servers: str, late: TxnOffsetCommitRequest) -> bool:
    """Send a request for pending offsets; returns whether the group's offsets cannot be read then."""
    async with AsyncConsumer(bootstrap_servers=servers, group_id=late.group_id, enable_auto_commit=False) as consumer:
        await consumer.list_topics()
        answer = await Coordinator(engine_of(consumer), CoordinatorKind.GROUP, late.group_id).ask(
            late, lambda response: response.topics[0].partitions[0].error_code, deadline=Deadline(20), version_max=3
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        with pytest.raises(KafkaTimeoutError, match="UNSTABLE_OFFSET_COMMIT"):
            await consumer.committed([TopicPartition("orders", 0)], timeout=2)
    return True


# -- two Apache Kafka clusters, and kills


@contextmanager
def two_clusters() -> Iterator[tuple[ApacheKafka, ApacheKafka]]:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    quick = {
        "log.cleaner.backoff.ms": "200",
        "log.retention.check.interval.ms": "500",
        "group.min.session.timeout.ms": "1000",
    }
    with ApacheKafka(properties=quick) as source, ApacheKafka(properties=quick) as target:
        yield source, target


def start_mirror(folder: Path, source: ApacheKafka, target: ApacheKafka, delivery: Delivery) -> subprocess.Popen[bytes]:
    file = folder / "mirror.properties"
    lines = [
        "clusters = a, b",
        f"a.bootstrap.servers = {source.bootstrap_servers}",
        f"b.bootstrap.servers = {target.bootstrap_servers}",
        "a->b.enabled = true",
        "a->b.topics = orders, compacted",
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        f"delivery = {delivery.value}",
        "commit.interval.ms = 100",
    ]
    file.write_text("\n".join(lines) + "\n")
    with (folder / "mirror.log").open("ab") as log:
        return subprocess.Popen([sys.executable, "-m", "kafkaraw", "mirror", "run", str(file)], stderr=log)


def is_behind(source: str, target: str) -> bool:
    """Whether the copy is not complete; it must not differ in another way."""
    try:
        found = asyncio.run(differences(source, target, "orders"))
    except UnknownTopicError:
        return True
    assert all({kind.name for kind in report.counts} <= {"BEHIND"} for report in found), found
    return bool(found)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [int(text) for text in os.environ.get("KAFKARAW_MIRROR_KILLS", "1,2,3").split(",")])
def test_killed_mirror_loses_and_repeats_nothing_on_apache_kafka(tmp_path: Path, seed: int) -> None:
    """The mirror process is killed again and again while records and transactions are written; then it catches up."""
    chosen = random.Random(seed)
    with two_clusters() as (source, target):
        create(source.bootstrap_servers, "orders")
        create(source.bootstrap_servers, "compacted", cleanup_policy="compact")
        written = 0
        for kill in range(8):
            mirror = start_mirror(tmp_path, source, target, Delivery.EXACTLY_ONCE)
            for _ in range(4):
                codec = chosen.choice(CODECS)
                write(source.bootstrap_servers, "orders", written, 500, compression_type=codec)
                transact(source.bootstrap_servers, "orders", 4 * kill)
                written += 500
                time.sleep(chosen.uniform(0.0, 0.5))
            mirror.send_signal(signal.SIGKILL)
            mirror.wait()
            if kill % 3 == 2:
                target.restart(kill=True)
        (tmp_path / "mirror.log").unlink()
        mirror = start_mirror(tmp_path, source, target, Delivery.EXACTLY_ONCE)
        try:
            deadline = time.monotonic() + 120
            # Only a mirror that runs ends well at SIGTERM, and the killed ones may have copied everything.
            assert wait_until(lambda: "mirroring" in (tmp_path / "mirror.log").read_text(), 60, 0.1)
            while is_behind(source.bootstrap_servers, target.bootstrap_servers):
                assert time.monotonic() < deadline, "the copy does not become complete"
                assert mirror.poll() is None, (tmp_path / "mirror.log").read_text()
                time.sleep(1)
        finally:
            mirror.terminate()
            mirror.wait(60)
        assert mirror.returncode == 0, (tmp_path / "mirror.log").read_text()
