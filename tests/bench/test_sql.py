"""The benchmark of SQL runs, and both of its sides have the same results; its numbers do not count here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
def test_both_sides_return_the_same_rows(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [
        sys.executable,
        "-m",
        "bench.sql",
        "--records",
        "20000",
        "--turns",
        "1",
        "--large-gb",
        "0",
        "--output",
        str(result),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    runs = {(run["kind"], run["what"]): run for run in json.loads(result.read_text())["measurements"]}
    assert set(runs) == {
        ("kafkaraw", "json"), ("confluent-kafka", "json"), ("kafkaraw", "bytes"), ("confluent-kafka", "bytes"),
        ("kafkaraw", "hour"), ("kafkaraw", "whole"),
    }  # fmt: skip
    assert [row["n"] for row in runs["kafkaraw", "json"]["result"]] == [6667, 6667, 6666]
    assert runs["kafkaraw", "hour"]["result"] == [{"n": 83}]
