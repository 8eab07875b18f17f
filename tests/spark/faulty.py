"""Format "faulty": format "kafkaraw", which at one step of one micro-batch stops until it is told to go on.

The steps: `latest` (before the batch is planned), `partitions` (it is logged, no task runs), `task` (tasks run),
`prepared` (all tasks are done, nothing is committed), `sunk` (the sink has committed, Spark has not). At the steps
`reading` and `writing` the worker then dies, once. That a step is reached is said by making a file; so is to go on.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from kafkaraw.spark.options.offsets import OffsetJson
from kafkaraw.spark.options.parsing import SparkOptions
from kafkaraw.spark.sink import KafkaStreamWriter
from kafkaraw.spark.source import KafkaDataSource, KafkaStreamReader

STOPS = ("latest", "partitions", "task", "prepared", "sunk")
DEATHS = ("reading", "writing")
_PREFIX = "fault."


@dataclass(frozen=True)
class Fault:
    """What is to go wrong, and where.

    Attributes:
        step: one of `STOPS` or `DEATHS`.
        batch: of which micro-batch.
        reached: the file to make.
        go_on: the file to wait for.
    """

    step: str
    batch: int
    reached: str
    go_on: str

    def options(self) -> dict[str, str]:
        return {f"{_PREFIX}{name}": str(value) for name, value in vars(self).items()}

    @classmethod
    def split(cls, options: Mapping[str, str]) -> tuple[Fault, dict[str, str]]:
        """The fault, and the options of the format proper."""
        lower = {name.lower(): text for name, text in options.items()}
        mine = {name: lower.pop(f"{_PREFIX}{name}") for name in ("step", "batch", "reached", "go_on")}
        return cls(mine["step"], int(mine["batch"]), mine["reached"], mine["go_on"]), lower

    def stop(self, step: str, batch: int) -> None:
        """Say that the step is reached, and wait, if it is the one."""
        if (step, batch) == (self.step, self.batch):
            Path(self.reached).touch()
            while not Path(self.go_on).exists():
                time.sleep(0.02)

    def in_task(self, step: str) -> None:
        """The same in a worker, which dies if that is the fault; not in a second attempt."""
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        if context.attemptNumber() == 0 and (step, batch) == (self.step, self.batch):
            self.stop(step, batch)
            if step in DEATHS:
                os.kill(os.getpid(), signal.SIGKILL)


class _Reader(KafkaStreamReader):
    def __init__(self, options: SparkOptions, schema: StructType, fault: Fault) -> None:
        super().__init__(options, schema)
        self._fault = fault
        self._batch = 0
        self._end: OffsetJson | None = None

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        self._fault.stop("latest", self._batch)
        return super().latestOffset(start, limit)

    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        self._fault.stop("partitions", self._batch)
        if end != self._end:
            self._end = end
            self._batch += 1
        return super().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            self._fault.in_task("task")
            yield batch
            self._fault.in_task("reading")


class _Writer(KafkaStreamWriter):
    def __init__(self, options: SparkOptions, schema: StructType, fault: Fault) -> None:
        super().__init__(options, schema)
        self._fault = fault

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        def rows() -> Iterator[pa.RecordBatch]:
            for batch in iterator:
                yield batch
                self._fault.in_task("writing")

        return super().write(rows())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._fault.stop("prepared", batchId)
        super().commit(messages, batchId)
        self._fault.stop("sunk", batchId)


class FaultySource(KafkaDataSource):
    """See the module. Options: those of format "kafkaraw", and those of `Fault` with `fault.` before."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._fault, proper = Fault.split(options)
        super().__init__(proper)

    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamReader(self, schema: StructType) -> KafkaStreamReader:
        return _Reader(self._options, schema, self._fault)

    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaStreamWriter:
        return _Writer(self._options, schema, self._fault)


def register(spark: SparkSession) -> None:
    """Make the format known to a session; workers get the code with the class, not by import."""
    register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(FaultySource)
