"""Filters that are pushed down read less, and lose nothing."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from kafkaraw.records import TopicPartition
from kafkaraw.spark.reading.planning import OffsetRange
from kafkaraw.spark.reading.pushdown import divide, narrow

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ENABLED = "spark.sql.python.filterPushdown.enabled"
MEANING = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, values: value in values,
}


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


class Log:
    """One record per offset; `times_ms` are those of every partition."""

    def __init__(self, times_ms: list[int]) -> None:
        self.times_ms = times_ms

    def earliest(self, partitions):
        raise AssertionError("what is to be read is known")

    latest = earliest

    def at_timestamps(self, timestamps):
        return {tp: self._first(time_ms) for tp, time_ms in timestamps.items()}

    def _first(self, time_ms):
        assert time_ms >= 0, "would ask for something else than a time"
        return next((offset for offset, at_ms in enumerate(self.times_ms) if at_ms >= time_ms), None)


def whole(end: int) -> list[OffsetRange]:
    return [OffsetRange(topic, partition, 0, end) for topic in "ab" for partition in range(3)]


def holds(each, row) -> bool:
    if isinstance(each, Not):
        return not holds(each.child, row)
    return MEANING[type(each)](row[each.attribute[0]], each.value)


def comparisons(column: str, values) -> st.SearchStrategy:
    single = st.sampled_from([kind for kind in MEANING if kind is not In])
    one = st.builds(lambda kind, value: kind((column,), value), single, values)
    several = st.lists(values, min_size=1, max_size=3).map(lambda chosen: In((column,), tuple(chosen)))
    return one | several | one.map(Not) | several.map(Not)


FILTERS = st.one_of(
    comparisons("topic", st.sampled_from("abc")),
    comparisons("partition", st.integers(-1, 4)),
    comparisons("offset", st.integers(-2, 9)),
    comparisons("timestamp", st.integers(-2_000, 9_000).map(moment)),
)


@given(times_ms=st.lists(st.integers(-1, 8), max_size=8), filters=st.lists(FILTERS, max_size=4))
def test_what_is_read_and_left_to_spark_gives_the_same_rows(times_ms, filters):
    used, left = divide(filters)
    rows = [
        {"topic": work.topic, "partition": work.partition, "offset": offset, "timestamp": moment(1000 * at_ms)}
        for work in whole(len(times_ms))
        for offset, at_ms in enumerate(times_ms)
    ]
    narrowed = narrow(whole(len(times_ms)), used, Log(times_ms))
    read = [
        row
        for row in rows
        if any(
            (work.topic, work.partition) == (row["topic"], row["partition"]) and work.start <= row["offset"] < work.end
            for work in narrowed
        )
    ]
    assert [row for row in read if all(holds(each, row) for each in left)] == [
        row for row in rows if all(holds(each, row) for each in filters)
    ]
    assert all(work.size for work in narrowed)


@pytest.mark.parametrize(
    ("each", "sizes"),
    [
        (EqualTo(("partition",), 1), [10, 10]),
        (Not(In(("partition",), (0, 1))), [10, 10]),
        (EqualTo(("topic",), "b"), [10, 10, 10]),
        (GreaterThan(("offset",), 6), [3] * 6),
        (LessThanOrEqual(("offset",), 6), [7] * 6),
        (In(("offset",), (2, 5)), [4] * 6),
        (GreaterThan(("timestamp",), moment(6_999)), [3] * 6),
        (GreaterThan(("timestamp",), moment(7_000)), [2] * 6),
        (EqualTo(("timestamp",), moment(9_000)), [1] * 6),
        (LessThan(("timestamp",), moment(2_000)), [10] * 6),
        (GreaterThan(("timestamp",), moment(99_000)), []),
    ],
)
def test_a_filter_shrinks_the_work(each, sizes):
    used, _ = divide([each])
    assert [work.size for work in narrow(whole(10), used, Log([*range(10)]))] == sizes


def test_what_is_exact_is_kept_from_spark():
    exact = [
        EqualTo(("partition",), 1),
        LessThan(("offset",), 3),
        IsNotNull(("timestamp",)),
        Not(EqualTo(("topic",), "a")),
    ]
    bounds = [In(("offset",), (1, 3)), GreaterThan(("timestamp",), EPOCH)]
    assert divide([*exact, *bounds])[1] == bounds


def test_what_is_not_understood_is_left_to_spark():
    filters = [
        EqualTo(("value",), b"x"),
        EqualTo(("partition", "inner"), 1),
        In(("partition",), (1, None)),
        EqualTo(("partition",), True),
        Not(EqualTo(("offset",), 1)),
        GreaterThan(("timestamp",), datetime(2020, 1, 1)),
        IsNull(("offset",)),
        IsNotNull(("key",)),
        StringStartsWith(("topic",), "a"),
    ]
    assert divide(filters) == ([], filters)


def test_every_partition_is_asked_once_for_a_time():
    halves = [OffsetRange("a", 0, 0, 5), OffsetRange("a", 0, 5, 10)]
    used, _ = divide([GreaterThan(("timestamp",), moment(5_000)), GreaterThan(("timestamp",), moment(1_000))])
    asked = []

    class Listening(Log):
        def at_timestamps(self, timestamps):
            asked.append(timestamps)
            return super().at_timestamps(timestamps)

    assert narrow(halves, used, Listening([*range(10)])) == [OffsetRange("a", 0, 6, 10)]
    assert asked == [{TopicPartition("a", 0): 6}]


@pytest.fixture(scope="module")
def timed(kafka) -> str:
    """Offsets 0 to 9 in two partitions; the time of each is 1000 s later, but the last is the earliest."""
    topic = kafka.new_topic(partitions=2)
    for partition in range(2):
        for number in range(10):
            time_ms = 1_600_000_000_000 + (1_000_000 * number if number < 9 else -1)
            kafka.producer.send(topic, b"%d" % number, partition=partition, timestamp_ms=time_ms)
    kafka.producer.flush(10)
    return topic


# Filter -> rows, and tasks that read them.
QUERIES = {
    "partition IN (1, 7) AND offset BETWEEN 2 AND 4": (3, 1),
    "offset >= 8 OR offset = 3": (6, 2),
    "timestamp > timestamp_seconds(1600007000.0005)": (2, 2),
    "timestamp <= timestamp_seconds(1600000000) AND partition < 1": (2, 1),
    "offset < 0": (0, 1),
}


def test_filtered_queries_have_the_same_rows_with_fewer_tasks(spark, kafka, timed):
    columns = ("partition", "offset", "timestamp")
    spark.conf.set(ENABLED, "false")
    try:  # a filter must not fail where push-down is forbidden
        everything = kafka.batch(spark, subscribe=timed).load().where("offset >= 0").select(*columns).collect()
    finally:
        spark.conf.set(ENABLED, "true")
    kept = spark.createDataFrame(everything)
    found = {}
    for filter in QUERIES:
        frame = kafka.batch(spark, subscribe=timed).load().where(filter).select(*columns)
        rows = frame.collect()
        assert sorted(rows) == sorted(kept.where(filter).collect()), filter
        found[filter] = len(rows), frame.rdd.getNumPartitions()
    assert found == QUERIES


def test_spark_is_left_with_what_is_not_exact(spark, kafka, timed, capsys):
    kafka.batch(spark, subscribe=timed).load().where("partition = 1 AND timestamp >= '2020-01-01'").explain()
    (kept,) = [line for line in capsys.readouterr().out.splitlines() if "Filter (" in line]
    assert "timestamp" in kept
    assert "partition" not in kept
