"""The benchmark of the send path runs and measures what it says; its numbers are nobody's business here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.produce import others, ours
from bench.produce.__main__ import Measurement, line_of, settings_of
from bench.produce.rows import ROWS, Judged
from bench.settings import Settings

ROOT = Path(__file__).parents[2]
QUICK = ("send, lz4", "await send", "plain Python", "one send and flush, async")


def run(names: Sequence[str], tmp_path: Path) -> dict[str, dict[str, object]]:
    result, picture = tmp_path / "result.json", tmp_path / "table.svg"
    command = [sys.executable, "-m", "bench.produce", "--turns=1", "--records=3000"]
    command += [*(f"--only={name}" for name in names), f"--output={result}", f"--picture={picture}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "batch_size=262144" in done.stdout.replace("\n", "")
    assert picture.read_text().startswith("<svg")
    return {line["name"]: line for line in json.loads(result.read_text())["lines"]}


def test_rows_are_measured_and_judged(tmp_path: Path) -> None:
    found = run(QUICK, tmp_path)
    assert set(found) == set(QUICK)
    for row in found.values():
        assert row["verdict"] in ("aim", "must", "missed")
        assert row["ours"] > 0
        assert row["theirs"] > 0


@pytest.mark.soak
def test_all_rows_are_measured(tmp_path: Path) -> None:
    assert set(run(list(ROWS), tmp_path)) == set(ROWS)


def test_a_row_has_its_own_settings() -> None:
    assert settings_of(ROWS["send, lz4"], Settings()).compression == "lz4"
    assert settings_of(ROWS["send, 10 KB"], Settings(records=1000)).records == 20


def test_every_row_names_works_that_there_are() -> None:
    for row in ROWS.values():
        assert row.ours in ours.WORKS
        assert set(row.others) <= set(others.WORKS)
        assert settings_of(row, Settings()).records <= Settings().records


def measured(row: str, work: str, turn: int, **found: float) -> Measurement:
    return Measurement(row, work, turn, {"records": 100, "seconds": 1.0, "cpu_seconds": 1.0} | found)


def test_factors_are_taken_within_a_turn_and_against_the_best() -> None:
    row = ROWS["await send"]
    seconds = {"async-send": (1, 10, 2), "aiokafka": (20, 120, 22), "aio-producer": (50, 50, 50)}
    runs = [
        measured(row.name, work, turn, seconds=value)
        for work, values in seconds.items()
        for turn, value in enumerate(values)
    ]
    found = line_of(row, runs, by_cpu=False)
    assert (found.against, found.got) == ("aiokafka", 12)
    assert (found.ours, found.verdict) == (50, "must")


def test_a_busy_machine_is_judged_by_cpu() -> None:
    row = ROWS["send"]
    runs = [measured(row.name, "send", 0, cpu_seconds=1), measured(row.name, "produce", 0, cpu_seconds=7, seconds=0.1)]
    found = line_of(row, runs, by_cpu=True)
    assert (found.judged, found.got, found.verdict) == (Judged.CPU.value, 7, "aim")


@pytest.mark.parametrize(
    ("name", "got", "verdict"),
    [
        ("send", 3.9, "missed"),
        ("send", 4.0, "must"),
        ("one send and flush", 2.1, "missed"),
        ("one send and flush", 1.5, "aim"),
        ("idle", 0.3, "must"),
        ("dead broker, endless sends", -3.0, "aim"),
    ],
)
def test_less_is_better_for_latency_idleness_and_memory(name: str, got: float, verdict: str) -> None:
    assert ROWS[name].goal.verdict(got) == verdict
