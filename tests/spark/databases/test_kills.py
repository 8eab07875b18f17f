"""Tasks and driver are killed between any two calls to the database: every row is there exactly once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.spark.databases.places import KINDS


def _run(kind, request, tmp_path, first, count, timeout_s):
    where = str(tmp_path / "tables")
    if kind == "postgresql":
        where = request.getfixturevalue("server")[0].options.database
    command = [sys.executable, "-m", "tests.spark.databases.killed_drivers", kind, where, str(tmp_path)]
    done = subprocess.run(
        [*command, str(first), str(count)], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-2000:]


@pytest.mark.parametrize("kind", ["sqlite"])
def test_rows_are_there_once_after_kills(kind, request, tmp_path):
    _run(kind, request, tmp_path, 1, 2, 120)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_there_once_after_kills_of_many_seeds(kind, request, tmp_path):
    _run(kind, request, tmp_path, 100, 50, 1700)
