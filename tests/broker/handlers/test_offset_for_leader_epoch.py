"""OffsetForLeaderEpoch, and what else clients learn of epochs after a leader was lost: by Fetch and ListOffsets."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kafkaraw.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkaraw.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.support import append_sent, batch
from tests.broker.virtual_nodes import VirtualNodes, on_nodes

LATEST, EARLIEST = -1, -2


async def after_a_lost_write(nodes: VirtualNodes) -> None:
    """Epoch 0 wrote one record that is kept and one that is lost; epoch 1, on node 1, wrote two."""
    nodes.create()
    await nodes.produce(0, b"kept")
    nodes.cluster.pause_replication(1)
    nodes.cluster.pause_replication(2)
    await nodes.produce(0, b"lost", acks=1)
    await nodes.cluster.kill_node(0)
    nodes.cluster.resume_replication(1)
    nodes.cluster.resume_replication(2)
    await nodes.produce(1, b"new")
    await nodes.produce(1, b"newer", timestamp_ms=1_800_000_000_000 - 10**11)


async def end_of(nodes: VirtualNodes, node: int, epoch: int, current: int = -1, name: str = "t") -> EpochEndOffset:
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    topics = [OffsetForLeaderTopic(topic=name, partitions=[asked])]
    response = await nodes.ask(node, OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 4)
    return response.topics[0].partitions[0]


async def fetch(
    nodes: VirtualNodes, node: int, offset: int, *, last_epoch: int = -1, current: int = -1, version: int = 17
) -> PartitionData:
    asked = FetchPartition(
        partition=0,
        current_leader_epoch=current,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1 << 20,
    )
    topic = nodes.cluster.controller.catalog.topic("t")
    assert topic is not None
    named = FetchTopic(topic="t", topic_id=topic.topic_id, partitions=[asked])
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[named], forgotten_topics_data=[])
    response = await nodes.ask(node, request, version)
    return response.responses[0].partitions[0]


async def list_offset(
    nodes: VirtualNodes, node: int, timestamp: int, version: int = 8, isolation_level: int = 0
) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [ListOffsetsTopic(name="t", partitions=[asked])]
    response = await nodes.ask(
        node, ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics), version
    )
    return response.topics[0].partitions[0]


@pytest.mark.parametrize(("epoch", "end"), [(0, (0, 1)), (1, (1, 3)), (2, (-1, -1)), (-1, (-1, -1))])
def test_an_epoch_ends_where_its_successor_begins(epoch: int, end: tuple[int, int]):
    async def life(nodes: VirtualNodes) -> None:
        await after_a_lost_write(nodes)
        answer = await end_of(nodes, 1, epoch)
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (ErrorCode.NONE, *end)

    on_nodes(life)


@pytest.mark.parametrize(
    ("node", "current", "name", "code"),
    [
        (2, -1, "t", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (1, 0, "t", ErrorCode.FENCED_LEADER_EPOCH),
        (1, 2, "t", ErrorCode.UNKNOWN_LEADER_EPOCH),
        (2, 0, "t", ErrorCode.FENCED_LEADER_EPOCH),  # looked at before who leads
        (1, -1, "u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_only_the_leader_answers_and_checks_the_clients_epoch(node: int, current: int, name: str, code: ErrorCode):
    async def life(nodes: VirtualNodes) -> None:
        await after_a_lost_write(nodes)
        answer = await end_of(nodes, node, 0, current, name)
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (code, -1, -1)

    on_nodes(life)


def test_a_fetch_with_last_fetched_epoch_gets_the_diverging_epoch():
    async def life(nodes: VirtualNodes) -> None:
        await after_a_lost_write(nodes)
        parted = await fetch(nodes, 1, 2, last_epoch=0)
        assert (parted.error_code, parted.records) == (ErrorCode.NONE, b"")
        assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (0, 1)
        same = await fetch(nodes, 1, 1, last_epoch=0)
        assert (same.diverging_epoch.epoch, bool(same.records)) == (-1, True)
        unknown = await fetch(nodes, 1, 1, last_epoch=7)
        assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    on_nodes(life)


@pytest.mark.parametrize(
    ("node", "current", "code"),
    [(2, 0, ErrorCode.FENCED_LEADER_EPOCH), (1, 0, ErrorCode.FENCED_LEADER_EPOCH)],
)
def test_a_fetch_in_vain_names_the_leader_since_version_16(node: int, current: int, code: ErrorCode):
    async def life(nodes: VirtualNodes) -> None:
        await after_a_lost_write(nodes)
        for version, leader in ((17, (1, 1)), (15, (-1, -1))):
            answer = await fetch(nodes, node, 0, current=current, version=version)
            assert answer.error_code == code
            assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == leader

    on_nodes(life)


def test_consumers_see_nothing_beyond_the_high_watermark_and_it_is_no_error_to_wait_there():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        await nodes.produce(0, b"shown")
        nodes.cluster.pause_replication(2)
        await nodes.produce(0, b"hidden", acks=1)
        shown = await fetch(nodes, 0, 0)
        assert (shown.high_watermark, len(shown.records)) == (1, nodes.replica(0).log.bytes_between(0, 1))
        for offset in (1, 2):
            waiting = await fetch(nodes, 0, offset)
            assert (waiting.error_code, waiting.records) == (ErrorCode.NONE, b"")
        assert (await fetch(nodes, 0, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await list_offset(nodes, 0, LATEST)).offset == 1
        assert (await list_offset(nodes, 0, 0)).offset == 0

    on_nodes(life)


def test_offsets_are_listed_with_the_epoch_that_wrote_them():
    async def life(nodes: VirtualNodes) -> None:
        await after_a_lost_write(nodes)
        for timestamp, found in ((EARLIEST, (0, 0)), (LATEST, (3, 1)), (1_700_000_000_000, (0, 0))):
            answer = await list_offset(nodes, 1, timestamp)
            assert (answer.error_code, answer.offset, answer.leader_epoch) == (ErrorCode.NONE, *found)

    on_nodes(life)


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.OFFSET_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE)]
)
def test_a_new_leader_lists_no_end_before_it_knows_what_was_shown(version: int, code: ErrorCode):
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        await nodes.produce(0, b"a")
        nodes.cluster.pause_replication(2)
        await nodes.produce(0, b"b", acks=1)
        while nodes.replica(1).log.log_end_offset < 2:
            await asyncio.sleep(0.001)
        nodes.cluster.move_leader("t", 0, 1)
        assert nodes.leader().high_watermark < 2
        assert (await list_offset(nodes, 1, LATEST, version)).error_code == code
        assert (await list_offset(nodes, 1, EARLIEST, version)).offset == 0
        nodes.cluster.resume_replication(2)
        await nodes.produce(1, b"c")
        assert (await list_offset(nodes, 1, LATEST, version)).offset == 3

    on_nodes(life)


def test_a_transaction_that_spans_a_change_of_leader_does_not_hide_the_end_from_committed_readers():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        await nodes.produce(0, b"a")
        data = batch(b"b", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        append_sent(nodes.leader(), data, in_transaction=True)
        await asyncio.sleep(1)
        nodes.cluster.move_leader("t", 0, 1)
        await nodes.produce(1, b"c")
        assert nodes.leader().high_watermark == 3
        for isolation_level, end in ((0, 3), (1, 1)):
            answer = await list_offset(nodes, 1, LATEST, isolation_level=isolation_level)
            assert (answer.error_code, answer.offset) == (ErrorCode.NONE, end)
        late = await list_offset(nodes, 1, 1 << 60, isolation_level=1)
        assert (late.error_code, late.offset) == (ErrorCode.NONE, -1)

    on_nodes(life)
