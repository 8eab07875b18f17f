"""`kafkaraw tables`: describe and maintain lake tables, those that formats kafkaraw.delta and kafkaraw.iceberg write.

A table is named as in a DataFrame: a path or URL is a Delta table, `namespace.name` with options `catalog.NAME` is an
Iceberg table. `-X` has the options of the formats. Start at `table_options`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

from kafkaraw.cli.broker import parse_properties, read_properties
from kafkaraw.cli.changes import Change, change_options, count_of, destructive_options
from kafkaraw.cli.rendering import TABLE, output_option, show, time_text

if TYPE_CHECKING:
    from kafkaraw.spark.lake.maintenance import Description, TableMaintenance

DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
_TARGET: Final = "targetFileSize"
_WEEK: Final = "P7D"

EPILOG: Final = """\b
Examples:
  kafkaraw tables describe lake/flights
  kafkaraw tables optimize s3://lake/flights -X storage.aws_region=eu-central-1
  kafkaraw tables expire travel.flights --format iceberg --older-than P30D --dry-run
  kafkaraw tables vacuum travel.flights -F iceberg.properties --older-than P7D
"""


@dataclass(frozen=True)
class TableName:
    """The table that the options of a command name.

    Attributes:
        format: "delta" or "iceberg".
        options: as a DataFrame would have them.
    """

    format: str
    options: dict[str, str]

    def open(self, **more: str) -> TableMaintenance:
        """Open the table.

        Args:
            more: options that override those of the user.

        Raises:
            TableError: there is none, or it cannot be read.
        """
        from kafkaraw.spark.errors import TableError

        opened = _delta(self.options | more) if self.format == DELTA else _iceberg(self.options | more)
        if opened is None:
            raise TableError(
                f"there is no {self.format.title()} table {self.options['path']}: check the name and the options -X; "
                f"a path or URL is a Delta table, namespace.name with --format iceberg an Iceberg table"
            )
        return opened


def _delta(options: dict[str, str]) -> TableMaintenance | None:
    from kafkaraw.spark.lake.delta import open_delta
    from kafkaraw.spark.lake.delta_maintenance import DeltaMaintenance
    from kafkaraw.spark.options.lake import parse_delta

    parsed = parse_delta(options)
    table = open_delta(parsed)
    return None if table is None else DeltaMaintenance(parsed, table)


def _iceberg(options: dict[str, str]) -> TableMaintenance | None:
    from kafkaraw.spark.lake.iceberg import open_iceberg
    from kafkaraw.spark.lake.iceberg_maintenance import IcebergMaintenance
    from kafkaraw.spark.options.lake import parse_iceberg

    parsed = parse_iceberg(options)
    table = open_iceberg(parsed)
    return None if table is None else IcebergMaintenance(parsed, table)


def _folders(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


def table_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the argument TABLE and the options that name a table; the command gets a `TableName` as `table`."""

    @functools.wraps(command)
    def with_table(
        *arguments: object,
        table: str,
        table_format: str | None,
        config_file: Path | None,
        given: tuple[str, ...],
        **others: object,
    ) -> object:
        options = (read_properties(config_file) if config_file else {}) | parse_properties(given)
        if table_format is None:
            table_format = ICEBERG if any(name.lower().startswith("catalog") for name in options) else DELTA
        return command(*arguments, table=TableName(table_format, options | {"path": table}), **others)

    added = (
        click.argument("table", shell_complete=_folders),
        click.option(
            "--format",
            "table_format",
            type=click.Choice([DELTA, ICEBERG]),
            help="Format of the table.  [default: iceberg if an option catalog is given, or else delta]",
        ),
        click.option(
            "-F",
            "--config",
            "config_file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A .properties file with options; secrets belong there, or into the environment.",
        ),
        click.option(
            "-X",
            "given",
            multiple=True,
            metavar="OPTION=VALUE",
            help="An option of the format, such as catalog.uri or storage.aws_region; overrides the file.",
        ),
    )
    found: Callable[..., object] = with_table
    for add in reversed(added):
        found = add(found)
    return found


def _retention(ctx: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    from kafkaraw.core.fetch.offsets import parse_duration_ms

    duration_ms = None if text is None else parse_duration_ms(text)
    if text is not None and duration_ms is None:
        raise click.BadParameter(f"{text!r} is not an ISO 8601 duration, as in PT12H or P7D", ctx, parameter)
    return None if duration_ms is None else duration_ms / 1000


_target_option = click.option(
    "--target-file-size", metavar="SIZE", default="128m", show_default=True, help="Size that data files should have."
)


@click.group(epilog=EPILOG)
def tables() -> None:
    """Lake tables, Delta and Iceberg: describe them, replace small files, delete what is left over."""


@tables.command()
@table_options
@_target_option
@output_option
def describe(table: TableName, target_file_size: str, output: str) -> None:
    """Print the version, files and columns of a table, and the last micro-batch of each query.

    SMALL is the number of files below three quarters of the target size, which `optimize` replaces.
    """
    found = table.open(**{_TARGET: target_file_size}).describe(_size(target_file_size))
    row = {
        "VERSION": found.version,
        "VERSIONS": found.versions_count,
        "CHANGED": time_text(found.changed_ms),
        "FILES": found.files_count,
        "SMALL": found.small_files_count,
        "BYTES": found.size_bytes,
        "ROWS": found.rows_count,
        "PARTITION-BY": list(found.partition_columns),
    }
    columns, queries = _columns(found), _queries(found)
    show(
        [row],
        output,
        {name.lower().replace("-", "_"): value for name, value in row.items()}
        | {
            "format": table.format,
            "columns": [{name.lower(): value for name, value in each.items()} for each in columns],
            "queries": [{name.lower(): value for name, value in each.items()} for each in queries],
        },
    )
    if output == TABLE:
        for rows in filter(None, (columns, queries)):
            click.echo()
            show(rows, TABLE)


def _size(text: str) -> int:
    from kafkaraw.spark.options.lake import parse_delta

    return parse_delta({"path": "-", _TARGET: text}).target_file_size


def _columns(found: Description) -> list[dict[str, object]]:
    from kafkaraw.spark.lake.schemas import described

    return [{"COLUMN": each.name, "TYPE": described(each.type), "NULLS": each.nullable} for each in found.schema]


def _queries(found: Description) -> list[dict[str, object]]:
    return [{"QUERY": query, "BATCH": batch.number, "ROWS": batch.rows_count} for query, batch in found.batches.items()]


@tables.command()
@table_options
@_target_option
@output_option
def optimize(table: TableName, target_file_size: str, output: str) -> None:
    """Replace the small data files of each partition by fewer ones of about the target size.

    Writers may go on meanwhile; if one changes the same files, the command plans again. The old files stay until
    `vacuum` deletes them, so running queries can still read them.
    """
    done = table.open(**{_TARGET: target_file_size}).optimize(_size(target_file_size))
    row = {
        "REMOVED": done.removed_count,
        "REMOVED-BYTES": done.removed_bytes,
        "ADDED": done.added_count,
        "ADDED-BYTES": done.added_bytes,
    }
    show([row], output)


@tables.command()
@table_options
@click.option(
    "--older-than",
    "retention_s",
    metavar="DURATION",
    default=_WEEK,
    show_default=True,
    callback=_retention,
    help="Only files older than this, as in PT12H.",
)
@click.option("--no-writers", is_flag=True, help="Confirm that no writer runs: allows --older-than below PT1H.")
@destructive_options
@output_option
def vacuum(table: TableName, retention_s: float, no_writers: bool, change: Change, output: str) -> None:
    """Delete files that no version of the table names: those of failed writers, and those of forgotten versions.

    Delta: also files that a newer version has removed; queries of older versions fail then. Iceberg: `expire` forgets
    snapshots first.

    A micro-batch that takes longer than --older-than can lose its files before it is committed; it then fails, and
    nothing of it is in the table.
    """
    from kafkaraw.spark.lake.maintenance import check_retention

    check_retention(retention_s, has_writers=not no_writers)
    opened = table.open()
    paths = opened.vacuum(retention_s, dry_run=True)
    show([{"FILE": path} for path in paths], output)
    if change.allows(f"Delete {count_of(len(paths), 'file')}?"):
        deleted = opened.vacuum(retention_s, dry_run=False) if paths else []
        click.echo(f"Deleted {count_of(len(deleted), 'file')}.", err=True)


@tables.command()
@table_options
@click.option(
    "--older-than",
    "retention_s",
    metavar="DURATION",
    callback=_retention,
    help="Iceberg: only snapshots older than this, as in P30D.  [default: what the table's properties say]",
)
@change_options
@output_option
def expire(table: TableName, retention_s: float | None, change: Change, output: str) -> None:
    """Forget old versions of a table, so that `vacuum` can delete their files.

    Delta keeps versions as long as the table property delta.logRetentionDuration says, by default 30 days; the command
    writes a checkpoint first. Iceberg keeps branches, tags, and as many snapshots as
    history.expire.min-snapshots-to-keep says. The last micro-batch of each query is never forgotten.
    """
    opened = table.open()
    found = opened.expire(retention_s, dry_run=change.dry_run)
    show([{"VERSION": each.version, "COMMITTED": time_text(each.committed_ms)} for each in found], output)
    if change.allows("Forget old versions?"):
        click.echo(f"Forgot {count_of(len(found), 'version')}.", err=True)
