"""MirrorMaker 2's classes read what a mirror writes, and write the same bytes; names of topics are theirs, too."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from pathlib import Path
from typing import Protocol

import pytest

from kafkaraw import Admin, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.mirror.checkpoints import Checkpoint, Heartbeat
from kafkaraw.mirror.interfaces import CopiedBatch
from kafkaraw.mirror.mapping import OffsetMapping
from kafkaraw.mirror.offset_syncs import OffsetSync, SyncSchedule, translated
from kafkaraw.mirror.policies import IdentityReplicationPolicy, ReplicationPolicy
from kafkaraw.mirror.running import MirrorRun
from kafkaraw.mirror.settings import read_mirror_settings
from tests.interop.apache_kafka import (
    ApacheKafka,
    compile_java,
    fetch_artifact,
    fetch_jars,
    kafka_version,
    shared_classes,
)
from tests.interop.java_tools import why_no_java_client
from tests.java_options import QUICK_JVM

SOURCE = Path(__file__).with_name("MirrorRecords.java")
RUN_SECONDS_MAX = 90
TEXTS = ("", "orders", "grüße", "名前", "a b")
NUMBERS = (0, 1, 2**40, 2**63 - 1, -1)


@cache
def class_path() -> tuple[str, ...]:
    names = ("connect-mirror", "connect-mirror-client", "connect-runtime", "connect-api")
    jars = [str(fetch_artifact("org.apache.kafka", name, kafka_version())) for name in names]
    path = (f"{fetch_jars()}/*", *jars)
    return (*path, str(compile_java(SOURCE, path)))


def answers(*arguments: str, given: str = "") -> list[list[str]]:
    """Return the lines that MirrorMaker's classes answer, as fields."""
    command = [
        "java",
        "-Xmx128M",
        *QUICK_JVM,
        *shared_classes(),
        "-cp",
        ":".join(class_path()),
        "MirrorRecords",
        *arguments,
    ]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.fixture(autouse=True)
def _java() -> None:
    if (missing := why_no_java_client()) is not None:
        pytest.skip(missing)


def samples() -> Iterator[tuple[str, list[object], Checkpoint | Heartbeat | OffsetSync]]:
    for index, number in enumerate(NUMBERS):
        text, other = TEXTS[index], TEXTS[-1 - index]
        partition = TopicPartition(text, index)
        yield (
            "checkpoint",
            [other, text, index, number, number, text],
            Checkpoint(other, partition, number, number, text),
        )
        yield "heartbeat", [text, other, number], Heartbeat(text, other, number)
        yield "sync", [text, index, number, number], OffsetSync(partition, number, number)


def test_records_have_the_bytes_of_mirrormaker_which_reads_them_as_the_same() -> None:
    lines, expected = [], []
    for kind, fields, record in samples():
        lines.append("\t".join([kind, *map(str, fields), record.key.hex(), record.value.hex()]))
        expected.append([record.key.hex(), record.value.hex(), "true"])
    assert answers("codec", given="\n".join(lines) + "\n") == expected


def test_mirrormakers_checkpoint_task_translates_from_our_offset_syncs() -> None:
    """It keeps 64 of all syncs, so far behind the end its answers are earlier than ours, and never ahead."""
    partition = TopicPartition("orders", 1)
    schedule, syncs, mapping = SyncSchedule(100), [], OffsetMapping()
    source = target = 0
    for number in range(200):
        count = 1 + number * 7 % 60
        batch = CopiedBatch(
            partition, partition, range(source, source + count), (range(source, source + count),), target
        )
        schedule.add(batch)
        mapping.add(batch)
        source, target = source + count + number % 3, target + count + number % 2
        syncs += schedule.take(delayed=number % 5 == 0)
    offsets = [0, 1, 17, source // 2, source - 300, *range(source - 8, source)]
    records = ",".join(f"{sync.key.hex()}:{sync.value.hex()}" for sync in syncs)
    (answer,) = answers("store", given=f"orders\t1\t{records}\t{','.join(map(str, offsets))}\n")
    for offset, found in zip(offsets, map(int, answer), strict=True):
        ours, exact = translated(syncs, offset), mapping.translate(offset)
        assert ours is not None or found == -1, offset
        assert ours is None or found <= ours.offset, (offset, found, ours)
        assert exact is not None and found <= exact.offset, (offset, found, exact)
    newest = [(int(found), translated(syncs, offset)) for offset, found in zip(offsets[-3:], answer[-3:], strict=True)]
    assert all(ours is not None and found == ours.offset for found, ours in newest), newest


TOPICS = (
    "orders", "east.orders", "west.east.orders", "orders.", ".orders", "a..", "heartbeats", "east.heartbeats",
    "__consumer_offsets", "mm2-offset-syncs.west.internal", "mm2_x_internal", "east.checkpoints.internal",
    "east_checkpoints_internal", "connect.internal", "east_orders",
)  # fmt: skip


def named(policy: ReplicationPolicy, alias: str, topic: str) -> list[str]:
    return [
        policy.remote_topic(alias, topic),
        policy.topic_source(topic) or ("" if policy.topic_source(topic) == "" else "null"),
        policy.upstream_topic(topic) or ("" if policy.upstream_topic(topic) == "" else "null"),
        policy.original_topic(topic),
        str(policy.is_heartbeats_topic(topic)).lower(),
        str(policy.is_internal_topic(topic)).lower(),
        policy.offset_syncs_topic(alias),
        policy.checkpoints_topic(alias),
    ]


def test_policies_name_topics_as_those_of_mirrormaker() -> None:
    lines, expected = [], []
    for kind, make in (("default", ReplicationPolicy), ("identity", IdentityReplicationPolicy)):
        for separator, in_internal in ((".", True), ("_", True), ("_", False)):
            for topic in TOPICS:
                lines.append("\t".join([kind, separator, str(in_internal).lower(), "east", topic]))
                expected.append(named(make(separator, in_internal), "east", topic))
    found = answers("policies", given="\n".join(lines) + "\n")
    assert list(zip(lines, found, strict=True)) == list(zip(lines, expected, strict=True))


class Cluster(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


@pytest.mark.parametrize("brokers", ["embedded", pytest.param("Apache Kafka", marks=pytest.mark.soak)])
def test_mirrormakers_client_library_reads_what_a_mirror_has_written(brokers: str, tmp_path: Path) -> None:
    with ExitStack() as stack:

        def cluster() -> Cluster:
            made: AbstractContextManager[Cluster] = EmbeddedBroker() if brokers == "embedded" else ApacheKafka()
            return stack.enter_context(made)

        east, west = cluster().bootstrap_servers, cluster().bootstrap_servers
        with Admin(bootstrap_servers=east) as admin, Producer(bootstrap_servers=east) as producer:
            admin.create_topics([NewTopic("orders", partitions=2)])
            for number in range(40):
                producer.send("orders", b"%d" % number, partition=number % 2)
            producer.flush()
            offsets = {TopicPartition("orders", 0): OffsetAndMetadata(7, "here"), TopicPartition("orders", 1): 20}
            admin.alter_group_offsets("billing", offsets)
        path = tmp_path / "mirror.properties"
        path.write_text(
            f"clusters = east, west\neast.bootstrap.servers = {east}\nwest.bootstrap.servers = {west}\n"
            "east->west.enabled = true\nemit.checkpoints.interval.seconds = 1\nrefresh.topics.interval.seconds = 1\n"
        )
        mirror = read_mirror_settings(path)

        async def copy() -> None:
            run = MirrorRun(mirror.flows[0], mirror.topology)
            task = asyncio.create_task(run.run())
            partitions = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
            async with run.clients.consumer(of_source=False) as consumer:
                async with asyncio.timeout(60):
                    while not (
                        all(
                            (mapping := run.offsets.mappings.get(each)) and mapping.source_end == 20
                            for each in partitions
                        )
                        and "east.heartbeats" in await consumer.list_topics()
                        and len(await run.clients.records("east.checkpoints.internal", of_source=False)) == 2
                    ):
                        if task.done():
                            await task
                        await asyncio.sleep(0.1)
            run.stop()
            await task

        asyncio.run(copy())
        found = {fields[0]: fields[1:] for fields in answers("client", west, "east", "billing")}
    assert found == {
        "east.orders-0": ["7", "here"],
        "east.orders-1": ["20", ""],
        "hops": ["1"],
        "upstream": ["[east]"],
        "checkpoints": ["[east.checkpoints.internal]"],
        "heartbeats": ["[east.heartbeats, heartbeats]"],
        "remote": ["[east.heartbeats, east.orders]"],
    }
