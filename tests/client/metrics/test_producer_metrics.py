"""What a producer counts about records, batches and requests, as a dictionary and for Prometheus."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.admin import QuotaEntity
from kafkaraw.client.metrics.producer_metrics import MEANINGS
from kafkaraw.errors import BufferFullError, DeliveryError, KafkaTimeoutError
from tests.client.virtual_cluster import VirtualCluster, on_cluster


def counted(producer) -> dict[str, float]:
    return producer.metrics()["producer"]


def test_records_batches_and_requests_are_counted():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.producer(linger_ms=40, batch_size=4000) as producer:
            for _ in range(10):
                await producer.send("t", bytes(100))
            await asyncio.sleep(0.03)
            await producer.flush()
            values = counted(producer)
        assert values.keys() == MEANINGS.keys()
        assert (values["record_send_total"], values["batch_total"], values["request_total"]) == (10, 1, 1)
        assert values["records_per_batch_avg"] == values["records_per_request_avg"] == 10
        assert 1000 < values["batch_size_avg"] == values["batch_size_max"] < 1300
        assert values["batch_fill_avg"] == values["batch_size_avg"] / 4000
        assert values["record_size_avg"] == values["batch_size_avg"] / 10
        assert 0.03 <= values["record_queue_time_avg_s"] == values["record_queue_time_max_s"] < 0.05
        assert 0 < values["request_latency_avg_s"] == values["request_latency_max_s"] < 0.1
        assert values["compression_rate_avg"] == 1 and values["byte_total"] == values["batch_size_avg"]
        assert values["record_retry_total"] == values["record_error_total"] == values["requests_in_flight"] == 0
        assert values["buffer_available_bytes"] == values["buffer_total_bytes"] == 33_554_432

    on_cluster(test)


def test_compression_is_a_share_of_the_bytes():
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer(compression_type="zstd") as producer:
            await (await producer.send("t", bytes(10_000)))
            assert 0 < counted(producer)["compression_rate_avg"] < 0.1

    on_cluster(test)


def test_what_is_sent_again_is_counted_apart():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.producer(request_timeout_ms=500) as producer:
            await (await producer.send("t", b"first"))
            cluster.silence()
            ticket = await producer.send("t", b"second")
            await asyncio.sleep(0.2)
            assert counted(producer)["requests_in_flight"] == 1
            await asyncio.sleep(0.4)
            cluster.silence(False)
            await ticket
            values = counted(producer)
        assert (values["record_send_total"], values["batch_total"]) == (2, 2)
        assert values["record_retry_total"] >= 1 and values["requests_in_flight"] == 0
        assert values["request_total"] == 2 + values["record_retry_total"]

    on_cluster(test)


def test_splits_and_failures_are_counted():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t", max_message_bytes="300")
        async with cluster.producer(linger_ms=20) as producer:
            for number in range(20):
                await producer.send("t", bytes(500 if number == 9 else 5))
            with pytest.raises(DeliveryError):
                await producer.flush()
            values = counted(producer)
        assert values["record_error_total"] == 1 and values["batch_split_total"] == 2
        assert values["record_send_total"] == 20, "parts are no new records"

    on_cluster(test)


def test_a_full_buffer_is_counted():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.producer(buffer_memory=1000, max_block_ms=300, batch_size=500) as producer:
            await (await producer.send("t", b"first"))
            cluster.silence()
            for _ in range(2):
                await producer.send("t", bytes(600))
            waiting = asyncio.create_task(producer.send("t", bytes(600)))
            await asyncio.sleep(0.1)
            values = counted(producer)
            assert values["waiting_threads"] == 1 and values["buffer_available_bytes"] == 0
            with pytest.raises(KafkaTimeoutError):
                await waiting
            with pytest.raises(BufferFullError):
                producer.send_nowait("t", b"x")
            values = counted(producer)
            assert values["buffer_exhausted_total"] == 2 and values["waiting_threads"] == 0
            assert 0.29 < values["bufferpool_wait_time_total_s"] < 0.32
            cluster.silence(False)

    on_cluster(test)


def test_prometheus_gets_them_under_names_of_their_own():
    families = pytest.importorskip("prometheus_client.core")

    async def test(cluster: VirtualCluster) -> list[object]:
        from kafkaraw.metrics import ClientCollector

        async with cluster.producer() as producer:
            await (await producer.send("t", b"v"))
            return list(ClientCollector(producer, client="orders").collect())

    collected = {family.name: family for family in on_cluster(test)}
    sent = collected["kafkaraw_producer_record_send"]
    assert isinstance(sent, families.CounterMetricFamily)
    assert [(s.name, s.labels, s.value) for s in sent.samples] == [
        ("kafkaraw_producer_record_send_total", {"client": "orders"}, 1)
    ]
    assert isinstance(collected["kafkaraw_producer_record_queue_time_avg_seconds"], families.GaugeMetricFamily)
    assert "kafkaraw_producer_record_queue_time_seconds" in collected
    assert "kafkaraw_client_requests" in collected and "producer" not in str(
        collected["kafkaraw_client_requests"].samples
    )


def test_the_time_for_which_a_broker_throttles_is_counted():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin:
            await admin.alter_client_quotas({QuotaEntity(client_id="slow"): {"producer_byte_rate": 1000}})
        async with cluster.producer(client_id="slow") as producer:
            await (await producer.send("t", bytes(50_000)))
            values = counted(producer)
        assert 0 < values["produce_throttle_time_max_s"] == values["produce_throttle_time_total_s"] <= 60

    on_cluster(test)
