"""Metrics of clients (KIP-714): subscriptions, intervals, pushes, and what the broker shows of them.

`tests/interop/test_telemetry.py` compares the answers with Apache Kafka's, and has other clients push.
"""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest

from kafkaraw.broker.read_only import is_refused
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.telemetry.prometheus import MetricsServer
from kafkaraw.broker.telemetry.received import SERIES_MAX, ClientMetric, ReceivedMetrics
from kafkaraw.core.telemetry import otlp
from kafkaraw.core.telemetry.otlp import InvalidMetricsError, Point, read_metrics
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.apis import API_BY_NAME
from kafkaraw.protocol.config_codes import ConfigResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kafkaraw.protocol.messages.push_telemetry import PushTelemetryRequest
from kafkaraw.records.compression import CODECS
from tests.broker.support import NOW_MS, FixedClock, ask, make_state

ZSTD = 4
SENT = "org.apache.kafka.producer.record.send.total"
DAY_MS = 86_400_000


def subscribe(state: BrokerState, name: str = "s", **configs: str) -> None:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    state.controller.configure(ConfigResourceType.CLIENT_METRICS, name, named)


def get(state: BrokerState, instance_id: Uuid = ZERO_UUID, client_id: str = "test") -> Any:
    return ask(state, GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), client_id=client_id)


def push(state: BrokerState, asked: Any, metrics: bytes = b"", **how: Any) -> ErrorCode:
    request = PushTelemetryRequest(
        client_instance_id=asked.client_instance_id,
        subscription_id=how.get("subscription_id", asked.subscription_id),
        terminating=how.get("terminating", False),
        compression_type=how.get("codec", 0),
        metrics=metrics,
    )
    return ErrorCode(ask(state, request).error_code)


def metrics_data(*metrics: tuple[str, dict[str, Any]]) -> bytes:
    """MetricsData with metrics by name, each as `gauge=value` or `sum=(value, temporality, is_monotonic)`."""
    message = otlp._metrics_data()()
    of_resource = message.resource_metrics.add()
    of_resource.resource.attributes.add(key="client_rack").value.string_value = "rack-1"
    scope = of_resource.scope_metrics.add()
    for name, given in metrics:
        metric = scope.metrics.add(name=name)
        if "gauge" in given:
            metric.gauge.data_points.add(as_double=given["gauge"])
        if "sum" in given:
            value, metric.sum.aggregation_temporality, metric.sum.is_monotonic = given["sum"]
            point = metric.sum.data_points.add(as_int=value)
            point.attributes.add(key="topic").value.string_value = "flights"
    data: bytes = message.SerializeToString()
    return data


def offered(state: BrokerState) -> set[int]:
    answer = ask(state, ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    return {row.api_key for row in answer.api_keys} & {71, 72}


def test_clients_are_told_of_telemetry_only_while_metrics_are_wanted():
    state = make_state()
    assert offered(state) == set()
    subscribe(state, metrics="*")
    assert offered(state) == {71, 72}
    subscribe(state)
    assert offered(state) == set()
    state.controller.shows_client_metrics = True
    assert offered(state) == {71, 72}


def test_without_protobuf_telemetry_is_not_offered(monkeypatch: pytest.MonkeyPatch):
    state = make_state()
    subscribe(state, metrics="*")
    monkeypatch.setattr(otlp, "is_installed", lambda: False)
    assert offered(state) == set()
    assert push(state, get(state), b"not read") == ErrorCode.NONE


def test_without_subscriptions_no_metrics_are_requested():
    answer = get(make_state())
    assert answer.client_instance_id != ZERO_UUID
    assert (answer.error_code, answer.requested_metrics, answer.push_interval_ms) == (0, [], 300_000)
    assert (answer.accepted_compression_types, answer.delta_temporality) == ([4, 3, 1, 2], True)
    assert get(make_state(telemetry_max_bytes=99)).telemetry_max_bytes == 99


def test_subscriptions_that_match_are_joined_with_the_shortest_interval():
    state = make_state()
    subscribe(state, "a", metrics="org.apache.kafka.producer.,org.apache.kafka.consumer.", interval_ms="9000")
    subscribe(state, "b", metrics="org.apache.kafka.producer.", interval_ms="7000", match="client_id=p.*")
    subscribe(state, "c", metrics="*", interval_ms="100", match="client_id=q,client_software_name=unknown")
    of_p, of_q, of_x = (get(state, client_id=name) for name in ("producer", "q", "x"))
    both = ["org.apache.kafka.consumer.", "org.apache.kafka.producer."]
    assert (of_p.requested_metrics, of_p.push_interval_ms) == (both, 7000)
    assert (of_q.requested_metrics, of_q.push_interval_ms) == (["*"], 100)
    assert (of_x.requested_metrics, of_x.push_interval_ms) == (both, 9000)
    assert len({of_p.subscription_id, of_q.subscription_id, of_x.subscription_id}) == 3


def test_a_client_pushes_once_per_interval_and_directly_after_it_has_asked():
    clock = FixedClock()
    state = make_state(clock=clock)
    subscribe(state, metrics="*", interval_ms="1000")
    subscribe(state, "longer than without subscriptions", metrics="*", interval_ms="3600000")
    asked = get(state)
    assert get(state, asked.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(state, asked) == ErrorCode.NONE
    assert push(state, asked) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    clock.now_ms += 1000
    assert push(state, asked) == ErrorCode.NONE
    assert push(state, asked, terminating=True) == ErrorCode.NONE
    assert push(state, asked, terminating=True) == ErrorCode.INVALID_REQUEST


def test_a_changed_subscription_has_another_id_and_is_told_at_once():
    clock = FixedClock()
    state = make_state(clock=clock)
    subscribe(state, metrics="*", interval_ms="1000")
    before = get(state)
    subscribe(state, metrics="*", interval_ms="2000")
    assert push(state, before) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    after = get(state, before.client_instance_id)
    assert (after.push_interval_ms, after.client_instance_id) == (2000, before.client_instance_id)
    assert after.subscription_id != before.subscription_id
    clock.now_ms += 2000
    assert push(state, after) == ErrorCode.NONE


def test_an_instance_is_forgotten_when_its_connection_ends_or_after_three_intervals():
    clock = FixedClock()
    state = make_state(clock=clock)
    asked = get(state)
    state.client_disconnected("127.0.0.1:50000")
    assert get(state, asked.client_instance_id).error_code == 0
    assert get(state, asked.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    clock.now_ms += 3 * 300_000 + 1
    assert push(state, asked, terminating=True) == ErrorCode.NONE
    clock.now_ms += 3 * 300_000 + 1
    assert push(state, asked) == ErrorCode.NONE  # after a last push: a new instance


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"codec": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"codec": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"metrics": b"x" * 101}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"metrics": b"\xff"}, ErrorCode.INVALID_RECORD),
        ({"metrics": b"no zstd", "codec": ZSTD}, ErrorCode.INVALID_RECORD),
        ({"metrics": CODECS[ZSTD].compress(b"x" * 101, None), "codec": ZSTD}, ErrorCode.TELEMETRY_TOO_LARGE),
    ],
    ids=str,
)
def test_a_push_that_cannot_be_taken_is_refused(how: dict[str, Any], code: ErrorCode):
    state = make_state(telemetry_max_bytes=100)
    assert push(state, get(state), **how) == code


@pytest.mark.parametrize("codec", range(5))
def test_pushed_metrics_are_kept_and_changes_are_added_up(codec: int):
    clock = FixedClock()
    state = make_state(clock=clock)
    subscribe(state, metrics="*", interval_ms="100")
    asked = get(state)
    data = metrics_data((SENT, {"sum": (7, 1, True)}), ("org.apache.kafka.gauge", {"gauge": 2.5}))
    for _ in range(2):
        assert push(state, asked, bytes(CODECS[codec].compress(data, None)), codec=codec) == ErrorCode.NONE
        clock.now_ms += 100
    found = {metric.name: metric for metric in state.controller.received_metrics.all(clock.now_ms)}
    assert {name: metric.value for name, metric in found.items()} == {SENT: 14, "org.apache.kafka.gauge": 2.5}
    assert found[SENT].is_counter
    assert found[SENT].attributes == {"client_rack": "rack-1", "topic": "flights"}
    assert found[SENT].client["client_id"] == "test"
    assert found[SENT].client["client_instance_id"] == str(asked.client_instance_id)


def test_histograms_are_a_count_and_a_sum_and_totals_replace_each_other():
    message = otlp._metrics_data()()
    metric = message.resource_metrics.add().scope_metrics.add().metrics.add(name="latency", description="text")
    metric.histogram.data_points.add(count=3, sum=4.5)
    data = message.SerializeToString()
    assert read_metrics(data) == [
        Point("latency.count", "text", 3, True, False, {}),
        Point("latency.sum", "text", 4.5, True, False, {}),
    ]
    received = ReceivedMetrics()
    for _ in range(2):
        received.take({"client_instance_id": "i"}, read_metrics(data), NOW_MS, DAY_MS)
    assert [metric.value for metric in received.all(NOW_MS)] == [3, 4.5]


def test_what_is_no_protobuf_is_an_error_and_unknown_fields_are_skipped():
    with pytest.raises(InvalidMetricsError):
        read_metrics(b"\x0a\xff")
    assert read_metrics(b"") == read_metrics(b"\x78\x01") == []


def test_metrics_are_forgotten_and_the_series_of_a_client_are_limited(caplog: pytest.LogCaptureFixture):
    received = ReceivedMetrics()
    points = [Point(f"m{number}", "", 1, False, False) for number in range(SERIES_MAX + 1)]
    received.take({"client_instance_id": "i", "client_id": "c"}, points, NOW_MS, keep_ms=10)
    assert len(received.all(NOW_MS + 10)) == SERIES_MAX
    assert "1 are dropped" in caplog.text
    assert received.all(NOW_MS + 11) == []


def test_metrics_are_served_for_prometheus():
    client = {"client_instance_id": "i", "client_id": 'a"b'}
    metrics = [
        ClientMetric(SENT, 7, True, {"topic": "flights"}, client, "Sent records.", NOW_MS),
        ClientMetric(SENT, 8, True, {"topic": "planes", "client_id": "own"}, client, "", NOW_MS),
        ClientMetric("a.gauge", 2.5, False, {}, client, "", NOW_MS),
    ]
    server = MetricsServer("127.0.0.1", 0, lambda: metrics)
    try:
        with urllib.request.urlopen(server.url, timeout=10) as answer:
            text = answer.read().decode()
    finally:
        server.close()
    name = SENT.replace(".", "_")
    assert f"# HELP {name} Sent records." in text
    own = 'client_instance_id="i",client_software_name="",client_software_version="",client_source_address=""'
    lines = {line for line in text.splitlines() if not line.startswith("#")}
    values = {line.rpartition(" ")[2] for line in lines}
    assert values == {"7.0", "8.0", "2.5"}
    (planes,) = (line for line in lines if "planes" in line)
    assert 'client_id="a\\"b"' in planes
    assert 'metric_client_id="own"' in planes
    assert any(part in text for part in own.split(","))


def test_a_read_only_broker_takes_metrics():
    assert not is_refused(API_BY_NAME["PushTelemetry"])
