"""Sessions in which batch reads have a fault of an earlier version; random programs must find each.

`takes_filters`: a filter of one scan narrows what all scans of its DataFrame read. `binds_early`: a DataFrame that is
used again reads what its first query has read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql.types import StructType

from kafkaraw.spark.options import tables
from kafkaraw.spark.options.parsing import SparkOptions
from kafkaraw.spark.source import KafkaBatchReader, KafkaDataSource, KafkaPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Reader(KafkaBatchReader):
    """Takes `partition = ...`, and reads no other partition then."""

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._only: int | None = None

    def pushFilters(self, filters: Iterable[Any]) -> Iterable[Any]:  # of a class that Spark 4.0 lacks
        for each in filters:
            if type(each).__name__ == "EqualTo" and each.attribute == ("partition",):
                self._only = each.value
            yield each

    def partitions(self) -> list[Any]:
        tasks = super().partitions()
        if self._only is None:
            return tasks
        return [KafkaPartition(tuple(work for work in task.value if work.partition == self._only)) for task in tasks]


class FilteredSource(KafkaDataSource):
    """The format with that reader."""

    def reader(self, schema: StructType) -> _Reader:
        return _Reader(self._parsed(tables.completed(self._given, schema)), schema)


def takes_filters(spark: SparkSession) -> SparkSession:
    """A session like `session()` makes it, whose source takes filters."""
    register_pickle_by_value(sys.modules[__name__])
    faulty = spark.newSession()
    faulty.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    faulty.dataSource.register(FilteredSource)
    return faulty


def binds_early(spark: SparkSession) -> SparkSession:
    """A session that nothing has prepared."""
    return spark.newSession()


FAULTS: Final[Mapping[str, Callable[[SparkSession], SparkSession]]] = {
    fault.__name__: fault for fault in (takes_filters, binds_early)
}
