"""Sessions in which batch reads have a fault of an earlier version; random programs must find each.

`takes_filters`: a filter of one scan narrows what all scans of its DataFrame read. `binds_early`: a DataFrame that is
used again reads what its first query has read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql.types import StructType

from kafkaraw.ranges.planning import OffsetRange
from kafkaraw.spark.options import tables
from kafkaraw.spark.options.parsing import SparkOptions
from kafkaraw.spark.source import KafkaBatchReader, KafkaDataSource, KafkaPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Reader(KafkaBatchReader):
    """Takes `partition = ...` and `offset >= ...`, and reads no more than that."""

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._partition: int | None = None
        self._start = 0

    def pushFilters(self, filters: Iterable[Any]) -> Iterable[Any]:  # of a class that Spark 4.0 lacks
        for each in filters:
            match type(each).__name__, getattr(each, "attribute", None):
                case "EqualTo", ("partition",):
                    self._partition = each.value
                case "GreaterThanOrEqual", ("offset",):
                    self._start = each.value
            yield each

    def partitions(self) -> list[Any]:
        return [KafkaPartition(tuple(self._narrowed(task.value))) for task in super().partitions()]

    def _narrowed(self, ranges: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
        for each in ranges:
            if self._partition in (None, each.partition):
                yield replace(each, start=min(max(each.start, self._start), each.end))


class FilteredSource(KafkaDataSource):
    """Format "filtered": format "kafkaraw" with that reader."""

    @classmethod
    def name(cls) -> str:
        return "filtered"

    def reader(self, schema: StructType) -> _Reader:
        return _Reader(self._parsed(tables.completed(self._given, schema)), schema)


def takes_filters(spark: SparkSession) -> tuple[SparkSession, str]:
    """A session that offers filters, and a format that takes them."""
    register_pickle_by_value(sys.modules[__name__])
    faulty = spark.newSession()
    faulty.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    faulty.dataSource.register(FilteredSource)
    return faulty, FilteredSource.name()


def binds_early(spark: SparkSession) -> tuple[SparkSession, str]:
    """A session that nothing has prepared."""
    return spark.newSession(), KafkaDataSource.name()


FAULTS: Final[Mapping[str, Callable[[SparkSession], tuple[SparkSession, str]]]] = {
    fault.__name__: fault for fault in (takes_filters, binds_early)
}
"""By name: what makes a session and names a format, which together have the fault."""
