"""The benchmark runs and measures what it says; its numbers are nobody's business here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.report import Measurement, median
from bench.settings import Settings, keys, values
from bench.workloads import OURS, THEIRS, WORKLOADS

ROOT = Path(__file__).parents[2]


def test_every_workload_runs_with_both_clients(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "bench", "--records", "5000", "--repeats", "1", "--output", str(result)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(result.read_text())
    assert {(each["workload"], each["client"]) for each in found["measurements"]} == {
        (workload, client) for workload in WORKLOADS for client in (OURS, THEIRS)
    }
    assert found["settings"]["records"] == 5000
    assert "fetch_queue_backoff_ms=5" in done.stdout.replace("\n", "")


def test_values_and_keys_have_the_size_asked_for() -> None:
    settings = Settings(value_bytes=100, key_bytes=20)
    assert {len(value) for value in values(settings)} == {100}
    assert {len(key) for key in keys(settings)} == {20}
    assert len(set(keys(settings))) == 1000


def test_the_median_is_of_one_workload_and_client_only() -> None:
    runs = [Measurement("produce", OURS, 10, seconds, seconds / 2) for seconds in (1.0, 2.0, 5.0)]
    runs.append(Measurement("produce", THEIRS, 10, 100.0, 100.0))
    found = median(runs, "produce", OURS)
    assert (found.records_per_second, found.cpu_us_per_record) == (5.0, pytest.approx(100_000))
