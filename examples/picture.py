"""Draws an example's result: bars or lines in an SVG file, without a library. Start at `bars` and `lines`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
INK, PALE, GRID = "#111827", "#6b7280", "#e5e7eb"
COLOURS: Final = ("#1d4ed8", "#d97706", "#15803d", "#9333ea", "#be123c", "#0e7490")
WIDTH, NAMES, NUMBERS, ROW = 800, 210, 190, 24  # pixels
LINES_HEIGHT, LEFT = 220, 60


def _text(x: float, y: float, words: str, *, size: int = 12, anchor: str = "start", colour: str = INK) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}"'
    return f'<text {place} font-size="{size}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def _svg(title: str, note: str, height: float, parts: Sequence[str]) -> str:
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" font-family="{FONT}">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(16, 26, title, size=16),
        _text(16, 44, note, colour=PALE),
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def bars(title: str, note: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Draw one bar for each row.

    Args:
        title: of the picture.
        note: a line below the title.
        rows: name, value and a text beside the bar; values are at least 0.
    """
    top, most = 60, max((value for _, value, _ in rows), default=1) or 1
    parts = []
    for number, (name, value, words) in enumerate(rows):
        y, long = top + number * ROW, (WIDTH - NAMES - NUMBERS - 16) * value / most
        parts.append(_text(NAMES - 8, y + 16, name, anchor="end"))
        parts.append(
            f'<rect x="{NAMES}" y="{y + 4}" width="{max(long, 1):.1f}" height="{ROW - 8}" fill="{COLOURS[0]}"/>'
        )
        parts.append(_text(NAMES + long + 8, y + 16, words, colour=PALE))
    return _svg(title, note, top + ROW * len(rows) + 16, parts)


def _ticks(least: float, most: float) -> list[float]:
    """Return two to five round numbers between two numbers."""
    power = 10.0 ** math.floor(math.log10((most - least) / 2))
    step = next(each * power for each in (1, 2, 5, 10) if (most - least) / (each * power) < 5)
    return [number * step for number in range(math.ceil(least / step), math.floor(most / step) + 1)]


def lines(title: str, note: str, series: Mapping[str, Sequence[tuple[float, float]]], ends: tuple[str, str]) -> str:
    """Draw one line for each series.

    Args:
        title: of the picture.
        note: a line below the title.
        series: the points of each line by its name.
        ends: the texts at the first and the last x.
    """
    bottom, right = 64.0 + LINES_HEIGHT, WIDTH - 16.0
    points = [point for each in series.values() for point in each]
    first, last = min((x for x, _ in points), default=0), max((x for x, _ in points), default=1)
    most = max((y for _, y in points), default=1) or 1
    least = min(0.0, min((y for _, y in points), default=0))

    def place(x: float, y: float) -> str:
        across = LEFT + (x - first) / ((last - first) or 1) * (right - LEFT)
        return f"{across:.1f},{bottom - (y - least) / (most - least) * LINES_HEIGHT:.1f}"

    parts = []
    for value in _ticks(least, most):
        y = bottom - (value - least) / (most - least) * LINES_HEIGHT
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(_text(LEFT - 6, y + 4, f"{value:,.3g}", anchor="end", colour=PALE))
    for number, (name, each) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(place(x, y) for x, y in each)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(_text(LEFT + number * 180, bottom + 40, name, colour=colour))
    parts += [
        _text(LEFT, bottom + 18, ends[0], colour=PALE),
        _text(right, bottom + 18, ends[1], anchor="end", colour=PALE),
    ]
    return _svg(title, note, bottom + 56, parts)
