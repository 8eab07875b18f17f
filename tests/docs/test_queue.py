"""The example of a work queue does all jobs, at least once each."""

from __future__ import annotations

import pytest

from examples.queue.__main__ import JOBS, run
from kafkaraw.broker import EmbeddedBroker


@pytest.mark.soak
def test_workers_share_the_jobs_and_a_released_job_is_done_at_its_second_delivery() -> None:
    with EmbeddedBroker() as broker:
        logs = run(broker.bootstrap_servers)
    done = {number: count for log in logs for number, count in log.done}
    assert set(done) == set(range(JOBS))
    assert all(done[number] >= 2 for number in range(9, JOBS, 10))
    assert sum(log.rejected for log in logs) == 1
    assert sum(bool(log.done) for log in logs) > 1
