"""Share groups on several nodes: the leader and the coordinators move, locks expire, and nodes restart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkaraw.broker.shares.node import SHARE_STATE_TOPIC
from kafkaraw.broker.shares.state import ShareKey
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from kafkaraw.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkaraw.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.virtual_nodes import VirtualNodes, on_nodes

SETTINGS = {"share_coordinator_state_topic_num_partitions": 2, "offsets_topic_num_partitions": 2}
Ranges = list[tuple[int, int, int]]


class Group:
    """A share group that reads topic "t" from its first record on."""

    def __init__(self, nodes: VirtualNodes) -> None:
        self.nodes = nodes
        self.epochs: dict[tuple[int, str], int] = {}

    @property
    def topic_id(self) -> Uuid:
        topic = self.nodes.cluster.controller.catalog.topic("t")
        assert topic is not None
        return topic.topic_id

    async def begin(self) -> None:
        """Write twelve records, and begin with the first one."""
        self.nodes.create(replicas=len(self.nodes.cluster.nodes), retention_ms="-1")
        for _ in range(3):
            self.nodes.append(*[b"x"] * 4)
        parts = [AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)]
        topics = [AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=parts)]
        request = AlterShareGroupOffsetsRequest(group_id="g", topics=topics)
        for _ in range(100):
            node = next(iter(self.nodes.cluster.nodes))
            found = await self.nodes.ask(node, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
            if found.coordinators[0].node_id >= 0:
                answer = await self.nodes.ask(found.coordinators[0].node_id, request, 0)
                if not answer.error_code and not answer.responses[0].partitions[0].error_code:
                    return
            await asyncio.sleep(0.1)
        raise AssertionError("the offsets cannot be set")

    async def fetch(self, *acks: tuple[int, int, int], member: str = "m", **fields: Any) -> tuple[int, int, Ranges]:
        """Fetch from the leader: the error, that of the acknowledgements, and the acquired ranges."""
        node = self.nodes.cluster.leader_of("t", 0)
        assert node is not None
        epoch = self.epochs.get((node, member), 0)
        batches = [
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
            for first, last, kind in acks
        ]
        part = FetchPartition(partition_index=0, acknowledgement_batches=batches)
        request = ShareFetchRequest(
            **{
                "group_id": "g",
                "member_id": member,
                "share_session_epoch": epoch,
                "max_wait_ms": 500,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 4,
                "batch_size": 100,
                "topics": [FetchTopic(topic_id=self.topic_id, partitions=[part])],
                "forgotten_topics_data": [],
                **fields,
            }
        )
        answer = await self.nodes.ask(node, request, 2)
        if answer.error_code:
            return answer.error_code, 0, []
        self.epochs[node, member] = epoch + 1
        for each in (part for topic in answer.responses for part in topic.partitions):
            ranges = [(one.first_offset, one.last_offset, one.delivery_count) for one in each.acquired_records]
            return each.error_code, each.acknowledge_error_code, ranges
        return 0, 0, []

    def start_offset(self) -> int:
        """The stored start offset, on whichever node it is."""
        key = ShareKey("g", self.topic_id, 0)
        for node in self.nodes.cluster.nodes.values():
            for coordinator in node.state.shares.hosted():
                if key in coordinator.states():
                    return coordinator.states()[key].start_offset
        raise AssertionError("no share coordinator has the state")


def test_the_next_leader_continues_where_the_group_was() -> None:
    async def life(nodes: VirtualNodes) -> None:
        group = Group(nodes)
        await group.begin()
        assert await group.fetch() == (0, 0, [(0, 3, 1)])
        assert await group.fetch((0, 3, 1)) == (0, 0, [(4, 7, 1)])
        leader = nodes.cluster.leader_of("t", 0)
        assert leader is not None
        nodes.cluster.move_leader("t", 0, (leader + 1) % 3)
        assert await group.fetch() == (0, 0, [(4, 7, 1)])
        assert (await group.fetch((4, 7, 1), max_records=100))[2] == [(8, 11, 1)]

    on_nodes(life, **SETTINGS)


def test_the_next_share_coordinator_has_the_state() -> None:
    async def life(nodes: VirtualNodes) -> None:
        group = Group(nodes)
        await group.begin()
        await group.fetch()
        await group.fetch((0, 3, 1))
        for partition in range(2):
            leader = nodes.cluster.leader_of(SHARE_STATE_TOPIC, partition)
            assert leader is not None
            nodes.cluster.move_leader(SHARE_STATE_TOPIC, partition, (leader + 1) % 3)
        assert await group.fetch((4, 7, 1)) == (0, 0, [(8, 11, 1)])
        assert (await group.fetch((8, 11, 1)))[1] == 0
        assert group.start_offset() == 8

    on_nodes(life, **SETTINGS)


@pytest.mark.parametrize("seed", range(3))
def test_a_restart_keeps_the_state(seed: int) -> None:
    async def life(nodes: VirtualNodes) -> None:
        group = Group(nodes)
        await group.begin()
        await group.fetch()
        await group.fetch((0, 1, 1), (2, 3, 2))
        await nodes.cluster.kill()
        nodes.cluster = nodes.new_cluster(1)
        await nodes.cluster.start()
        group.epochs.clear()
        assert await group.fetch() == (0, 0, [(2, 3, 2), (4, 7, 1)])

    on_nodes(life, nodes=1, seed=seed, **SETTINGS)


def test_a_lock_that_expires_makes_records_available_to_a_waiting_fetch() -> None:
    async def life(nodes: VirtualNodes) -> None:
        group = Group(nodes)
        await group.begin()
        assert await group.fetch(member="one", max_records=100) == (0, 0, [(0, 11, 1)])
        began = nodes.now
        assert await group.fetch(member="two", max_wait_ms=60_000) == (0, 0, [(0, 11, 2)])
        assert nodes.now - began == pytest.approx(30, abs=0.1)
        assert (await group.fetch((0, 11, 1), member="one"))[1] == ErrorCode.INVALID_RECORD_STATE

    on_nodes(life, nodes=1, **SETTINGS)


def test_a_disabled_feature_refuses_requests() -> None:
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(replicas=1)
        update = FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
        await nodes.ask(0, UpdateFeaturesRequest(feature_updates=[update]), 2)
        request = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"])
        assert (await nodes.ask(0, request, 1)).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await Group(nodes).fetch())[0] == ErrorCode.UNSUPPORTED_VERSION

    on_nodes(life, nodes=1, **SETTINGS)
