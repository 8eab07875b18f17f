"""Spans and metrics of the instrumentation follow the conventions of OpenTelemetry; contexts travel in headers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_trace_id

from kafkaraw import Consumer, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import BrokerError
from kafkaraw.opentelemetry import ConsumerInstrumentation, ProducerInstrumentation, error_type, process
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import Record


class Telemetry:
    """An SDK that keeps spans and metrics in memory."""

    def __init__(self) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])

    @property
    def spans(self) -> dict[str, list[ReadableSpan]]:
        found: dict[str, list[ReadableSpan]] = {}
        for span in self._exporter.get_finished_spans():
            found.setdefault(span.name, []).append(span)
        return found

    def points(self, name: str) -> list[tuple[dict[str, object], object]]:
        data = self._reader.get_metrics_data()
        metrics = [each for it in data.resource_metrics for scope in it.scope_metrics for each in scope.metrics]
        (metric,) = (each for each in metrics if each.name == name)
        return [(dict(point.attributes), getattr(point, "value", None)) for point in metric.data.data_points]


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


@pytest.fixture
def records(telemetry: Telemetry, kafka_broker: EmbeddedBroker) -> Iterator[list[Record]]:
    """Two records that were sent and read with instrumentation."""
    servers = kafka_broker.bootstrap_servers
    providers = {"tracer_provider": telemetry.tracers, "meter_provider": telemetry.meters}
    sending = ProducerInstrumentation(client_id="shop", **providers)
    with Producer(bootstrap_servers=servers, interceptors=[sending]) as producer:
        producer.send("orders", b"value", b"key", headers=[("traceparent", b"stale"), ("a", b"1")])
        producer.send("orders", None, b"\xff", partition=0)
    receiving = ConsumerInstrumentation(group_id="billing", **providers)
    with Consumer(bootstrap_servers=servers, interceptors=[receiving], auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        found: list[Record] = []
        while len(found) < 2:
            found += [record for batch in consumer.poll(5).values() for record in batch]
    yield found


def test_the_span_of_a_send_has_the_attributes_of_kafka(telemetry: Telemetry, records: list[Record]) -> None:
    first, second = telemetry.spans["send orders"]
    assert first.kind is SpanKind.PRODUCER
    assert dict(first.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.client.id": "shop",
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        "messaging.destination.name": "orders",
        "messaging.kafka.message.key": "key",
        "messaging.message.body.size": 5,
    }
    assert dict(second.attributes or {})["messaging.kafka.message.tombstone"] is True
    assert "messaging.kafka.message.key" not in dict(second.attributes or {})  # no text
    assert dict(second.attributes or {})["messaging.destination.partition.id"] == "0"


def test_the_context_in_the_headers_replaces_an_older_one(telemetry: Telemetry, records: list[Record]) -> None:
    sent = telemetry.spans["send orders"][0]
    names = [name for name, _ in records[0].headers]
    assert sorted(names) == ["a", "traceparent"]
    assert format_trace_id(sent.context.trace_id).encode() in dict(records[0].headers)["traceparent"]


def test_the_span_of_a_poll_links_to_the_spans_that_sent_its_records(
    telemetry: Telemetry, records: list[Record]
) -> None:
    polls = telemetry.spans["poll orders"]
    links = {link.context.span_id for span in polls for link in span.links}
    assert links == {span.context.span_id for span in telemetry.spans["send orders"]}
    assert sum(dict(span.attributes or {})["messaging.batch.message_count"] for span in polls) == 2
    assert {span.kind for span in polls} == {SpanKind.CLIENT}
    assert dict(polls[0].attributes or {})["messaging.consumer.group.name"] == "billing"


def test_processing_a_record_continues_the_trace_that_sent_it(telemetry: Telemetry, records: list[Record]) -> None:
    with process(records[0], tracer_provider=telemetry.tracers, meter_provider=telemetry.meters) as span:
        span.set_attribute("order.id", 7)
    (processed,), sent = telemetry.spans["process orders"], telemetry.spans["send orders"][0]
    assert processed.kind is SpanKind.CONSUMER
    assert processed.parent is not None
    assert processed.parent.span_id == sent.context.span_id
    assert dict(processed.attributes or {})["messaging.kafka.offset"] == 0
    assert dict(processed.attributes or {})["order.id"] == 7


def test_processing_inside_of_another_span_links_to_the_one_that_sent_it(
    telemetry: Telemetry, records: list[Record]
) -> None:
    with (
        telemetry.tracers.get_tracer("test").start_as_current_span("batch job") as outer,
        process(records[0], tracer_provider=telemetry.tracers, meter_provider=telemetry.meters),
    ):
        pass
    (processed,) = telemetry.spans["process orders"]
    assert processed.parent is not None
    assert processed.parent.span_id == outer.get_span_context().span_id
    assert [link.context.span_id for link in processed.links] == [telemetry.spans["send orders"][0].context.span_id]


def test_a_failed_processing_has_the_type_of_its_error(telemetry: Telemetry, records: list[Record]) -> None:
    with (
        pytest.raises(ValueError, match="no"),
        process(records[1], tracer_provider=telemetry.tracers, meter_provider=telemetry.meters),
    ):
        raise ValueError("no")
    (processed,) = telemetry.spans["process orders"]
    assert processed.status.status_code is StatusCode.ERROR
    assert dict(processed.attributes or {})["error.type"] == "ValueError"
    ((attributes, _),) = telemetry.points("messaging.process.duration")
    assert attributes["error.type"] == "ValueError"


def test_messages_are_counted_when_they_are_sent_and_delivered(telemetry: Telemetry, records: list[Record]) -> None:
    assert sum(value for _, value in telemetry.points("messaging.client.sent.messages")) == 2
    ((attributes, value),) = telemetry.points("messaging.client.consumed.messages")
    assert value == 2
    assert attributes["messaging.destination.partition.id"] == "0"


def test_a_record_that_no_broker_takes_is_counted_with_the_error(
    telemetry: Telemetry, kafka_broker: EmbeddedBroker
) -> None:
    kafka_broker.faults.on("Produce", times=None).answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    sending = ProducerInstrumentation(tracer_provider=telemetry.tracers, meter_provider=telemetry.meters)
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, interceptors=[sending]) as producer:
        ticket = producer.send("orders", b"value")
        with pytest.raises(BrokerError) as raised:
            ticket.result(10)
    ((attributes, value),) = telemetry.points("messaging.client.sent.messages")
    assert (attributes["error.type"], value) == ("TOPIC_AUTHORIZATION_FAILED", 1)
    assert error_type(raised.value) == "TOPIC_AUTHORIZATION_FAILED"


def test_a_record_without_a_context_starts_a_trace(telemetry: Telemetry) -> None:
    record = Record("orders", 0, 3, 0, 0, None, None, [])
    with process(record, tracer_provider=telemetry.tracers, meter_provider=telemetry.meters):
        pass
    (processed,) = telemetry.spans["process orders"]
    assert processed.parent is None
    assert list(processed.links) == []
