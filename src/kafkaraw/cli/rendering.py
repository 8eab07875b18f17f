"""The output of commands that answer with rows: a table, JSON or YAML. No other module formats such output.

A row is a mapping from headings to values, the same for all three: a table has the headings as they are, JSON and YAML
have them as names in lower case. Commands whose answer has more structure than a table add a document for JSON and
YAML. Start at `show`; `output_option` adds `-o` to a command.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import click

from kafkaraw.errors import UsageError

Row: TypeAlias = dict[str, object]

TABLE: Final = "table"
JSON: Final = "json"
YAML: Final = "yaml"
_WIDTH_MIN: Final = 9


def output_option(command: Callable[..., object]) -> Callable[..., object]:
    """Add `-o table|json|yaml` to a command, and `--json` for short; it gets the format as `output`."""

    @functools.wraps(command)
    def with_output(*arguments: object, output: str | None, as_json: bool, **others: object) -> object:
        if as_json and output not in (None, JSON):
            raise click.UsageError(f"--json and -o {output} exclude each other")
        return command(*arguments, output=JSON if as_json else output or TABLE, **others)

    short = click.option("--json", "as_json", is_flag=True, help="Print JSON, the same as -o json.")
    return click.option(
        "-o", "--output", type=click.Choice([TABLE, JSON, YAML]), help="Format of the output.  [default: table]"
    )(short(with_output))


def show(rows: Sequence[Mapping[str, object]], output: str, document: object = None) -> None:
    """Print rows on standard output.

    Args:
        rows: with the same headings each.
        output: the value of `-o`.
        document: printed as JSON or YAML instead of the rows; None is the rows.

    Raises:
        UsageError: the output is YAML, and PyYAML is not installed.
    """
    if output == TABLE:
        _print_table(rows)
        return
    plain = _plain([_named(row) for row in rows] if document is None else document)
    sys.stdout.write(_as_yaml(plain) if output == YAML else json.dumps(plain, indent=2, ensure_ascii=False) + "\n")


def print_rows(rows: Sequence[Mapping[str, object]], *, as_json: bool) -> None:
    """Print rows as JSON or as a table, for commands without YAML."""
    show(rows, JSON if as_json else TABLE)


def time_text(milliseconds: int | None) -> str | None:
    """Return a time as ISO 8601 text in UTC.

    Args:
        milliseconds: since 1970; None or a negative number is no time.
    """
    if milliseconds is None or milliseconds < 0:
        return None
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _print_table(rows: Sequence[Mapping[str, object]]) -> None:
    if not rows:
        return
    cells = [tuple(rows[0]), *(tuple(map(_cell, row.values())) for row in rows)]
    widths = [max(_WIDTH_MIN, *map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
        sys.stdout.write(" ".join(padded).rstrip() + "\n")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={_cell(each)}" for name, each in value.items()) or "-"
    if isinstance(value, tuple | list | frozenset | set):
        return ",".join(map(_cell, value)) or "-"
    return str(value)


def _named(row: Mapping[str, object]) -> dict[str, object]:
    return {name.lower().replace("-", "_").replace("#", ""): value for name, value in row.items()}


def _plain(value: object) -> object:
    """Return the value in JSON's types."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if value is None or type(value) in (bool, int, float, str):
        return value
    return str(value)


def _as_yaml(value: object) -> str:
    try:
        import yaml
    except ImportError:
        raise UsageError("-o yaml needs PyYAML: run `pip install pyyaml`, or use -o json") from None
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    assert isinstance(text, str)
    return text
