"""Threads that share a producer or a consumer lose nothing, double nothing and hang nobody, wherever they are switched.

The rounds run in processes of their own (`python -m tests.client.threads`), one for each implementation of records.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaraw.records import IMPLEMENTATION
from tests.simulation.seeds import FIRST

ROOT = Path(__file__).parents[3]
ROUNDS = [2, pytest.param(2_000, marks=[pytest.mark.soak, pytest.mark.timeout(7_200)])]
IMPLEMENTATIONS = [
    pytest.param("native", marks=pytest.mark.skipif(IMPLEMENTATION != "native", reason="nothing is compiled here")),
    "python",
]


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_results_of_threads_that_share_a_client_agree_with_the_log(implementation: str, rounds: int):
    arguments = ["--rounds", str(rounds), "--seed", str(FIRST)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.client.threads", *arguments],
        cwd=ROOT,
        env=os.environ | {"KAFKARAW_IMPL": implementation},
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, f"KAFKARAW_IMPL={implementation} python -m tests.client.threads {' '.join(arguments)}"
