"""The tasks of a batch read of log directories, without Spark."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from kafkaraw import NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.logs.segment_reader import LogRange
from kafkaraw.spark.options.parsing import check_batch_read, parse_options
from kafkaraw.spark.reading import log_lookup

SIZES = {0: 40, 1: 10, 2: 3}
"""Records of 100 kB in each partition."""


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    with EmbeddedBroker(data_dir=folder) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", len(SIZES), configs={"segment.bytes": str(1 << 20)})])
        with Producer(bootstrap_servers=broker.bootstrap_servers, batch_size=1) as producer:
            for partition, count in SIZES.items():
                for _ in range(count):
                    producer.send("t", bytes(100_000), partition=partition)
    return folder


def tasks(log_dir: Path, cores: int | None, **options: str) -> list[tuple[LogRange, ...]]:
    given = parse_options({"logDirs": str(log_dir), "subscribe": "t"} | options)
    return log_lookup.planned(given, *check_batch_read(given), cores)


def check_covered(found: list[tuple[LogRange, ...]]) -> None:
    ranges = sorted((each.partition, each.start, each.end) for task in found for each in task)
    for (partition, _, end), (following, start, _) in pairwise(ranges):
        assert start == (end if following == partition else 0)
    assert {partition: end for partition, _, end in ranges} == SIZES


def size_of(task: tuple[LogRange, ...]) -> int:
    return sum(piece.likely_end - piece.position for each in task for piece in each.pieces)


@pytest.mark.parametrize(("cores", "share_bytes_max", "count"), [(1, 512, 1), (2, 512, 2), (3, 512, 3), (2, 1, 4)])
def test_each_core_has_a_task_of_equal_bytes(log_dir, monkeypatch, cores, share_bytes_max, count):
    monkeypatch.setattr(log_lookup, "_SHARE_BYTES_MIN", 1 << 20)
    monkeypatch.setattr(log_lookup, "SHARE_BYTES_MAX", max(share_bytes_max << 20, 1_400_000))
    found = tasks(log_dir, cores)
    check_covered(found)
    assert len(found) == count
    sizes = list(map(size_of, found))
    assert max(sizes) - min(sizes) <= 800_000, sizes
    assert sum(map(len, found)) <= len(SIZES) + count - 1


def test_few_bytes_are_one_task(log_dir, monkeypatch):
    monkeypatch.setattr(log_lookup, "_SHARE_BYTES_MIN", 10 << 20)
    [only] = tasks(log_dir, 2)
    check_covered([only])
    assert len(only) == len(SIZES)


def test_options_of_the_number_of_tasks_count_more_than_the_cores(log_dir):
    for options, count in (({"maxTasks": "1"}, 1), ({"minPartitions": "9"}, 9), ({"maxRecordsPerPartition": "20"}, 4)):
        found = tasks(log_dir, 2, **options)
        check_covered(found)
        assert len(found) == count


def test_without_a_known_number_of_cores_each_partition_has_a_task(log_dir):
    found = tasks(log_dir, None)
    check_covered(found)
    assert len(found) == len(SIZES)
