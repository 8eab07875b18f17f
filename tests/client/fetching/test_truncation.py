"""Positions carry leader epochs: into commits and out of them, and to leaders that may have lost what was read."""

from __future__ import annotations

import pytest

from kafkaraw import OffsetAndMetadata, TopicPartition
from kafkaraw.errors import LogTruncationError
from kafkaraw.protocol.messages.fetch import FetchRequest
from kafkaraw.protocol.messages.offset_commit import OffsetCommitRequest
from kafkaraw.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.client.virtual_cluster import VirtualCluster, on_cluster

P0 = TopicPartition("t", 0)
OLD, NEW = "2.4", None


async def fill(cluster: VirtualCluster, count: int = 5) -> None:
    async with cluster.producer() as producer:
        for _ in range(count):
            await producer.send("t", b"v")


def last_epochs_fetched(cluster: VirtualCluster) -> list[int]:
    return [
        partition.last_fetched_epoch
        for request in cluster.requests()
        if isinstance(request, FetchRequest)
        for topic in request.topics
        for partition in topic.partitions
    ]


def ends_asked(cluster: VirtualCluster) -> list[tuple[int, int]]:
    return [
        (partition.current_leader_epoch, partition.leader_epoch)
        for request in cluster.requests()
        if isinstance(request, OffsetForLeaderEpochRequest)
        for topic in request.topics
        for partition in topic.partitions
    ]


def test_commits_have_the_epoch_of_the_last_record_and_the_next_owner_sends_it_to_the_leader():
    async def test(cluster: VirtualCluster) -> None:
        await fill(cluster)
        settings = {"group_id": "g", "enable_auto_commit": False}
        async with cluster.consumer(**settings) as consumer:
            consumer.assign([P0])
            await consumer.poll(max_records=3)
            assert consumer.next_offsets() == {P0: OffsetAndMetadata(3, leader_epoch=0)}
            await consumer.commit()
            assert await consumer.committed([P0]) == {P0: OffsetAndMetadata(3, leader_epoch=0)}
        (commit,) = (request for request in cluster.requests() if isinstance(request, OffsetCommitRequest))
        assert commit.topics[0].partitions[0].committed_leader_epoch == 0
        before = len(last_epochs_fetched(cluster))
        async with cluster.consumer(**settings) as consumer:
            consumer.assign([P0])
            await consumer.poll()
        assert last_epochs_fetched(cluster)[before:][0] == 0
        assert ends_asked(cluster) == []

    on_cluster(test)


def test_what_a_transaction_is_given_steps_over_markers():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.producer(transactional_id="x") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send("t", b"v")
            await producer.begin_transaction()
            await producer.send("t", b"v")
            await producer.flush()
            await producer.abort_transaction()
        async with cluster.consumer(isolation_level="read_committed") as consumer:
            consumer.assign([P0])
            given = await consumer.poll()
            assert sum(1 for batch in given.values() for _ in batch) == 1
            await consumer.poll(1)
            assert consumer.next_offsets() == {P0: OffsetAndMetadata(4, leader_epoch=0)}

    on_cluster(test)


@pytest.mark.parametrize("release", [OLD, NEW])
def test_a_position_behind_the_end_of_its_epoch_goes_back_to_that_end_and_not_to_a_reset(release, caplog):
    async def test(cluster: VirtualCluster) -> None:
        await fill(cluster)
        async with cluster.consumer() as consumer:
            consumer.assign([P0])
            consumer.seek(P0, OffsetAndMetadata(9, leader_epoch=0))
            assert await consumer.poll(1) == {}
            assert await consumer.position(P0) == 5
            assert ends_asked(cluster) == ([(0, 0), (0, 0)] if release == OLD else [])
        async with cluster.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([P0])
            consumer.seek(P0, OffsetAndMetadata(9, leader_epoch=0))
            with pytest.raises(LogTruncationError, match="from offset 5 on"):
                await consumer.poll(1)

    on_cluster(test, max_versions=release)
    assert "the log was truncated" in caplog.text


@pytest.mark.parametrize("release", [OLD, NEW])
def test_a_position_that_the_leader_confirms_is_read_from(release):
    async def test(cluster: VirtualCluster) -> None:
        await fill(cluster)
        async with cluster.consumer() as consumer:
            consumer.assign([P0])
            consumer.seek(P0, OffsetAndMetadata(2, leader_epoch=0))
            (batch,) = (await consumer.poll()).values()
            assert [record.offset for record in batch] == [2, 3, 4]
            await consumer.poll(1)  # the same leader is not asked again
            assert ends_asked(cluster) == ([(0, 0)] if release == OLD else [])

    on_cluster(test, max_versions=release)


def test_an_unknown_leader_epoch_costs_one_lookup_and_fetching_continues():
    async def test(cluster: VirtualCluster) -> None:
        await fill(cluster)
        async with cluster.consumer() as consumer:
            consumer.assign([P0])
            consumer.seek(P0, OffsetAndMetadata(2, leader_epoch=77))
            (batch,) = (await consumer.poll()).values()
            assert [record.offset for record in batch] == [2, 3, 4]

    on_cluster(test)
