"""A run that is killed loses and repeats nothing, whatever it was doing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.kill_steps import POINTS
from tests.pipelines.kills import IN_A_ROW, pipeline_of_seed, run_killed

SEEDS = 70
ENDED = POINTS.index(("sink: decide", "end", 3)) + 1
"""The seed of a kill between the decision about a micro-batch of a topic and the end of its transactions."""


@pytest.mark.timeout(600)
def test_outputs_are_exact_after_a_kill(spark, kafka, tmp_path):
    pipeline = pipeline_of_seed(1, kafka, tmp_path / "pipeline")
    [outcome] = run_killed([pipeline], kafka, tmp_path / "runs", [ENDED], spark=spark)
    assert outcome.happened, outcome


@pytest.mark.soak
@pytest.mark.timeout(4_000)
@pytest.mark.parametrize("first", range(1, SEEDS + 1, IN_A_ROW))
def test_outputs_are_exact_after_kills_at_every_step(kafka, tmp_path, first):
    assert len(POINTS) <= SEEDS
    pipeline = pipeline_of_seed(first, kafka, Path(tmp_path, "pipeline"))
    outcomes = run_killed([pipeline], kafka, tmp_path / "runs", range(first, first + IN_A_ROW))
    assert sum(each.happened for each in outcomes) >= IN_A_ROW - 1, outcomes
