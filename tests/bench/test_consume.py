"""The benchmark of reading runs and measures what it says; its numbers are nobody's business here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.consume.__main__ import LARGE, LZ4, PLAIN, ROWS, Joined, Row, Run, by_cpu_only, line_of, line_of_join
from bench.consume.readers import BARE
from bench.report import Goal

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("only", [("arrow",), pytest.param((), marks=pytest.mark.soak)])
def test_rows_are_measured(tmp_path: Path, only: tuple[str, ...]) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "bench.consume", "--megabytes", "1", "--turns", "1", "--output", str(result)]
    command += [f"--only={reader}" for reader in only] + (["--data=100 B lz4", "--bare"] if only else [])
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    runs = json.loads(result.read_text())["measurements"]
    rows = [row for row in ROWS if not only or (row.reader in only and row.data == LZ4)]
    assert len([run for run in runs if "row" in run]) == (0 if only else 8)
    runs = [run for run in runs if "reader" in run]
    bare = BARE if only else ()
    wanted = {(reader, str(row.data)) for row in rows for reader in (row.reader, row.rival, *bare)}
    assert {(run["reader"], run["data"]) for run in runs} == wanted
    assert all(run["records"] > 0 and run["cpu_seconds"] > 0 for run in runs)
    assert "fetch.queue.backoff.ms=5" in done.stdout


def test_a_join_is_as_many_times_as_good_as_it_is_faster() -> None:
    runs = [Joined("join classic", "kafkaraw", seconds, 1.0) for seconds in (0.1, 0.2, 9.0)]
    runs += [Joined("join classic", "confluent", seconds, 2.0) for seconds in (0.2, 0.3, 0.4)]
    line = line_of_join("join classic", runs)
    assert (line.ours, line.theirs, round(line.got, 6), line.cpu_factor, line.verdict) == (200, 300, 1.5, 2, "must")


def test_a_factor_is_that_of_the_medians() -> None:
    runs = [Run("iterate", str(PLAIN), 100, seconds, seconds) for seconds in (1.0, 2.0, 9.0)]
    runs += [Run("confluent consume", str(PLAIN), 100, seconds, seconds * 2) for seconds in (4.0, 4.0, 30.0)]
    runs += [Run("iterate", str(LZ4), 100, 1000.0, 1000.0)]
    by_cpu = line_of(Row("iterate", "confluent consume", PLAIN, "cpu", Goal(4, 5)), runs)
    assert (by_cpu.ours, by_cpu.theirs, by_cpu.got, by_cpu.verdict) == (20_000, 80_000, 4, "must")
    by_rate = line_of(Row("iterate", "confluent consume", PLAIN, "rate", Goal(2.1, 3)), runs)
    assert (by_rate.ours, by_rate.got, by_rate.cpu_factor, by_rate.verdict) == (50, 2, 4, "missed")


def test_a_busy_machine_is_judged_by_cpu_and_each_pair_of_readers_once() -> None:
    rows = by_cpu_only(ROWS)
    assert {row.quantity for row in rows} == {"cpu"}
    assert len({(row.reader, row.rival, row.data) for row in rows}) == len(rows) == len(ROWS) - 3
    goals = [row.goal for row in rows if (row.reader, row.rival, row.data) == ("arrow", "confluent arrow", LARGE)]
    assert goals == [Goal(1, 1.5)]
    assert next(row.goal for row in rows if row.rival == "confluent arrow" and row.data == PLAIN) == Goal(8, 12)
