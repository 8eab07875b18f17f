"""A run that is killed loses and repeats nothing, whatever it was doing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.kills import TOGETHER, pipeline_of_seed, run_killed


@pytest.mark.timeout(600)
def test_outputs_are_exact_after_a_kill(spark, kafka, tmp_path):
    pipelines = [pipeline_of_seed(seed, kafka, tmp_path / str(seed)) for seed in (1, 2)]
    assert run_killed(pipelines, kafka, tmp_path / "output", kills=1, spark=spark) == 1


@pytest.mark.soak
@pytest.mark.timeout(4_000)
@pytest.mark.parametrize("first", range(1, 51, TOGETHER))
def test_outputs_are_exact_after_kills_of_many_seeds(kafka, tmp_path, first):
    seeds = range(first, first + TOGETHER)
    pipelines = [pipeline_of_seed(seed, kafka, Path(tmp_path, str(seed))) for seed in seeds]
    assert run_killed(pipelines, kafka, tmp_path / "output", kills=2) > 0
