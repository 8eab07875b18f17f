"""The benchmark of lake tables runs and measures what it says; its numbers are not tested here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.tables import COMMIT, COMMITS, DELTA, PARQUET, SIZE, Measurement, lines_of

ROOT = Path(__file__).parents[2]


def test_factors_are_those_within_a_turn_and_the_worst_file_counts():
    rates = [(PARQUET, "kafka", 0, 100), (PARQUET, "kafka", 1, 200), (DELTA, "kafkaraw", 0, 150)]
    rates += [(DELTA, "kafkaraw", 1, 500), (PARQUET, "kafkaraw", 0, 110), (PARQUET, "kafkaraw", 1, 220)]
    sizes = [(SIZE, "kafkaraw", 0, 1.1), (SIZE, "kafkaraw", 0, 0.7)]
    commits = [(f"{COMMIT}, {kind}", "kafkaraw", COMMITS, 0.25) for kind in ("delta", "iceberg")]
    lines = lines_of([Measurement(*each) for each in (*rates, *sizes, *commits)])
    assert [round(line.got, 2) for line in lines] == [2.0, 1.1, 30.0, 250.0, 250.0]
    assert [line.verdict for line in lines] == ["aim", "missed", "missed", "missed", "missed"]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_both_connectors_write_both_tables(tmp_path):
    command = [sys.executable, "-m", "bench.tables", "--records", "20000", "--turns", "1", "--target-file-size", "1"]
    command += ["--output", str(tmp_path / "result.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr
    lines = json.loads((tmp_path / "result.json").read_text())["lines"]
    assert {DELTA, PARQUET, f"{COMMIT}, delta", f"{COMMIT}, iceberg"} <= {line["name"] for line in lines}
    assert all(line["ours"] > 0 for line in lines)
