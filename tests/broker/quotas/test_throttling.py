"""Clients above their quotas, on virtual time: what they get, what they are told, and for how long nobody reads."""

from __future__ import annotations

import pytest

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.quotas.rates import Windows
from kafkaraw.broker.quotas.table import QuotaKey, QuotaTable
from kafkaraw.broker.quotas.throttling import Client, Throttling
from kafkaraw.errors import BrokerError, NetworkError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition
from tests.broker.quotas.test_table import client, entry
from tests.broker.support import FixedClock
from tests.broker.virtual_nodes import VirtualNodes, on_nodes
from tests.client.virtual_cluster import VirtualCluster, on_cluster

N = 10_000
VALUE = b"x" * 1000


def bound(cluster: VirtualCluster, entity: dict[str, str | None], **quotas: float) -> None:
    (outcome,) = cluster.node.state.throttling.table.alter([entry(entity, **quotas)], validate_only=False)
    assert outcome.code == 0, outcome.message


def throttle_time_s(metrics) -> float:
    return sum(part["throttle_time_s"] for part in metrics.values() if "throttle_time_s" in part)  # of the nodes


def node_throttling(clock: FixedClock, entity: dict[str, str | None], **quotas: float) -> Throttling:
    table = QuotaTable(lambda text: None)
    table.alter([entry(entity, **quotas)], validate_only=False)
    return Throttling(table, clock, Windows(11, 1000), Windows(11, 1000))


ADA = Client("User:ada", "app")


def test_a_producer_gets_its_rate_and_a_throttle_time():
    async def play(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        bound(cluster, client("ANONYMOUS", "app"), producer_byte_rate=N)
        sent_bytes = 0
        async with cluster.producer(client_id="app", batch_size=4096, linger_ms=0) as producer:
            while cluster.now < 60:
                (ticket,) = [await producer.send("t", VALUE)]
                await ticket
                sent_bytes += len(VALUE)
            assert sent_bytes / cluster.now == pytest.approx(N, rel=0.1)
            assert throttle_time_s(producer.metrics()) > 40

    on_cluster(play)


def test_another_client_is_not_slowed_down():
    async def play(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        bound(cluster, client("ANONYMOUS", "app"), producer_byte_rate=N)
        async with cluster.producer(client_id="other", linger_ms=0) as producer:
            for _ in range(500):
                await (await producer.send("t", VALUE))
            assert throttle_time_s(producer.metrics()) == 0
        assert cluster.now < 5

    on_cluster(play)


def test_a_throttled_producer_without_acknowledgements_is_not_read_from():
    async def play(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        bound(cluster, client(None), producer_byte_rate=N)
        async with cluster.producer(acks=0, enable_idempotence=False, linger_ms=0, batch_size=1000) as producer:
            for _ in range(200):
                await (await producer.send("t", VALUE))
        log = cluster.node.state.partition(TopicPartition("t", 0))
        assert log.high_watermark <= 110, "ten seconds' worth at once, and then no more"

    on_cluster(play)


def test_a_consumer_gets_its_rate_and_empty_answers_in_between():
    async def play(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.producer(linger_ms=0, batch_size=4096) as producer:
            for _ in range(600):
                await producer.send("t", VALUE)
            await producer.flush()
        bound(cluster, client(client_id="app"), consumer_byte_rate=N)
        began = cluster.now
        got_bytes = 0
        async with cluster.consumer(client_id="app", fetch_max_bytes=5000, max_partition_fetch_bytes=5000) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            while got_bytes < 580_000:
                batches = await consumer.poll(60)
                got_bytes += sum(len(record.value) for batch in batches.values() for record in batch)
            assert got_bytes / (cluster.now - began) == pytest.approx(N, rel=0.1)
            assert throttle_time_s(consumer.metrics()) > 30

    on_cluster(play)


def test_a_fetch_is_no_larger_than_what_may_pass():
    throttling = node_throttling(FixedClock(), client("ada"), consumer_byte_rate=100)
    assert throttling.largest_fetch_bytes(ADA) == 1000
    assert throttling.largest_fetch_bytes(Client("User:bob", "app")) == float("inf")


def test_work_is_bounded_for_a_window_at_a_time():
    clock = FixedClock()
    throttling = node_throttling(clock, client("ada"), request_percentage=10)
    assert throttling.record(QuotaKey.REQUEST, ADA, 50) == 0
    assert throttling.record(QuotaKey.REQUEST, ADA, 70) == 1000
    clock.now_ms += 11_000
    assert throttling.record(QuotaKey.REQUEST, ADA, 50) == 0


def test_users_share_the_quota_of_their_user_and_clients_their_own():
    clock = FixedClock()
    throttling = node_throttling(clock, client("ada"), producer_byte_rate=100)
    assert throttling.record(QuotaKey.PRODUCE, ADA, 600) == 0
    assert throttling.record(QuotaKey.PRODUCE, Client("User:ada", "other"), 600) == 2000
    throttling = node_throttling(clock, client(None, None), producer_byte_rate=100)
    assert throttling.record(QuotaKey.PRODUCE, ADA, 600) == 0
    assert throttling.record(QuotaKey.PRODUCE, Client("User:ada", "other"), 600) == 0


def test_counts_of_idle_clients_are_dropped():
    clock = FixedClock()
    throttling = node_throttling(clock, client(client_id=None), producer_byte_rate=100)
    for number in range(50):
        throttling.record(QuotaKey.PRODUCE, Client("User:ada", f"app-{number}"), 1)
    clock.now_ms += 3_600_001
    throttling.record(QuotaKey.PRODUCE, ADA, 1)
    assert len(throttling._rates) == 1


def test_changes_of_topics_above_the_quota_are_refused_with_the_time_to_wait():
    clock = FixedClock()
    throttling = node_throttling(clock, client("ada"), controller_mutation_rate=1)
    quota = throttling.mutations(ADA, strict=True)
    quota.record(15)
    assert quota.throttle_ms == 0
    quota = throttling.mutations(ADA, strict=True)
    with pytest.raises(ApiError) as refused:
        quota.record(1)
    assert refused.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert quota.throttle_ms == 4000
    clock.now_ms += 4000
    throttling.mutations(ADA, strict=True).record(1)


def test_older_clients_are_throttled_instead_of_refused():
    throttling = node_throttling(FixedClock(), client("ada"), controller_mutation_rate=1)
    quota = throttling.mutations(ADA, strict=False)
    quota.record(15)
    assert quota.throttle_ms == 4000


def test_our_admin_waits_until_it_may_create_more():
    async def play(cluster: VirtualCluster) -> None:
        bound(cluster, client("ANONYMOUS"), controller_mutation_rate=1)
        await cluster.create("large", 20)
        began = cluster.now
        await cluster.create("next", 1)
        assert cluster.now - began == pytest.approx(9, abs=1.5)
        with pytest.raises(BrokerError, match="'next'"):
            await cluster.create("next", 1)

    on_cluster(play)


def test_an_address_gets_so_many_new_connections_a_second():
    clock = FixedClock()
    throttling = node_throttling(clock, client(ip=None), connection_creation_rate=2)
    delays = [throttling.connection_delay_ms("10.0.0.1") for _ in range(22)]
    assert delays[:20] == [0] * 20
    assert all(0 < delay <= 1000 for delay in delays[20:])
    assert throttling.connection_delay_ms("10.0.0.2") == 0
    clock.now_ms += 11_000
    assert throttling.connection_delay_ms("10.0.0.1") == 0


def test_a_connection_above_the_quota_is_closed_late():
    async def play(cluster: VirtualCluster) -> None:
        bound(cluster, client(ip="127.0.0.1"), connection_creation_rate=1)
        began = cluster.now
        with pytest.raises(NetworkError):
            for _ in range(12):
                began = cluster.now
                async with cluster.admin() as admin:
                    await admin.list_topics()
        assert 0.3 < cluster.now - began < 1.1
        assert cluster.node.connections_count == 0

    on_cluster(play)


def test_nodes_of_a_cluster_share_quotas_and_count_each_for_themselves():
    async def play(nodes: VirtualNodes) -> None:
        first, second = (nodes.cluster.nodes[number].state.throttling for number in (0, 1))
        first.table.alter([entry(client("ada"), producer_byte_rate=100)], validate_only=False)
        assert first.record(QuotaKey.PRODUCE, ADA, 1100) > 0
        assert second.record(QuotaKey.PRODUCE, ADA, 900) == 0
        assert second.record(QuotaKey.PRODUCE, ADA, 200) > 0

    on_nodes(play)
