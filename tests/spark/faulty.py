"""Format "faulty": format "kafkaraw", which at one step of one micro-batch stops until it is told to go on.

The steps: `latest` (before the batch is planned), `partitions` (it is logged, no task runs), `task` (tasks run),
`prepared` (all tasks are done, nothing is committed), `sunk` (the sink has committed, Spark has not). At the steps
`reading` and `writing` the worker then dies, once. That a step is reached is said by making a file; so is to go on.

Of the exactly-once sink: `looked` (tasks have looked for a decision, and are about to initialise their producers),
`deciding` (the decision is written, and not committed), `decided` (it is, no transaction is ended), `ended` (`count` of
them are). Tasks at `looked` may outlive their driver: told to go on later, they are zombies. Each task of the sink
notes the rows that it was given, and what it reports, in a file of the case's folder.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType

from kafkaraw import Admin, Producer
from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.spark.data_source_api import ReadLimit
from kafkaraw.spark.options.offsets import OffsetJson
from kafkaraw.spark.options.parsing import SparkOptions
from kafkaraw.spark.sink import KafkaCommitMessage, KafkaStreamWriter
from kafkaraw.spark.source import KafkaDataSource, KafkaStreamReader, KafkaUnlimitedStreamReader
from kafkaraw.spark.versions import features

STOPS = ("latest", "partitions", "task", "prepared", "sunk")
NEVER = "never"
STOP_S = 900.0
"""What outlives its driver ends after so long, if it is told nothing."""
DEATHS = ("reading", "writing")
_PREFIX = "fault."


@dataclass(frozen=True)
class Fault:
    """What is to go wrong, and where.

    Attributes:
        step: one of `STOPS`, `DEATHS` or those of the exactly-once sink; `NEVER` for none.
        batch: of which micro-batch.
        reached: the file to make.
        go_on: the file to wait for.
        count: at `ended`, how many transactions have ended.
        notes: the folder where tasks of the sink note what they did; empty for none.
        outlives: tasks at `looked` outlive their driver.
    """

    step: str
    batch: int
    reached: str
    go_on: str
    count: int = 0
    notes: str = ""
    outlives: bool = False

    def options(self) -> dict[str, str]:
        return {f"{_PREFIX}{name}": str(value) for name, value in vars(self).items()}

    @classmethod
    def split(cls, options: Mapping[str, str]) -> tuple[Fault, dict[str, str]]:
        """The fault, and the options of the format proper."""
        lower = {name.lower(): text for name, text in options.items()}
        names = ("step", "batch", "reached", "go_on", "count", "notes", "outlives")
        step, batch, reached, go_on, count, notes, outlives = (lower.pop(f"{_PREFIX}{name}") for name in names)
        return cls(step, int(batch), reached, go_on, int(count), notes, outlives == "True"), lower

    def stop(self, step: str, batch: int) -> None:
        """Say that the step is reached, and wait, if it is the one."""
        if (step, batch) == (self.step, self.batch):
            Path(self.reached).touch()
            deadline_s = time.monotonic() + STOP_S
            while not Path(self.go_on).exists():
                assert time.monotonic() < deadline_s, f"there is no {self.go_on}"
                time.sleep(0.02)

    def in_task(self, step: str) -> None:
        """The same in a worker, which dies if that is the fault; not in a second attempt."""
        context, batch = _task()
        if context.attemptNumber() == 0 and (step, batch) == (self.step, self.batch):
            self.stop(step, batch)
            if step in DEATHS:
                os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def between_look_and_init(self) -> Iterator[None]:
        """At `looked`, have this task stop before it initialises its producer, and outlive its driver."""
        context, batch = _task()
        if context.attemptNumber() or ("looked", batch) != (self.step, self.batch):
            yield
            return

        def initialise(*arguments: Any) -> object:  # those of the call, and the call proper
            if self.outlives:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)  # with which Spark's daemon ends workers of a dead driver
            Path(f"{self.reached}-{context.partitionId()}").touch()
            self.stop("looked", batch)
            return arguments[-1]()

        try:
            with _around(Producer, "init_transactions", initialise):
                yield
        finally:
            Path(f"{self.reached}-{context.partitionId()}-over").touch()

    @contextmanager
    def between_ends(self, batch: int) -> Iterator[None]:
        """At `deciding`, `decided` and `ended`, have the driver stop before it ends the next transaction."""
        counts = {"deciding": 0, "decided": 0, "ended": self.count}
        if self.step not in counts or batch != self.batch:
            yield
            return
        turns = _Turns(counts[self.step], lambda: self.stop(self.step, batch))

        def is_counted(prepared: PreparedTransaction) -> bool:
            return prepared.transactional_id.endswith("-driver") == (self.step == "deciding")

        with _around(
            Admin, "end_transaction", lambda prepared, end: turns.take(end) if is_counted(prepared) else end()
        ):
            yield

    def note(self, batch: int, slot: int, rows: list[str], message: WriterCommitMessage) -> None:
        """Write down what a task of the sink did; see `sink_run.skipped_in`."""
        if not self.notes or not isinstance(message, KafkaCommitMessage) or message.written is None:
            return
        note = Path(self.notes, f"task-{uuid.uuid4().hex}.part")
        note.write_text(json.dumps({"batch": batch, "slot": slot, "rows": rows, "ended": message.written.ended}))
        note.rename(note.with_suffix(".json"))


def _task() -> tuple[TaskContext, int]:
    """The task that runs here, and its micro-batch."""
    context = TaskContext.get()
    assert context is not None
    return context, int(context.getLocalProperty("streaming.sql.batchId") or -1)


class _Turns:
    """So many calls, which may come at the same time, go through; the others stop when those are over."""

    def __init__(self, count: int, stop: Callable[[], None]) -> None:
        self._turns, self._stop = threading.Semaphore(count), stop
        self._left, self._lock, self._over = count, threading.Lock(), threading.Event()
        self._stopping = threading.Lock()

    def take(self, call: Callable[[], object]) -> object:
        if not self._turns.acquire(blocking=False):
            with self._stopping:
                assert not self._left or self._over.wait(60), "the transactions before have not ended"
                self._stop()
            return call()
        try:
            return call()
        finally:
            with self._lock:
                self._left -= 1
                if not self._left:
                    self._over.set()


@contextmanager
def _around(kind: type, method: str, act: Callable[..., object]) -> Iterator[None]:
    """While this lasts, each call of a method becomes one of `act`, with its first argument and the call proper."""
    proper = getattr(kind, method)

    def call(self: object, *args: object, **kwargs: object) -> object:
        return act(*args[:1], lambda: proper(self, *args, **kwargs))

    setattr(kind, method, call)
    try:
        yield
    finally:
        setattr(kind, method, proper)


_ProperReader: Any = KafkaStreamReader if features().read_limits else KafkaUnlimitedStreamReader


class _Reader(_ProperReader):
    def __init__(self, options: SparkOptions, schema: StructType, fault: Fault) -> None:
        super().__init__(options, schema)
        self._fault = fault
        self._batch = 0
        self._end: OffsetJson | None = None

    def latestOffset(self, *given: OffsetJson | ReadLimit) -> OffsetJson:  # none before Spark 4.2
        self._fault.stop("latest", self._batch)
        return super().latestOffset(*given)

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
        if self._fault.step == "looked":
            iterator = iter(list(iterator))  # Spark's side of the connection is gone when a zombie goes on
        given: list[str] = []

        def rows() -> Iterator[pa.RecordBatch]:
            for batch in iterator:
                given.extend(value.decode() for value in batch.column("value").to_pylist())
                yield batch
                self._fault.in_task("writing")

        writing = rows()
        with self._fault.between_look_and_init():
            message = super().write(writing)
        for _ in writing:  # a task that skips its rows need not look at them
            pass
        context, number = _task()
        self._fault.note(number, context.partitionId(), given, message)
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._fault.stop("prepared", batchId)
        with self._fault.between_ends(batchId):
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

    def streamReader(self, schema: StructType) -> _Reader:
        return _Reader(self._parsed(self._given), schema, self._fault)

    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaStreamWriter:
        return _Writer(self._parsed(self._given), schema, self._fault)


def register(spark: SparkSession) -> None:
    """Make the format known to a session; workers get the code with the class, not by import."""
    register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(FaultySource)
