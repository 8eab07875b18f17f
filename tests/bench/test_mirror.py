"""The benchmark of mirrors measures what it says, and holds it against the goals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.mirror import (
    AT_LEAST_ONCE,
    KINDS,
    MIRROR_MAKER,
    OURS,
    WORKLOADS,
    Failure,
    Measurement,
    lines_of,
    properties_of,
)
from bench.worker import BenchError
from tests.interop.apache_kafka import why_missing

ROOT = Path(__file__).parents[2]
WORKLOAD = WORKLOADS[0]


def measured(kind: str, turn: int, seconds: float, cpu_seconds: float) -> Measurement:
    return Measurement(kind, WORKLOAD.name, turn, 1_000_000, 0.5, seconds, cpu_seconds, 1.0, 90.0, 100.0)


def test_factors_are_of_medians() -> None:
    found = [measured(OURS, turn, 1.0 + turn / 10, 0.2) for turn in range(3)]
    found += [measured(AT_LEAST_ONCE, turn, 1.0, 0.2) for turn in range(3)]
    found += [measured(MIRROR_MAKER, turn, 11.0, 10.0) for turn in range(3)]
    lines = {line.name: line for line in lines_of(found, [], [WORKLOAD], KINDS)}
    assert round(lines[WORKLOAD.name].got, 6) == 10.0
    assert lines[WORKLOAD.name].verdict == "must"
    assert round(lines[f"{WORKLOAD.name}: CPU"].got, 6) == 0.02
    assert lines[f"{WORKLOAD.name}: CPU"].verdict == "aim"
    assert round(lines[f"{WORKLOAD.name}: exactly once"].got, 2) == 0.91
    assert lines[f"{WORKLOAD.name}: memory"].got == 90.0


def test_table_says_what_mirror_maker_did_not_finish() -> None:
    found = [measured(kind, 0, 1.0, 0.2) for kind in (OURS, AT_LEAST_ONCE)]
    failed = [Failure(MIRROR_MAKER, WORKLOAD.name, 0, attempt, "the copy has 5 offsets") for attempt in (1, 2)]
    first = lines_of(found, failed, [WORKLOAD], KINDS)[0]
    assert (first.against, first.theirs, first.verdict) == ("MirrorMaker 2, which did not finish", None, "missed")
    found.append(measured(MIRROR_MAKER, 1, 11.0, 10.0))
    first = lines_of(found, failed, [WORKLOAD], KINDS)[0]
    assert (first.against, round(first.got, 6)) == ("MirrorMaker 2, after 2 failures", 11.0)


def test_mirror_of_ours_that_does_not_finish_is_an_error() -> None:
    failed = [Failure(OURS, WORKLOAD.name, 0, attempt, "the copy has 5 offsets") for attempt in (1, 2)]
    with pytest.raises(BenchError, match="not copied by kafkaraw"):
        lines_of([measured(AT_LEAST_ONCE, 0, 1.0, 0.2)], failed, [WORKLOAD], KINDS[:2])


def test_both_mirrors_copy_the_same_topic() -> None:
    ours, theirs = (properties_of(kind, "a:1", "b:2", "bench0") for kind in (OURS, MIRROR_MAKER))
    assert {name: theirs[name] for name in ours if name != "delivery"} == {
        name: value for name, value in ours.items() if name != "delivery"
    }


@pytest.mark.soak
def test_mirrors_are_measured_on_apache_kafka(tmp_path: Path) -> None:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    output = tmp_path / "result.json"
    command = [sys.executable, "-m", "bench.mirror", "--records", "20000", "--turns", "1", "--output", str(output)]
    done = subprocess.run(
        [*command, "--only", WORKLOAD.name], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert output.exists(), done.stdout + done.stderr
    assert {each["kind"] for each in json.loads(output.read_text())["measurements"]} == set(KINDS)
