"""A task ends if its position advances, however long stretches without records take, for every seed."""

from __future__ import annotations

import pytest

from kafkaraw.testing.audit_spark import audit_tasks
from tests.spark.reading.ranges import PATIENCE_S, read_slow_partition


@pytest.mark.parametrize("seed", range(10))
def test_a_task_that_advances_does_not_give_up(seed: int):
    task = read_slow_partition(seed)
    assert audit_tasks([task]) == []


def test_these_ranges_take_longer_than_a_task_is_patient():
    tasks = [read_slow_partition(seed) for seed in range(10)]
    assert any((task.ended_s or 0.0) > 5 * PATIENCE_S for task in tasks)
