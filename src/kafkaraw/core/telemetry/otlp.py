"""OpenTelemetry's metrics, as clients push them: Protobuf of `opentelemetry.proto.metrics.v1.MetricsData`.

The messages are declared here with the fields that are written or read. The package `protobuf` (extra `metrics`)
encodes and decodes them, and skips all other fields. The package `opentelemetry-proto` has all of OpenTelemetry's
messages, and would restrict the version of `protobuf` for these few. Start at `write_metrics` and `read_metrics`.

Source: opentelemetry/proto/metrics/v1/metrics.proto 1.x; KIP-714 (clients push MetricsData).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from kafkaraw.light_classes import dataclass, field

_PACKAGE: Final = "kafkaraw.otlp"
_DELTA: Final = 1
_CUMULATIVE: Final = 2
_NS_PER_MS: Final = 1_000_000
# Message -> field -> (number, kind); a kind with a capital is a message, one with [] is repeated.
_MESSAGES: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "MetricsData": {"resource_metrics": (1, "ResourceMetrics[]")},
    "ResourceMetrics": {"resource": (1, "Resource"), "scope_metrics": (2, "ScopeMetrics[]")},
    "Resource": {"attributes": (1, "KeyValue[]")},
    "ScopeMetrics": {"metrics": (2, "Metric[]")},
    "Metric": {
        "name": (1, "string"),
        "description": (2, "string"),
        "gauge": (5, "Gauge"),
        "sum": (7, "Sum"),
        "histogram": (9, "Histogram"),
    },
    "Gauge": {"data_points": (1, "NumberDataPoint[]")},
    "Sum": {
        "data_points": (1, "NumberDataPoint[]"),
        "aggregation_temporality": (2, "int32"),
        "is_monotonic": (3, "bool"),
    },
    "Histogram": {"data_points": (1, "HistogramDataPoint[]"), "aggregation_temporality": (2, "int32")},
    "NumberDataPoint": {
        "attributes": (7, "KeyValue[]"),
        "start_time_unix_nano": (2, "fixed64"),
        "time_unix_nano": (3, "fixed64"),
        "as_double": (4, "double?"),
        "as_int": (6, "sfixed64?"),
    },
    "HistogramDataPoint": {"attributes": (9, "KeyValue[]"), "count": (4, "fixed64"), "sum": (5, "double")},
    "KeyValue": {"key": (1, "string"), "value": (2, "AnyValue")},
    "AnyValue": {
        "string_value": (1, "string?"),
        "bool_value": (2, "bool?"),
        "int_value": (3, "int64?"),
        "double_value": (4, "double?"),
    },
}

MISSING: Final = "metrics of clients need the packages protobuf and prometheus-client: pip install 'kafkaraw[metrics]'"


class InvalidMetricsError(ValueError):
    """The bytes are not OpenTelemetry's metrics."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value of one metric.

    Attributes:
        name: such as "org.apache.kafka.producer.record.send.total".
        description: what it means; empty if the client does not say it.
        value: the value.
        is_counter: whether it only grows, apart from a restart of the client.
        is_delta: whether the value is the change since the last push.
        attributes: by name.
    """

    name: str
    description: str
    value: float
    is_counter: bool
    is_delta: bool
    attributes: Mapping[str, str] = field(default_factory=dict)


@cache
def is_installed() -> bool:
    """Return whether the package protobuf is installed."""
    from importlib.util import find_spec

    try:
        return find_spec("google.protobuf") is not None
    except ModuleNotFoundError:  # there is no package `google`
        return False


def write_metrics(points: Iterable[Point], resource: Mapping[str, str], since_ms: int, now_ms: int) -> bytes:
    """Return MetricsData: counters as monotonic sums, all other values as gauges.

    Args:
        points: the values.
        resource: attributes of all of them.
        since_ms: when counters began to count: at the push before if they are changes; in milliseconds since 1970.
        now_ms: when the values were read, in milliseconds since 1970.
    """
    message = _metrics_data()()
    of_resource = message.resource_metrics.add()
    _add_attributes(of_resource.resource, resource)
    metrics = of_resource.scope_metrics.add().metrics
    for point in points:
        metric = metrics.add(name=point.name, description=point.description)
        written = (metric.sum if point.is_counter else metric.gauge).data_points.add()
        written.time_unix_nano = now_ms * _NS_PER_MS
        written.as_double = point.value
        _add_attributes(written, point.attributes)
        if point.is_counter:
            written.start_time_unix_nano = since_ms * _NS_PER_MS
            metric.sum.is_monotonic = True
            metric.sum.aggregation_temporality = _DELTA if point.is_delta else _CUMULATIVE
    data: bytes = message.SerializeToString()
    return data


def _add_attributes(owner: Any, attributes: Mapping[str, str]) -> None:  # noqa: ANN401 - a class made at run time
    for key, value in attributes.items():
        owner.attributes.add(key=key).value.string_value = value


def read_metrics(data: bytes) -> list[Point]:
    """Return the values of gauges and sums; a histogram is two sums, with `.count` and `.sum` after its name.

    Raises:
        InvalidMetricsError: the bytes are not MetricsData.
    """
    from google.protobuf.message import DecodeError

    message = _metrics_data()()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise InvalidMetricsError(f"not metrics of OpenTelemetry: {error}") from None
    return list(_points(message))


def _points(message: Any) -> Iterator[Point]:  # noqa: ANN401 - a class made at run time
    for of_resource in message.resource_metrics:
        shared = _attributes(of_resource.resource.attributes)
        for scope in of_resource.scope_metrics:
            for metric in scope.metrics:
                yield from _of_metric(metric, shared)


def _of_metric(metric: Any, shared: Mapping[str, str]) -> Iterator[Point]:  # noqa: ANN401
    name, text = metric.name, metric.description
    for point in metric.gauge.data_points:
        yield Point(name, text, _number(point), False, False, {**shared, **_attributes(point.attributes)})
    is_delta = metric.sum.aggregation_temporality == _DELTA
    for point in metric.sum.data_points:
        attributes = {**shared, **_attributes(point.attributes)}
        yield Point(name, text, _number(point), metric.sum.is_monotonic, is_delta, attributes)
    is_delta = metric.histogram.aggregation_temporality == _DELTA
    for point in metric.histogram.data_points:
        attributes = {**shared, **_attributes(point.attributes)}
        yield Point(f"{name}.count", text, float(point.count), True, is_delta, attributes)
        yield Point(f"{name}.sum", text, point.sum, True, is_delta, attributes)


def _number(point: Any) -> float:  # noqa: ANN401
    return float(point.as_int) if point.HasField("as_int") else float(point.as_double)


def _attributes(pairs: Any) -> dict[str, str]:  # noqa: ANN401
    return {pair.key: _text(pair.value) for pair in pairs}


def _text(value: Any) -> str:  # noqa: ANN401
    for name in _MESSAGES["AnyValue"]:
        if value.HasField(name):
            return str(getattr(value, name))
    return ""


@cache
def _metrics_data() -> Any:  # noqa: ANN401
    """Return the class of MetricsData."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="kafkaraw/otlp.proto", package=_PACKAGE, syntax="proto2")
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in _MESSAGES.items():
        declared = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            is_repeated = kind.endswith("[]")
            kind = kind.removesuffix("[]").removesuffix("?")
            label = kinds.LABEL_REPEATED if is_repeated else kinds.LABEL_OPTIONAL
            added = declared.field.add(name=name, number=number, label=label)
            if kind in _MESSAGES:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                added.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.MetricsData"))
