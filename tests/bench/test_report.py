"""Results are judged, shown and kept the same way by every benchmark."""

from __future__ import annotations

import json
import re
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
    drawn = picture.read_text()
    assert "machine a box" in drawn and "turns=3" in drawn and "2.50x   10 against 4 m/s" in drawn
    assert "sleeping" not in drawn, "what has no rival is not drawn"


def test_a_bar_grows_to_the_right_where_we_are_better_and_to_the_left_where_we_are_not(tmp_path: Path) -> None:
    def line(got: float, *, less: bool) -> Line:
        return Line("row", "ms", got, Goal(2, 1.5, less_is_better=less), got, "they", 1.0)

    starts = []
    for each in (line(2, less=False), line(0.5, less=True), line(0.5, less=False), line(2, less=True)):
        Report("any", tmp_path / "one.json", tmp_path / "one.svg").publish([each], [])
        starts += re.findall(r'<rect x="([0-9.]+)"', (tmp_path / "one.svg").read_text())
    assert starts[0] == starts[1] > starts[2] == starts[3]


@pytest.mark.parametrize(
    ("got", "aim", "less", "last"),
    [(2.5, 6, False, 8), (5, 2, False, 8), (0.1, 0.5, True, 16), (3, 0.5, True, 2), (99, 2, False, 64)],
)
def test_the_scale_ends_at_the_first_tick_that_holds_every_number(
    tmp_path: Path, got: float, aim: float, less: bool, last: int
) -> None:
    line = Line("row", "ms", got, Goal(0.7 if less else 1, aim, less_is_better=less), got, "they", 1.0)
    Report("any", tmp_path / "one.json", tmp_path / "one.svg").publish([line], [])
    ticks = re.findall(r'text-anchor="middle"[^>]*>([0-9.]+)x<', (tmp_path / "one.svg").read_text())
    assert ticks[-1] == str(last)


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
