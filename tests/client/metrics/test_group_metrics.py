"""What a consumer counts about its group, in both protocols."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw import TopicPartition
from kafkaraw.client.metrics.group_metrics import MEANINGS
from kafkaraw.errors import BrokerError
from tests.client.groups.test_group import PARTITIONS, TOPIC, member, settle
from tests.client.virtual_cluster import VirtualCluster, on_cluster


def counted(consumer) -> dict[str, float]:
    return consumer.metrics()["group"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rebalances_and_heartbeats_are_counted(protocol):
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        async with member(cluster, group_protocol=protocol) as first:
            before = counted(first)
            assert before.keys() == MEANINGS.keys()
            assert (before["assigned_partitions"], before["rebalance_total"], before["heartbeat_total"]) == (0, 0, 0)
            assert before["last_rebalance_seconds_ago"] == before["last_heartbeat_seconds_ago"] == -1
            await settle(first)
            await first.poll(20)
            told = counted(first)
            assert (told["assigned_partitions"], told["rebalance_total"]) == (PARTITIONS, 1)
            assert 0 < told["rebalance_latency_avg_s"] == told["rebalance_latency_max_s"] < 10
            assert told["rebalance_latency_total_s"] == told["rebalance_latency_max_s"]
            assert 15 < told["last_rebalance_seconds_ago"] < 25
            assert told["heartbeat_total"] >= 3 and 0 <= told["last_heartbeat_seconds_ago"] < 6
            assert 0 < told["heartbeat_response_time_max_s"] < 1
            async with member(cluster, group_protocol=protocol) as second:
                await settle(first, second)
                told = counted(first)
                assert told["assigned_partitions"] == PARTITIONS / 2 and told["rebalance_total"] >= 2
                assert told["last_rebalance_seconds_ago"] < 10 and told["membership_lost_total"] == 0
            await asyncio.sleep(7)
            assert 6 < counted(first)["last_poll_seconds_ago"] < 10

    on_cluster(test, group_initial_rebalance_delay_ms=0)


def test_a_lost_membership_is_counted():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        async with member(cluster) as consumer:
            await settle(consumer)
            cluster.simulation.loop.advance(100)  # longer than its session
            await settle(consumer)
            await consumer.poll(10)
            assert counted(consumer)["membership_lost_total"] == 1

    on_cluster(test, group_initial_rebalance_delay_ms=0)


def test_commits_are_counted_with_how_long_they_took_and_failed_ones_apart():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC)
        partition = TopicPartition(TOPIC, 0)
        async with cluster.consumer(group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([partition])
            await consumer.commit({})
            assert counted(consumer)["commit_total"] == 0
            await consumer.commit({partition: 1})
            told = counted(consumer)
            assert (told["commit_total"], told["commit_failed_total"]) == (1, 0)
            assert 0 < told["commit_latency_avg_s"] == told["commit_latency_max_s"] == told["commit_latency_total_s"]
            with pytest.raises(BrokerError):
                await consumer.commit({TopicPartition(TOPIC, 9): 3}, timeout=1)
            assert (counted(consumer)["commit_total"], counted(consumer)["commit_failed_total"]) == (1, 1)

    on_cluster(test)


def test_a_consumer_without_a_group_has_no_such_numbers():
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.consumer() as consumer:
            assert consumer.metrics().keys() == {"consumer"}

    on_cluster(test)
