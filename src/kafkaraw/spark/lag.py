"""Consumer lag of streaming queries. Spark's own connector reports it in its progress; Python sources cannot.

Every progress event has the offsets that a query has read and the ends of its topics. `lag_of` compares the two;
`KafkaLagListener` publishes the result as a log line, to a function, and as Prometheus gauges.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.records import TopicPartition
from kafkaraw.spark.options.offsets import PartitionOffsets, from_json

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Gauge
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class QueryLag:
    """The number of offsets that one source of a query was behind, at the end of a micro-batch.

    Attributes:
        query_id: the query's id, which its checkpoint keeps.
        query_name: the query's name; None if it has none.
        batch_id: the micro-batch.
        source: number of the source among those of the query, from 0.
        offsets_behind: the lag of each partition, in offsets.
    """

    query_id: str
    query_name: str | None
    batch_id: int
    source: int
    offsets_behind: dict[TopicPartition, int]

    @property
    def statistics(self) -> dict[str, float]:
        """Return `minOffsetsBehindLatest` and so on, as Spark's own connector names them in its metrics."""
        behind = list(self.offsets_behind.values())
        return {
            "minOffsetsBehindLatest": min(behind, default=0),
            "maxOffsetsBehindLatest": max(behind, default=0),
            "avgOffsetsBehindLatest": sum(behind) / max(len(behind), 1),
        }

    def _repr_html_(self) -> str:
        """Return what notebooks show: the lag of each partition, the largest first."""
        from kafkaraw.notebooks import table, tables

        ordered = sorted(self.offsets_behind.items(), key=lambda each: (-each[1], each[0]))
        rows = ((of.topic, of.partition, behind) for of, behind in ordered)
        return tables(str(self), table(("topic", "partition", "offsets behind"), rows, count=len(ordered)))

    def __str__(self) -> str:
        numbers = self.statistics
        return (
            f"query {self.query_name or self.query_id}, batch {self.batch_id}, source {self.source}: "
            f"{numbers['minOffsetsBehindLatest']} to {numbers['maxOffsetsBehindLatest']} offsets behind, "
            f"{numbers['avgOffsetsBehindLatest']:g} on average over {len(self.offsets_behind)} partitions"
        )


def lag_of(progress: StreamingQueryProgress) -> list[QueryLag]:
    """Return the lag of each Kafka source in a progress event; ignore other sources."""
    found = []
    for number, source in enumerate(progress.sources):
        end, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
        if end is not None and latest is not None:
            behind = {tp: max(latest[tp] - offset, 0) for tp, offset in end.items() if tp in latest}
            found.append(QueryLag(str(progress.id), progress.name, progress.batchId, number, behind))
    return found


def _offsets(text: str | None) -> PartitionOffsets | None:
    """Return offsets in Kafka's form; None for those of another source."""
    try:
        return from_json(json.loads(text or ""), what="progress") or None
    except (ConfigError, ValueError):
        return None


class KafkaLagListener(StreamingQueryListener):
    """Publishes the lag of all streaming queries of a session.

        spark.streams.addListener(KafkaLagListener())

    Args:
        publish: called with the lag of each source after each micro-batch.
        registry: where gauges are registered, such as `prometheus_client.REGISTRY`; None for no gauges. They are
            `kafkaraw_spark_offsets_behind` (labels query, source, statistic) and
            `kafkaraw_spark_partition_offsets_behind` (labels query, source, topic, partition).

    Raises:
        UsageError: `prometheus-client` is not installed, and a registry is given.
    """

    def __init__(
        self, publish: Callable[[QueryLag], None] | None = None, *, registry: CollectorRegistry | None = None
    ) -> None:
        self._publish = publish
        self._gauges = None if registry is None else _gauges(registry)
        self._shown: dict[str, set[tuple[int, tuple[str, ...]]]] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # Spark's name
        """Do nothing: no lag is known yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # Spark's name
        """Do nothing: the lag has not changed."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # Spark's name
        """Publish the lag at the end of a micro-batch."""
        for lag in lag_of(event.progress):
            _log.info("%s", lag)
            if self._gauges is not None:
                self._show(lag, self._gauges)
            if self._publish is not None:
                self._publish(lag)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # Spark's name
        """Remove the query's gauges."""
        for index, labels in self._shown.pop(str(event.id), ()):
            assert self._gauges is not None
            self._gauges[index].remove(*labels)

    def _show(self, lag: QueryLag, gauges: tuple[Gauge, Gauge]) -> None:
        query, source = lag.query_name or lag.query_id, str(lag.source)
        values: dict[tuple[int, tuple[str, ...]], float] = {
            (0, (query, source, name)): value for name, value in lag.statistics.items()
        }
        for (topic, partition), behind in lag.offsets_behind.items():
            values[1, (query, source, topic, str(partition))] = behind
        for (index, labels), value in values.items():
            gauges[index].labels(*labels).set(value)
        self._shown.setdefault(lag.query_id, set()).update(values)


def _gauges(registry: CollectorRegistry) -> tuple[Gauge, Gauge]:
    try:
        from prometheus_client import Gauge
    except ImportError:
        raise UsageError("gauges need prometheus-client: pip install 'kafkaraw[metrics]'") from None
    return (
        Gauge(
            "kafkaraw_spark_offsets_behind",
            "Offsets between what a streaming query has read and the end of its partitions",
            ["query", "source", "statistic"],
            registry=registry,
        ),
        Gauge(
            "kafkaraw_spark_partition_offsets_behind",
            "Offsets between what a streaming query has read and the end of a partition",
            ["query", "source", "topic", "partition"],
            registry=registry,
        ),
    )
