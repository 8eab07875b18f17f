"""The benchmark of the tap runs and measures what it says; its numbers do not count here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.tap.__main__ import ROWS, Run, lines_of

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
def test_both_ways_are_measured(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "bench.tap", "--records", "2000", "--round-trips", "20", "--turns", "1"]
    done = subprocess.run(
        [*command, "--output", str(result)], cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
    )
    assert result.exists(), done.stderr
    runs = json.loads(result.read_text())["measurements"]
    assert [(run["workload"], run["way"]) for run in runs] == [
        (workload, way) for way in ("direct", "tap") for workload in ROWS
    ]
    assert all(run["bytes"] == 2_000_000 for run in runs if run["workload"] != "round-trip")
    assert all(run["tap_cpu_seconds"] == 0 for run in runs if run["way"] == "direct")


def test_rates_are_judged_by_cpu_time_and_round_trips_by_what_the_tap_adds() -> None:
    runs = []
    for way, seconds, cpu in (("direct", 1.0, 0.0), ("tap", 2.0, 0.5)):
        runs += [Run(workload, way, 1, 1_000_000_000, seconds, cpu) for workload in ROWS[:-1]]
        runs.append(Run("round-trip", way, 1, 0, 1.0, cpu, median_seconds=seconds / 1000))
    produce_cpu, produce_time, *_, round_trip = lines_of(runs)
    assert (produce_cpu.ours, produce_cpu.verdict) == (2000, "aim")
    assert (produce_time.ours, produce_time.theirs, produce_time.verdict) == (500, 1000, "must")
    assert (round_trip.got, round_trip.verdict) == (1.0, "missed")
