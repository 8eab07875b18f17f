"""The benchmark of share groups runs and measures what it says; its numbers do not count here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.share.__main__ import Run, line_of

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
def test_readers_take_turns_on_one_topic_of_apache_kafka(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "bench.share", "--records", "20000", "--turns", "1", "--output", str(result)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    runs = json.loads(result.read_text())["measurements"]
    assert [run["reader"] for run in runs] == ["share", "java", "classic"]
    assert all(run["records"] >= 10_000 and run["cpu_seconds"] > 0 for run in runs)
    assert "share.acknowledgement.mode=implicit" in done.stdout


def test_factors_are_those_of_the_medians() -> None:
    runs = [Run("share", 100, seconds, seconds) for seconds in (1.0, 2.0, 9.0)]
    runs += [Run("java", 100, seconds, seconds * 2) for seconds in (4.0, 4.0, 30.0)]
    rate, cpu = (line_of(quantity, runs) for quantity in ("rate", "cpu"))
    assert (rate.ours, rate.theirs, rate.got, rate.cpu_factor, rate.verdict) == (50, 25, 2, 4, "aim")
    assert (cpu.ours, cpu.theirs, cpu.got) == (20_000, 80_000, 4)
