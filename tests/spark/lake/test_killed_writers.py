"""Drivers that write to a lake table, and replace small files, are killed at drawn calls; each row is there once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rotation import rotating
from tests.spark.lake import killed_writer
from tests.spark.lake.killed_writer import BATCHES, ROWS, drawn
from tests.spark.lake.tables import FORMATS, Lake

ROOT = Path(__file__).parents[3]
SEEDS = range(50)
# About the number of calls that a driver makes in all its micro-batches; a driver is not killed at a larger number.
CALLS = {"delta": 870, "iceberg": 23_000}


def run_driver(lake: Lake, run: str, kill_at: int) -> int:
    """Start a driver, and return how it ended."""
    given = {"kind": lake.kind, "folder": str(lake.folder), "run": run, "kill_at": kill_at}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", killed_writer.__name__, json.dumps(given)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode in (0, -9), done.stderr[-3000:]
    return done.returncode


def check(lake: Lake, seed: int) -> None:
    for number, kill_at in enumerate(drawn(seed, CALLS[lake.kind])):
        run_driver(lake, f"run-{number}", kill_at)
    assert run_driver(lake, "last", 0) == 0
    assert lake.numbers() == [*range(BATCHES * ROWS)]
    assert lake.open().last_batch("query").number == BATCHES - 1
    lake.maintenance().vacuum(0, dry_run=False)
    assert lake.numbers() == [*range(BATCHES * ROWS)]


@pytest.mark.parametrize(("kind", "seed"), rotating([(kind, seed) for seed in SEEDS for kind in FORMATS], 1))
def test_each_row_is_in_the_table_once_though_drivers_are_killed_at_any_call(tmp_path, kind, seed):
    check(Lake(kind, tmp_path), seed)
