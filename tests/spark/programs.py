"""Programs of DataFrame operations as data, and the same program run over a topic and over a Parquet copy of it.

A program is a list of nodes, each made of earlier ones, and a list of steps: results, which are collected in order, and
growth of the topic between them. A node may be used by several others and collected more than once. `programs()` is a
Hypothesis strategy for them. After growth, DataFrames over the topic are used again; those over the copy are made anew.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkaraw import Producer

PARTITIONS = 3
RECORDS = 12  # of each partition, at first
GROWTH_MAX = 3
COLUMNS = ("partition", "offset", "k", "v")
_SCHEMA = "partition int, offset long, k string, v string"
_STREAM_SECONDS_MAX = 120

_CONDITIONS = (
    "partition = 0",
    "partition = 1",
    "partition IN (1, 2)",
    "offset >= 6",
    "offset < 3",
    "offset BETWEEN 3 AND 8 AND partition = 2",
    "partition = 0 OR offset = 4",
    "v = '3'",
    "k IS NULL",
    "CAST(v AS INT) % 2 = 0",
    "partition > 5",
)
_JOINS = ("inner", "left_semi", "left_anti")


@dataclass(frozen=True)
class Load:
    """A DataFrame of its own.

    Args:
        partition: the only partition that it reads; all of them when None.
        start: the offset from which it reads.
    """

    partition: int | None = None
    start: int = 0


@dataclass(frozen=True)
class Filter:
    node: int
    condition: str


@dataclass(frozen=True)
class Union:
    left: int
    right: int


@dataclass(frozen=True)
class Join:
    left: int
    right: int
    on: tuple[str, ...]
    how: str


@dataclass(frozen=True)
class View:
    node: int


@dataclass(frozen=True)
class Cache:
    node: int


@dataclass(frozen=True)
class Distinct:
    node: int


Node = Load | Filter | Union | Join | View | Cache | Distinct


@dataclass(frozen=True)
class Collect:
    """All rows of a node."""

    node: int


@dataclass(frozen=True)
class Count:
    """Their number."""

    node: int


@dataclass(frozen=True)
class Group:
    """Their number by partition."""

    node: int


@dataclass(frozen=True)
class StreamJoin:
    """The rows of a stream of the topic that have an equal in a node."""

    node: int
    condition: str


@dataclass(frozen=True)
class Grow:
    """Append `records` records to each partition of the topic."""

    records: int


Result = Collect | Count | Group | StreamJoin
Step = Result | Grow


@dataclass(frozen=True)
class Program:
    nodes: tuple[Node, ...]
    steps: tuple[Step, ...]


@st.composite
def programs(draw: st.DrawFn, streams: bool = True, growth: bool = False) -> Program:
    """Any program.

    Args:
        streams: allows joins with streams, which take longest.
        growth: allows programs in which the topic grows. They have no caches, which keep their rows.
    """
    grows = growth and draw(st.booleans())
    nodes: list[Node] = [Load()]

    def earlier() -> int:
        return draw(st.integers(0, len(nodes) - 1))

    makers: dict[str, Callable[[], Node]] = {
        "filter": lambda: Filter(earlier(), draw(st.sampled_from(_CONDITIONS))),
        "union": lambda: Union(earlier(), earlier()),
        "join": lambda: Join(
            earlier(),
            earlier(),
            draw(st.sampled_from([("partition", "offset"), ("partition", "v"), ("k",)])),
            draw(st.sampled_from(_JOINS)),
        ),
        "view": lambda: View(earlier()),
        "cache": lambda: Cache(earlier()),
        "distinct": lambda: Distinct(earlier()),
        "load": lambda: Load(draw(st.none() | st.integers(0, PARTITIONS - 1)), draw(st.sampled_from([0, 0, 5]))),
    }
    if grows:
        del makers["cache"]
    kinds = ["filter", "filter", "filter", *makers]
    for _ in range(draw(st.integers(1, 7))):
        nodes.append(makers[draw(st.sampled_from(kinds))]())  # noqa: PERF401  # a node uses those before it
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from([Collect, Collect, Count, Group]))
        steps.append(kind(earlier()))
        if grows:
            steps += (Grow(draw(st.integers(1, GROWTH_MAX))), kind(earlier()))
    if streams and draw(st.integers(0, 4)) == 0:
        steps.append(StreamJoin(earlier(), draw(st.sampled_from(_CONDITIONS))))
    return Program(tuple(nodes), tuple(steps))


def records(start: int, end: int) -> list[tuple[int, int, str | None, str]]:
    """What the topic has from one offset to another: partition, offset, key, value.

    Values come again, keys are null now and then.
    """
    return [
        (partition, offset, None if offset % 4 == 0 else f"k{offset % 3}", str((offset + partition) % 5))
        for partition in range(PARTITIONS)
        for offset in range(start, end)
    ]


class Records:
    """The topic in Kafka.

    Attributes:
        name: of the topic, which is there and empty at first.
        size: how many records each partition has.
    """

    def __init__(self, producer: Producer, name: str) -> None:
        self._producer = producer
        self.name = name
        self.size = 0
        self.grow(RECORDS)

    def grow(self, count: int) -> None:
        for partition, _, key, value in records(self.size, self.size + count):
            self._producer.send(self.name, value.encode(), None if key is None else key.encode(), partition=partition)
        self._producer.flush(30)
        self.size += count


class Topic:
    """The topic as a source of programs."""

    keeps_frames = True

    def __init__(self, spark: SparkSession, servers: str, content: Records, format_name: str = "kafkaraw") -> None:
        self.spark = spark
        self._format = format_name
        self._content = content
        self._topic = content.name
        self._options = {"kafka.bootstrap.servers": servers}

    @property
    def size(self) -> int:
        """How many records each partition has."""
        return self._content.size

    def grow(self, count: int) -> None:
        self._content.grow(count)

    def load(self, what: Load) -> DataFrame:
        partitions = list(range(PARTITIONS)) if what.partition is None else [what.partition]
        starts = json.dumps({self._topic: {str(number): what.start for number in partitions}})
        options = self._options | ({"startingOffsets": starts} if what.start else {})
        read = (
            {"subscribe": self._topic} if what.partition is None else {"assign": json.dumps({self._topic: partitions})}
        )
        return self._typed(self.spark.read.format(self._format).options(**options, **read).load())

    def stream(self) -> DataFrame:
        options = self._options | {"subscribe": self._topic, "startingOffsets": "earliest"}
        return self._typed(self.spark.readStream.format(self._format).options(**options).load())

    def _typed(self, frame: DataFrame) -> DataFrame:
        return frame.selectExpr("partition", "offset", "CAST(key AS STRING) AS k", "CAST(value AS STRING) AS v")


class Copy:
    """Parquet copies as a source of programs, made of what was sent: one for each size of the topic.

    Attributes:
        size: how many records each partition has in the copy that programs read.
    """

    keeps_frames = False  # a DataFrame over files reads those that were there when it was made

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self._scratch = folder
        self.resize(RECORDS)

    @property
    def _folder(self) -> str:
        return str(self._scratch / f"of-{self.size}")

    def grow(self, count: int) -> None:
        self.resize(self.size + count)

    def resize(self, size: int) -> None:
        """Use the copy that has `size` records of each partition."""
        self.size = size
        if not Path(self._folder).exists():
            self.spark.createDataFrame(records(0, self.size), _SCHEMA).coalesce(1).write.parquet(self._folder)

    def load(self, what: Load) -> DataFrame:
        frame = self.spark.read.parquet(self._folder).where(f"offset >= {what.start}")
        return frame if what.partition is None else frame.where(f"partition = {what.partition}")

    def stream(self) -> DataFrame:
        return self.spark.readStream.schema(_SCHEMA).parquet(self._folder)


_names = itertools.count()


def outcomes(program: Program, topic: Topic, copy: Copy, scratch: Path) -> tuple[list[Any], list[Any]]:
    """What the results of a program are over the topic, and over the copy."""
    copy.resize(topic.size)
    return run(program, topic, scratch), run(program, copy, scratch)


def run(program: Program, source: Topic | Copy, scratch: Path) -> list[Any]:
    """What the results of a program are, over one of the sources."""
    with ExitStack() as ending:
        frames = _frames(program, source, ending)
        found: list[Any] = []
        for step in program.steps:
            if not isinstance(step, Grow):
                found.append(_result(step, frames, source, scratch))
                continue
            source.grow(step.records)
            if not source.keeps_frames:
                frames = _frames(program, source, ending)
        return found


def _frames(program: Program, source: Topic | Copy, ending: ExitStack) -> list[DataFrame]:
    """The DataFrames of the nodes; `ending` drops views and caches."""
    frames: list[DataFrame] = []
    for node in program.nodes:
        frames.append(_frame(node, frames, source, ending))
    return frames


def _frame(node: Node, frames: Sequence[DataFrame], source: Topic | Copy, ending: ExitStack) -> DataFrame:
    match node:
        case Load():
            return source.load(node)
        case Filter(child, condition):
            return frames[child].where(condition)
        case Union(left, right):
            return frames[left].union(frames[right])
        case Join(left, right, on, how):
            return _joined(frames[left], frames[right], on, how)
        case View(child):
            view = f"view_{next(_names)}"
            frames[child].createOrReplaceTempView(view)
            ending.callback(source.spark.catalog.dropTempView, view)
            return source.spark.table(view)
        case Cache(child):
            cached = frames[child].cache()
            ending.callback(cached.unpersist)
            return cached
        case Distinct(child):
            return frames[child].distinct()


def _joined(left: DataFrame, right: DataFrame, on: tuple[str, ...], how: str) -> DataFrame:
    """Rows of the left side: joins of what was joined stay small, as the right side has each key once."""
    from pyspark.sql.functions import expr

    keys = right.selectExpr(*(f"{name} AS of_{name}" for name in on)).distinct()
    a, b = left.alias("a"), keys.alias("b")
    condition = " AND ".join(f"a.{name} <=> b.of_{name}" for name in on)
    return a.join(b, expr(condition), how).selectExpr(*(f"a.{name}" for name in COLUMNS))


def _result(result: Result, frames: Sequence[DataFrame], source: Topic | Copy, scratch: Path) -> Any:
    frame = frames[result.node]
    match result:
        case Collect():
            return _sorted(frame)
        case Count():
            return frame.count()
        case Group():
            return _sorted(frame.groupBy("partition").count())
        case StreamJoin(_, condition):
            return _stream_join(source.stream().where(condition), frame, source.spark, scratch)


def _stream_join(stream: DataFrame, batch: DataFrame, spark: SparkSession, scratch: Path) -> list[Any]:
    name = f"joined_{next(_names)}"
    joined = _joined(stream, batch, ("partition", "offset"), "inner")
    writer = joined.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(scratch / name)).start()
    try:
        assert query.awaitTermination(_STREAM_SECONDS_MAX), "the stream did not end"
        return _sorted(spark.table(name))
    finally:
        query.stop()
        spark.catalog.dropTempView(name)


def _sorted(frame: DataFrame) -> list[Any]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)
