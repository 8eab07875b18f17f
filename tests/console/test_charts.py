"""Charts: which rows have one, and that it says what they say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.console.charts import Chart, chart_of

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOURS = [[NOON + timedelta(hours=hour), hour * 2, Decimal("1.5")] for hour in range(6)]


def drawn(columns: list[str], rows: list[list[Any]], kind: str = "auto") -> Chart:
    found = chart_of(columns, rows, kind)
    assert found is not None
    return found


def test_names_are_bars_and_times_are_lines() -> None:
    bars = drawn(["status", "n", "of"], [["new", 3, 1], ["paid", 6, -2]])
    assert (bars.kind, bars.names, bars.title) == ("bars", ["n", "of"], "n, of by status")
    assert [each.text for each in bars.marks] == ["3", "1", "6", "-2"]
    lines = drawn(["hour", "n", "mean"], HOURS)
    assert (lines.kind, len(lines.lines), len(lines.lines[0].split())) == ("lines", 2, 6)
    assert drawn(["hour", "n", "mean"], HOURS, "bars").kind == "bars"
    assert drawn(["status", "n"], [["a", 1], ["b", 2]], "lines").kind == "lines"


def test_bars_are_as_long_as_their_numbers() -> None:
    bars = drawn(["s", "n"], [["a", 10], ["b", 5], ["c", -10], ["d", None]])
    widths = [each.width for each in bars.marks]
    assert widths == [200, 100, 200, 0]
    assert bars.marks[2].x + bars.marks[2].width == pytest.approx(bars.zero)


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        (["n"], [[1], [2]]),
        (["s", "n"], [["a", 1]]),
        (["s", "n"], [["a", "x"], ["b", 1]]),
        (["s", "n"], [["a", float("nan")], ["b", 1]]),
        (["s", "n"], [["a", float("inf")], ["b", 1]]),
        (["s", "n"], [["a", Decimal("sNaN")], ["b", 1]]),
        (["s", "n"], [["a", 1e300], ["b", 1]]),
        (["s", "n"], [["a", True], ["b", False]]),
        (["s", "n"], [[str(number), number] for number in range(61)]),
        (["s", *"abcdef"], [["a", *range(6)], ["b", *range(6)]]),
    ],
)
def test_other_rows_have_no_chart(columns: list[str], rows: list[list[Any]]) -> None:
    assert chart_of(columns, rows, "auto") is None
    assert chart_of(["s", "n"], [["a", 1], ["b", 2]], "none") is None


@given(
    st.lists(
        st.tuples(st.one_of(st.none(), st.integers(), st.text(max_size=5)), st.floats(-1e9, 1e9)),
        min_size=2,
        max_size=20,
    ),
    st.sampled_from(["auto", "bars", "lines"]),
)
def test_a_chart_stays_in_its_picture(rows: list[tuple[Any, float]], kind: str) -> None:
    found = chart_of(["label", "n"], rows, kind)
    assert found is not None
    for each in found.marks:
        assert each.x >= -1e-6 and each.x + each.width <= found.width + 1e-6 and each.y < found.height
    for line in found.lines:
        for point in line.split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= found.width and 0 <= y <= found.height
