"""The schedules of the log manager on virtual time: retention, syncs, checkpoints, removal of deleted files."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.broker.log.log_manager import Task
from kafkaraw.broker.log.storage import ROOT
from kafkaraw.broker.turns import Steps
from kafkaraw.core.log.offset_checkpoint import read_offsets
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkaraw.records import TopicPartition
from tests.broker.virtual_nodes import VirtualNodes, on_nodes

KEY = TopicPartition("t", 0)
SMALL = {"internal_segment_bytes": "1000"}  # about 12 batches of one record
CHECK_S = 300


def now_ms(nodes: VirtualNodes) -> int:
    return nodes.simulation.clock.time_ms()


def write(nodes: VirtualNodes, count: int) -> None:
    """Write records with the time of now."""
    for number in range(count):
        nodes.append(b"%d" % number, timestamp_ms=now_ms(nodes))


def files(nodes: VirtualNodes, node: int = 0, suffix: str = ".log") -> list[str]:
    return [name for name in nodes.storages[node].files("t-0") if name.endswith(suffix)]


def starts(nodes: VirtualNodes) -> set[int]:
    return {nodes.replica(node).log.log_start_offset for node in nodes.cluster.nodes}


async def fetched(nodes: VirtualNodes, offset: int) -> ErrorCode:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=-1)
    topic = FetchTopic(topic="t", partitions=[partition])
    request = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, topics=[topic])
    answer = await nodes.ask(0, request, 12)
    return ErrorCode(answer.responses[0].partitions[0].error_code)


async def alter(nodes: VirtualNodes, name: str, value: str) -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    answer = await nodes.ask(0, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    assert [found.error_code for found in answer.responses] == [0]


def test_segments_older_than_retention_ms_are_deleted_at_the_next_check_on_every_replica():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(retention_ms="100000", **SMALL)
        write(nodes, 50)
        await asyncio.sleep(60)
        segments = nodes.leader().log.segments_count
        assert segments > 3
        assert starts(nodes) == {0}
        await asyncio.sleep(CHECK_S)
        assert starts(nodes) == {50}, "the active segment was rolled, and deleted with the others"
        assert {nodes.replica(node).log.segments_count for node in range(3)} == {1}
        assert [await fetched(nodes, offset) for offset in (0, 49, 50)] == [
            ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NONE,
        ]  # fmt: skip

    on_nodes(life)


def test_deleted_files_stay_for_file_delete_delay_ms():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(replicas=1, retention_ms="1000", file_delete_delay_ms="60000", **SMALL)
        write(nodes, 50)
        await asyncio.sleep(31)
        assert len(files(nodes)) == 1
        deleted = files(nodes, suffix=".deleted")
        assert len([name for name in deleted if name.endswith(".log.deleted")]) > 3
        await asyncio.sleep(58)
        assert files(nodes, suffix=".deleted") == deleted
        await asyncio.sleep(3)
        assert files(nodes, suffix=".deleted") == []

    on_nodes(life, nodes=1)


def test_the_log_shrinks_to_retention_bytes_as_far_as_whole_segments_allow():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(retention_bytes="2500", **SMALL)
        write(nodes, 60)
        log = nodes.leader().log
        before = [segment.size_bytes for segment in log.segments]
        await asyncio.sleep(31)
        assert log.size_bytes >= 2500
        assert log.size_bytes - log.segments[0].size_bytes < 2500
        assert len(before) > log.segments_count

    on_nodes(life)


def test_a_changed_retention_time_counts_from_the_next_check_on():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(**SMALL)
        write(nodes, 50)
        await asyncio.sleep(40)
        await alter(nodes, "retention.ms", "10")
        assert starts(nodes) == {0}
        await asyncio.sleep(CHECK_S)
        assert starts(nodes) == {50}

    on_nodes(life)


def test_retention_does_not_pass_the_high_watermark():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(retention_ms="1000", **SMALL)
        write(nodes, 20)
        await asyncio.sleep(1)
        nodes.cluster.pause_replication(2)
        write(nodes, 20)
        await asyncio.sleep(25)
        await asyncio.sleep(0)
        assert nodes.leader().high_watermark == 20
        nodes.leader().delete_old_segments()
        assert nodes.leader().log.log_start_offset <= 20

    on_nodes(life)


def test_a_compacted_topic_is_not_deleted_from_by_age():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(replicas=1, cleanup_policy="compact", retention_ms="10", retention_bytes="10", **SMALL)
        for number in range(30):
            nodes.append(b"%d" % number, key=b"k")
        await asyncio.sleep(31)
        assert starts(nodes) == {0}

    on_nodes(life, nodes=1, log_cleaner_enable="false")


def test_delete_records_moves_the_start_and_the_next_check_deletes_the_segments():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(**SMALL)
        write(nodes, 50)
        await asyncio.sleep(1)
        partition = DeleteRecordsPartition(partition_index=0, offset=33)
        topic = DeleteRecordsTopic(name="t", partitions=[partition])
        answer = await nodes.ask(0, DeleteRecordsRequest(topics=[topic], timeout_ms=5000), 2)
        assert answer.topics[0].partitions[0].low_watermark == 33
        count = len(files(nodes))
        await asyncio.sleep(CHECK_S)
        assert starts(nodes) == {33}
        for node in range(3):
            first, second = nodes.replica(node).log.segments[:2]
            assert first.base_offset <= 33 < second.base_offset
            assert len(files(nodes, node)) < count
        assert await fetched(nodes, 32) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert await fetched(nodes, 33) is ErrorCode.NONE

    on_nodes(life)


def test_checkpoints_are_written_by_their_intervals_and_only_when_they_change():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(replicas=1)
        write(nodes, 3)
        storage = nodes.storages[0]
        files = ("replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint")
        await asyncio.sleep(29)
        assert [storage.read_text(ROOT, file) for file in files] == [None] * 3
        await asyncio.sleep(2)
        assert read_offsets(storage.read_text(ROOT, files[0])) == {KEY: 3}
        assert read_offsets(storage.read_text(ROOT, files[1])) == {KEY: 0}
        assert read_offsets(storage.read_text(ROOT, files[2])) == {}
        write(nodes, 2)
        nodes.leader().log.flush()
        await asyncio.sleep(5)
        assert read_offsets(storage.read_text(ROOT, files[0])) == {KEY: 5}
        assert read_offsets(storage.read_text(ROOT, files[1])) == {KEY: 0}
        await asyncio.sleep(60)
        assert read_offsets(storage.read_text(ROOT, files[1])) == {KEY: 5}
        storage.remove_file(ROOT, files[0])
        await asyncio.sleep(60)
        assert storage.read_text(ROOT, files[0]) is None, "it would say the same"

    on_nodes(life, nodes=1)


def test_flush_ms_syncs_a_log_when_the_flush_scheduler_runs():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(replicas=1, flush_ms="10000")
        write(nodes, 3)
        log = nodes.leader().log
        await asyncio.sleep(31)
        assert log.recovery_point == 3
        write(nodes, 1)
        await asyncio.sleep(8)
        assert log.recovery_point == 3
        await asyncio.sleep(4)
        assert log.recovery_point == 4

    on_nodes(life, nodes=1, log_flush_scheduler_interval_ms=1000)


def test_without_a_flush_scheduler_flush_ms_has_an_effect_once_as_in_kafka():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(replicas=1, flush_ms="10")
        await asyncio.sleep(31)
        write(nodes, 3)
        await asyncio.sleep(3600)
        assert nodes.leader().log.recovery_point == 0

    on_nodes(life, nodes=1, log_retention_ms=-1)


def test_a_task_that_fails_runs_again_and_the_others_go_on(caplog: pytest.LogCaptureFixture):
    async def life(nodes: VirtualNodes) -> None:
        runs: list[float] = []

        def failing() -> Steps[None]:
            runs.append(nodes.now)
            yield True
            raise OSError(5, "Input/output error")

        nodes.cluster.nodes[0].state.logs.add_task(Task("trouble", failing, lambda: 10_000))
        await asyncio.sleep(55)
        assert [round(at) for at in runs] == [30, 40, 50]
        assert "trouble failed and is tried again: [Errno 5] Input/output error" in caplog.text

    on_nodes(life, nodes=1)


def test_nothing_runs_after_the_broker_has_stopped():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(replicas=1, retention_ms="1", **SMALL)
        write(nodes, 50)
        count = len(files(nodes))
        await nodes.cluster.kill_node(0)
        await asyncio.sleep(CHECK_S)
        assert len(files(nodes)) == count

    on_nodes(life, nodes=1)
