"""Tasks that read ranges with long stretches without records, on a clock that passes as they ask; what they did.

Each Fetch of such a stretch brings the position on, and takes a while: all in all longer than the task's patience.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from kafkaraw.core.fetch.subscription_state import FetchRange
from kafkaraw.errors import KafkaTimeoutError
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.ranges import reading
from kafkaraw.ranges.planning import OffsetRange
from kafkaraw.records import Batch, TopicPartition, encode_batch
from kafkaraw.spark.reading.task import ReadSettings, read_ranges
from kafkaraw.spark.worker import ClientPool
from kafkaraw.testing.audit_spark import ReadTask, audit_tasks

PATIENCE_S = 30.0
FETCH_S = (0.5, 20.0)
STRETCHES = 40
RECORDS = 10
SCHEMA = pa.schema([("value", pa.binary()), ("offset", pa.int64())])


class Clock:
    """A clock that only the polls of `SlowPartition` advance."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


class SlowPartition:
    """A consumer of one partition, most of whose stretches hold no records; each poll takes a while.

    Args:
        seed: which stretches, and how long each poll takes.
        clock: on which it takes that.
        advanced: called with the time at which the position advanced.
    """

    def __init__(self, seed: int, clock: Clock, advanced: Callable[[float], None]) -> None:
        self._rng, self._clock, self._advanced = random.Random(seed), clock, advanced
        self._tp = TopicPartition("t", 0)
        self.end = STRETCHES * RECORDS
        self.full = {number for number in range(STRETCHES) if self._rng.random() < 0.05}
        self._position = 0

    @property
    def offsets(self) -> list[int]:
        """Those of all records."""
        return [number * RECORDS + at for number in sorted(self.full) for at in range(RECORDS)]

    def assign(self, partitions: list[TopicPartition]) -> None:
        pass

    def assign_ranges(self, ranges: dict[TopicPartition, FetchRange]) -> None:
        self._position = ranges[self._tp].start

    def assignment(self) -> list[TopicPartition]:
        return [self._tp]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._position = offset

    def poll(self, timeout: float) -> dict[TopicPartition, Batch]:
        self._clock.now_s += self._rng.uniform(*FETCH_S)
        if self._position >= self.end or self._rng.random() < 0.2:
            return {}
        start, number = self._position, self._position // RECORDS
        self._position = start + RECORDS
        self._advanced(self._clock.now_s)
        if number not in self.full:
            return {}
        records = [(0, None, b"%d" % offset, None) for offset in range(start, self._position)]
        wire = memoryview(encode_batch(records, base_offset=start))
        return {self._tp: Batch("t", 0, wire, start_offset=start)}

    def positions(self) -> dict[TopicPartition, int]:
        return {self._tp: self._position}

    def beginning_offsets(self, partitions: list[TopicPartition], timeout: float) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: list[TopicPartition], timeout: float) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.end)

    def topic_id(self, topic: str) -> str:
        return str(ZERO_UUID)

    def partitions_for(self, topic: str, timeout: float) -> None:
        pass

    def close(self) -> None:
        pass


def read_slow_partition(seed: int) -> ReadTask:
    """Read a partition to its end, as a task does; what it did.

    Raises:
        AssertionError: it ended, and has not read all records.
    """
    clock = Clock()
    task = ReadTask(f"the task of seed {seed}", PATIENCE_S)
    consumer = SlowPartition(seed, clock, task.advanced_s.append)
    task.deadline_s = (STRETCHES * 3 + 20) * FETCH_S[1]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(reading, "time", clock)
        monkeypatch.setattr("kafkaraw.spark.reading.task._consumers", ClientPool(lambda settings: consumer))
        try:
            settings = ReadSettings({}, fail_on_data_loss=True, poll_timeout_ms=int(PATIENCE_S * 1000))
            batches = list(read_ranges([OffsetRange("t", 0, 0, consumer.end)], SCHEMA, settings))
        except KafkaTimeoutError:
            task.gave_up_s = clock.now_s
            return task
    task.ended_s = clock.now_s
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == consumer.offsets
    return task


@pytest.mark.parametrize("seed", range(10))
def test_a_task_that_advances_does_not_time_out(seed: int):
    task = read_slow_partition(seed)
    assert audit_tasks([task]) == []


def test_slow_ranges_take_longer_than_the_poll_timeout():
    tasks = [read_slow_partition(seed) for seed in range(10)]
    assert any((task.ended_s or 0.0) > 5 * PATIENCE_S for task in tasks)
