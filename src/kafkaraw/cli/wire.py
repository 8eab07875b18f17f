"""`kafkaraw wire`: read the bytes of the protocol."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, BinaryIO, Literal

import click

from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from kafkaraw.inspect.annotation import Annotation

SURE, LIKELY = 0.95, 0.5
CANDIDATES_SHOWN = 5
COLUMNS_WHEN_PIPED = 200


@click.group()
def wire() -> None:
    """Read the bytes of the protocol."""


@wire.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--api", metavar="NAME|KEY", help="API that the bytes belong to, when known.")
@click.option("--version", type=int, help="Version of that API, when known.")
@click.option("--request", "direction", flag_value="request", help="The bytes are a request.")
@click.option("--response", "direction", flag_value="response", help="The bytes are a response.")
@click.option("--json", "as_json", is_flag=True, help="Print the tree as JSON.")
@click.pass_context
def decode(
    ctx: click.Context,
    file: BinaryIO,
    api: str | None,
    version: int | None,
    direction: Literal["request", "response"] | None,
    as_json: bool,
) -> None:
    """Say what every byte of a frame means.

    FILE holds bytes as people have them: raw, hex with or without spaces, xxd, hexdump -C and tcpdump -X dumps,
    base64, Python, C and Erlang literals, log lines such as `WriteAsync[26] 00 00 ...`. Without FILE, or with -, the
    bytes come from standard input. What API and version they are of is found out unless said.

    Exits with 1 when the bytes do not make a whole frame.
    """
    from kafkaraw.inspect import annotate, read_bytes, split_frames
    from kafkaraw.inspect.render import to_json

    if version is not None and api is None:
        raise UsageError("--version needs --api: a version number alone says nothing")
    data, form = read_bytes(file.read())
    frames = [data] if api else split_frames(data)
    annotations = [annotate(frame, api=api, version=version, direction=direction) for frame in frames]
    if as_json:
        trees = [to_json(annotation) for annotation in annotations]
        json.dump(trees[0] if len(trees) == 1 else trees, sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        for annotation in annotations:
            _print(annotation, form)
    if not all(annotation.is_whole for annotation in annotations):
        ctx.exit(1)


def _print(annotation: Annotation, form: str) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=COLUMNS_WHEN_PIPED, no_color=True)
    reading = annotation.reading
    console.print(f"[dim]{len(annotation.data)} bytes, from {form}[/dim]")
    if reading is None:
        console.print(f"[bold red]Unknown frame.[/bold red] {escape(str(annotation.error))}")
        return
    console.print(f"[bold]{reading}[/bold] [dim]{escape(_purpose(annotation))}[/dim]")
    _print_certainty(console, annotation)
    console.print(_table(annotation))
    if annotation.error is not None:
        console.print(f"[bold red]Stops here:[/bold red] {escape(str(annotation.error))}")
    elif annotation.canonical:
        console.print("[green]Every byte is read; encoding the value again gives the same bytes.[/green]")
    else:
        console.print(
            "[yellow]Every byte is read, but not in the form that Kafka writes: encoding gives other bytes.[/yellow]"
        )


def _purpose(annotation: Annotation) -> str:
    from kafkaraw.inspect.meaning import summary_of

    assert annotation.reading is not None
    api = annotation.reading.api
    return summary_of(api.request if annotation.reading.kind == "request" else api.response)


def _print_certainty(console: Console, annotation: Annotation) -> None:
    candidates = annotation.candidates
    if len(candidates) < 2:
        return
    share = candidates[0].share
    if share >= SURE:
        return
    sure = "Most likely" if share >= LIKELY else "Could be several things; shown as the likeliest"
    console.print(f"[yellow]{sure} ({share:.0%}).[/yellow] These readings consume all bytes:")
    for candidate in candidates[:CANDIDATES_SHOWN]:
        console.print(f"  {candidate.share:6.1%}  {candidate.reading}")


def _table(annotation: Annotation) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from kafkaraw.inspect.render import rows_of

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("bytes", style="cyan", no_wrap=True, justify="right")
    table.add_column("hex", style="dim", max_width=24, overflow="fold")
    table.add_column("field", style="bold", overflow="fold")
    table.add_column("type", style="dim", overflow="fold")
    table.add_column("value", style="green", overflow="fold")
    table.add_column("meaning", overflow="fold", ratio=1)
    for row in rows_of(annotation):
        cells = (row.bytes_range, row.hex, "  " * row.depth + row.name, row.kind, row.value, row.meaning)
        table.add_row(*(Text(cell) for cell in cells))
    return table
