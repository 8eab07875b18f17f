"""Charts of a query's rows, as the numbers that a template draws in SVG: one label, and columns of numbers.

Must not make HTML. Start at `chart_of`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from kafkaraw.console.shown import visible

KINDS: Final = ("auto", "bars", "lines", "none")
SERIES_MAX: Final = 5
_BARS_MAX: Final = 60
_LINES_MIN: Final = 3
_LEFT: Final = 160
_WIDTH: Final = 400
_BAR: Final = 14
_GAP: Final = 8
_HEIGHT: Final = 260
_TICKS: Final = 4
_LABELS_MAX: Final = 6
_NAME_MAX: Final = 24
_LEAST: Final = 1e-200
_MOST: Final = 1e200
"""Numbers between these can be drawn to scale."""
_EXACT: Final = 1e15


@dataclass(frozen=True)
class Mark:
    """A bar, a text, or a line of a chart's grid.

    Attributes:
        x: from the left.
        y: from the top.
        width: of a bar.
        text: what it says.
        series: which column of numbers it is of.
    """

    x: float
    y: float
    width: float
    text: str
    series: int = 0


@dataclass(frozen=True)
class Chart:
    """A chart.

    Attributes:
        kind: "bars" or "lines".
        width: of the picture.
        height: of the picture.
        title: says what it shows.
        names: of the columns of numbers.
        marks: bars; of lines, nothing.
        labels: names of rows.
        grid: values of the axis.
        lines: the points of each column, for lines.
        zero: where 0 is: from the left for bars, from the top for lines.
    """

    kind: str
    width: float
    height: float
    title: str
    names: Sequence[str]
    marks: Sequence[Mark]
    labels: Sequence[Mark]
    grid: Sequence[Mark]
    lines: Sequence[str]
    zero: float


def chart_of(columns: Sequence[str], rows: Sequence[Sequence[Any]], kind: str) -> Chart | None:
    """Return the chart of rows: their first column are labels, and the others numbers; None if they are not.

    Args:
        columns: their names.
        rows: values.
        kind: one of `KINDS`; "auto" draws lines if the labels are times or numbers that ascend.
    """
    if kind == "none" or len(columns) < 2 or len(rows) < 2:
        return None
    chosen = [at for at in range(1, len(columns)) if all(_is_number(row[at]) for row in rows)]
    if len(chosen) != len(columns) - 1 or len(chosen) > SERIES_MAX:
        return None
    numbers = [[0.0 if row[at] is None else float(row[at]) for row in rows] for at in chosen]
    names = [visible(columns[at])[:60] for at in chosen]
    title = f"{', '.join(names)} by {visible(columns[0])[:60]}"
    labels = [row[0] for row in rows]
    is_ordered = all(isinstance(each, date | int | float | Decimal) for each in labels) and _ascends(labels)
    if kind == "lines" or (kind == "auto" and is_ordered and len(rows) >= _LINES_MIN):
        return _lines(title, names, labels, numbers)
    return _bars(title, names, labels, numbers) if len(rows) <= _BARS_MAX else None


def _is_number(value: object) -> bool:
    if value is None:
        return True
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return False
    try:
        return abs(float(value)) < _MOST  # false for NaN
    except (OverflowError, ValueError):
        return False


def _ascends(labels: Sequence[Any]) -> bool:
    try:
        return all(one < other for one, other in pairwise(labels))
    except TypeError:
        return False


def _text(label: object) -> str:
    if label is None:
        return "NULL"
    if isinstance(label, datetime):
        return label.strftime("%Y-%m-%d %H:%M:%S")
    text = label.hex(" ") if isinstance(label, bytes) else str(label)
    shown = visible(text[: 2 * _NAME_MAX])
    return shown if len(shown) <= _NAME_MAX else shown[: _NAME_MAX - 1] + "…"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) < _EXACT else f"{value:,.4g}"


def _ends(numbers: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the ends of the axis, which has 0."""
    least = min(0.0, *(min(each) for each in numbers), 0.0)
    most = max(0.0, *(max(each) for each in numbers), 0.0)
    return least, most if most - least > _LEAST else least + 1


def _bars(title: str, names: Sequence[str], labels: Sequence[Any], numbers: Sequence[Sequence[float]]) -> Chart:
    least, most = _ends(numbers)
    scale = _WIDTH / (most - least)
    zero = _LEFT - least * scale
    row_height = _BAR * len(numbers) + _GAP
    marks, texts = [], []
    for at, label in enumerate(labels):
        top = at * row_height
        texts.append(Mark(_LEFT - 6, top + row_height / 2, 0, _text(label)))
        for series, values in enumerate(numbers):
            size = values[at] * scale
            marks.append(Mark(zero + min(size, 0), top + series * _BAR, abs(size), _number(values[at]), series))
    return Chart("bars", _LEFT + _WIDTH + 110, row_height * len(labels), title, names, marks, texts, [], [], zero)


def _lines(title: str, names: Sequence[str], labels: Sequence[Any], numbers: Sequence[Sequence[float]]) -> Chart:
    least, most = _ends(numbers)
    left, right, top = 90, _LEFT + _WIDTH, 10
    across = [left + (right - left) * share for share in _shares(labels)]

    def down(value: float) -> float:
        return top + (_HEIGHT - top) * (most - value) / (most - least)

    lines = [
        " ".join(f"{x:.1f},{down(value):.1f}" for x, value in zip(across, values, strict=True)) for values in numbers
    ]
    steps = [least + (most - least) * step / _TICKS for step in range(_TICKS + 1)]
    grid = [Mark(left, down(value), right - left, _number(value)) for value in steps]
    every = max(math.ceil((len(labels) - 1) / (_LABELS_MAX - 1)), 1)
    texts = [Mark(across[at], _HEIGHT + 18, 0, _text(labels[at])) for at in range(0, len(labels), every)]
    return Chart("lines", right + 80, _HEIGHT + 30, title, names, [], texts, grid, lines, down(0))


def _shares(labels: Sequence[Any]) -> list[float]:
    """Return where labels are between the first and the last one: to scale if they are times or numbers."""
    try:
        whole = labels[-1] - labels[0]
        found = [float((each - labels[0]) / whole) for each in labels]
        if all(0 <= each <= 1 for each in found):
            return found
    except (TypeError, ArithmeticError):
        pass
    return [at / (len(labels) - 1) for at in range(len(labels))]
