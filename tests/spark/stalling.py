"""A second source for a streaming query, which stops the query dead at a chosen step of its first micro-batch.

Put behind the source under test by `union`, it sees each step right after that source: when it stops in `latest`, the
batch is planned but not logged; in `partitions`, it is logged but no task runs; in `task`, tasks run. It says where it
is by making a file, then waits to be killed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

STEPS = ("latest", "partitions", "task", "written")


def stall(reached: str) -> NoReturn:
    """Say that the step is reached, and stay there."""
    Path(reached).touch()
    threading.Event().wait()
    raise AssertionError("an event that nobody sets was set")


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: dict[str, str]) -> None:
        self._step = options["step"]
        self._reached = options["reached"]

    def _pass(self, step: str) -> None:
        if step == self._step:
            stall(self._reached)

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """Its one offset is always available; without this Spark would run AvailableNow as Once."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        self._pass("latest")
        return {"at": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        self._pass("partitions")
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        self._pass("task")
        return iter(())


class StallingSource(DataSource):
    """Yields nothing, and may never go on. Options: step, reached."""

    @classmethod
    def name(cls) -> str:
        return "stalling"

    def schema(self) -> str:
        return "value binary"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Reader(dict(self.options))


def register(spark: SparkSession) -> None:
    """Make the format known to a session; workers get the code with the class, not by import."""
    register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(StallingSource)


def stalled(frame: DataFrame, step: str, reached: str) -> DataFrame:
    """The same rows, in a query that stops at a step; any other word than one of `STEPS` for never."""
    source = frame.sparkSession.readStream.format("stalling").option("step", step).option("reached", reached)
    return frame.union(source.load())
