"""`Monitor` against the embedded broker on virtual time: rates, lags and ages are exact, and failures are named."""

from __future__ import annotations

import asyncio
import random

import pytest

from kafkaraw import AsyncAdmin, AsyncProducer, GroupType, KafkaError, NetworkError, NewTopic, TopicPartition
from kafkaraw.client.runtime import Runtime
from kafkaraw.errors import KafkaTimeoutError
from kafkaraw.monitoring import Monitor, Part, Severity, problems_of
from kafkaraw.monitoring.collector import DESCRIBED_MAX, DESCRIPTION_AGE_S
from kafkaraw.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkaraw.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkaraw.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkaraw.protocol.messages.list_groups import ListGroupsRequest
from kafkaraw.protocol.messages.list_offsets import ListOffsetsRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest
from kafkaraw.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.broker.virtual_nodes import VirtualNodes, on_nodes
from tests.client.admin.test_groups import member
from tests.client.virtual_cluster import VirtualCluster, on_cluster

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
AT_ONCE = {"group_initial_rebalance_delay_ms": 0}


async def send(producer: AsyncProducer, count: int, partition: int = 0, size: int = 100, topic: str = "t") -> None:
    for _ in range(count):
        await producer.send(topic, b"x" * size, partition=partition)
    await producer.flush()


def monitor_of(cluster: VirtualCluster, admin: AsyncAdmin, **more: object) -> Monitor:
    return Monitor(admin, clock=cluster.simulation.clock, **more)  # type: ignore[arg-type]


def test_rates_are_those_between_two_snapshots() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        async with cluster.admin() as admin, cluster.producer() as producer:
            monitor = monitor_of(cluster, admin)
            await send(producer, 10)
            first = await monitor.refresh()
            assert first.topic("t") is not None and first.topics[-1].records_per_s is None, "one snapshot has no rates"
            await asyncio.sleep(10)
            await send(producer, 200, partition=1)
            status = await monitor.refresh()
            topic = status.topic("t")
            assert topic is not None
            assert (topic.records, topic.partitions, topic.under_replicated) == (210, 2, 0)
            assert topic.records_per_s == pytest.approx(20, rel=0.05)
            assert topic.bytes_per_s is not None and 2000 < topic.bytes_per_s < 2800
            zero, one = status.partitions("t") or ()
            assert (zero.records_per_s, zero.end_offset) == (0, 10)
            assert one.records_per_s == pytest.approx(20, rel=0.05)
            (broker,) = status.brokers
            assert (broker.is_controller, broker.leaders, broker.out_of_sync) == (True, 2, 0)
            assert broker.size_bytes is not None and broker.size_bytes > 21_000
            assert status.snapshot.missing == ()

    on_cluster(life)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_has_its_lag_its_members_and_its_speed(protocol: str) -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        async with (
            cluster.admin() as admin,
            cluster.producer() as producer,
            member(cluster, "g", protocol, client_id="reader") as consumer,
        ):
            monitor = monitor_of(cluster, admin)
            await send(producer, 40)
            consumer.seek(P0, 10)
            await consumer.commit({P0: 10, P1: 0})
            await monitor.refresh()
            await asyncio.sleep(4)
            await consumer.commit({P0: 30, P1: 0})
            status = await monitor.refresh()
            group = status.group("g")
            assert group is not None
            assert (group.group_type, group.members, group.lag) == (GroupType(protocol), 1, 10)
            assert group.consumed_per_s == pytest.approx(5, rel=0.05)
            assert group.lag_per_s == pytest.approx(-5, rel=0.05)
            assert group.gone_in_s == pytest.approx(2, rel=0.05)
            (only,) = status.members("g") or ()
            assert (only.member.client_id, only.member.assignment, only.lag) == ("reader", (P0, P1), 10)
            rows = status.group_partitions("g") or ()
            assert [row.member.client_id for row in rows if row.member] == ["reader", "reader"]

    on_cluster(life, **AT_ONCE)


def test_a_share_group_has_the_lag_that_its_coordinator_tells() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        async with cluster.admin() as admin, cluster.producer() as producer:
            monitor = monitor_of(cluster, admin)
            await send(producer, 10)
            await admin.alter_share_group_offsets("s", {P0: 4})
            status = await monitor.refresh()
            group = status.group("s")
            assert group is not None
            assert (group.group_type, group.lag, group.members) == (GroupType.SHARE, 6, 0)

    on_cluster(life)


def test_the_first_snapshot_knows_the_age_of_a_lag_by_lookups() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin, cluster.producer(linger_ms=0) as producer:
            for _ in range(600):
                await send(producer, 1)
                await asyncio.sleep(10)
            await admin.alter_group_offsets("late", {P0: 300})
            await admin.alter_group_offsets("later", {P0: 0})
            await admin.alter_group_offsets("done", {P0: 600})
            status = await monitor_of(cluster, admin).refresh(lookup_rounds=12)
            ages = {group.group_id: group.time_lag for group in status.groups}
            assert ages["done"] == (0, False)
            assert ages["later"] is not None and ages["later"].seconds == pytest.approx(6000, rel=0.02)
            assert ages["late"] is not None and ages["late"].seconds == pytest.approx(3000, rel=0.1)
            assert not ages["late"].is_at_least

    on_cluster(life)


def test_the_age_of_a_lag_is_observed_from_then_on() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin, cluster.producer(linger_ms=0) as producer:
            await admin.alter_group_offsets("g", {P0: 0})
            monitor = monitor_of(cluster, admin)
            await monitor.refresh()
            asked = len(cluster.requests())
            for _ in range(30):
                await send(producer, 5)
                await asyncio.sleep(2)
                status = await monitor.refresh()
            group = status.group("g")
            assert group is not None and group.time_lag is not None
            assert group.time_lag.seconds == pytest.approx(60, abs=3)
            by_time = [
                partition.timestamp
                for request in cluster.requests()[asked:]
                if isinstance(request, ListOffsetsRequest)
                for topic in request.topics
                for partition in topic.partitions
                if partition.timestamp >= 0
            ]
            assert by_time == []

    on_cluster(life)


def test_parts_that_are_not_wanted_are_not_asked_for() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin:
            await admin.alter_group_offsets("g", {P0: 0})
            monitor = monitor_of(cluster, admin)
            asked = len(cluster.requests())
            status = await monitor.refresh(())
            kinds = {type(request) for request in cluster.requests()[asked:]}
            assert kinds.isdisjoint({DescribeLogDirsRequest, ListGroupsRequest, OffsetFetchRequest})
            assert (status.groups, status.topics[-1].size_bytes, status.topics[-1].groups) == ((), None, None)
            status = await monitor.refresh({Part.GROUPS})
            assert [group.group_id for group in status.groups] == ["g"]
            status = await monitor.refresh(())
            assert [group.group_id for group in status.groups] == ["g"], "the last ones stay"

    on_cluster(life)


def test_patterns_choose_topics_and_groups() -> None:
    async def life(cluster: VirtualCluster) -> None:
        for name in ("orders", "orders.eu", "flights"):
            await cluster.create(name)
        async with cluster.admin() as admin:
            for name in ("billing", "audit"):
                await admin.alter_group_offsets(name, {TopicPartition("orders", 0): 0})
            status = await monitor_of(cluster, admin, topics=["orders*"], groups=["b*", "none"]).refresh()
            assert [topic.name for topic in status.topics] == ["orders", "orders.eu"]
            assert [group.group_id for group in status.groups] == ["billing"]

    on_cluster(life)


def test_a_topic_that_is_deleted_or_created_again_is_no_failure() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        await cluster.create("stays")
        async with cluster.admin() as admin, cluster.producer() as producer:
            monitor = monitor_of(cluster, admin)
            await send(producer, 50)
            await admin.alter_group_offsets("g", {P0: 10})
            await monitor.refresh()
            await admin.delete_topics(["t"])
            await asyncio.sleep(5)
            status = await monitor.refresh()
            assert status.topic("t") is None and status.partitions("t") is None
            group = status.group("g")
            assert group is None or group.lag is None
            await admin.create_topics([NewTopic("t", 2)])
            await asyncio.sleep(5)
            status = await monitor.refresh()
            topic = status.topic("t")
            assert topic is not None and (topic.records, topic.records_per_s) == (0, None)
            assert status.snapshot.missing == ()

    on_cluster(life)


def test_members_are_described_again_after_half_a_minute_or_when_they_are_looked_at() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)

        def described() -> int:
            kinds = (DescribeGroupsRequest, ConsumerGroupDescribeRequest)
            return sum(isinstance(request, kinds) for request in cluster.requests())

        async with cluster.admin() as admin, member(cluster, "g", "consumer") as consumer:
            monitor = monitor_of(cluster, admin)
            await monitor.refresh()
            once = described()
            assert once == 1
            await consumer.poll(2)
            await monitor.refresh()
            assert described() == once
            await monitor.refresh(focus=["g"])
            assert described() == once + 1
            for _ in range(int(DESCRIPTION_AGE_S)):
                await consumer.poll(1)
            await monitor.refresh()
            assert described() == once + 2
            assert DESCRIBED_MAX >= 1

    on_cluster(life, **AT_ONCE)


def test_a_cluster_that_is_away_is_an_error_and_comes_back_with_rates() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin, cluster.producer() as producer:
            monitor = monitor_of(cluster, admin)
            await send(producer, 10)
            await monitor.refresh()
            await cluster.kill()
            began = cluster.now
            with pytest.raises(KafkaError):
                await monitor.refresh(timeout_s=5)
            assert cluster.now - began < 6
            assert monitor.status is not None and monitor.status.topic("t") is not None, "the last status stays"
            await cluster.restart()
            await send(producer, 10)
            status = await monitor.refresh()
            topic = status.topic("t")
            assert topic is not None and topic.records == 20
            assert topic.records_per_s is not None and topic.records_per_s > 0

    on_cluster(life)


def test_a_cluster_that_was_never_there_is_an_error_within_the_time() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.kill()
        async with cluster.admin() as admin:
            began = cluster.now
            with pytest.raises((NetworkError, KafkaTimeoutError)):
                await monitor_of(cluster, admin).refresh(timeout_s=3)
            assert cluster.now - began < 4

    on_cluster(life)


def test_a_broker_that_dies_is_away_its_partitions_are_named_and_the_others_go_on() -> None:
    async def life(nodes: VirtualNodes) -> None:
        cluster = nodes.cluster
        nodes.create("t", partitions=3, replicas=3)
        nodes.create("alone", partitions=3, replicas=1)
        runtime = Runtime(nodes.simulation.network, nodes.simulation.clock, random.Random(1))
        async with AsyncAdmin(bootstrap_servers=cluster.bootstrap_servers, runtime=runtime) as admin:
            monitor = Monitor(admin, clock=nodes.simulation.clock)
            status = await monitor.refresh()
            assert [broker.is_online for broker in status.brokers] == [True] * 3
            assert problems_of(status) == ()
            await cluster.kill_node(2)
            await asyncio.sleep(30)
            began = nodes.now
            status = await monitor.refresh()
            assert nodes.now - began < 12
            assert [broker.is_online for broker in status.brokers] == [True, True, False]
            topic, alone = status.topic("t"), status.topic("alone")
            assert topic is not None and (topic.under_replicated, topic.offline) == (3, 0)
            assert alone is not None and alone.offline == 1
            assert topic.records == 0, "its partitions have other leaders"
            errors = [each.text for each in problems_of(status) if each.severity is Severity.ERROR]
            assert len(errors) == 2 and errors[0].startswith("Broker 2 is away: ")
            assert "without a leader: alone-" in errors[1]
            await cluster.start_node(2)
            await cluster.wait_until_in_sync()
            status = await monitor.refresh()
            assert [each.text for each in problems_of(status)] == []

    on_nodes(life)


def test_a_broker_that_does_not_answer_costs_its_own_numbers_only() -> None:
    async def life(nodes: VirtualNodes) -> None:
        cluster = nodes.cluster
        nodes.create("alone", partitions=3, replicas=1)
        runtime = Runtime(nodes.simulation.network, nodes.simulation.clock, random.Random(1))
        servers = cluster.bootstrap_servers
        async with AsyncAdmin(bootstrap_servers=servers, runtime=runtime, request_timeout_ms=3000) as admin:
            monitor = Monitor(admin, clock=nodes.simulation.clock)
            await monitor.refresh()
            host, _, port = cluster.address_of(2).rpartition(":")
            nodes.simulation.network.silence(host, int(port), True)
            began = nodes.now
            status = await monitor.refresh({Part.SIZES}, timeout_s=20)
            assert nodes.now - began <= 21
            known = [row.end_offset is not None for row in status.partitions("alone") or ()]
            assert known.count(True) >= 2
            assert any(each.what.startswith("log directories of broker 2") for each in status.snapshot.missing)
            began = nodes.now
            await monitor.refresh({Part.SIZES}, timeout_s=20)
            assert nodes.now - began < 6, "what failed is not asked for again at once"

    on_nodes(life)


def test_a_snapshot_reads_the_metadata_of_topics_once() -> None:
    async def life(cluster: VirtualCluster) -> None:
        for number in range(3):
            await cluster.create(f"t{number}", 2)
        async with cluster.admin() as admin:
            monitor = monitor_of(cluster, admin)
            await monitor.refresh()
            await admin.alter_group_offsets("g", {TopicPartition("t0", 0): 0})
            asked = len(cluster.requests())
            await monitor.refresh()
            metadata = [each for each in cluster.requests()[asked:] if isinstance(each, MetadataRequest)]
            names = [topic.name for each in metadata for topic in each.topics or ()]
            assert names == ["t0", "t1", "t2"], "besides the list of topics, which is made now and then"

    on_cluster(life)


@pytest.mark.parametrize("release", ["2.4", "2.8", "3.0", "3.9"])
def test_old_brokers_are_watched_as_far_as_they_tell(release: str) -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        async with (
            cluster.admin() as admin,
            cluster.producer() as producer,
            member(cluster, "g", "classic") as consumer,
        ):
            monitor = monitor_of(cluster, admin)
            await send(producer, 10)
            await consumer.commit({P0: 4})
            await monitor.refresh()
            await asyncio.sleep(2)
            status = await monitor.refresh()
            topic, group = status.topic("t"), status.group("g")
            assert topic is not None and (topic.records, topic.records_per_s) == (10, 0)
            assert group is not None and (group.lag, group.members) == (6, 1)
            assert status.brokers[0].size_bytes is not None
            assert status.snapshot.missing == ()

    on_cluster(life, max_versions=release, **AT_ONCE)
