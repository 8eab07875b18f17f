"""A log directory whose storage fails goes offline: its replicas answer KAFKA_STORAGE_ERROR, and leaders move."""

from __future__ import annotations

import asyncio
import errno
import logging
import random
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any

import pytest

from kafkaraw.broker.log.dir_failures import LogDirFailureChannel, LogDirOfflineError
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import ROOT
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.records import TopicPartition
from kafkaraw.testing.simulated_disk import SimulatedDisk
from tests.broker.log.faulty_storage import FaultyStorage
from tests.broker.virtual_nodes import VirtualNodes, on_nodes

FULL, READ_ONLY, BROKEN = errno.ENOSPC, errno.EROFS, errno.EIO


class NodesOnDisks(VirtualNodes):
    """Nodes with simulated disks."""

    def storage_of(self, node_id: int) -> SimulatedDisk:
        return self.disks.setdefault(node_id, SimulatedDisk(random.Random(node_id)))

    @cached_property
    def disks(self) -> dict[int, SimulatedDisk]:
        """The disk of each node that was started."""
        return {}


def on_disks(test: Callable[[NodesOnDisks], Awaitable[None]], nodes: int = 3) -> None:
    """Run a test on nodes with simulated disks."""
    on_nodes(test, nodes, kind=NodesOnDisks)


async def fetch(nodes: NodesOnDisks, node_id: int) -> Any:
    """Fetch partition 0 of topic "t" from a node."""
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="t", partitions=[part])])
    return (await nodes.ask(node_id, request, 11)).responses[0].partitions[0]


async def list_offsets(nodes: NodesOnDisks, node_id: int) -> int:
    """Return the error code of ListOffsets for partition 0 of topic "t"."""
    part = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[part])])
    return (await nodes.ask(node_id, request, 7)).topics[0].partitions[0].error_code


async def describe(nodes: NodesOnDisks, node_id: int) -> Any:
    """Return partition 0 of topic "t" in Metadata."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    return (await nodes.ask(node_id, request, 12)).topics[0].partitions[0]


async def produce(nodes: NodesOnDisks, node_id: int, *values: bytes, **settings: Any) -> int:
    """Return the error code of Produce to partition 0 of topic "t"."""
    answer = await nodes.produce(node_id, *values, **settings)
    return answer.responses[0].partition_responses[0].error_code


@pytest.mark.parametrize("number", [FULL, READ_ONLY, BROKEN])
def test_a_failed_write_takes_the_directory_offline_with_kafka_storage_error(
    number: int, caplog: pytest.LogCaptureFixture
):
    async def test(nodes: NodesOnDisks) -> None:
        nodes.create(replicas=1)
        assert await produce(nodes, 0, b"kept") == ErrorCode.NONE
        disk = nodes.disks[0]
        disk.refuse(number)
        assert await produce(nodes, 0, b"refused") == ErrorCode.KAFKA_STORAGE_ERROR
        disk.refuse(None)
        await asyncio.sleep(0.01)
        assert await produce(nodes, 0, b"too late") == ErrorCode.KAFKA_STORAGE_ERROR, "offline until the next start"
        assert (await fetch(nodes, 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await list_offsets(nodes, 0) == ErrorCode.KAFKA_STORAGE_ERROR
        described = await describe(nodes, 0)
        assert described.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert described.offline_replicas == [0]
        assert "Error while appending to t-0/00000000000000000000.log in dir" in caplog.text
        assert "Stopping serving replicas in dir" in caplog.text
        await nodes.cluster.stop_node(0)
        await nodes.cluster.start_node(0)
        assert await produce(nodes, 0, b"again") == ErrorCode.NONE
        assert nodes.values(0) == [b"kept", b"again"]

    with caplog.at_level(logging.WARNING):
        on_disks(test, nodes=1)


def test_a_failed_read_answers_a_fetch_with_kafka_storage_error_and_takes_the_directory_offline():
    async def test(nodes: NodesOnDisks) -> None:
        nodes.create(replicas=1)
        assert await produce(nodes, 0, b"a") == ErrorCode.NONE
        nodes.disks[0].refuse(BROKEN, "read")
        assert (await fetch(nodes, 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(0.01)
        assert await list_offsets(nodes, 0) == ErrorCode.KAFKA_STORAGE_ERROR

    on_disks(test, nodes=1)


def test_other_replicas_lead_the_partitions_of_an_offline_directory_and_nothing_acknowledged_is_lost():
    async def test(nodes: NodesOnDisks) -> None:
        nodes.create(min_insync_replicas="2")
        leader = nodes.cluster.leader_of("t")
        assert leader is not None
        assert await produce(nodes, leader, b"first") == ErrorCode.NONE
        nodes.disks[leader].refuse(FULL)
        assert await produce(nodes, leader, b"refused") == ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(0.1)
        heir = nodes.cluster.leader_of("t")
        assert heir not in (None, leader)
        assert leader not in nodes.cluster.isr_of("t")
        assert await produce(nodes, heir, b"second") == ErrorCode.NONE
        assert nodes.values(heir) == [b"first", b"second"]
        described = await describe(nodes, leader)
        assert (described.error_code, described.leader_id) == (ErrorCode.NONE, heir)
        assert described.offline_replicas == [leader]
        await nodes.cluster.kill_node(heir)
        await asyncio.sleep(0.1)
        assert nodes.cluster.leader_of("t") not in (None, leader, heir), "a running node with a failed directory"
        await nodes.cluster.stop_node(leader)
        nodes.disks[leader].refuse(None)
        await nodes.cluster.start_node(leader)
        await nodes.cluster.start_node(heir)
        await nodes.cluster.wait_until_in_sync()
        assert nodes.values(leader) == [b"first", b"second"]

    on_disks(test)


def test_a_follower_whose_directory_fails_leaves_the_isr():
    async def test(nodes: NodesOnDisks) -> None:
        nodes.create()
        leader = nodes.cluster.leader_of("t")
        follower = next(node for node in nodes.cluster.isr_of("t") if node != leader)
        nodes.disks[follower].refuse(FULL)
        assert await produce(nodes, leader, b"a", acks=-1) == ErrorCode.NONE
        assert follower not in nodes.cluster.isr_of("t")
        assert nodes.cluster.nodes[follower].state.is_offline(TopicPartition("t", 0))

    on_disks(test)


def test_a_failed_sync_takes_the_directory_offline_and_its_batch_is_not_acknowledged():
    async def test(nodes: NodesOnDisks) -> None:
        nodes.create(replicas=1, flush_messages="1")
        assert await produce(nodes, 0, b"a") == ErrorCode.NONE
        nodes.disks[0].fail_at(2)  # the first writes the batch, the second syncs it
        assert await produce(nodes, 0, b"b") == ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(0.01)
        assert await produce(nodes, 0, b"c") == ErrorCode.KAFKA_STORAGE_ERROR

    on_disks(test, nodes=1)


def test_a_process_without_free_descriptors_keeps_its_directories():
    failures: list[str] = []
    storage = FaultyStorage(MemoryStorage())
    guarded = LogDirFailureChannel(lambda path, error: failures.append(path)).guard(storage, "/data")
    storage.fail_at(1, errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        guarded.make_folder("t-0")
    guarded.make_folder("t-0")
    assert failures == []


def test_a_directory_fails_once_and_refuses_every_operation_afterwards():
    failures: list[tuple[str, int | None]] = []
    channel = LogDirFailureChannel(lambda path, error: failures.append((path, error.errno)))
    storage = FaultyStorage(MemoryStorage())
    guarded, other = channel.guard(storage, "/data"), channel.guard(MemoryStorage(), "/other")
    file = guarded.open_file(ROOT, "a.log")
    file.append(b"a")
    with pytest.raises(FileNotFoundError):
        guarded.rename_folder("missing", "new")
    storage.fail_at(1, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        file.append(b"b")
    operations: list[Callable[[], object]] = [
        guarded.folders,
        lambda: guarded.make_folder("t-0"),
        lambda: guarded.rename_folder("t-0", "t-1"),
        lambda: guarded.remove_folder("t-0"),
        lambda: guarded.files(ROOT),
        lambda: guarded.open_file(ROOT, "b.log"),
        lambda: guarded.file_size(ROOT, "a.log"),
        lambda: guarded.rename_file(ROOT, "a.log", "b.log"),
        lambda: guarded.remove_file(ROOT, "a.log"),
        lambda: guarded.sync_folder(ROOT),
        lambda: guarded.read_bytes(ROOT, "a.log"),
        lambda: guarded.write_bytes(ROOT, "b", b"b"),
        lambda: guarded.read_text(ROOT, "a.log"),
        lambda: guarded.write_text(ROOT, "b", "b"),
        lambda: file.append(b"c"),
        lambda: file.write_at(0, b"c"),
        lambda: file.allocate(10),
        lambda: file.read(0, 1),
        lambda: file.content(0, 1),
        lambda: file.truncate(0),
        file.sync,
    ]
    for operation in operations:
        with pytest.raises(LogDirOfflineError, match="/data is offline"):
            operation()
    assert failures == [("/data", errno.ENOSPC)]
    assert list(channel.offline) == ["/data"]
    assert channel.is_offline("/data") and not channel.is_offline("/other")
    other.write_text(ROOT, "b", "b")
    file.close()
    guarded.close()
