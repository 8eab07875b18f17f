"""Draw docs/architecture.svg, the packages and their imports, and docs/record-walks.svg, the modules a record passes.

    .venv/bin/python -m docs.draw_architecture

The layers come from the import contracts in pyproject.toml, the folders from the source tree, and the imports from the
import graph. The texts (`PACKAGES`, `USERS`, `PEERS`) and the two walks (`SEND`, `POLL`) are declared here.
`tests/docs/test_architecture.py` compares the committed files with what this script draws, and checks both walks: when
a record is sent and read, the functions that are named below run in this order.
"""

from __future__ import annotations

import functools
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import grimp

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "kafkaraw"
LAYERS_PICTURE = Path(__file__).with_name("architecture.svg")
WALKS_PICTURE = Path(__file__).with_name("record-walks.svg")

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
INK, GREY, GREEN = "#111827", "#4b5563", "#15803d"
NAME_SIZE, TEXT_SIZE, SMALL_SIZE = 15, 12, 11  # pixels
LINE = 16
GAP = 8
MARGIN = 20
CHARACTER = 0.55
"""The width of a character by the size of its font, on average: where texts are wrapped."""

# Kind -> fill, edge. The background is white in light and dark surroundings, so that dark text stays legible.
COLOURS = {
    "outside": ("#ffffff", "#6b7280"),
    "entry": ("#e0e7ff", "#4f46e5"),
    "role": ("#fef3c7", "#b45309"),
    "net": ("#fee2e2", "#b91c1c"),
    "core": ("#dcfce7", "#15803d"),
    "records": ("#cffafe", "#0e7490"),
    "protocol": ("#ede9fe", "#6d28d9"),
    "base": ("#f3f4f6", "#6b7280"),
}


@dataclass(frozen=True)
class Step:
    """A module through which a record passes.

    Attributes:
        module: relative to `src/kafkaraw`.
        function: the qualified name of the function that takes the record there.
        does: what it does with the record, in at most two lines of the picture.
    """

    module: str
    function: str
    does: str


PACKAGES = {
    "cli": ("entry", "The command line: one module for each command."),
    "demo": ("entry", "The flights demo, built on everything below."),
    "console": ("entry", "The web console: pages about clusters, rendered on the server."),
    "testing": ("entry", "Virtual time, a network in memory, the pytest plugin."),
    "pipelines": ("entry", "Declared pipelines: definitions, checks, runs, dead letters."),
    "spark": ("entry", 'The data source format("kafkaraw"): source, sink, session.'),
    "datasets": ("entry", "Topics as data sets of Arrow, and SQL over them."),
    "ranges": ("role", "Ranges of offsets as Arrow batches, for Spark and data sets."),
    "logs": ("entry", "Log directories without a broker: dump, list, verify, repair."),
    "inspect": ("entry", "What each byte of a frame means."),
    "protocol_exports": ("entry", "The protocol for Wireshark, Kaitai Struct and other tools."),
    "opentelemetry": ("entry", "Traces and metrics of clients, as interceptors."),
    "web_server": ("net", "The HTTP server of registry and console."),
    "metrics": ("entry", "The metrics of clients for Prometheus."),
    "monitoring": ("role", "What a cluster does: rates, lag, what is wrong."),
    "schemas": ("role", "Schema registries: client, serializers, languages, and a registry to run."),
    "worker": ("role", "Handlers for records: concurrency, retries, dead letters, commits."),
    "mirror": ("role", "Copies of topics: mirrors, snapshots, backups, comparison."),
    "client": ("role", "Producer, Consumer and Admin, asyncio and blocking."),
    "broker": ("role", "The embedded broker: one node or a cluster."),
    "net": ("net", "Sockets, TLS, threads and event loops: all network I/O is here."),
    "core": ("core", "Decisions without I/O: connection, producer, fetch, group, SASL."),
    "records": ("records", "Bytes to records and back: batches, codecs, Arrow columns. The hot path is compiled."),
    "protocol": ("protocol", "Bytes to messages and back: each API declared once, in all its versions."),
    "errors": ("base", "Exceptions, by what to do about them."),
    "readable": ("base", "Sizes, times and bytes as text."),
    "light_classes": ("base", "Dataclasses that import fast."),
    "notebooks": ("base", "HTML of values for notebooks."),
}
USERS = {  # what a user has -> the package that it calls
    "your shell": "cli",
    "your tests": "testing",
    "your PySpark job": "spark",
    "your handlers": "worker",
    "your Python service": "client",
}
PEERS = {  # what is at the other end of the network -> what it is, the package beside which it is drawn
    "other clients": ("Java, librdkafka, franz-go", "broker"),
    "Apache Kafka": ("brokers for real data", "net"),
}

SEND = (
    Step("records/_batch_table.py", "SendFastPath.send", "Producer.send is a method of its compiled base class."),
    Step("records/partitioning.py", "Partitioner.hash_of", "The hash of the key chooses the partition."),
    Step("client/blocking/producer.py", "Producer._send_slowly", "The first record of a batch takes the longer way."),
    Step("client/sending/accumulator.py", "RecordAccumulator.append", "Opens a batch for the partition."),
    Step("records/open_batches.py", "OpenBatches.append", "Chooses the partition, and opens and seals batches."),
    Step("records/_builder.py", "BatchBuilder.put", "Encodes the record into the batch."),
    Step("client/sending/sender.py", "Sender._step", "Wakes up once per batch, and drains the accumulator."),
    Step("core/producer/machine.py", "ProducerMachine.receive", "Decides what to send to which leader."),
    Step("core/producer/batches.py", "PartitionQueue.append", "Keeps the order of the partition's batches."),
    Step("client/network/engine.py", "Engine.open_connection", "Finds the connection to the leader."),
    Step("core/producer/batches.py", "produce_request", "Builds the Produce request."),
    Step("records/sealed.py", "SealedBatch.encode", "Compresses the batch and assigns its sequence."),
    Step("records/header.py", "fill_header", "Writes the header of the batch, with its checksum."),
    Step("client/network/connection.py", "Connection.submit", "Gives the request to the connection."),
    Step("core/connection.py", "ConnectionMachine.submit", "Chooses version and correlation id."),
    Step("protocol/produce_frames.py", "Produce.segments", "Encodes the frame around the batch."),
    Step("net/transport.py", "StreamLink.send", "Takes the pieces of the frame."),
    Step("net/writer.py", "SegmentWriter.write", "Joins small pieces and writes to the socket."),
)
"""From `Producer.send` to the socket, for the first record of a batch with a key."""

POLL = (
    Step("net/transport.py", "StreamLink.buffer_updated", "Takes the bytes that the socket has received."),
    Step("protocol/frames.py", "FrameReader.next_frame", "Cuts them into frames."),
    Step("client/network/connection.py", "Connection.frame_received", "Passes on each frame."),
    Step("core/connection.py", "ConnectionMachine.frame_received", "Finds the request by its correlation id."),
    Step("protocol/frames.py", "decode_response", "Decodes the Fetch response; records stay bytes."),
    Step("client/fetching/reading.py", "FetchRequests._answered", "Takes the response of the Fetch."),
    Step("core/fetch/fetcher.py", "Fetcher.receive", "Decides what the response means for each partition."),
    Step("core/fetch/fetcher.py", "complete", "Leaves out aborted transactions."),
    Step("records/batch.py", "batches_of", "Splits the bytes by magic."),
    Step("records/header.py", "whole_batches", "Reads the headers, and checks their checksums."),
    Step("records/batch.py", "Batch.__init__", "A batch with its header; its records are not decoded."),
    Step("client/fetching/reading.py", "Reading._take_in_hand", "Ends the wait of the call."),
    Step("core/fetch/subscription_state.py", "SubscriptionState.take", "Advances the fetched offset."),
    Step("core/fetch/cursor.py", "RecordCursor.take_converted", "Advances the delivered offset."),
    Step("client/blocking/consumer.py", "Consumer.poll", "Returns the batches to the caller."),
    Step("records/_reader.py", "read_records", "Decodes records while the caller iterates."),
)
"""From the socket to the caller of `Consumer.poll`."""


def contract(identifier: str) -> dict[str, Any]:
    """Return an import contract of pyproject.toml."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    return next(each for each in declared if each["id"] == identifier)


def layers() -> list[list[str]]:
    """Return the layers of the import contract, the highest first, without private and absent modules."""
    rows = [[name.strip() for name in layer.split("|")] for layer in contract("layers")["layers"]]
    entered = set(USERS.values())
    public = [
        sorted((name for name in row if name[0] not in "(_"), key=lambda name: name not in entered) for row in rows
    ]
    return [row for row in public if row]


def pure() -> set[str]:
    """Return the packages that the import contract keeps free of I/O, time and randomness."""
    return {name.rpartition(".")[2] for name in contract("pure")["source_modules"]}


def folders(package: str) -> list[str]:
    """Return the public folders of a package."""
    return sorted(init.parent.name for init in PACKAGE.glob(f"{package}/[!_]*/__init__.py"))


@functools.cache
def imports() -> dict[str, list[str]]:
    """Return what each package imports, in the order of the layers."""
    graph = grimp.build_graph("kafkaraw", exclude_type_checking_imports=True, cache_dir=None)
    names = [name for row in layers() for name in row]
    return {
        name: [
            other
            for other in names
            if other != name
            and graph.direct_import_exists(importer=f"kafkaraw.{name}", imported=f"kafkaraw.{other}", as_packages=True)
        ]
        for name in names
    }


@dataclass(frozen=True)
class Box:
    """A rectangle with a name and lines of text."""

    name: str
    kind: str
    x: float
    y: float
    width: float
    height: float
    lines: tuple[tuple[str, str], ...]  # text, colour

    @property
    def middle(self) -> float:
        """The vertical middle, in pixels."""
        return self.y + self.height / 2

    def svg(self) -> Iterator[str]:
        """Yield the elements of the box."""
        fill, edge = COLOURS[self.kind]
        dashes = ' stroke-dasharray="5 4"' if self.kind == "outside" else ""
        yield (
            f'<rect x="{self.x:g}" y="{self.y:g}" width="{self.width:g}" height="{self.height:g}" rx="7" '
            f'fill="{fill}" stroke="{edge}" stroke-width="1.5"{dashes}/>'
        )
        y = self.middle - LINE * len(self.lines) / 2 + 5
        yield _text(self.x + 12, y, self.name, NAME_SIZE, bold=True)
        for number, (line, colour) in enumerate(self.lines, start=1):
            yield _text(self.x + 12, y + number * LINE, line, TEXT_SIZE if colour == INK else SMALL_SIZE, colour=colour)


def _text(x: float, y: float, text: str, size: int, *, bold: bool = False, colour: str = INK, at: str = "start") -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}"{weight} fill="{colour}" text-anchor="{at}">{escape(text)}</text>'
    )


def _wrapped(text: str, width: float, size: int) -> list[str]:
    return textwrap.wrap(text, int(width / (CHARACTER * size)))


def _line(x: float, y: float, to_x: float, to_y: float, *, both_ways: bool = False) -> str:
    start = ' marker-start="url(#head)"' if both_ways else ""
    return (
        f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" stroke="#374151" stroke-width="1.5" '
        f'marker-end="url(#head)"{start}/>'
    )


def _picture(title: str, width: float, height: float, elements: list[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" font-family="{FONT}" role="img" aria-labelledby="title">',
            f'<title id="title">{escape(title)}</title>',
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" fill="#374151"/></marker></defs>',
            f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#ffffff"/>',
            *elements,
            "</svg>",
            "",
        ]
    )


# The packages.
USERS_WIDE, BANDS_WIDE, PEERS_WIDE, ARROW = 190, 580, 175, 30
BANDS = MARGIN + USERS_WIDE + ARROW
PEERS_AT = BANDS + BANDS_WIDE + ARROW


def boxes() -> list[Box]:
    """Return the boxes of the packages, row by row."""
    imported = imports()
    found: list[Box] = []
    y = float(MARGIN)
    for row in layers():
        width = (BANDS_WIDE - GAP * (len(row) - 1)) / len(row)
        lines = {name: _lines_of(name, imported[name], width - 24) for name in row}
        height = LINE * max(map(len, lines.values())) + 32
        for number, name in enumerate(row):
            x = BANDS + number * (width + GAP)
            found.append(Box(name, PACKAGES[name][0], x, y, width, height, tuple(lines[name])))
        y += height + GAP
    return found


def _lines_of(name: str, imported: list[str], width: float) -> list[tuple[str, str]]:
    lines = [(line, INK) for line in _wrapped(PACKAGES[name][1], width, TEXT_SIZE)]
    if inside := folders(name):
        lines += [(line, GREY) for line in _wrapped(f"folders: {', '.join(inside)}", width, SMALL_SIZE)]
    if imported:
        lines += [(line, GREY) for line in _wrapped(f"imports: {', '.join(imported)}", width, SMALL_SIZE)]
    return lines


def draw_layers() -> str:
    """Return the picture of the packages, as SVG."""
    drawn = boxes()
    by_name = {box.name: box for box in drawn}
    elements = [element for box in drawn for element in box.svg()]
    for user, package in USERS.items():
        y = by_name[package].middle
        elements += Box(user, "outside", MARGIN, y - 20, USERS_WIDE, 40, ()).svg()
        elements.append(_line(MARGIN + USERS_WIDE, y, BANDS - 2, y))
    for peer, (about, package) in PEERS.items():
        y = by_name[package].middle
        lines = tuple((line, INK) for line in _wrapped(about, PEERS_WIDE - 24, TEXT_SIZE))
        height = 32 + LINE * len(lines)
        elements += Box(peer, "outside", PEERS_AT, y - height / 2, PEERS_WIDE, height, lines).svg()
        elements.append(_line(BANDS + BANDS_WIDE + 2, y, PEERS_AT - 2, y, both_ways=True))
    elements += _bracket([box for box in drawn if box.name in pure()])
    bottom = max(box.y + box.height for box in drawn)
    rule = "A package may import what lies below it, never what lies above or beside it."
    elements.append(_text(BANDS, bottom + 24, rule, 13))
    return _picture("The packages of kafkaraw", PEERS_AT + PEERS_WIDE + MARGIN, bottom + 24 + MARGIN, elements)


def _bracket(rows: list[Box]) -> Iterator[str]:
    """Mark the pure packages at the right edge."""
    x, top, bottom = BANDS + BANDS_WIDE + 10, rows[0].y, rows[-1].y + rows[-1].height
    yield f'<path d="M{x:g},{top:g} h8 V{bottom:g} h-8" fill="none" stroke="{GREEN}" stroke-width="1.5"/>'
    says = ["Pure: no socket, thread,", "clock or randomness.", "Same input, same output."]
    for number, line in enumerate(says):
        yield _text(x + 20, (top + bottom) / 2 + (number - 1) * LINE, line, TEXT_SIZE)


# The walks.
STEP_HIGH, STEP_WIDE, DOES_WIDE = 34, 210, 240
STEP_APART = STEP_HIGH + 14
WALK_WIDE = STEP_WIDE + 12 + DOES_WIDE
WALKS_WIDE = 2 * MARGIN + 2 * WALK_WIDE + 20
HEAD = 60


def draw_walks() -> str:
    """Return the picture of the two walks, as SVG: down to the socket at the left, up from it at the right."""
    rows = max(len(SEND), len(POLL))
    bottom = HEAD + rows * STEP_APART
    right = MARGIN + WALK_WIDE + 20
    elements = [
        _text(MARGIN, 32, "Producer.send to the socket", NAME_SIZE, bold=True),
        _text(right, 32, "The socket to Consumer.poll (read upwards)", NAME_SIZE, bold=True),
    ]
    down = [HEAD + (rows - len(SEND) + number) * STEP_APART for number in range(len(SEND))]
    up = [bottom - (number + 1) * STEP_APART for number in range(len(POLL))]
    elements += _walk(SEND, MARGIN, down)
    elements += _walk(POLL, right, up)
    socket = Box("socket", "outside", MARGIN, bottom, WALKS_WIDE - 2 * MARGIN, STEP_HIGH, ())
    elements += socket.svg()
    elements.append(_line(MARGIN + STEP_WIDE / 2, bottom - 14, MARGIN + STEP_WIDE / 2, bottom))
    elements.append(_line(right + STEP_WIDE / 2, bottom, right + STEP_WIDE / 2, bottom - 14))
    legend = bottom + STEP_HIGH + 14
    for number, name in enumerate(("client", "core", "records", "protocol", "net")):
        fill, edge = COLOURS[PACKAGES[name][0]]
        x = MARGIN + number * 110
        elements.append(
            f'<rect x="{x:g}" y="{legend:g}" width="14" height="14" rx="3" fill="{fill}" stroke="{edge}" '
            'stroke-width="1.5"/>'
        )
        elements.append(_text(x + 20, legend + 12, name, TEXT_SIZE))
    title = "The modules through which a record passes"
    return _picture(title, WALKS_WIDE, legend + 14 + MARGIN, elements)


def _walk(steps: tuple[Step, ...], x: float, ys: list[float]) -> Iterator[str]:
    for number, (step, y) in enumerate(zip(steps, ys, strict=True), start=1):
        package, _, rest = step.module.partition("/")
        fill, edge = COLOURS[PACKAGES[package][0]]
        yield (
            f'<rect x="{x:g}" y="{y:g}" width="{STEP_WIDE}" height="{STEP_HIGH}" rx="6" fill="{fill}" '
            f'stroke="{edge}" stroke-width="1.5"/>'
        )
        yield _text(x + 10, y + 22, f"{number}. {rest.removesuffix('.py')}", TEXT_SIZE, bold=True)
        lines = _wrapped(step.does, DOES_WIDE, TEXT_SIZE)
        for at, line in enumerate(lines):
            yield _text(x + STEP_WIDE + 12, y + 22 + (at - (len(lines) - 1) / 2) * (LINE - 1), line, TEXT_SIZE)
    middle = x + STEP_WIDE / 2
    for before, after in pairwise(ys):
        down = after > before
        yield _line(middle, before + (STEP_HIGH if down else 0), middle, after + (0 if down else STEP_HIGH))


if __name__ == "__main__":
    LAYERS_PICTURE.write_text(draw_layers(), encoding="utf-8")
    WALKS_PICTURE.write_text(draw_walks(), encoding="utf-8")
    print(f"drew {LAYERS_PICTURE} and {WALKS_PICTURE}")
