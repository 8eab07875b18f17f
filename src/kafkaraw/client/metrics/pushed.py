"""Which values a client pushes to brokers (KIP-714), by the names and in the units of Java's clients. Pure.

Each row of a table makes a pushed metric of a metric of `client.metrics()`; times there are seconds, and milliseconds
here. What Java's clients do not have is not pushed. Counters are pushed as they are, or as their change since the push
before (`Subscription.is_delta`). Rates and averages are those since the push before: an average without events, and a
value that is not known, are left out. Maxima are over the life of the client. Start at `PushedValues.read`.

Source: KIP-714 (names, and which are required); Kafka class TelemetryMetricNamingConvention; Java's own metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from kafkaraw.client.metrics.client_metrics import BOOTSTRAP, Metrics
from kafkaraw.core.telemetry.otlp import Point
from kafkaraw.core.telemetry.reporter import TelemetrySubscription
from kafkaraw.light_classes import NamedTuple, dataclass, field

PREFIX: Final = "org.apache.kafka."
ALL_NODES: Final = ""
"""The group of the sums over all brokers."""
_MS: Final = 1000.0
_NS: Final = 1e9


class Value(Enum):
    """How a pushed value is made; a value says it in words."""

    COUNTER = "the counter"
    GAUGE = "the value"
    RATE = "its change per second"
    AVERAGE = "its change, divided by that of the second metric"


class Row(NamedTuple):
    """One pushed metric.

    Attributes:
        name: without `PREFIX` and the kind of the client.
        value: how it is made.
        source: the metric of `client.metrics()`.
        divisor: of an average, the metric that counts.
        scale: by which the source is multiplied.
    """

    name: str
    value: Value
    source: str
    divisor: str = ""
    scale: float = 1.0


_V = Value
CONNECTION_ROWS: Final = (
    Row("connection.creation.rate", _V.RATE, "connections_opened"),
    Row("connection.creation.total", _V.COUNTER, "connections_opened"),
    Row("connection.close.rate", _V.RATE, "connections_closed"),
    Row("connection.close.total", _V.COUNTER, "connections_closed"),
    Row("connection.count", _V.GAUGE, "connections"),
    Row("request.rate", _V.RATE, "requests"),
    Row("request.total", _V.COUNTER, "requests"),
    Row("response.rate", _V.RATE, "latency_count"),
    Row("response.total", _V.COUNTER, "latency_count"),
    Row("incoming.byte.rate", _V.RATE, "bytes_in"),
    Row("incoming.byte.total", _V.COUNTER, "bytes_in"),
    Row("outgoing.byte.rate", _V.RATE, "bytes_out"),
    Row("outgoing.byte.total", _V.COUNTER, "bytes_out"),
)
"""Of every client: sums over all brokers."""
NODE_ROWS: Final = (
    Row("node.request.latency.avg", _V.AVERAGE, "latency_sum_s", "latency_count", _MS),
    Row("node.request.latency.max", _V.GAUGE, "latency_max_s", scale=_MS),
    *(row._replace(name=f"node.{row.name}") for row in CONNECTION_ROWS if not row.name.startswith("connection.")),
)
"""Of every client and broker; the attribute `node_id` is "node-1" for broker 1, as in Java."""
PRODUCER_ROWS: Final = (
    Row("produce.throttle.time.avg", _V.AVERAGE, "produce_throttle_time_total_s", "request_total", _MS),
    Row("produce.throttle.time.max", _V.GAUGE, "produce_throttle_time_max_s", scale=_MS),
    Row("record.queue.time.avg", _V.AVERAGE, "record_queue_time_total_s", "batch_total", _MS),
    Row("record.queue.time.max", _V.GAUGE, "record_queue_time_max_s", scale=_MS),
    Row("request.latency.avg", _V.AVERAGE, "request_latency_total_s", "request_total", _MS),
    Row("request.latency.max", _V.GAUGE, "request_latency_max_s", scale=_MS),
    Row("record.send.rate", _V.RATE, "record_send_total"),
    Row("record.send.total", _V.COUNTER, "record_send_total"),
    Row("record.retry.rate", _V.RATE, "record_retry_total"),
    Row("record.retry.total", _V.COUNTER, "record_retry_total"),
    Row("record.error.rate", _V.RATE, "record_error_total"),
    Row("record.error.total", _V.COUNTER, "record_error_total"),
    Row("batch.split.rate", _V.RATE, "batch_split_total"),
    Row("batch.split.total", _V.COUNTER, "batch_split_total"),
    Row("batch.size.avg", _V.GAUGE, "batch_size_avg"),
    Row("batch.size.max", _V.GAUGE, "batch_size_max"),
    Row("compression.rate.avg", _V.GAUGE, "compression_rate_avg"),
    Row("record.size.avg", _V.GAUGE, "record_size_avg"),
    Row("records.per.request.avg", _V.GAUGE, "records_per_request_avg"),
    Row("requests.in.flight", _V.GAUGE, "requests_in_flight"),
    Row("buffer.total.bytes", _V.GAUGE, "buffer_total_bytes"),
    Row("buffer.available.bytes", _V.GAUGE, "buffer_available_bytes"),
    Row("buffer.exhausted.rate", _V.RATE, "buffer_exhausted_total"),
    Row("buffer.exhausted.total", _V.COUNTER, "buffer_exhausted_total"),
    Row("bufferpool.wait.time.ns.total", _V.COUNTER, "bufferpool_wait_time_total_s", scale=_NS),
    Row("waiting.threads", _V.GAUGE, "waiting_threads"),
)
CONSUMER_ROWS: Final = (
    Row("poll.idle.ratio.avg", _V.RATE, "poll_wait_time_total_s"),
    Row("fetch.manager.fetch.latency.avg", _V.AVERAGE, "fetch_latency_total_s", "fetch_total", _MS),
    Row("fetch.manager.fetch.latency.max", _V.GAUGE, "fetch_latency_max_s", scale=_MS),
    Row("fetch.manager.fetch.rate", _V.RATE, "fetch_total"),
    Row("fetch.manager.fetch.total", _V.COUNTER, "fetch_total"),
    Row("fetch.manager.fetch.size.avg", _V.GAUGE, "fetch_size_avg"),
    Row("fetch.manager.fetch.size.max", _V.GAUGE, "fetch_size_max"),
    Row("fetch.manager.fetch.throttle.time.avg", _V.AVERAGE, "fetch_throttle_time_total_s", "fetch_total", _MS),
    Row("fetch.manager.fetch.throttle.time.max", _V.GAUGE, "fetch_throttle_time_max_s", scale=_MS),
    Row("fetch.manager.bytes.consumed.rate", _V.RATE, "bytes_consumed_total"),
    Row("fetch.manager.bytes.consumed.total", _V.COUNTER, "bytes_consumed_total"),
    Row("fetch.manager.records.consumed.rate", _V.RATE, "records_consumed_total"),
    Row("fetch.manager.records.consumed.total", _V.COUNTER, "records_consumed_total"),
    Row("fetch.manager.records.per.request.avg", _V.GAUGE, "records_per_request_avg"),
    Row("fetch.manager.records.lag", _V.GAUGE, "records_lag"),
    Row("fetch.manager.records.lag.max", _V.GAUGE, "records_lag_max"),
    Row("fetch.manager.records.lead.min", _V.GAUGE, "records_lead_min"),
)
GROUP_ROWS: Final = (
    Row("coordinator.commit.latency.avg", _V.AVERAGE, "commit_latency_total_s", "commit_total", _MS),
    Row("coordinator.commit.latency.max", _V.GAUGE, "commit_latency_max_s", scale=_MS),
    Row("coordinator.commit.rate", _V.RATE, "commit_total"),
    Row("coordinator.commit.total", _V.COUNTER, "commit_total"),
    Row("coordinator.assigned.partitions", _V.GAUGE, "assigned_partitions"),
    Row("coordinator.rebalance.latency.avg", _V.AVERAGE, "rebalance_latency_total_s", "rebalance_total", _MS),
    Row("coordinator.rebalance.latency.max", _V.GAUGE, "rebalance_latency_max_s", scale=_MS),
    Row("coordinator.rebalance.latency.total", _V.COUNTER, "rebalance_latency_total_s", scale=_MS),
    Row("coordinator.rebalance.total", _V.COUNTER, "rebalance_total"),
    Row("coordinator.last.rebalance.seconds.ago", _V.GAUGE, "last_rebalance_seconds_ago"),
    Row("coordinator.heartbeat.rate", _V.RATE, "heartbeat_total"),
    Row("coordinator.heartbeat.total", _V.COUNTER, "heartbeat_total"),
    Row("coordinator.heartbeat.response.time.max", _V.GAUGE, "heartbeat_response_time_max_s", scale=_MS),
    Row("coordinator.last.heartbeat.seconds.ago", _V.GAUGE, "last_heartbeat_seconds_ago"),
    Row("last.poll.seconds.ago", _V.GAUGE, "last_poll_seconds_ago"),
)
SHARE_CONSUMER_ROWS: Final = (
    Row("share.poll.idle.ratio.avg", _V.RATE, "poll_wait_time_total_s"),
    Row("share.time.between.poll.avg", _V.AVERAGE, "time_between_poll_total_s", "polls_total", _MS),
    Row("share.time.between.poll.max", _V.GAUGE, "time_between_poll_max_s", scale=_MS),
    Row("share.last.poll.seconds.ago", _V.GAUGE, "last_poll_seconds_ago"),
    Row("share.fetch.manager.fetch.latency.avg", _V.AVERAGE, "fetch_latency_total_s", "fetch_total", _MS),
    Row("share.fetch.manager.fetch.latency.max", _V.GAUGE, "fetch_latency_max_s", scale=_MS),
    Row("share.fetch.manager.fetch.rate", _V.RATE, "fetch_total"),
    Row("share.fetch.manager.fetch.total", _V.COUNTER, "fetch_total"),
    Row("share.fetch.manager.fetch.size.avg", _V.GAUGE, "fetch_size_avg"),
    Row("share.fetch.manager.fetch.size.max", _V.GAUGE, "fetch_size_max"),
    Row("share.fetch.manager.fetch.throttle.time.avg", _V.AVERAGE, "fetch_throttle_time_total_s", "fetch_total", _MS),
    Row("share.fetch.manager.fetch.throttle.time.max", _V.GAUGE, "fetch_throttle_time_max_s", scale=_MS),
    Row("share.fetch.manager.bytes.consumed.rate", _V.RATE, "bytes_consumed_total"),
    Row("share.fetch.manager.bytes.consumed.total", _V.COUNTER, "bytes_consumed_total"),
    Row("share.fetch.manager.records.consumed.rate", _V.RATE, "records_consumed_total"),
    Row("share.fetch.manager.records.consumed.total", _V.COUNTER, "records_consumed_total"),
    Row("share.fetch.manager.records.per.request.avg", _V.GAUGE, "records_per_request_avg"),
    Row("share.fetch.manager.records.per.request.max", _V.GAUGE, "records_per_request_max"),
    Row("share.fetch.manager.acknowledgements.send.rate", _V.RATE, "acknowledgements_send_total"),
    Row("share.fetch.manager.acknowledgements.send.total", _V.COUNTER, "acknowledgements_send_total"),
    Row("share.fetch.manager.acknowledgements.error.rate", _V.RATE, "acknowledgements_error_total"),
    Row("share.fetch.manager.acknowledgements.error.total", _V.COUNTER, "acknowledgements_error_total"),
)
SHARE_GROUP_ROWS: Final = (
    Row("share.coordinator.rebalance.total", _V.COUNTER, "rebalance_total"),
    Row("share.coordinator.heartbeat.rate", _V.RATE, "heartbeat_total"),
    Row("share.coordinator.heartbeat.total", _V.COUNTER, "heartbeat_total"),
    Row("share.coordinator.heartbeat.response.time.max", _V.GAUGE, "heartbeat_response_time_max_s", scale=_MS),
    Row("share.coordinator.last.heartbeat.seconds.ago", _V.GAUGE, "last_heartbeat_seconds_ago"),
)
OWN_ROWS: Final[Mapping[str, tuple[Row, ...]]] = MappingProxyType(
    {
        ALL_NODES: CONNECTION_ROWS,
        "producer": PRODUCER_ROWS,
        "consumer": CONSUMER_ROWS,
        "group": GROUP_ROWS,
        "share_consumer": SHARE_CONSUMER_ROWS,
        "share_group": SHARE_GROUP_ROWS,
    }
)
"""The tables by the group in `client.metrics()`; all other groups are brokers, with `NODE_ROWS`.

The names are not taken from the modules of the groups: a producer would load those of a consumer.
"""

_Groups: TypeAlias = Mapping[str, Mapping[str, float | dict[str, int]]]


@dataclass(frozen=True, slots=True)
class PushedValues:
    """The metrics of a client at one time.

    Attributes:
        at_ms: the time, in milliseconds since 1970.
        groups: as in `client.metrics()`, with the sums over all brokers.
    """

    at_ms: int
    groups: _Groups = field(default_factory=dict)

    @classmethod
    def read(cls, metrics: Metrics, at_ms: int) -> PushedValues:
        """Take the result of `client.metrics()`."""
        nodes = [values for group, values in metrics.items() if group not in OWN_ROWS]
        sums = {row.source: sum(_number(values[row.source]) for values in nodes) for row in CONNECTION_ROWS}
        return cls(at_ms, {ALL_NODES: sums, **metrics})

    def points(self, kind: str, before: PushedValues, subscription: TelemetrySubscription) -> list[Point]:
        """Return what to push.

        Args:
            kind: of the client, see `MetricsSource`.
            before: the values of the push before; without groups, all counters were zero then.
            subscription: chooses the metrics.
        """
        seconds = max(self.at_ms - before.at_ms, 1) / 1000
        found: list[Point] = []
        for group, values in self.groups.items():
            earlier = before.groups.get(group, {})
            attributes = {} if group in OWN_ROWS else {"node_id": f"node-{'-1' if group == BOOTSTRAP else group}"}
            for row in OWN_ROWS.get(group, NODE_ROWS):
                name = f"{PREFIX}{kind}.{row.name}"
                if subscription.wants(name):
                    for value, more in _values(row, values, earlier, seconds, is_delta=subscription.is_delta):
                        is_counter = row.value is Value.COUNTER
                        is_delta = is_counter and subscription.is_delta
                        found.append(Point(name, "", value, is_counter, is_delta, {**attributes, **more}))
        return found


def _values(
    row: Row,
    values: Mapping[str, float | dict[str, int]],
    earlier: Mapping[str, float | dict[str, int]],
    seconds: float,
    *,
    is_delta: bool,
) -> Iterator[tuple[float, dict[str, str]]]:
    """Yield the value with its attributes, one for each partition if the metric has one for each; none if not known."""
    value = values[row.source]
    if isinstance(value, dict):
        for partition, number in value.items():
            topic, _, index = partition.rpartition("-")
            yield number * row.scale, {"topic": topic, "partition": index}
        return
    change = value - _number(earlier.get(row.source, 0))
    match row.value:
        case Value.COUNTER:
            yield (change if is_delta else value) * row.scale, {}
        case Value.RATE:
            yield change * row.scale / seconds, {}
        case Value.AVERAGE:
            count = _number(values[row.divisor]) - _number(earlier.get(row.divisor, 0))
            if count:
                yield change * row.scale / count, {}
        case Value.GAUGE:
            if value >= 0:  # a value that is not known is -1, and no other one is negative
                yield value * row.scale, {}


def _number(value: float | dict[str, int]) -> float:
    assert not isinstance(value, dict)
    return value
