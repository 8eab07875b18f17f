"""Draws a benchmark's result: for each row how many times as good as its rival we are, beside what must come out.

    .venv/bin/python -m bench.picture RESULT.json PICTURE.svg

Bars begin at 1, where both are alike, and grow by the logarithm; rows without a rival are not drawn.
"""

from __future__ import annotations

import json
import math
from html import escape
from pathlib import Path
from typing import Any, Final

import click

FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
COLOURS: Final = {"aim": "#15803d", "must": "#65a30d", "missed": "#d97706"}
INK, PALE, GRID = "#111827", "#6b7280", "#e5e7eb"
ROW, TOP, BELOW = 26, 62, 74  # pixels
NAMES, BARS, NUMBERS = 250, 440, 330  # the three columns, in pixels
WIDTH: Final = NAMES + BARS + NUMBERS
TICKS: Final = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)
LEAST: Final = TICKS[0]  # where the scale begins; it ends at a later tick
LINE_LETTERS: Final = 150


def _text(x: float, y: float, words: str, *, size: int = 12, anchor: str = "start", colour: str = INK) -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'


def _times(line: dict[str, Any]) -> tuple[float, float, float]:
    """How many times as good as the rival: what came out, must, and should; where less is better, as little."""
    numbers = (line["got"], line["goal"]["must"], line["goal"]["aim"])
    got, must, aim = (1 / number for number in numbers) if line["goal"]["less_is_better"] else numbers
    return got, must, aim


def _at(times: float, most: float) -> float:
    """Where a factor is on the scale."""
    share = math.log(min(max(times, LEAST), most) / LEAST) / math.log(most / LEAST)
    return NAMES + share * BARS


def _wrapped(words: str) -> list[str]:
    lines = [""]
    for word in words.split(", "):
        if len(lines[-1]) + len(word) > LINE_LETTERS:
            lines.append("")
        lines[-1] += word + ", "
    return [line.rstrip(", ") for line in lines]


def _bar(line: dict[str, Any], y: float, most: float) -> list[str]:
    """One row."""
    got, must, aim = _times(line)
    start, end = sorted((_at(1, most), _at(got, most)))
    marks = [
        f'<line x1="{_at(mark, most):.1f}" y1="{y + 2}" x2="{_at(mark, most):.1f}" y2="{y + ROW - 4}" '
        f'stroke="{INK}" stroke-width="2"{dashes}/>'
        for mark, dashes in ((must, ""), (aim, ' stroke-dasharray="3 2"'))
    ]
    numbers = f"{got:.2f}x   {line['ours']:{line['digits']}} against {line['theirs']:{line['digits']}} {line['judged']}"
    return [
        _text(NAMES - 10, y + 16, line["name"], anchor="end"),
        f'<rect x="{start:.1f}" y="{y + 5}" width="{max(end - start, 1):.1f}" height="{ROW - 10}" '
        f'fill="{COLOURS[line["verdict"]]}"/>',
        *marks,
        _text(NAMES + BARS + 14, y + 16, numbers),
    ]


def draw(content: dict[str, Any]) -> str:
    """The picture of a result file.

    Args:
        content: what `bench.report.Report` writes.
    """
    lines = [line for line in content["lines"] if line["theirs"] is not None]
    best = max((number for line in lines for number in _times(line)), default=1)
    most = next((tick for tick in TICKS if tick > 1 and tick >= best), TICKS[-1])  # there is always a better side
    about, settings = content["environment"], content["settings"]
    notes = _wrapped(", ".join(f"{name} {text}" for name, text in about.items()))
    notes += _wrapped(", ".join(f"{name}={value}" for name, value in settings.items()))
    bottom = TOP + ROW * len(lines)
    height = bottom + BELOW + 15 * len(notes)
    rivals = ", ".join(dict.fromkeys(line["against"] for line in lines))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="{FONT}">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(16, 26, f"make bench-{content['bench']}: kafkaraw against {rivals}", size=16),
    ]
    for tick in TICKS:
        if tick <= most:
            x = _at(tick, most)
            colour = PALE if tick == 1 else GRID
            parts.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}"/>')
            parts.append(_text(x, TOP - 10, f"{tick:g}x", anchor="middle", size=11, colour=PALE))
    for number, line in enumerate(lines):
        parts += _bar(line, TOP + number * ROW, most)
    parts.append(_text(NAMES, bottom + 22, "times as good as the rival; line: must, dashes: aim", colour=PALE))
    parts += [_text(16, bottom + 50 + 15 * at, note, size=11, colour=PALE) for at, note in enumerate(notes)]
    return "\n".join([*parts, "</svg>", ""])


@click.command(help=__doc__)
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("picture", type=click.Path(dir_okay=False, path_type=Path))
def main(result: Path, picture: Path) -> None:
    """Draw a picture of a result file."""
    picture.write_text(draw(json.loads(result.read_text())))


if __name__ == "__main__":
    main()
