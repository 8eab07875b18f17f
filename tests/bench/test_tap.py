"""The benchmark of the tap runs and measures what it says; its numbers do not count here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.tap.__main__ import RAW_KB, ROWS, Run, lines_of, raw_lines_of, raw_name
from bench.tap.raw import KEYS, load, raw_broker

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
def test_both_ways_are_measured(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "bench.tap", "--records", "2000", "--round-trips", "20", "--turns", "1"]
    done = subprocess.run(
        [*command, "--raw-megabytes", "5", "--output", str(result)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert result.exists(), done.stderr
    measured = json.loads(result.read_text())["measurements"]
    runs, raw_runs = measured[: 2 * len(ROWS)], measured[2 * len(ROWS) :]
    assert [(run["workload"], run["way"]) for run in runs] == [
        (workload, way) for way in ("direct", "tap") for workload in ROWS
    ]
    assert all(run["bytes"] == 2_000_000 for run in runs if run["workload"] != "round-trip")
    assert all(run["tap_cpu_seconds"] == 0 for run in runs if run["way"] == "direct")
    assert [(run["workload"], run["way"]) for run in raw_runs] == [
        (raw_name(workload, kilobytes), way) for kilobytes in RAW_KB for workload in KEYS for way in ("direct", "tap")
    ]
    assert all(4_000_000 < run["bytes"] < 6_000_000 for run in raw_runs)


@pytest.mark.parametrize("workload", KEYS)
def test_raw_load_is_answered_frame_by_frame(workload: str) -> None:
    with raw_broker(1 << 16) as servers:
        found = load(workload, servers, 1 << 16, 2, 20)
    assert found["records"] == 20
    assert 0.9 * (20 << 16) < found["bytes"] < 1.1 * (20 << 16)


def test_raw_load_is_judged_by_time_and_by_cpu_time() -> None:
    runs = [
        Run(raw_name(workload, kilobytes), way, 1, 1_000_000_000, 1.0, cpu)
        for workload in KEYS
        for kilobytes in RAW_KB
        for way, cpu in (("direct", 0.0), ("tap", 4.0))
    ]
    by_time, by_cpu, *_ = raw_lines_of(runs)
    assert (by_time.name, by_time.ours, by_time.verdict) == ("tap alone, produce 64 KB", 1000, "aim")
    assert (by_cpu.ours, by_cpu.verdict) == (250, "missed")


def test_rates_are_judged_by_cpu_time_and_round_trips_by_what_the_tap_adds() -> None:
    runs = []
    for way, seconds, cpu in (("direct", 1.0, 0.0), ("tap", 2.0, 0.5)):
        runs += [Run(workload, way, 1, 1_000_000_000, seconds, cpu) for workload in ROWS[:-1]]
        runs.append(Run("round-trip", way, 1, 0, 1.0, cpu, median_seconds=seconds / 1000))
    produce_cpu, produce_time, *_, round_trip = lines_of(runs)
    assert (produce_cpu.ours, produce_cpu.verdict) == (2000, "aim")
    assert (produce_time.ours, produce_time.theirs, produce_time.verdict) == (500, 1000, "must")
    assert (round_trip.got, round_trip.verdict) == (1.0, "missed")
