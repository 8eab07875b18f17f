"""ListOffsets answers that lack partitions, or have some twice: lookups of ends, in virtual time."""

from __future__ import annotations

import pytest

from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.errors import KafkaTimeoutError
from kafkaraw.protocol.messages.list_offsets import ListOffsetsRequest
from tests.client.scripted_cluster import ScriptedCluster
from tests.client.test_consumer import P0, P1, simulate


def partitions_asked(cluster: ScriptedCluster) -> list[list[int]]:
    requests = [asked.message for asked in cluster.asked(ListOffsetsRequest)]
    return [[each.partition_index for topic in request.topics for each in topic.partitions] for request in requests]


def test_partition_that_an_answer_leaves_out_is_looked_up_again() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a")
        cluster.append("t", 1, b"b", b"c")
        before = len(partitions_asked(cluster))
        cluster.left_out_offsets[P1] = 2
        assert await consumer.end_offsets([P0, P1]) == {P0: 1, P1: 2}
        assert partitions_asked(cluster)[before:] == [[0, 1], [1], [1]]

    simulate(play, leaders=(1, 1))


def test_partition_that_all_answers_leave_out_is_named_after_the_timeout() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.left_out_offsets[P1] = 1_000_000
        with pytest.raises(KafkaTimeoutError, match=r"offsets of t-1: not known within 5 s; .* left the partition out"):
            await consumer.end_offsets([P0, P1], timeout=5)

    simulate(play, leaders=(1, 1))


def test_partition_that_an_answer_repeats_is_looked_up_once() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a")
        before = len(partitions_asked(cluster))
        assert await consumer.end_offsets([P0, P0]) == {P0: 1}
        assert partitions_asked(cluster)[before:] == [[0]]

    simulate(play, leaders=(1, 1))
