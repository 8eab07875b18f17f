"""Topics that change on several nodes: more partitions, other settings, records deleted on every replica."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.protocol.config_codes import AlterOperation, ConfigResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkaraw.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkaraw.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.virtual_nodes import VirtualNodes, on_nodes


async def delete(nodes: VirtualNodes, node: int, offset: int, timeout_ms: int = 5_000) -> DeleteRecordsPartitionResult:
    asked = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    answer = await nodes.ask(node, DeleteRecordsRequest(topics=[asked], timeout_ms=timeout_ms), 2)
    ((result,),) = [topic.partitions for topic in answer.topics]
    return result


async def configure(nodes: VirtualNodes, node: int, kind: ConfigResourceType, name: str, key: str, value: str) -> int:
    config = AlterableConfig(name=key, config_operation=AlterOperation.SET, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    answer = await nodes.ask(node, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    (result,) = answer.responses
    return int(result.error_code)


def starts(nodes: VirtualNodes) -> list[int]:
    return [nodes.replica(node).log.log_start_offset for node in range(3)]


def test_any_node_lets_a_topic_grow_and_its_replicas_are_spread():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        topic = CreatePartitionsTopic(name="t", count=4, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
        (result,) = (await nodes.ask(2, request, 3)).results
        assert result.error_code == 0
        leaders = {nodes.cluster.leader_of("t", number) for number in range(1, 4)}
        assert leaders == {0, 1, 2}
        leader = nodes.leader("t", 3)
        assert {nodes.replica(node, "t", 3).state for node in range(3)} == {leader.state}

    on_nodes(life)


def test_deleted_records_are_gone_on_every_replica_before_the_answer_comes():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        for number in range(10):
            await nodes.produce(0, b"%d" % number)
        result = await delete(nodes, 0, 4)
        assert (result.error_code, result.low_watermark) == (0, 4)
        assert starts(nodes) == [4, 4, 4]

    on_nodes(life)


def test_a_replica_that_gets_no_news_makes_the_deletion_late_and_does_it_later():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        for number in range(10):
            await nodes.produce(0, b"%d" % number)
        nodes.cluster.pause_replication(2)
        before = nodes.now
        result = await delete(nodes, 0, 4, timeout_ms=700)
        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert nodes.now - before == pytest.approx(0.7)
        assert starts(nodes) == [4, 4, 0]
        nodes.cluster.resume_replication(2)
        await asyncio.sleep(1)
        assert starts(nodes) == [4, 4, 4]

    on_nodes(life)


def test_a_node_that_is_down_is_not_waited_for_and_starts_where_the_leader_does():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        for number in range(10):
            await nodes.produce(0, b"%d" % number)
        await nodes.cluster.stop_node(2)
        result = await delete(nodes, 0, 4)
        assert (result.error_code, result.low_watermark) == (0, 4)
        await nodes.cluster.start_node(2)
        await nodes.cluster.wait_until_in_sync()
        await asyncio.sleep(1)
        assert starts(nodes) == [4, 4, 4]

    on_nodes(life)


def test_a_follower_that_begins_within_a_batch_still_has_it_after_a_crash():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        await nodes.cluster.stop_node(2)
        await nodes.produce(0, b"0", b"1", b"2", b"3")
        await nodes.produce(0, b"4")
        await delete(nodes, 0, 2)
        await nodes.cluster.start_node(2)
        await nodes.cluster.wait_until_in_sync()
        await asyncio.sleep(1)
        assert starts(nodes) == [2, 2, 2]
        await nodes.cluster.kill_node(2)
        await nodes.cluster.start_node(2)
        assert nodes.ends()[2] == 5

    on_nodes(life)


def test_only_the_leader_deletes():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        result = await delete(nodes, 1, 0)
        assert (result.error_code, result.low_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    on_nodes(life)


def test_a_leader_that_moves_while_a_deletion_waits_ends_it():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        await nodes.produce(0, b"x")
        nodes.cluster.pause_replication(2)
        waiting = asyncio.ensure_future(delete(nodes, 0, 1))
        await asyncio.sleep(1)
        nodes.cluster.move_leader("t", 0, 1)
        assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    on_nodes(life)


def test_settings_of_topics_and_of_all_brokers_act_on_every_node():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        assert await configure(nodes, 1, ConfigResourceType.TOPIC, "t", "flush.messages", "7") == 0
        assert await configure(nodes, 2, ConfigResourceType.BROKER, "", "message.max.bytes", "5000") == 0
        found = [nodes.replica(node).config for node in range(3)]
        assert {(config.flush_messages, config.max_message_bytes) for config in found} == {(7, 5000)}

    on_nodes(life)


def test_a_setting_of_one_broker_acts_on_that_one_only():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create()
        assert await configure(nodes, 1, ConfigResourceType.BROKER, "1", "message.max.bytes", "5000") == 0
        assert await configure(nodes, 1, ConfigResourceType.BROKER, "2", "message.max.bytes", "5000") == 42
        found = [nodes.replica(node).config.max_message_bytes for node in range(3)]
        assert found == [1_048_588, 5000, 1_048_588]

    on_nodes(life)


def test_fewer_replicas_that_must_be_in_sync_let_writes_go_on():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(min_insync_replicas="3")
        await nodes.cluster.stop_node(2)
        ((answer,),) = [topic.partition_responses for topic in (await nodes.produce(0, b"x")).responses]
        assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        await configure(nodes, 0, ConfigResourceType.TOPIC, "t", "min.insync.replicas", "2")
        ((answer,),) = [topic.partition_responses for topic in (await nodes.produce(0, b"x")).responses]
        assert answer.error_code == 0

    on_nodes(life)
