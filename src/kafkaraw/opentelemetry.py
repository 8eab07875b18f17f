"""Traces and metrics of producers and consumers for OpenTelemetry, by the conventions for messaging.

    from kafkaraw.opentelemetry import ConsumerInstrumentation, ProducerInstrumentation, process

    producer = Producer(..., interceptors=[ProducerInstrumentation()])
    consumer = Consumer(..., interceptors=[ConsumerInstrumentation(group_id="billing")])
    for record in consumer:
        with process(record):
            handle(record)

The interceptors need only `opentelemetry-api` (extra `opentelemetry`); the application chooses SDK, sampler, exporter.
Nothing is traced for `send_arrow` and `poll_arrow`, which create no record objects. This must not import the SDK.
Start at `ProducerInstrumentation`.

Source: OpenTelemetry, semantic conventions for messaging spans, messaging metrics and Kafka, 1.30.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from kafkaraw.client.interceptors import ProducerRecord
from kafkaraw.errors import BrokerError, UsageError

try:
    from opentelemetry import context, metrics, propagate, trace
except ImportError:
    raise UsageError("this needs opentelemetry-api: pip install 'kafkaraw[opentelemetry]'") from None

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

    from kafkaraw.records import Headers, Record, RecordMetadata

_SCOPE: Final = "kafkaraw"
_LINKS_MAX: Final = 128
"""Links of one receive span: the limit that an SDK has by default."""

Attributes = dict[str, str | int | bool | float]


class ProducerInstrumentation:
    """An interceptor of a producer: a span for each record, whose context travels in the record's headers.

    The span `send TOPIC` ends when the producer has taken the record, as that of OpenTelemetry's interceptor for Java:
    outcomes come later, without their records. They are counted in the metric `messaging.client.sent.messages`, by
    topic and `error.type`.

    Args:
        client_id: the attribute `messaging.client.id`; left out when None.
        tracer_provider: the global one when None.
        meter_provider: the global one when None.
    """

    def __init__(
        self,
        *,
        client_id: str | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._tracer = _tracer(tracer_provider)
        self._common = _common(client_id)
        self._sent = _meter(meter_provider).create_counter(
            "messaging.client.sent.messages", unit="{message}", description="Number of messages the producer sent."
        )

    def on_send(self, record: ProducerRecord, /) -> ProducerRecord:
        """Make the span of a record, and return the record with the span's context in its headers."""
        attributes = self._common | _operation("send", "send") | {"messaging.destination.name": record.topic}
        if record.partition is not None:
            attributes["messaging.destination.partition.id"] = str(record.partition)
        attributes |= _of_record(record.key, record.value)
        with self._tracer.start_as_current_span(
            f"send {record.topic}", kind=trace.SpanKind.PRODUCER, attributes=attributes
        ):
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
        return record._replace(headers=_with_context(record.headers, carrier))

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None, /) -> None:
        """Count an outcome."""
        attributes = self._common | _operation("send", "send") | {"messaging.destination.name": metadata.topic}
        if error is not None:
            attributes["error.type"] = error_type(error)
        self._sent.add(1, attributes)


class ConsumerInstrumentation:
    """An interceptor of a consumer: a span `poll TOPIC` for each batch, with links to the spans that sent its records.

    Counts records in the metric `messaging.client.consumed.messages`. `process` makes the span of processing a record.

    Args:
        group_id: the attribute `messaging.consumer.group.name`; left out when None.
        client_id: the attribute `messaging.client.id`; left out when None.
        tracer_provider: the global one when None.
        meter_provider: the global one when None.
    """

    def __init__(
        self,
        *,
        group_id: str | None = None,
        client_id: str | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._tracer = _tracer(tracer_provider)
        self._common = _common(client_id)
        if group_id is not None:
            self._common["messaging.consumer.group.name"] = group_id
        self._consumed = _meter(meter_provider).create_counter(
            "messaging.client.consumed.messages",
            unit="{message}",
            description="Number of messages that were delivered to the application.",
        )

    def on_consume(self, records: list[Record], /) -> list[Record]:
        """Make the span of a batch, all of whose records are of one partition, and return the records as they are."""
        if not records:
            return records
        first = records[0]
        attributes = self._common | _operation("receive", "poll") | _place(first)
        attributes["messaging.batch.message_count"] = len(records)
        contexts = (span_context_of(record) for record in records[:_LINKS_MAX])
        links = [trace.Link(each) for each in contexts if each.is_valid]
        with self._tracer.start_as_current_span(
            f"poll {first.topic}", kind=trace.SpanKind.CLIENT, attributes=attributes, links=links
        ):
            pass
        self._consumed.add(len(records), self._common | _operation("receive", "poll") | _place(first))
        return records


@contextmanager
def process(
    record: Record,
    *,
    group_id: str | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> Iterator[trace.Span]:
    """Trace the processing of one record: a span `process TOPIC`, which is current inside of the block.

    The parent is the span that sent the record. If a span is current already, that one is the parent, and the span that
    sent the record is linked. An exception that leaves the block is recorded. The metric `messaging.process.duration`
    (s) has the time.

    Args:
        record: the record that the block processes.
        group_id: the attribute `messaging.consumer.group.name`; left out when None.
        tracer_provider: the global one when None.
        meter_provider: the global one when None.

    Yields:
        the span, for attributes of the application.
    """
    attributes = _common(None) | _operation("process", "process") | _place(record)
    if group_id is not None:
        attributes["messaging.consumer.group.name"] = group_id
    of_metric = dict(attributes)
    attributes |= _of_record(record.key, record.value) | {"messaging.kafka.offset": record.offset}
    sent = span_context_of(record)
    nested = trace.get_current_span().get_span_context().is_valid
    parent = context.get_current() if nested or not sent.is_valid else _context_of(record)
    began = time.perf_counter()
    try:
        with _tracer(tracer_provider).start_as_current_span(
            f"process {record.topic}",
            context=parent,
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=[trace.Link(sent)] if nested and sent.is_valid else [],
        ) as span:
            try:
                yield span
            except BaseException as error:
                span.set_attribute("error.type", error_type(error))
                of_metric["error.type"] = error_type(error)
                raise
    finally:
        duration = _meter(meter_provider).create_histogram(
            "messaging.process.duration", unit="s", description="Duration of processing operation."
        )
        duration.record(time.perf_counter() - began, of_metric)


def span_context_of(record: Record) -> trace.SpanContext:
    """Return the context of the span that sent a record; an invalid one if its headers have none."""
    return trace.get_current_span(_context_of(record)).get_span_context()


def error_type(error: BaseException) -> str:
    """Return the attribute `error.type`: the broker's error name, otherwise the class of the exception."""
    return error.name if isinstance(error, BrokerError) else type(error).__qualname__


def _tracer(provider: TracerProvider | None) -> Tracer:
    return trace.get_tracer(_SCOPE, tracer_provider=provider)


def _meter(provider: MeterProvider | None) -> Meter:
    return metrics.get_meter(_SCOPE, meter_provider=provider)


def _common(client_id: str | None) -> Attributes:
    attributes: Attributes = {"messaging.system": "kafka"}
    return attributes if client_id is None else attributes | {"messaging.client.id": client_id}


def _operation(kind: str, name: str) -> Attributes:
    return {"messaging.operation.type": kind, "messaging.operation.name": name}


def _place(record: Record) -> Attributes:
    return {"messaging.destination.name": record.topic, "messaging.destination.partition.id": str(record.partition)}


def _of_record(key: object, value: object) -> Attributes:
    """Return the attributes of one record: its key if it is text, the size of its value, whether it is a tombstone."""
    attributes: Attributes = {}
    if isinstance(key, str):
        attributes["messaging.kafka.message.key"] = key
    elif isinstance(key, bytes):
        with suppress(UnicodeDecodeError):  # the conventions want text, and no other form of it
            attributes["messaging.kafka.message.key"] = key.decode()
    if value is None:
        attributes["messaging.kafka.message.tombstone"] = True
    elif isinstance(value, bytes | bytearray | memoryview):
        attributes["messaging.message.body.size"] = len(value)
    return attributes


def _context_of(record: Record) -> context.Context:
    return propagate.extract(_texts(record.headers), context=context.Context())


def _texts(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str]:
    """Return headers as propagators read them; of several with one name, the last one."""
    return {name: value.decode("utf-8", "replace") for name, value in headers if value is not None}


def _with_context(headers: Headers | None, carrier: Mapping[str, str]) -> Headers:
    """Return the headers with those of the context in place of older ones, for example of a record that is sent on."""
    kept = [(name, value) for name, value in headers or () if name not in carrier]
    return [*kept, *((name, value.encode()) for name, value in carrier.items())]
