"""Draws docs/architecture.svg: the parts of the package, how they rest on each other, and where the bytes go.

    .venv/bin/python docs/draw_architecture.py

The picture is data: USERS, BOXES and ARROWS below, in a grid of columns and rows. A test checks that the committed file
is what this script draws, and that the layers are those of the import contract in pyproject.toml.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

OUTPUT = Path(__file__).with_name("architecture.svg")

COLUMN, ROW = 118, 66  # pixels
GAP = 10
LEFT, TOP = 20, 20
COLUMNS, ROWS = 8.6, 10.6
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"

# Kind -> fill, edge.
COLOURS = {
    "user": ("#ffffff", "#6b7280"),
    "entry": ("#e0e7ff", "#4f46e5"),
    "role": ("#fef3c7", "#b45309"),
    "io": ("#fee2e2", "#b91c1c"),
    "pure": ("#dcfce7", "#15803d"),
    "base": ("#f3f4f6", "#6b7280"),
    "outside": ("#ffffff", "#111827"),
}


@dataclass(frozen=True)
class Box:
    """A part: where it stands in the grid, and what it says."""

    name: str
    says: tuple[str, ...]
    kind: str
    column: float
    row: float
    width: float
    height: float = 1
    layer: bool = True  # whether it is a package of its own, and a layer of the import contract

    @property
    def x(self) -> float:
        """Left edge, in pixels."""
        return LEFT + self.column * COLUMN

    @property
    def y(self) -> float:
        """Upper edge, in pixels."""
        return TOP + self.row * ROW

    @property
    def pixels_wide(self) -> float:
        """Width, in pixels."""
        return self.width * COLUMN - GAP

    @property
    def pixels_high(self) -> float:
        """Height, in pixels."""
        return self.height * ROW - GAP


@dataclass(frozen=True)
class Arrow:
    """A way that calls or bytes take; points are in grid units."""

    points: tuple[tuple[float, float], ...]
    both_ways: bool = False


WIDE = 6.4  # columns that the layers take
BOXES = (
    Box("your Python service", ("Producer, Consumer, Admin",), "user", 0, 0, 2, layer=False),
    Box("your PySpark job", ('format("kafkaraw")',), "user", 2, 0, 2, layer=False),
    Box("your shell", ("kafkaraw …", "make demo"), "user", 4, 0, 1, layer=False),
    Box("your tests", ("EmbeddedBroker", "virtual time"), "user", 5, 0, 1.4, layer=False),
    Box("cli", ("commands",), "entry", 4, 1.5, 1),
    Box("demo", ("flights",), "entry", 4, 2.5, 1),
    Box("testing", ("loop and", "network in", "memory"), "entry", 5, 1.5, 0.9, 2),
    Box("spark", ("source, sink, offsets, session",), "entry", 2, 2.5, 2),
    Box("logs", ("log files",), "entry", 3.05, 1.5, 0.95),
    Box("inspect", ("what every byte of a frame means",), "entry", 2, 3.5, 3),
    Box("client", ("Async… on one loop; blocking faces over them",), "role", 0, 4.5, WIDE / 2),
    Box("broker", ("one node: handlers, partitions, log files",), "role", WIDE / 2, 4.5, WIDE / 2),
    Box("net", ("sockets, threads, the asyncio loop: all network I/O is here",), "io", 0, 5.5, WIDE),
    Box("core", ("decisions as state machines: connection, producer, fetch, cluster view",), "pure", 0, 6.5, WIDE),
    Box("records", ("bytes ↔ records: batches, codecs, Arrow columns",), "pure", 0, 7.5, WIDE),
    Box("protocol", ("bytes ↔ messages: each API declared once, in all its versions",), "pure", 0, 8.5, WIDE),
    Box("errors", ("what can go wrong, by what to do about it",), "base", 0, 9.5, WIDE),
    Box("Apache Kafka", ("the real thing,", "for real data"), "outside", 7.1, 3.9, 1.5, layer=False),
    Box("other clients", ("confluent-kafka,", "Java, kcat …"), "outside", 7.1, 6.1, 1.5, layer=False),
)

ARROWS = (
    Arrow(((0.95, 0.85), (0.95, 4.5))),
    Arrow(((2.95, 0.85), (2.95, 2.5))),
    Arrow(((4.46, 0.85), (4.46, 1.5))),
    Arrow(((5.4, 0.85), (5.4, 1.5))),
    Arrow(((6.1, 0.85), (6.1, 4.5))),
    Arrow(((6.32, 5.8), (7.1, 4.6)), both_ways=True),
    Arrow(((6.32, 6.05), (7.1, 6.4)), both_ways=True),
)

NOTES = (
    # column, row, anchor, text
    (7.8, 5.35, "middle", "Client and broker"),
    (7.8, 5.6, "middle", "meet as bytes only."),
    (6.65, 7.75, "start", "Pure: no socket, clock,"),
    (6.65, 8.0, "start", "thread or randomness."),
    (6.65, 8.25, "start", "Same input, same output."),
    (0, 10.65, "start", "A box may import what lies below it, never what lies above or beside it."),
)
BRACKET = (6.45, 6.5, 9.35)  # column, from row, to row


def _text(x: float, y: float, text: str, size: int, *, bold: bool = False, anchor: str = "middle") -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{weight} text-anchor="{anchor}">{escape(text)}</text>'


def _box(box: Box) -> list[str]:
    fill, edge = COLOURS[box.kind]
    dashes = ' stroke-dasharray="5 4"' if box.kind in ("user", "outside") else ""
    drawn = [
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.pixels_wide:g}" height="{box.pixels_high:g}" rx="8" '
        f'fill="{fill}" stroke="{edge}" stroke-width="1.5"{dashes}/>'
    ]
    middle = box.x + box.pixels_wide / 2
    lines = 1 + len(box.says)
    y = box.y + box.pixels_high / 2 - (lines - 1) * 8 + 5
    drawn.append(_text(middle, y, box.name, 15, bold=True))
    for number, line in enumerate(box.says, start=1):
        drawn.append(_text(middle, y + number * 16, line, 12))
    return drawn


def _arrow(arrow: Arrow) -> str:
    points = " ".join(f"{LEFT + column * COLUMN:g},{TOP + row * ROW:g}" for column, row in arrow.points)
    start = ' marker-start="url(#head)"' if arrow.both_ways else ""
    return (
        f'<polyline points="{points}" fill="none" stroke="#374151" stroke-width="1.5" marker-end="url(#head)"{start}/>'
    )


def _bracket() -> str:
    column, first, last = BRACKET
    x, top, bottom = LEFT + column * COLUMN, TOP + first * ROW, TOP + last * ROW
    return f'<path d="M{x:g},{top:g} h8 V{bottom:g} h-8" fill="none" stroke="#15803d" stroke-width="1.5"/>'


def draw() -> str:
    """The whole picture, as SVG."""
    width, height = round(LEFT * 2 + COLUMNS * COLUMN), round(TOP * 2 + ROWS * ROW)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="{FONT}" fill="#111827" role="img" aria-labelledby="title">',
        '<title id="title">The parts of kafkaraw and how they rest on each other</title>',
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" fill="#374151"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    parts += [_arrow(arrow) for arrow in ARROWS]
    parts += [line for box in BOXES for line in _box(box)]
    parts.append(_bracket())
    parts += [
        _text(LEFT + column * COLUMN, TOP + row * ROW, text, 13, anchor=anchor) for column, row, anchor, text in NOTES
    ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    OUTPUT.write_text(draw())
    print(f"drew {OUTPUT}")
