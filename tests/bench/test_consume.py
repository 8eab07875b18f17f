"""The benchmark of reading runs and measures what it says; its numbers are nobody's business here."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from bench.consume import GOALS, LZ4, PLAIN, Goal, Run, show

ROOT = Path(__file__).parents[2]


def test_every_goal_is_measured(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "bench.consume", "--megabytes", "1", "--repeats", "1", "--output", str(result)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode in (0, 1), done.stderr
    runs = json.loads(result.read_text())["runs"]
    wanted = {(reader, str(goal.data)) for goal in GOALS for reader in (goal.reader, goal.rival)}
    assert {(run["reader"], run["data"]) for run in runs} == wanted
    assert all(run["records"] > 0 and run["cpu_seconds"] > 0 for run in runs)
    assert "fetch.queue.backoff.ms=5" in done.stdout


def test_a_goal_is_met_when_the_medians_are_as_many_times_better() -> None:
    runs = [Run("iterate", str(PLAIN), 100, seconds, seconds) for seconds in (1.0, 2.0, 9.0)]
    runs += [Run("confluent consume", str(PLAIN), 100, seconds, seconds * 2) for seconds in (4.0, 4.0, 30.0)]
    runs += [Run("iterate", str(LZ4), 100, 1000.0, 1000.0)]
    printed = io.StringIO()
    console = Console(file=printed, width=120)
    assert show(runs, [Goal("iterate", "confluent consume", PLAIN, "cpu", 4, 5)], console)
    assert not show(runs, [Goal("iterate", "confluent consume", PLAIN, "rate", 2.1, 3)], console)
    assert "MISSED" in printed.getvalue()
