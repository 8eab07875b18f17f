"""`kafkaraw mirror snapshot`: a slice of topics in a directory that `kafkaraw broker` opens."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.broker import parse_properties
from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.copies import function_of, progress_bar, source_of
from kafkaraw.cli.notes import Notes
from kafkaraw.cli.rendering import Row, output_option, show
from kafkaraw.cli.start_offsets import TIME_FORMS, timestamp_ms

if TYPE_CHECKING:
    from kafkaraw.mirror.batch_changes import Mask
    from kafkaraw.mirror.snapshot import Snapshot

EPILOG: Final = """\b
Examples:
  kafkaraw mirror snapshot -b production:9092 orders payments --last 10000 --groups --to slice
  kafkaraw broker --data-dir slice
\b
  kafkaraw mirror snapshot -b production:9092 'orders.*' --since -PT1H --mask masks:digest --keys --values --to slice
"""


@click.command(epilog=EPILOG)
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@cluster_options
@click.option(
    "--to",
    "directory",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIRECTORY",
    help="Where; it does not exist yet, or is empty.",
)
@click.option("--replace", is_flag=True, help="Replace the snapshot that is in the directory.")
@click.option(
    "--last",
    type=click.IntRange(0),
    metavar="COUNT",
    help="Copy at most this number of the last offsets of each partition.",
)
@click.option("--since", metavar="TIME", help=f"Copy records from this time on: {TIME_FORMS}.")
@click.option("-p", "--partition", "partitions", type=click.IntRange(0), multiple=True, help="Copy only these.")
@click.option(
    "--group", "groups", multiple=True, metavar="GROUP", help="Copy the committed offsets of this group, or pattern."
)
@click.option("--groups", "all_groups", is_flag=True, help="Copy the committed offsets of all groups.")
@click.option(
    "--mask",
    metavar="MODULE:FUNCTION",
    help="Replace values by what this function returns for the bytes; --keys and --values say what.",
)
@click.option("--keys", is_flag=True, help="Mask keys.")
@click.option("--values", is_flag=True, help="Mask values; the default, unless --keys is given.")
@click.option("--topic-config", "configs", multiple=True, metavar="NAME=VALUE", help="Set this for all topics.")
@click.option(
    "--keep-retention", is_flag=True, help="Keep the topics' retention; by default, old records of a snapshot stay."
)
@click.option("-q", "--quiet", is_flag=True, help="Print errors and the result only.")
@output_option
def snapshot(  # noqa: PLR0913
    cluster: Cluster,
    topics: tuple[str, ...],
    directory: Path,
    replace: bool,
    last: int | None,
    since: str | None,
    partitions: tuple[int, ...],
    groups: tuple[str, ...],
    all_groups: bool,
    mask: str | None,
    keys: bool,
    values: bool,
    configs: tuple[str, ...],
    keep_retention: bool,
    quiet: bool,
    output: str,
) -> None:
    """Copy a slice of topics into a directory, to be opened with `kafkaraw broker --data-dir`.

    TOPIC is a name, or a pattern such as 'orders.*'. Records keep their partitions, offsets and timestamps, topics
    their ids and settings; so committed offsets of groups mean the same records. Records of open and aborted
    transactions are not copied. If the command is killed, the directory is as it was before.
    """
    from kafkaraw.mirror.slices import Bounds
    from kafkaraw.mirror.snapshot import SnapshotOptions, take_snapshot

    since_ms = None if since is None else timestamp_ms(since, round(time.time() * 1000), f"--since {since}")
    options = SnapshotOptions(
        bounds=Bounds(last, since_ms, partitions or None),
        groups=("*",) if all_groups else groups,
        mask=_mask(mask, keys=keys, values=values),
        configs={name: str(value) for name, value in parse_properties(configs).items()},
        keep_retention=keep_retention,
        replace=replace,
    )
    with Notes(quiet=quiet, shares_terminal=False) as notes, progress_bar("snapshot", quiet=quiet) as progress:
        found = asyncio.run(take_snapshot(source_of(cluster), topics, directory, options, progress))
        for reason in found.left_out:
            notes.say(f"left out: {reason}")
        count, size = (
            sum(getattr(each, name) for each in found.partitions) for name in ("records_count", "size_bytes")
        )
        notes.say(f"copied {count:,} records ({size / 1e6:,.1f} MB); open them: kafkaraw broker --data-dir {directory}")
    _show(found, output)


def _mask(text: str | None, *, keys: bool, values: bool) -> Mask | None:
    if text is None:
        if keys or values:
            raise click.UsageError("--keys and --values say what --mask replaces: name a function with --mask")
        return None
    from kafkaraw.mirror.batch_changes import Mask

    return Mask(function_of(text, "--mask"), keys=keys, values=values or not keys, name=f"--mask {text}")


def _show(found: Snapshot, output: str) -> None:
    rows: list[Row] = [
        {
            "TOPIC": each.slice.key.topic,
            "PARTITION": each.slice.key.partition,
            "FIRST-OFFSET": each.slice.begin,
            "END-OFFSET": each.slice.end,
            "RECORDS": each.records_count,
            "BYTES": each.size_bytes,
        }
        for each in found.partitions
    ]
    show(rows, output)
