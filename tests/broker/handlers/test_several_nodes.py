"""What nodes of a cluster tell clients about each other: metadata, coordinators, and who may be asked for what."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.broker.listeners import Endpoint
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponsePartition
from kafkaraw.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaraw.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.broker.virtual_nodes import VirtualNodes, on_nodes

NONE = ErrorCode.NONE


async def described(nodes: VirtualNodes, node: int, version: int = 13) -> MetadataResponsePartition:
    """Partition 0 of topic "t", as a node describes it."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    response = await nodes.ask(node, request, version)
    return response.topics[0].partitions[0]


async def commit(nodes: VirtualNodes, node: int, group: str, offset: int) -> ErrorCode:
    position = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name="t", partitions=[position])]
    request = OffsetCommitRequest(group_id=group, member_id="", topics=topics)
    response = await nodes.ask(node, request, 8)
    return ErrorCode(response.topics[0].partitions[0].error_code)


def test_every_node_returns_the_same_brokers_leaders_and_replicas():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(partitions=3)
        nodes.cluster.move_leader("t", 0, 2)
        answers = [await nodes.ask(node, MetadataRequest(topics=None), 13) for node in range(3)]
        assert answers[0] == answers[1] == answers[2]
        assert [(broker.node_id, broker.port) for broker in answers[0].brokers] == [(0, 9092), (1, 9093), (2, 9094)]
        first = answers[0].topics[0].partitions[0]
        assert (first.leader_id, first.leader_epoch, first.replica_nodes) == (2, 1, [0, 1, 2])

    on_nodes(life)


def test_nodes_that_are_down_are_offline_replicas_and_no_brokers():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        await nodes.cluster.kill_node(0)
        answer = await described(nodes, 2)
        assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (NONE, 1, 1)
        assert (answer.replica_nodes, answer.isr_nodes, answer.offline_replicas) == ([0, 1, 2], [1, 2], [0])
        response = await nodes.ask(1, MetadataRequest(topics=[]), 13)
        assert ([broker.node_id for broker in response.brokers], response.controller_id) == ([1, 2], 1)

    on_nodes(life)


def test_a_partition_without_leader_has_leader_not_available():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(replicas=1)
        await nodes.cluster.kill_node(0)
        answer = await described(nodes, 1)
        assert answer.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (answer.leader_id, answer.leader_epoch, answer.isr_nodes) == (-1, 1, [0])

    on_nodes(life)


@pytest.mark.parametrize(("version", "code"), [(13, ErrorCode.LISTENER_NOT_FOUND), (5, ErrorCode.LEADER_NOT_AVAILABLE)])
def test_a_leader_without_the_listener_on_which_is_asked_cannot_be_reached(version: int, code: ErrorCode):
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        broker = nodes.cluster.controller.catalog.brokers[0]
        other = type(broker)(0, {"INTERNAL": Endpoint("INTERNAL", "127.0.0.1", 1)})
        nodes.cluster.controller.catalog.brokers[0] = other
        answer = await described(nodes, 1, version)
        assert (answer.error_code, answer.leader_id) == (code, -1)

    on_nodes(life)


def test_every_node_names_the_same_coordinator_and_only_that_one_keeps_offsets():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        for group in ("a", "b", "c", "d"):
            await nodes.ask(0, FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
            coordinator = nodes.cluster.coordinator_of(group)
            for node in range(3):
                response = await nodes.ask(node, FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
                (found,) = response.coordinators
                assert (found.error_code, found.node_id, found.port) == (NONE, coordinator, 9092 + (coordinator or 0))
                wanted = NONE if node == coordinator else ErrorCode.NOT_COORDINATOR
                assert await commit(nodes, node, group, 7) == wanted

    on_nodes(life)


def test_a_group_whose_partition_has_no_leader_has_no_coordinator():
    async def life(nodes: VirtualNodes) -> None:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        (first,) = (await nodes.ask(0, request, 4)).coordinators
        await nodes.cluster.kill_node(first.node_id)
        (found,) = (await nodes.ask((first.node_id + 1) % 3, request, 4)).coordinators
        assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        assert found.error_message == "the partition of the coordinator has no leader"

    on_nodes(life, offsets_topic_replication_factor=1)


def test_offsets_are_there_on_the_next_coordinator():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        assert nodes.cluster.coordinator_of("g") is None  # nobody has asked yet
        await nodes.ask(0, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        first = nodes.cluster.coordinator_of("g")
        assert first is not None
        assert await commit(nodes, first, "g", 7) == NONE
        await nodes.cluster.kill_node(first)
        second = nodes.cluster.coordinator_of("g")
        assert second is not None
        await asyncio.sleep(1)  # what the log says has to be on all replicas first
        for node in nodes.cluster.nodes:
            group = OffsetFetchRequestGroup(
                group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
            )
            (answer,) = (await nodes.ask(node, OffsetFetchRequest(groups=[group]), 8)).groups
            if node == second:
                assert (answer.error_code, answer.topics[0].partitions[0].committed_offset) == (NONE, 7)
            else:
                assert (answer.error_code, answer.topics) == (ErrorCode.NOT_COORDINATOR, [])
            old = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
            code = (await nodes.ask(node, old, 7)).error_code
            assert code == (NONE if node == second else ErrorCode.NOT_COORDINATOR)
            (partition,) = (await nodes.ask(node, old, 1)).topics[0].partitions
            assert (partition.committed_offset, partition.error_code) == ((7, NONE) if node == second else (-1, code))

    on_nodes(life)


def test_producer_ids_are_handed_out_once_whichever_node_is_asked():
    async def life(nodes: VirtualNodes) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        given = [(await nodes.ask(node % 3, request, 4)).producer_id for node in range(9)]
        assert len(set(given)) == 9

    on_nodes(life)


def test_any_node_creates_topics_for_all():
    async def life(nodes: VirtualNodes) -> None:
        spec = CreatableTopic(name="made", num_partitions=2, replication_factor=3, assignments=[], configs=[])
        response = await nodes.ask(2, CreateTopicsRequest(topics=[spec]), 7)
        assert response.topics[0].error_code == NONE
        assert all(storage.folders() == ["made-0", "made-1"] for storage in nodes.storages.values())
        too_many = CreatableTopic(name="more", num_partitions=1, replication_factor=4, assignments=[], configs=[])
        (refused,) = (await nodes.ask(0, CreateTopicsRequest(topics=[too_many]), 7)).topics
        assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert "only 3 broker(s) are registered" in (refused.error_message or "")

    on_nodes(life)


def test_replicas_may_be_assigned_to_nodes_that_are_down_but_not_only_to_them():
    async def life(nodes: VirtualNodes) -> None:
        await nodes.cluster.stop_node(1)

        async def create(name: str, brokers: list[int]) -> ErrorCode:
            chosen = [CreatableReplicaAssignment(partition_index=0, broker_ids=brokers)]
            spec = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=chosen, configs=[])
            response = await nodes.ask(0, CreateTopicsRequest(topics=[spec]), 7)
            return ErrorCode(response.topics[0].error_code)

        assert await create("t", [1, 2]) == NONE
        assert (nodes.cluster.leader_of("t"), nodes.cluster.isr_of("t")) == (2, [2])
        assert await create("u", [1]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        await nodes.cluster.start_node(1)
        await nodes.cluster.wait_until_in_sync()
        assert nodes.cluster.isr_of("t") == [2, 1]

    on_nodes(life)


def test_a_topic_that_one_node_cannot_store_is_nowhere(monkeypatch: pytest.MonkeyPatch):
    async def life(nodes: VirtualNodes) -> None:
        def full(folder: str) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(nodes.storages[1], "make_folder", full)
        spec = CreatableTopic(name="made", num_partitions=3, replication_factor=2, assignments=[], configs=[])
        (refused,) = (await nodes.ask(0, CreateTopicsRequest(topics=[spec]), 7)).topics
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert nodes.cluster.controller.catalog.topics() == []
        assert all(storage.folders() == [] for storage in nodes.storages.values())

    on_nodes(life)
