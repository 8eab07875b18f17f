"""How much a batch takes and how it is cut into tasks."""

from __future__ import annotations

import json
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.ranges.planning import OffsetRange, bundle, prorate, ranges_between, share, split
from kafkaraw.records import TopicPartition

A0, A1, A2 = (TopicPartition("a", n) for n in range(3))
BACKLOGS = st.lists(st.integers(0, 10**12), min_size=1, max_size=20)


def test_a_batch_takes_from_each_partition_in_proportion_to_its_backlog():
    start, end = {A0: 100, A1: 0}, {A0: 400, A1: 700}
    assert prorate(start, end, 100) == {A0: 130, A1: 70}


def test_a_small_partition_beside_a_large_one_still_moves_on():
    assert prorate({A0: 0, A1: 5}, {A0: 10**9, A1: 6}, 10) == {A0: 9, A1: 6}


def test_a_backlog_below_the_limit_is_taken_whole():
    assert prorate({A0: 0, A1: 0}, {A0: 5, A1: 5}, 10) == {A0: 5, A1: 5}


def test_a_partition_whose_end_went_back_keeps_the_lower_end():
    assert prorate({A0: 50, A1: 0}, {A0: 20, A1: 100}, 10) == {A0: 20, A1: 10}


@given(BACKLOGS, st.integers(1, 10**12))
def test_every_backlog_shrinks_and_the_sum_stays_near_the_limit(backlogs, rows_max):
    start = {TopicPartition("a", n): 7 for n in range(len(backlogs))}
    end = {TopicPartition("a", n): 7 + size for n, size in enumerate(backlogs)}
    planned = prorate(start, end, rows_max)
    assert planned.keys() == end.keys()
    assert all(start[tp] < planned[tp] <= end[tp] or end[tp] == planned[tp] == start[tp] for tp in end)
    assert sum(planned[tp] - start[tp] for tp in end) <= max(rows_max, 0) + len(backlogs)


def test_an_end_at_or_before_its_start_is_no_work():
    assert ranges_between({A0: 200, A1: 5, A2: 1}, {A0: 150, A1: 5, A2: 3}) == [OffsetRange("a", 2, 1, 3)]


def test_without_a_minimum_each_range_is_one_task():
    ranges = [OffsetRange("a", 0, 0, 10**9), OffsetRange("a", 1, 0, 1)]
    assert split(ranges, None) == ranges
    assert split(ranges, 2) == ranges


def test_a_minimum_cuts_large_ranges_and_leaves_small_ones_whole():
    ranges = [OffsetRange("a", 0, 0, 1000), OffsetRange("a", 1, 0, 10)]
    assert split(ranges, 4) == [
        OffsetRange("a", 0, 0, 333),
        OffsetRange("a", 0, 333, 666),
        OffsetRange("a", 0, 666, 1000),
        OffsetRange("a", 1, 0, 10),
    ]


@given(BACKLOGS, st.integers(1, 200))
def test_the_tasks_cover_the_ranges_without_gap_or_overlap(sizes, partitions_min):
    ranges = [OffsetRange("a", n, 3, 3 + size) for n, size in enumerate(sizes) if size]
    tasks = split(ranges, partitions_min)
    for whole in ranges:
        parts = sorted(task for task in tasks if task.partition == whole.partition)
        assert [part.start for part in parts] == [whole.start, *(part.end for part in parts[:-1])]
        assert parts[-1].end == whole.end
        assert all(part.size > 0 for part in parts)


def test_no_task_takes_more_of_a_partition_than_its_limit():
    ranges = [OffsetRange("a", 0, 0, 1000), OffsetRange("a", 1, 0, 10)]
    assert [each.size for each in split(ranges, None, 400)] == [333, 333, 334, 10]
    assert [each.size for each in split(ranges, None, 1000)] == [1000, 10]


def test_the_limit_per_partition_counts_before_the_least_number_of_tasks():
    assert [each.size for each in split([OffsetRange("a", 0, 0, 1000)], 2, 250)] == [250] * 4
    assert [each.size for each in split([OffsetRange("a", 0, 0, 1000)], 8, 500)] == [125] * 8


@given(BACKLOGS, st.integers(1, 5))
def test_bundles_hold_every_range_once_and_are_of_like_size(sizes, tasks_max):
    ranges = [OffsetRange("a", n, 0, size) for n, size in enumerate(sizes) if size]
    tasks = bundle(ranges, tasks_max)
    assert sorted(each for task in tasks for each in task) == ranges
    assert len(tasks) == min(tasks_max, len(ranges))
    loads = [sum(each.size for each in task) for task in tasks]
    if loads:
        assert max(loads) - min(loads) <= max(each.size for each in ranges)


def test_without_a_limit_each_range_is_a_task_of_its_own():
    ranges = [OffsetRange("a", 1, 0, 5), OffsetRange("a", 0, 0, 7)]
    assert bundle(ranges, None) == [(ranges[0],), (ranges[1],)]
    assert bundle(ranges, 2) == [(ranges[0],), (ranges[1],)]


# -- imports of the process that plans a query

MODULES_MAX = 190
"""kafkaraw's; 284 when the process imported the consumer and the admin client."""

UNUSED = (
    "kafkaraw.broker.",
    "kafkaraw.client.blocking.",
    "kafkaraw.client.consumer.",
    "kafkaraw.client.credentials.choice.",
    "kafkaraw.client.producer.",
    "kafkaraw.client.admin.client.",
    "kafkaraw.ranges.reading.",
    "kafkaraw.spark.reading.task.",
    "kafkaraw.spark.sink.",
    "kafkaraw.spark.writing.",
    "numpy.",
    "pandas.",
)

QUERY = """
import json, sys
from pyspark.sql.types import StructType
from kafkaraw.spark.source import KafkaDataSource
from kafkaraw.spark.data_source_api import ReadAllAvailable
from kafkaraw.spark.versions import features

servers, topic = sys.argv[1:]
source = KafkaDataSource({"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"})
reader = source.streamReader(StructType().add("value", "binary"))
start = reader.initialOffset()
asked = (start, ReadAllAvailable()) if features().read_limits else ()
assert reader.latestOffset(*asked) == start
reader.stop()
print(json.dumps(sorted(sys.modules)))
"""


def test_planning_a_query_imports_what_it_needs_only(kafka):
    command = [sys.executable, "-c", QUERY, kafka.servers, kafka.new_topic()]
    imported = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
    ours = [name for name in imported if name.partition(".")[0] == "kafkaraw"]
    assert [name for name in imported if f"{name}.".startswith(UNUSED)] == []
    assert len(ours) <= MODULES_MAX


@given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=12), max_size=8), st.integers(1, 9))
def test_shares_have_equal_bytes_and_join_what_follows_on_each_other(partitions, tasks):
    parts = [
        (OffsetRange("a", partition, offset, offset + 1), size)
        for partition, sizes in enumerate(partitions)
        for offset, size in enumerate(sizes)
    ]
    bytes_of = {(part.partition, part.start): size for part, size in parts}
    found = share(parts, tasks)
    read = [(each.partition, offset) for task in found for each in task for offset in range(each.start, each.end)]
    assert read == list(bytes_of)
    assert len(found) <= tasks
    assert sum(map(len, found)) <= len(partitions) + len(found) - 1 or not found
    for task in found:
        size = sum(bytes_of[each.partition, offset] for each in task for offset in range(each.start, each.end))
        assert size <= sum(bytes_of.values()) / tasks + max(bytes_of.values())
