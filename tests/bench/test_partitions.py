"""The benchmark of many partitions runs and measures what it says; its numbers are nobody's business here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["--only", "batches", "--what", "silence"], 1),
        pytest.param([], 12, marks=pytest.mark.soak),
    ],
)
def test_every_reader_reads_every_number_of_partitions(arguments: list[str], lines: int) -> None:
    command = [sys.executable, "-m", "bench.partitions", "--records", "20000", "--turns", "1", "--seconds", "0.5"]
    command += ["--count", "3", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    head, *told = done.stdout.splitlines()
    assert head.split()[0] == "reader"
    assert len(told) == lines
    assert all(float(line.split()[-5]) > 0 for line in told)
