"""The example of a work queue does all jobs, at least once each, and sooner in a share group."""

from __future__ import annotations

import pytest

from examples.queue.__main__ import JOBS, LONG_MS, QUICK, run
from kafkaraw.broker import EmbeddedBroker


@pytest.mark.soak
def test_unequal_work_is_done_sooner_in_a_share_group() -> None:
    with EmbeddedBroker(properties=QUICK) as broker:
        of_consumers, of_sharers = (run(broker.bootstrap_servers, each) for each in ("consumer", "share"))
    for each in (of_consumers, of_sharers):
        assert set(each.done) == set(range(JOBS))
        assert each.dead == 1
    assert of_consumers.seconds >= 3 * LONG_MS / 1000  # one partition has three long jobs
    assert of_sharers.seconds < of_consumers.seconds
    assert sum(bool(log.done) for log in of_sharers.logs) == len(of_sharers.logs)
