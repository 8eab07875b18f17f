"""What clients count, as a dictionary and for Prometheus."""

from __future__ import annotations

import builtins
import sys
from types import ModuleType

import pytest

from kafkaraw.client.metrics.client_metrics import LATENCY_BOUNDS_S, NodeMetrics
from kafkaraw.errors import UsageError
from kafkaraw.metrics import ClientCollector, register
from kafkaraw.protocol.messages.metadata import MetadataResponse
from tests.client.virtual_cluster import VirtualCluster, on_cluster


def test_a_producer_counts_requests_bytes_latencies_and_connections_by_node():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.producer() as producer:
            assert producer.metrics().keys() == {"producer"}
            await (await producer.send("t", b"x" * 1000))
            counted = producer.metrics()["0"]
        assert counted["requests"] == counted["latency_count"] >= 3  # metadata, producer id, produce
        assert counted["in_flight"] == counted["requests_failed"] == 0
        assert counted["bytes_out"] > 1000 and 0 < counted["bytes_in"] < counted["bytes_out"]
        assert 0 < counted["latency_max_s"] <= counted["latency_sum_s"] < 0.1
        assert list(counted["latency_histogram"].values())[-1] == counted["latency_count"]
        assert (counted["connections"], counted["connections_opened"], counted["connections_closed"]) == (1, 1, 0)
        closed = producer.metrics()["0"]
        assert (closed["connections"], closed["connections_closed"]) == (0, 1)

    on_cluster(test)


def test_requests_without_an_answer_are_counted_as_failed():
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.consumer() as consumer:
            await cluster.create("t")
            consumer.assign(await consumer.partitions_for("t"))
            await consumer.poll(0.1)
            cluster.cut()
            await consumer.poll(1)
            counted = consumer.metrics()["0"]
        assert counted["requests_failed"] == 1 and counted["connections_closed"] >= 1
        assert counted["in_flight"] == 1  # the next fetch

    on_cluster(test)


def test_throttling_and_slow_answers_are_told_apart():
    metrics = NodeMetrics("1")
    metrics.answered(MetadataResponse(brokers=[], topics=[], throttle_time_ms=1500), 0.004)
    metrics.answered(object(), 100.0)
    assert metrics.throttle_time_s == 1.5
    histogram = metrics.cumulative
    assert histogram["0.0025"] == 0 and histogram["0.005"] == 1 == histogram["10"] and histogram["+Inf"] == 2
    assert len(histogram) == len(LATENCY_BOUNDS_S) + 1


class Family:
    """Stands in for the metric families of prometheus-client."""

    def __init__(self, name: str, text: str, *, labels: list[str]):
        assert text.endswith(".")
        self.name, self.labels, self.samples = name, labels, []

    def add_metric(self, labels: list[str], *values: object) -> None:
        assert len(labels) == len(self.labels)
        self.samples.append((labels, *values))


class Client:
    def __init__(self, *nodes: NodeMetrics):
        self.nodes = nodes

    def metrics(self):
        return {node.name: node.as_dict() for node in self.nodes}


def test_prometheus_gets_a_sample_for_each_node(monkeypatch: pytest.MonkeyPatch):
    package, core = ModuleType("prometheus_client"), ModuleType("prometheus_client.core")
    for kind in ("Counter", "Gauge", "Histogram"):
        setattr(core, f"{kind}MetricFamily", Family)
    package.core = core
    monkeypatch.setitem(sys.modules, "prometheus_client", package)
    monkeypatch.setitem(sys.modules, "prometheus_client.core", core)
    collectors: list[ClientCollector] = []
    registry = type("Registry", (), {"register": lambda self, collector: collectors.append(collector)})()
    node = NodeMetrics("1", requests=3, bytes_in=10)
    node.answered(object(), 0.3)
    register(Client(node, NodeMetrics("2")), registry, client="orders")
    families = {family.name: family for family in collectors[0].collect()}
    assert families["kafkaraw_client_requests"].labels == ["client", "node"]
    assert families["kafkaraw_client_requests"].samples == [(["orders", "1"], 3), (["orders", "2"], 0)]
    assert families["kafkaraw_client_throttle_time_seconds"].samples[0] == (["orders", "1"], 0.0)
    (_, buckets, total), _ = families["kafkaraw_client_latency_seconds"].samples
    assert buckets[-1] == ("+Inf", 1) and total == 0.3


def test_prometheus_gets_what_a_consumer_counts_about_fetching_and_its_group(monkeypatch: pytest.MonkeyPatch):
    package, core = ModuleType("prometheus_client"), ModuleType("prometheus_client.core")
    for kind in ("Counter", "Gauge", "Histogram"):
        setattr(core, f"{kind}MetricFamily", Family)
    package.core = core
    monkeypatch.setitem(sys.modules, "prometheus_client", package)
    monkeypatch.setitem(sys.modules, "prometheus_client.core", core)

    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer() as producer:
            await producer.send("a-b", b"1")
            await producer.send("a-b", b"2")
        async with cluster.consumer(group_id="g", max_poll_records=1) as consumer:
            consumer.assign(await consumer.partitions_for("a-b"))
            await consumer.poll()
            families = {family.name: family for family in ClientCollector(consumer, app="x").collect()}
        assert families["kafkaraw_consumer_records_lag"].labels == ["app", "topic", "partition"]
        assert families["kafkaraw_consumer_records_lag"].samples == [(["x", "a-b", "0"], 1)]
        assert families["kafkaraw_consumer_records_lag_max"].samples == [(["x"], 1)]
        assert families["kafkaraw_consumer_fetch"].samples[0][1] >= 1
        assert families["kafkaraw_group_last_rebalance_seconds_ago"].samples == [(["x"], -1)]
        assert families["kafkaraw_group_commit_latency_max_seconds"].samples == [(["x"], 0)]
        assert families["kafkaraw_client_requests"].labels == ["app", "node"]

    on_cluster(test)


def test_without_prometheus_client_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def without(name: str, *rest: object, **more: object) -> object:
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"pip install 'kafkaraw\[metrics\]'"):
        register(Client())
