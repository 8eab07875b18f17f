"""What a process does that is a broker and nothing else."""

from __future__ import annotations

import gc

from kafkaraw.broker.foreground import rare_collections


def test_the_garbage_collector_runs_less_often_while_the_process_is_a_broker():
    before = gc.get_threshold()
    with rare_collections():
        assert all(now >= then for now, then in zip(gc.get_threshold(), before, strict=True))
        assert gc.get_threshold()[0] >= 10 * before[0]
    assert gc.get_threshold() == before
