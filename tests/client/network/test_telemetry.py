"""Clients that push their metrics (KIP-714) to the broker, on virtual time: what is asked when, and what arrives."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kafkaraw.broker.telemetry.received import ClientMetric
from kafkaraw.client.admin import ConfigResource
from kafkaraw.client.metrics.client_metrics import Metrics, MetricsSource
from kafkaraw.core.telemetry import otlp
from kafkaraw.errors import KafkaTimeoutError, UnsupportedVersionError, UsageError
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kafkaraw.protocol.messages.push_telemetry import PushTelemetryRequest
from kafkaraw.records.compression import CODECS
from tests.client.virtual_cluster import VirtualCluster, on_cluster

PRODUCER = "org.apache.kafka.producer."
CONSUMER = "org.apache.kafka.consumer."
REQUIRED_OF_PRODUCERS = {
    "connection.creation.rate",
    "connection.creation.total",
    "node.request.latency.avg",
    "node.request.latency.max",
    "produce.throttle.time.avg",
    "produce.throttle.time.max",
    "record.queue.time.avg",
    "record.queue.time.max",
}
REQUIRED_OF_CONSUMERS = {
    "connection.creation.rate",
    "connection.creation.total",
    "node.request.latency.avg",
    "node.request.latency.max",
    "poll.idle.ratio.avg",
    "coordinator.commit.latency.avg",
    "coordinator.commit.latency.max",
    "coordinator.assigned.partitions",
    "coordinator.rebalance.latency.avg",
    "coordinator.rebalance.latency.max",
    "coordinator.rebalance.latency.total",
    "fetch.manager.fetch.latency.avg",
    "fetch.manager.fetch.latency.max",
}


async def request_metrics(
    cluster: VirtualCluster, *, metrics: str = "*", match: str = "", interval_ms: int = 1000
) -> None:
    """Subscribe to the metrics of all clients that `match`."""
    configs = {"metrics": metrics, "interval.ms": str(interval_ms), **({"match": match} if match else {})}
    async with cluster.admin() as admin:
        await admin.alter_configs({ConfigResource.client_metrics("s"): configs})


def received(cluster: VirtualCluster) -> dict[str, ClientMetric]:
    """What the broker shows, by name; the last of several series."""
    found = cluster.node.state.controller.received_metrics.all(cluster.simulation.clock.time_ms())
    return {metric.name: metric for metric in found}


def telemetry_requests(cluster: VirtualCluster) -> list[GetTelemetrySubscriptionsRequest | PushTelemetryRequest]:
    kinds = GetTelemetrySubscriptionsRequest | PushTelemetryRequest
    return [request for request in cluster.requests() if isinstance(request, kinds)]


def test_a_producer_pushes_the_required_metrics_and_its_counters_as_changes():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        await request_metrics(cluster)
        async with cluster.producer(transactional_id="tx") as producer:
            await producer.init_transactions()
            for _ in range(3):
                async with producer.transaction():
                    await producer.send("t", b"x")
                await asyncio.sleep(2)
            found = received(cluster)
            assert {PRODUCER + name for name in REQUIRED_OF_PRODUCERS} - found.keys() == set()
            sent = found[PRODUCER + "record.send.total"]
            assert (sent.value, sent.is_counter, sent.attributes) == (3, True, {"transactional_id": "tx"})
            instance_id = await producer.client_instance_id()
            assert sent.client["client_instance_id"] == str(instance_id)
            latency = found[PRODUCER + "node.request.latency.max"]
            assert latency.attributes["node_id"] == "node-0" and 0 < latency.value < 100  # milliseconds
        first, *pushes = [each for each in telemetry_requests(cluster) if isinstance(each, PushTelemetryRequest)]
        assert {first.compression_type, *(push.compression_type for push in pushes)} == {4}
        assert [push.terminating for push in pushes][-1:] == [True]
        points = otlp.read_metrics(_plain(first))
        assert all(point.is_delta == point.is_counter for point in points)

    on_cluster(test)


def _plain(push: PushTelemetryRequest) -> bytes:
    return bytes(CODECS[push.compression_type].decompress(push.metrics, 1 << 20))


def test_a_consumer_pushes_the_required_metrics_with_its_group_and_member():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t.x", 2)
        await request_metrics(cluster, metrics=CONSUMER)
        async with cluster.producer() as producer:
            await producer.send("t.x", b"x", partition=0)
        group = {"group_id": "g", "group_instance_id": "i", "client_rack": "r"}
        async with cluster.consumer(**group) as consumer:
            consumer.subscribe(["t.x"])
            for _ in range(10):
                await consumer.poll(1)
            await consumer.commit()
            await consumer.poll(3)
            found = received(cluster)
            member_id = consumer.group_metadata().member_id
        assert {CONSUMER + name for name in REQUIRED_OF_CONSUMERS} - found.keys() == set()
        lag = found[CONSUMER + "fetch.manager.records.lag"]
        labels = {"group_id": "g", "group_instance_id": "i", "client_rack": "r", "group_member_id": member_id}
        assert {**lag.attributes, "partition": ""} == {**labels, "topic": "t.x", "partition": ""}
        assert found[CONSUMER + "coordinator.assigned.partitions"].value == 2
        assert (
            0.9 < found[CONSUMER + "poll.idle.ratio.avg"].value <= 1.001
        )  # of a second, by two clocks of milliseconds

    on_cluster(test)


def test_an_admin_client_pushes_what_it_counts_of_brokers():
    async def test(cluster: VirtualCluster) -> None:
        await request_metrics(cluster, metrics="org.apache.kafka.admin.")
        async with cluster.admin() as admin:
            await admin.list_topics()
            await asyncio.sleep(5)
            found = received(cluster)
        assert found["org.apache.kafka.admin.client.connection.creation.total"].value == 1
        assert all(name.startswith("org.apache.kafka.admin.client.") for name in found)

    on_cluster(test)


def test_one_request_per_client_is_sent_to_brokers_that_offer_the_api_and_none_to_others(
    caplog: pytest.LogCaptureFixture,
):
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        caplog.set_level(logging.DEBUG, "kafkaraw.client")
        async with cluster.producer() as producer:
            await (await producer.send("t", b"x"))
            with pytest.raises(UnsupportedVersionError, match=r"127\.0\.0\.1:9092 takes no metrics of clients"):
                await producer.client_instance_id()
            await asyncio.sleep(1000)
        assert telemetry_requests(cluster) == []
        assert "telemetry" not in caplog.text and "metrics" not in caplog.text
        await request_metrics(cluster, match="client_id=other")
        for enabled in (True, False):
            async with cluster.producer(enable_metrics_push=enabled) as producer:
                await asyncio.sleep(10)
                assert len(telemetry_requests(cluster)) == (0 if enabled else 1)  # not before it connects
                await (await producer.send("t", b"x"))
                await asyncio.sleep(100)
        assert telemetry_requests(cluster) == [GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID)]

    on_cluster(test)


def test_client_instance_id_connects_waits_and_stays_the_same():
    async def test(cluster: VirtualCluster) -> None:
        await request_metrics(cluster, match="client_id=other")
        async with cluster.consumer() as consumer, cluster.admin() as admin:
            instance_id = await consumer.client_instance_id()
            assert instance_id != ZERO_UUID and instance_id == await consumer.client_instance_id()
            assert await admin.client_instance_id() not in (ZERO_UUID, instance_id)
        async with cluster.consumer(enable_metrics_push=False) as consumer:
            with pytest.raises(UsageError, match="enable_metrics_push=True"):
                await consumer.client_instance_id()
        cluster.silence()
        async with cluster.consumer() as consumer:
            with pytest.raises(KafkaTimeoutError):
                await consumer.client_instance_id(2)
            assert cluster.now > 2
            cluster.silence(False)

    on_cluster(test)


def test_a_changed_subscription_is_followed_and_a_lost_broker_is_asked_again():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        await request_metrics(cluster, interval_ms=60_000)
        async with cluster.producer() as producer:
            await (await producer.send("t", b"x"))
            instance_id = await producer.client_instance_id()
            await request_metrics(cluster, interval_ms=1000)
            await asyncio.sleep(95)  # its first push is answered UNKNOWN_SUBSCRIPTION_ID
            pushes = len(telemetry_requests(cluster))
            assert pushes > 3
            cluster.cut()
            await asyncio.sleep(400)
            assert len(telemetry_requests(cluster)) > pushes + 50
            assert await producer.client_instance_id() == instance_id

    on_cluster(test)


def test_close_waits_a_second_at_most_for_the_last_push():
    async def test(cluster: VirtualCluster) -> None:
        await request_metrics(cluster)
        producer = cluster.producer()
        await producer.client_instance_id()
        cluster.silence()
        began = cluster.now
        await producer.close()
        assert 1 <= cluster.now - began <= 2
        cluster.silence(False)

    on_cluster(test)


def test_without_protobuf_nothing_is_pushed_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def test(cluster: VirtualCluster) -> None:
        await request_metrics(cluster)
        async with cluster.producer() as producer:
            await producer.client_instance_id()
            monkeypatch.setattr(otlp, "is_installed", lambda: False)
            caplog.set_level(logging.INFO, "kafkaraw.client")
            await asyncio.sleep(60)
        assert [type(each) for each in telemetry_requests(cluster)] == [GetTelemetrySubscriptionsRequest]
        assert [record.levelname for record in caplog.records if "kafkaraw[metrics]" in record.message] == ["INFO"]

    on_cluster(test)


def test_metrics_that_cannot_be_read_end_the_pushes_and_nothing_else(caplog: pytest.LogCaptureFixture):
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        await request_metrics(cluster)
        producer = cluster.producer()
        producer._core._engine.source = MetricsSource("producer", _fail, dict)
        async with producer:
            await (await producer.send("t", b"x"))
            await asyncio.sleep(60)
            await (await producer.send("t", b"x"))
        assert [type(each) for each in telemetry_requests(cluster)] == [GetTelemetrySubscriptionsRequest]
        assert [record.levelname for record in caplog.records if "tries no more" in record.message] == ["WARNING"]

    on_cluster(test)


def _fail() -> Metrics:
    raise ZeroDivisionError("a fault in the counters")
