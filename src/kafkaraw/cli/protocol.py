"""`kafkaraw protocol`: print the declarations of the protocol as tables or JSON, or export them to other tools."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from rich.console import Console

    from kafkaraw.protocol.apis import Api

COLUMNS_WHEN_PIPED: Final = 200


@click.group()
def protocol() -> None:
    """Look up APIs, messages and versions, and export them to other tools."""


@protocol.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def list_apis(as_json: bool) -> None:
    """List all APIs with key, name, versions and purpose.

    "offered" versions are supported by brokers or controllers of Kafka 4.3. "declared" versions can be decoded; they
    include versions removed in Kafka 4.0 (KIP-896) and unstable ones.
    """
    from kafkaraw.protocol.apis import API_TABLE
    from kafkaraw.protocol.describe import embedded_messages, embedded_modules

    if as_json:
        json.dump([_api_as_json(api) for api in API_TABLE], sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    console = _console()
    console.print(_api_table(API_TABLE))
    console.print("Structures inside bytes fields and records:")
    for module, summary in embedded_modules().items():
        names = ", ".join(cls.__name__ for cls in embedded_messages(module))
        console.print(f"  [dim]{summary}[/dim]\n    {names}")


@protocol.command()
@click.argument("name")
@click.option("--version", metavar="N|all", help="The version to show.  [default: the newest offered]")
@click.option("--request", "direction", flag_value="Request", help="Show the request only.")
@click.option("--response", "direction", flag_value="Response", help="Show the response only.")
@click.option("--bnf", "form", flag_value="bnf", help="Print the grammar, as in Kafka's documentation.")
@click.option("--code", "form", flag_value="code", help="Print the Python source that decodes and encodes it.")
@click.option("--json", "form", flag_value="json", help="Print the fields as JSON.")
def show(name: str, version: str | None, direction: str | None, form: str | None) -> None:
    """Show the fields of a message.

    NAME is the name or key of an API, a message such as FetchRequest, or a structure inside a bytes field such as
    ConsumerProtocolSubscription, in upper or lower case.
    """
    from kafkaraw.protocol.describe import messages_named

    found = messages_named(name)
    if direction is not None:
        found = [cls for cls in found if cls.__name__.endswith(direction)]
        if not found:
            raise click.UsageError(f"{name} has no {direction.lower()}")
    versions = [_version_of(cls, version, may_be_all=form in (None, "json")) for cls in found]
    if form == "json":
        messages = [_message_as_json(cls, number) for cls, number in zip(found, versions, strict=True)]
        json.dump(messages[0] if len(messages) == 1 else messages, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    for i, (cls, number) in enumerate(zip(found, versions, strict=True)):
        if i:
            click.echo()
        _show_one(cls, number, form)


@protocol.command("export")
@click.option(
    "--format",
    "format_name",
    required=True,
    type=click.Choice(("wireshark", "kaitai", "imhex", "json-schema", "markdown")),
    help="The tool that reads the files.",
)
@click.option("--apis", metavar="NAME|KEY,...", help="APIs to export.  [default: all]")
@click.option("-o", "--output", metavar="FILE|DIR", help="Where to write. Without it, one file is printed.")
def export_protocol(format_name: str, apis: str | None, output: str | None) -> None:
    """Write the protocol in the form of another tool.

    Every API has all declared versions. "wireshark" is a dissector in Lua for Wireshark and tshark, "kaitai" a Kaitai
    Struct format, "imhex" a pattern for the hex editor ImHex, "json-schema" a schema of what `kafkaraw wire decode
    --json` prints, and "markdown" the pages of the reference.
    """
    from kafkaraw.errors import UsageError
    from kafkaraw.inspect.frames import api_named
    from kafkaraw.protocol.apis import API_TABLE
    from kafkaraw.protocol_exports import export

    chosen = API_TABLE if apis is None else tuple(api_named(name.strip()) for name in apis.split(","))
    files = export(format_name, tuple(dict.fromkeys(chosen)))
    if output is None:
        if len(files) > 1:
            raise UsageError(f"{format_name} has {len(files)} files: say where to write them, with --output DIR")
        click.echo("".join(files.values()), nl=False)
        return
    for path, text in _targets(files, output).items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None
    click.echo(f"{len(files)} file{'' if len(files) == 1 else 's'} in {output}", err=True)


def _targets(files: dict[str, str], output: str) -> dict[Path, str]:
    """Return the path of each file: one file takes the name that was given, unless this is a folder."""
    path = Path(output)
    if len(files) == 1 and not path.is_dir() and not output.endswith("/"):
        return {path: next(iter(files.values()))}
    return {path / name: text for name, text in files.items()}


def _version_of(cls: type[object], text: str | None, *, may_be_all: bool) -> int | None:
    from kafkaraw.errors import UsageError
    from kafkaraw.protocol.declare import header_of
    from kafkaraw.protocol.describe import latest_version

    if text is None:
        return latest_version(cls)
    if text == "all" and may_be_all:
        return None
    declared = header_of(cls).versions
    if not text.isdigit() or not declared.includes(int(text)):
        raise UsageError(f"{cls.__name__} has versions {declared}, not {text}")
    return int(text)


def _show_one(cls: type[object], version: int | None, form: str | None) -> None:
    from kafkaraw.protocol.compile import source_of
    from kafkaraw.protocol.describe import grammar_of

    if form == "bnf" and version is not None:
        click.echo(grammar_of(cls, version), nl=False)
    elif form == "code" and version is not None:
        _print_code(source_of(cls, version))
    else:
        _print_fields(cls, version)


def _print_code(source: str) -> None:
    console = _console()
    if not console.is_terminal:
        click.echo(source, nl=False)
        return
    from rich.syntax import Syntax

    console.print(Syntax(source, "python", background_color="default"))


def _print_fields(cls: type[object], version: int | None) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    from kafkaraw.protocol.describe import field_rows, prose_of, versions_in_words

    console = _console()
    title = f"{cls.__name__} v{version}" if version is not None else f"{cls.__name__}, all versions"
    console.print(f"[bold]{title}[/bold] [dim]{_place_of(cls, version)}[/dim]")
    for paragraph in prose_of(cls):
        console.print(escape(paragraph))
    console.print(f"[dim]Versions {versions_in_words(cls)}[/dim]")
    rows = field_rows(cls, version)
    if not rows:
        console.print("No fields in this version.")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("field", style="bold", no_wrap=True)
    table.add_column("type", style="cyan", overflow="fold")
    for heading in ("versions", "null", "tag", "default"):
        table.add_column(heading, overflow="fold")
    table.add_column("meaning", overflow="fold", ratio=1)
    for row in rows:
        tag = "" if row.tag is None else str(row.tag)
        null = row.nullable if version is None else "yes" if row.nullable else ""
        cells = ("  " * row.depth + row.name, row.type, row.versions, null, tag, row.default, row.meaning)
        table.add_row(*(Text(cell) for cell in cells))
    console.print(table)


def _place_of(cls: type[object], version: int | None) -> str:
    """Return the place of a message: its API and the header before it, or the record type of an embedded structure."""
    from kafkaraw.protocol.declare import Direction, header_of

    header = header_of(cls)
    if header.direction is Direction.DATA:
        return f"record type {header.api_key}" if header.api_key >= 0 else "structure inside a bytes field or record"
    if version is None:
        return f"API key {header.api_key}"
    return f"API key {header.api_key}, after {header.direction} header v{_header_version(cls, version)}"


def _header_version(cls: type[object], version: int) -> int:
    from kafkaraw.protocol.declare import Direction, header_of
    from kafkaraw.protocol.frames import request_header_version, response_header_version

    header = header_of(cls)
    is_request = header.direction is Direction.REQUEST
    return (request_header_version if is_request else response_header_version)(header.api_key, version)


def _api_table(apis: tuple[Api, ...]) -> object:
    from rich import box
    from rich.table import Table

    from kafkaraw.protocol.declare import header_of
    from kafkaraw.protocol.describe import purpose_of

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("key", justify="right", style="cyan")
    table.add_column("API", style="bold", no_wrap=True)
    for heading in ("offered", "declared", "removed", "unstable"):
        table.add_column(heading, no_wrap=True)
    table.add_column("purpose", overflow="fold", ratio=1)
    for api in apis:
        header = header_of(api.request)
        versions = [_or_dash(str(it)) for it in (api.supported, api.versions, header.removed, header.unstable)]
        table.add_row(str(api.key), api.name, *versions, purpose_of(api))
    return table


def _or_dash(versions: str) -> str:
    return "-" if versions == "none" else versions


def _api_as_json(api: Api) -> dict[str, object]:
    from kafkaraw.protocol.declare import header_of
    from kafkaraw.protocol.describe import purpose_of

    header = header_of(api.request)
    return {
        "key": api.key,
        "name": api.name,
        "offered": str(api.supported),
        "declared": str(api.versions),
        "removed": str(header.removed),
        "unstable": str(header.unstable),
        "flexible": str(header.flexible),
        "purpose": purpose_of(api),
    }


def _message_as_json(cls: type[object], version: int | None) -> dict[str, object]:
    from kafkaraw.protocol.declare import Direction, header_of
    from kafkaraw.protocol.describe import field_rows, prose_of

    header = header_of(cls)
    in_frame = header.direction is not Direction.DATA and version is not None
    return {
        "name": cls.__name__,
        "direction": str(header.direction),
        "key": header.api_key,
        "version": version,
        "header_version": _header_version(cls, version) if in_frame and version is not None else None,
        "declared": str(header.versions),
        "flexible": str(header.flexible),
        "removed": str(header.removed),
        "unstable": str(header.unstable),
        "description": "\n".join(prose_of(cls)),
        "fields": [asdict(row) for row in field_rows(cls, version)],
    }


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=COLUMNS_WHEN_PIPED, no_color=True)
