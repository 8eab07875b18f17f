"""`kafkaraw wire diff`: what two captured conversations ask differently."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import click

from kafkaraw.cli.wire_read import exchanges_in, tls_keys_option
from kafkaraw.cli.wire_tap import filter_options

if TYPE_CHECKING:
    from kafkaraw.inspect.differences import Comparison, Use
    from kafkaraw.inspect.tap.lines import Filter


@click.command()
@click.argument("first", type=click.File("rb"))
@click.argument("second", type=click.File("rb"))
@filter_options
@tls_keys_option
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Format.  [default: text]")
@click.pass_context
def diff(
    ctx: click.Context, first: BinaryIO, second: BinaryIO, shown: Filter, tls_keys: BinaryIO | None, output: str
) -> None:
    """Compare two captured conversations, as of an old client and a new one.

    Prints the APIs with their versions, requests and errors, the order in which they are asked, and the fields that
    differ between the first requests of each API. Ids that brokers assign, records and tokens are not compared.

    The exit code is 1 if anything differs.
    """
    from kafkaraw.inspect.differences import compare

    found = compare(*(exchanges_in(file, shown, tls_keys)[0] for file in (first, second)))
    if output == "json":
        click.echo(json.dumps(_document(found), indent=2, ensure_ascii=False))
    else:
        for line in _lines(found):
            click.echo(line)
    ctx.exit(0 if found.is_equal else 1)


def _lines(found: Comparison) -> Iterator[str]:
    if found.is_equal:
        yield "Both ask the same, in the same order."
        return
    width = max((len(name) for name in found.uses), default=0)
    yield f"  {'API':{width}}  {'FIRST':24}  SECOND"
    for name, (one, other) in found.uses.items():
        mark = (
            " " if one and other and one[::2] == other[::2] else "-" if other is None else "+" if one is None else "~"
        )
        yield f"{mark} {name:{width}}  {_use_text(one):24}  {_use_text(other)}".rstrip()
    if any(mark != " " for mark, _ in found.order):
        yield "\nOrder:"
        yield from (f"{mark} {name}" for mark, name in found.order)
    if found.fields:
        yield "\nFields of the first request of each API:"
    for difference in found.fields:
        yield f"  {difference.api} {difference.path}: {_shown(difference.first)} | {_shown(difference.second)}"


def _use_text(use: Use | None) -> str:
    if use is None:
        return "-"
    versions = ", ".join(f"v{version}" for version in use.versions)
    return f"{versions} x {use.requests}" + (f" ({', '.join(use.errors)})" if use.errors else "")


def _shown(value: object) -> str:
    text = "not sent" if value is None else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


def _document(found: Comparison) -> dict[str, object]:
    return {
        "equal": found.is_equal,
        "apis": {
            name: {
                side: None if use is None else use._asdict()
                for side, use in zip(("first", "second"), uses, strict=True)
            }
            for name, uses in found.uses.items()
        },
        "order": [{"mark": mark, "api": name} for mark, name in found.order],
        "fields": [difference._asdict() for difference in found.fields],
    }
