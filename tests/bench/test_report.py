"""Results are judged, shown and kept the same way by every benchmark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.report import Goal, Line, Report
from bench.settings import Settings, keys, pairs, values


@dataclass(frozen=True)
class Measured:
    number: float


def test_values_and_keys_have_the_size_asked_for() -> None:
    settings = Settings(value_bytes=100, key_bytes=20, records=2000)
    assert {len(value) for value in values(settings)} == {100}
    assert {len(key) for key in keys(settings)} == {20}
    assert len(set(keys(settings))) == 1000
    assert len(list(pairs(settings, keyed=True))) == 2000


def test_a_result_names_what_it_depends_on_and_says_whether_every_must_is_met(tmp_path: Path) -> None:
    output, picture = tmp_path / "result.json", tmp_path / "table.svg"
    report = Report("anything", output, picture)
    report.begin({"machine": "a box"}, {"turns": 3})
    good = Line("sleeping", "ms", 2.0, Goal(3, 1, less_is_better=True), 2.0)
    bad = Line("running", "m/s", 10.0, Goal(4, 6), 2.5, "walking", 4.0, 1.25)
    assert Report("anything", tmp_path / "good.json").publish([good], [])
    assert not report.publish([good, bad], [Measured(10.0)])
    found = json.loads(output.read_text())
    assert (found["environment"], found["settings"]) == ({"machine": "a box"}, {"turns": 3})
    assert [line["verdict"] for line in found["lines"]] == ["must", "missed"]
    assert found["measurements"] == [{"number": 10.0}]
    drawn = picture.read_text().replace("&#160;", " ")
    assert "machine: a box" in drawn and "walking" in drawn and "2.50x" in drawn


@pytest.mark.parametrize(
    ("goal", "got", "verdict"),
    [
        (Goal(2, 4), 1.9, "missed"),
        (Goal(2, 4), 2.0, "must"),
        (Goal(2, 4), 4.0, "aim"),
        (Goal(0.5, 0.1, True), 0.6, "missed"),
    ],
)
def test_a_number_is_held_against_its_goal(goal: Goal, got: float, verdict: str) -> None:
    assert goal.verdict(got) == verdict
