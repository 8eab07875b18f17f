"""Every operation inside every hook, with every outcome: nothing is lost, doubled, hung or left over.

The cases run in processes of their own (`python -m tests.client.hooks`), one for each implementation of records: one
that hangs ends with the stacks of its threads. A sample of them runs here, with another seed for every commit; all of
them run in soak.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaraw.records import IMPLEMENTATION
from tests.client.hooks.table import EXPECTED_ERRORS, HOOKS, OPERATIONS, End, every_case
from tests.client.hooks.world import OPERATE
from tests.simulation.seeds import FIRST

ROOT = Path(__file__).parents[3]
SAMPLE = 20
IMPLEMENTATIONS = [
    pytest.param("native", marks=pytest.mark.skipif(IMPLEMENTATION != "native", reason="nothing is compiled here")),
    "python",
]


def run(implementation: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.client.hooks", *arguments],
        cwd=ROOT,
        env=os.environ | {"KAFKARAW_IMPL": implementation},
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, f"KAFKARAW_IMPL={implementation} python -m tests.client.hooks {' '.join(arguments)}"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_an_operation_inside_a_hook_is_carried_out_or_refused_and_no_record_is_lost(implementation: str):
    run(implementation, "--sample", str(SAMPLE), "--seed", str(FIRST))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_every_operation_inside_every_hook(implementation: str):
    run(implementation, "--seed", str(FIRST))


def test_the_table_combines_every_hook_with_every_operation_and_end_on_both_faces():
    combined = {(case.blocking, case.hook, case.operation, case.end) for case in every_case()}
    assert len(combined) == 2 * len(HOOKS) * len(OPERATIONS) * len(End)
    assert OPERATE.keys() == OPERATIONS.keys() == EXPECTED_ERRORS.keys()
