"""Which values are pushed: each metric of a client has a row or is not Java's, and how rows make values."""

from __future__ import annotations

import pytest

from kafkaraw.client.metrics import consumer_metrics, group_metrics, producer_metrics
from kafkaraw.client.metrics.client_metrics import Metrics, NodeMetrics
from kafkaraw.client.metrics.pushed import ALL_NODES, NODE_ROWS, OWN_ROWS, PREFIX, PushedValues
from kafkaraw.core.telemetry.otlp import Point, read_metrics, write_metrics
from kafkaraw.core.telemetry.reporter import TelemetrySubscription
from kafkaraw.protocol import Uuid

# They are pushed in another form, or Java's clients have them for each topic only.
NOT_PUSHED = {"batch_fill_avg", "byte_total", "records_per_batch_avg", "record_queue_time_avg_s"} | {
    f"{name}_avg_s" for name in ("request_latency", "fetch_latency", "rebalance_latency", "commit_latency")
}
KINDS = {"producer": "producer", "consumer": "consumer", "group": "consumer"}


def subscription(*prefixes: str, is_delta: bool = True) -> TelemetrySubscription:
    return TelemetrySubscription(Uuid(b"client-instance!"), 1, 1000, 0, is_delta, prefixes or ("*",))


def by_name(points: list[Point]) -> dict[tuple[str, str], Point]:
    return {(point.name.removeprefix(PREFIX), point.attributes.get("node_id", "")): point for point in points}


@pytest.mark.parametrize("module", [producer_metrics, consumer_metrics, group_metrics])
def test_each_metric_that_java_has_is_pushed(module: object):
    rows = OWN_ROWS[module.GROUP]
    used = {row.source for row in rows} | {row.divisor for row in rows if row.divisor}
    not_in_java = {name for name, meaning in module.MEANINGS.items() if "not in Java" in meaning}
    assert module.MEANINGS.keys() - used - not_in_java - NOT_PUSHED == set()
    assert used - module.MEANINGS.keys() == set()
    names = [row.name for rows in (*OWN_ROWS.values(), NODE_ROWS) for row in rows]
    assert len(names) == len(set(names))


def node(**values: float) -> NodeMetrics:
    metrics = NodeMetrics("1")
    for name, value in values.items():
        setattr(metrics, name, value)
    return metrics


def of_nodes(one: NodeMetrics, other: NodeMetrics) -> Metrics:
    return {"1": one.as_dict(), "bootstrap": other.as_dict()}


def test_counters_are_changes_rates_are_per_second_and_averages_are_of_the_interval():
    before = PushedValues.read(of_nodes(node(requests=10, latency_sum_s=9.0), node(requests=1)), 0)
    latencies = [0] * 13 + [4]
    after = of_nodes(
        node(requests=14, latency_sum_s=10.0, latency_counts=latencies, latency_max_s=0.5), node(requests=1)
    )
    values = PushedValues.read(after, 2000)
    found = by_name(values.points("producer", before, subscription()))
    assert {key: found[key].value for key in found if "request" in key[0]} == {
        ("producer.request.rate", ""): 2.0,
        ("producer.request.total", ""): 4,
        ("producer.node.request.latency.avg", "node-1"): 250.0,  # milliseconds
        ("producer.node.request.latency.max", "node-1"): 500.0,
        ("producer.node.request.latency.max", "node--1"): 0.0,  # its average is left out: there was no request
        ("producer.node.request.rate", "node-1"): 2.0,
        ("producer.node.request.total", "node-1"): 4,
        ("producer.node.request.rate", "node--1"): 0.0,
        ("producer.node.request.total", "node--1"): 0,
    }
    totals = by_name(values.points("producer", before, subscription(is_delta=False)))
    assert totals["producer.request.total", ""].value == 15
    assert not totals["producer.request.total", ""].is_delta


def test_only_requested_metrics_are_pushed_and_each_partition_has_its_lag():
    metrics: Metrics = {"consumer": dict.fromkeys(consumer_metrics.MEANINGS, 0.0)}
    metrics["consumer"] |= {"records_lag": {"a-b-0": 3, "a-b-10": 5}, "records_lag_max": -1}
    values = PushedValues.read(metrics, 10)
    lag = f"{PREFIX}consumer.fetch.manager.records.lag"
    points = values.points("consumer", PushedValues(0), subscription(lag))
    assert [(point.name, point.value, point.attributes) for point in points] == [
        (lag, 3, {"topic": "a-b", "partition": "0"}),
        (lag, 5, {"topic": "a-b", "partition": "10"}),
    ]  # and no records.lag.max: it is not known
    assert values.points("consumer", PushedValues(0), subscription("org.apache.kafka.producer.")) == []
    assert values.groups[ALL_NODES]["requests"] == 0


def test_points_are_read_as_they_were_written():
    points = [
        Point("a", "", 2.5, False, False, {"node_id": "node-1"}),
        Point("b", "", 3.0, True, True, {}),
        Point("c", "", 4.0, True, False, {}),
    ]
    resource = {"group_id": "g"}
    read = read_metrics(write_metrics(points, resource, 1, 2))
    assert read == [
        Point(point.name, "", point.value, point.is_counter, point.is_delta, {**resource, **point.attributes})
        for point in points
    ]
