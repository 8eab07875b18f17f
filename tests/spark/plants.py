"""Bugs to plant in the Spark source and sink, one at a time; each must be found by an auditor.

The counterpart of `tests.simulation.plants`, for code that does not run on virtual time. A plant patches the running
program; its scenario then says which invariants were violated, and violates none without the plant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from kafkaraw.records import Batch
from kafkaraw.spark.reading import task as reading
from kafkaraw.spark.reading.task import _RangeRead
from kafkaraw.testing.audit_reading import audit_tasks
from kafkaraw.testing.invariants import Invariant, Violation
from tests.spark.reading.ranges import read_slow_partition


@dataclass(frozen=True)
class SparkPlant:
    """A bug: how to plant it, the scenario in which it shows, and the invariants by which it may be found."""

    plant: Callable[[pytest.MonkeyPatch], None]
    scenario: Callable[[], list[Violation]]
    invariants: frozenset[Invariant]

    @property
    def name(self) -> str:
        return self.plant.__name__


def read_slow_partitions() -> list[Violation]:
    """Tasks read partitions with long stretches without records."""
    return audit_tasks([read_slow_partition(seed) for seed in range(5)])


def task_counts_records_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(self: _RangeRead) -> Iterator[Batch]:
        self._seek(self._work.start)
        waiting_since_s = read_time()
        while self._position < self._work.end:
            found = self._poll()
            if found is None:
                self._check_waiting(waiting_since_s)
                continue
            self._position = found.next_offset
            yield found
            waiting_since_s = read_time()

    def read_time() -> float:
        return reading.time.monotonic()

    monkeypatch.setattr(_RangeRead, "_fetched", fetched)


PLANTS = {
    plant.name: plant
    for plant in (
        SparkPlant(task_counts_records_only, read_slow_partitions, frozenset({Invariant.GAVE_UP_WHILE_ADVANCING})),
    )
}
