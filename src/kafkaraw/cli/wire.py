"""`kafkaraw wire`: see the wire. `decode` is here; each other command is one module and one line in COMMANDS."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, BinaryIO, Final, Literal

import click

from kafkaraw.cli import LazyGroup
from kafkaraw.cli.registries import RegistryAddress, registry_options
from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from kafkaraw.inspect.annotation import Annotation
    from kafkaraw.inspect.guess import Candidate
    from kafkaraw.inspect.render import Row

SURE, LIKELY = 0.95, 0.5
CANDIDATES_SHOWN: Final = 6
PROBLEMS_SHOWN: Final = 10
# From these widths on, the table has 8 bytes to a line, and its own columns for types and meanings.
ROOMY_COLUMNS, WIDE_COLUMNS = 100, 160
HEX_BYTES_WIDE, HEX_BYTES_NARROW = 16, 8
TABLE_ROWS_MAX: Final = 3000


COMMANDS: Final = {
    "decode": "kafkaraw.cli.wire:decode",
    "diff": "kafkaraw.cli.wire_diff:diff",
    "encode": "kafkaraw.cli.wire_encode:encode",
    "export": "kafkaraw.cli.wire_export:export",
    "read": "kafkaraw.cli.wire_read:read",
    "sequence": "kafkaraw.cli.wire_sequence:sequence",
    "tap": "kafkaraw.cli.wire_tap:tap",
}


@click.group(cls=LazyGroup, commands_table=COMMANDS)
def wire() -> None:
    """See the wire: explain bytes of the protocol, and show what clients and brokers say to each other."""


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--api", metavar="NAME|KEY", help="The API, if known.")
@click.option("--version", type=int, help="The version of the API, if known.")
@click.option("--request", "direction", flag_value="request", help="The bytes are a request.")
@click.option("--response", "direction", flag_value="response", help="The bytes are a response.")
@click.option("--paths", is_flag=True, help="Show the path of each field instead of an indented tree.")
@click.option("--json", "as_json", is_flag=True, help="Print the tree as JSON.")
@registry_options
@click.pass_context
def decode(
    ctx: click.Context,
    address: RegistryAddress,
    file: BinaryIO,
    api: str | None,
    version: int | None,
    direction: Literal["request", "response"] | None,
    paths: bool,
    as_json: bool,
) -> None:
    """Explain every byte of a frame.

    FILE has raw bytes, hex with or without spaces, a dump of xxd, hexdump, od, Wireshark or tcpdump -X, base64, a
    literal of Python, C, Java, Go or Erlang, or log lines such as `WriteAsync[26] 00 00 ...`. Without FILE, or if it is
    -, the bytes are read from standard input. API and version are guessed unless they are given. With --registry, keys
    and values of records that carry the id of a schema are decoded.

    The exit code is 1 if the bytes are not a complete and valid frame.
    """
    from kafkaraw.inspect import annotate, read_bytes, split_frames
    from kafkaraw.inspect.render import to_json

    if version is not None and api is None:
        raise UsageError("--version needs --api")
    if file.isatty():
        click.echo("Paste the bytes, then press Ctrl-D on a line of its own.", err=True)
    data, form = read_bytes(file.read())
    annotations = [annotate(frame, api=api, version=version, direction=direction) for frame in split_frames(data)]
    _note_framing(annotations, address)
    if as_json:
        trees = [to_json(annotation) for annotation in annotations]
        json.dump(trees[0] if len(trees) == 1 else trees, sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        _print_all(annotations, form, paths=paths, named=version is not None)
    if not all(annotation.is_sound for annotation in annotations):
        ctx.exit(1)


def _note_framing(annotations: list[Annotation], address: RegistryAddress) -> None:
    from kafkaraw.inspect.framed_values import note_framing

    if not address.is_given:
        for annotation in annotations:
            note_framing(annotation.root)
        return
    from kafkaraw.cli.schema_serdes import Schemas

    with closing(Schemas(address, ignore_rules=False)) as schemas:
        for annotation in annotations:
            note_framing(annotation.root, schemas.if_framed)


def _print_all(annotations: list[Annotation], form: str, *, paths: bool, named: bool) -> None:
    from rich.console import Console

    from kafkaraw.inspect.render import legend_of

    console = Console(highlight=False, markup=False, soft_wrap=not sys.stdout.isatty())
    for number, annotation in enumerate(annotations, 1):
        if len(annotations) > 1:
            console.print(f"Frame {number} of {len(annotations)}", style="bold reverse")
        _print(console, annotation, form, paths=paths, named=named)
        console.print()
    # Once is enough, below all frames.
    legend = list(dict.fromkeys(line for annotation in annotations for line in legend_of(annotation)))
    for line in legend:
        console.print(line, style="dim")


def _print(console: Console, annotation: Annotation, form: str, *, paths: bool, named: bool) -> None:
    from kafkaraw.inspect.render import rows_of

    size = f"{len(annotation.data)} byte{'' if len(annotation.data) == 1 else 's'}, from {form}"
    reading = annotation.reading
    if reading is None:
        console.print(f"Unknown frame: {size}", style="bold red")
    else:
        console.print(f"{reading}: {_purpose(annotation)}", style="bold")
        framing = "with the size prefix that goes before it" if reading.prefixed else "without a size prefix"
        console.print(f"{size}, {framing}", style="dim")
    _print_certainty(console, annotation, named=named)
    console.print()
    rows = list(rows_of(annotation))
    if console.is_terminal and len(rows) <= TABLE_ROWS_MAX:
        console.print(table_of(rows, console.width, paths=paths))
    else:
        for line in _plain_lines(rows, paths):
            console.out(line, highlight=False)
    if rows:
        console.print()
    _print_verdict(console, annotation)


def _purpose(annotation: Annotation) -> str:
    from kafkaraw.inspect.meaning import summary_of

    assert annotation.reading is not None
    return summary_of(annotation.reading.message)


def _print_certainty(console: Console, annotation: Annotation, *, named: bool) -> None:
    """Return how probable the reading is, if the user did not name the API."""
    candidates = annotation.candidates
    if not candidates:
        return
    best = candidates[0]
    what = "every byte" if best.is_whole else "the bytes as far as they go"
    if annotation.reading is None:
        console.print(
            f"Too few bytes to identify the message. Readings of {what} (select with --api, --version):",
            style="yellow",
        )
        _print_candidates(console, candidates)
        return
    if best.share >= SURE:
        if best.reading.kind == "response" and not named:
            only = "the only" if len(candidates) == 1 else f"by far the likeliest ({best.share:.1%})"
            console.print(f"A response does not say what it is; this is {only} reading of {what}.", style="dim")
        if len(best.versions) > 1:
            console.print(f"{best}: the same bytes in each; shown as v{annotation.reading.version}.", style="yellow")
        return
    sure = "Most likely" if best.share >= LIKELY else "Could be several things; shown as the likeliest"
    console.print(f"{sure} ({best.share:.0%}). A response does not say what it is; readings of {what}:", style="yellow")
    _print_candidates(console, candidates)


def _print_candidates(console: Console, candidates: list[Candidate]) -> None:
    for candidate in candidates[:CANDIDATES_SHOWN]:
        console.print(f"  {candidate.share:6.1%}  {candidate}")
    if len(candidates) > CANDIDATES_SHOWN:
        console.print("          and others; --api and --version say which")


def _print_verdict(console: Console, annotation: Annotation) -> None:
    if annotation.error is not None:
        console.print(f"Stops here: {annotation.error}", style="bold red")
        return
    problems = annotation.problems
    for problem in problems[:PROBLEMS_SHOWN]:
        console.print(f"Wrong: {problem}", style="bold red")
    if len(problems) > PROBLEMS_SHOWN:
        console.print(f"and {len(problems) - PROBLEMS_SHOWN} more", style="bold red")
    if annotation.canonical:
        console.print("Every byte is read; encoding the value again gives the same bytes.", style="green")
    else:
        console.print(
            "Every byte is read. Encoding the value again gives other bytes: see `not canonical` above.", style="yellow"
        )


def _label(row: Row, paths: bool, indent: int) -> str:
    return row.path if paths else " " * (indent * row.depth) + row.name


def _words(row: Row) -> str:
    return "; ".join(part for part in (row.problem.upper()[:1] + row.problem[1:], row.meaning) if part)


def table_of(rows: list[Row], width: int, *, paths: bool = False) -> Table:
    """Return the rows as a table that fits a terminal of that width."""
    from rich.table import Table

    wide = width >= WIDE_COLUMNS
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("BYTES", style="cyan", no_wrap=True, justify="right")
    table.add_column("HEX", style="dim", width=23 if width >= ROOMY_COLUMNS else 11)
    field_width = max((len(_label(row, paths, 2 if wide else 1)) for row in rows), default=0)
    table.add_column("FIELD", style="bold", overflow="fold", width=min(field_width, 2 * width // 5))
    if wide:
        table.add_column("TYPE", style="dim", overflow="fold")
        table.add_column("VALUE", overflow="fold")
    table.add_column("MEANING" if wide else "VALUE, MEANING", overflow="fold", ratio=1)
    for row in rows:
        table.add_row(*_cells(row, width, paths))
    return table


def _cells(row: Row, width: int, paths: bool) -> Iterator[Text]:
    from rich.text import Text

    from kafkaraw.inspect.render import hex_of

    wide = width >= WIDE_COLUMNS
    yield Text(row.bytes_range)
    yield Text(hex_of(row.data, HEX_BYTES_WIDE if width >= ROOMY_COLUMNS else HEX_BYTES_NARROW))
    yield Text(_label(row, paths, 2 if wide else 1), style="red" if row.problem else "")
    style = "red" if row.problem else "yellow" if row.is_odd else ""
    if wide:
        yield Text(row.kind)
        yield Text(row.value, style="green")
        yield Text(_words(row), style=style)
    else:
        gap = "  " if row.value and _words(row) else ""
        yield Text.assemble((row.value, "green"), gap, (_words(row), style or "dim"))


def _plain_lines(rows: list[Row], paths: bool) -> Iterator[str]:
    """Return lines for pipes and files: one per field, of any length, so that they can be searched."""
    from kafkaraw.inspect.render import hex_of

    cells = [("BYTES", "HEX", "FIELD", "TYPE", "VALUE", "MEANING")] if rows else []
    cells += [
        (
            row.bytes_range,
            hex_of(row.data, HEX_BYTES_NARROW),
            _label(row, paths, 2),
            row.kind,
            row.value,
            _words(row),
        )
        for row in rows
    ]
    widths = [max((len(row[column]) for row in cells), default=0) for column in range(5)]
    for bytes_range, *others in cells:
        padded = (f"{cell:{width}}" for cell, width in zip(others[:-1], widths[1:], strict=True))
        yield "  ".join((f"{bytes_range:>{widths[0]}}", *padded, others[-1])).rstrip()
