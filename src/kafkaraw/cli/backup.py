"""`kafkaraw backup`: topics in files on any filesystem of fsspec. `kafkaraw restore` writes them into a cluster."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.clients import Cluster, cluster_options
from kafkaraw.cli.copies import open_store, progress_bar, source_of
from kafkaraw.cli.notes import Notes
from kafkaraw.cli.rendering import TABLE, Row, output_option, show, time_text

if TYPE_CHECKING:
    from kafkaraw.mirror.backups.manifest import Manifest
    from kafkaraw.mirror.backups.pruning import Pruned

_MIB: Final = 1 << 20

EPILOG: Final = """\b
Examples:
  kafkaraw backup create -b production:9092 '*' --to s3://backups/production
  kafkaraw backup list s3://backups/production
  kafkaraw backup verify s3://backups/production
  kafkaraw backup prune s3://backups/production --older-than P90D
  kafkaraw restore s3://backups/production -b other:9092 orders --rename orders=orders-restored
"""


@click.group(epilog=EPILOG)
def backup() -> None:
    """Back up topics with settings, committed offsets and ACLs, to files.

    A location is a path, or a URL that fsspec opens: s3://, gs://, abfs://, sftp:// and others, each with the package
    that fsspec names.
    """


@backup.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@cluster_options
@click.option("--to", "location", required=True, metavar="LOCATION", help="Where: a path or a URL of fsspec.")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["segments", "parquet"]),
    default="segments",
    show_default=True,
    help="Record batches as they are, or Parquet with partition, offset, timestamp, key, value and headers.",
)
@click.option(
    "--file-size",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    metavar="MIB",
    help="Begin a new file after batches of this size.",
)
@click.option(
    "--group", "groups", multiple=True, metavar="GROUP", help="Store offsets of these groups.  [default: all]"
)
@click.option("--acls/--no-acls", default=True, show_default=True, help="Store the cluster's ACLs.")
@click.option("--full", is_flag=True, help="Back up everything anew, also what earlier runs have.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors and the result only.")
@output_option
def create(  # noqa: PLR0913
    cluster: Cluster,
    topics: tuple[str, ...],
    location: str,
    file_format: str,
    file_size: int,
    groups: tuple[str, ...],
    acls: bool,
    full: bool,
    quiet: bool,
    output: str,
) -> None:
    """Add a run to a backup: records that are newer than those of the run before; the first run takes all.

    TOPIC is a name, or a pattern such as 'orders.*'. Records of open and aborted transactions are not stored. A run
    that is killed does not count; the next one takes its records.
    """
    store = open_store(location)
    from kafkaraw.mirror.backups.backup import BackupOptions, back_up
    from kafkaraw.mirror.backups.manifest import FileFormat

    options = BackupOptions(FileFormat(file_format), file_size * _MIB, groups or ("*",), acls, full)
    with Notes(quiet=quiet, shares_terminal=False) as notes, progress_bar("backup", quiet=quiet) as progress:
        made = asyncio.run(
            back_up(
                source_of(cluster),
                topics,
                store,
                options,
                now_ms=round(time.time() * 1000),
                run_id=secrets.token_hex(4),
                progress=progress,
            )
        )
        for notice in made.notices:
            notes.say(notice)
        row = _row_of(made.manifest)
        notes.say(f"run {row['RUN']}: {row['RECORDS']:,} records in {row['FILES']} files of {location}")
    show([row], output)


@backup.command("list")
@click.argument("location")
@output_option
def list_runs(location: str, output: str) -> None:
    """List the runs of a backup; with -o json also their topics, partitions and files."""
    manifests = open_store(location).required_manifests()
    show([_row_of(manifest) for manifest in manifests], output, [_document(manifest) for manifest in manifests])


@backup.command()
@click.argument("location")
@click.option("--run", type=click.IntRange(1), help="Read only the files of this run.  [default: all]")
@click.option("-q", "--quiet", is_flag=True, help="Print errors and the result only.")
@output_option
def verify(location: str, run: int | None, quiet: bool, output: str) -> None:
    """Read all files of a backup, and compare checksums, offsets and numbers of records with the manifests.

    Exit codes: 0 if all are as their manifests say, 1 if files are damaged or missing.
    """
    store = open_store(location)
    from kafkaraw.mirror.backups.checking import check

    with Notes(quiet=quiet, shares_terminal=False) as notes, progress_bar("verify", quiet=quiet) as progress:
        found = check(store, run=run, begin=progress.begin, advance=progress.advance)
        for folder in found.unfinished:
            notes.say(f"{folder} is of a run without a manifest: it was killed, or goes on; a later run removes it")
        notes.say(f"read {found.files_count} files with {found.records_count:,} records: {len(found.damages)} damaged")
    rows: list[Row] = [
        {
            "RUN": each.run,
            "TOPIC": each.key.topic,
            "PARTITION": each.key.partition,
            "FIRST-OFFSET": each.file.first_offset,
            "END-OFFSET": each.file.next_offset,
            "PROBLEM": each.reason,
        }
        for each in found.damages
    ]
    if rows or output != TABLE:
        show(rows, output)
    if found.damages:
        sys.exit(1)


@backup.command()
@click.argument("location")
@click.option(
    "--keep-last",
    type=click.IntRange(1),
    metavar="N",
    help="Keep the last N runs: remove what a restore as of one of them does not need.",
)
@click.option(
    "--older-than",
    metavar="DURATION",
    help="Remove runs that began longer ago, and their records; an ISO 8601 duration, as P90D.",
)
@click.option(
    "-y", "--yes", "--execute", "execute", is_flag=True, help="Remove it; without it, it is only shown what would be."
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed (the default).")
@click.option("-q", "--quiet", is_flag=True, help="Print errors and the result only.")
@output_option
def prune(
    location: str, keep_last: int | None, older_than: str | None, execute: bool, dry_run: bool, quiet: bool, output: str
) -> None:
    """Remove files that a backup does not need any more, and the bytes that they take.

    With --keep-last, all records of the last N runs stay, also those that earlier runs have stored; files go that a run
    with --full has replaced, and those of topics that were created again. With --older-than, old records go, too,
    except those of compacted topics and of the last run. What killed runs have left goes in both cases.

    The backup can be restored at any time, also if this command is killed; run it again then.
    """
    if (keep_last is None) == (older_than is None):
        raise click.UsageError("give either --keep-last or --older-than")
    if execute and dry_run:
        raise click.UsageError("--yes and --dry-run exclude each other")
    before_ms = None if older_than is None else round(time.time() * 1000) - _duration_ms(older_than)
    store = open_store(location)
    from kafkaraw.mirror.backups.pruning import prune as prune_backup

    with Notes(quiet=quiet, shares_terminal=False) as notes:
        found = prune_backup(store, keep_last=keep_last, before_ms=before_ms, dry_run=not execute)
        runs = found.removed_runs
        if runs:
            which = f"run {runs[0]}" if len(runs) == 1 else f"runs {runs[0]} to {runs[-1]}"
            notes.say(f"{which} cannot be restored{' any more' if execute else ' then'}; run {found.first_run} can")
        done = "removed" if execute else "would remove"
        notes.say(f"{done} {len(found.files):,} files, {found.size_bytes:,} bytes")
        if not execute:
            notes.say("nothing was changed: --yes removes them")
    show(_removed_rows(found), output)


def _duration_ms(text: str) -> int:
    from kafkaraw.core.fetch.offsets import parse_duration_ms

    duration_ms = parse_duration_ms(text)
    if duration_ms is None:
        raise click.UsageError(f"--older-than {text}: must be an ISO 8601 duration, as P90D or PT12H")
    return duration_ms


def _removed_rows(found: Pruned) -> list[Row]:
    """Return a row for each topic: its files, their bytes, and the records that the last run does not restore then."""
    sizes: dict[str, list[int]] = {topic: [] for topic in found.records}
    for path, size in found.files.items():
        sizes.setdefault(path.split("/")[2], []).append(size)
    return [
        {"TOPIC": topic, "FILES": len(each), "BYTES": sum(each), "RECORDS": found.records.get(topic, 0)}
        for topic, each in sorted(sizes.items())
    ]


def _row_of(manifest: Manifest) -> Row:
    files = manifest.files
    return {
        "RUN": manifest.run,
        "TIME": time_text(manifest.created_ms),
        "FORMAT": manifest.file_format.value,
        "TOPICS": len(manifest.topics),
        "GROUPS": len(manifest.groups),
        "FILES": len(files),
        "RECORDS": sum(file.records_count for file in files),
        "BYTES": sum(file.size_bytes for file in files),
        "LOST": sum(
            one.lost[1] - one.lost[0] for topic in manifest.topics for one in topic.partitions if one.lost is not None
        ),
    }


def _document(manifest: Manifest) -> dict[str, object]:
    return {name.lower(): value for name, value in _row_of(manifest).items()} | {
        "cluster_id": manifest.cluster_id,
        "topics": [
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "configs": topic.configs,
                "partitions": [
                    {
                        "partition": one.partition,
                        "first_offset": one.begin,
                        "end_offset": one.end,
                        "continues": one.continues,
                        "lost": one.lost,
                        "files": [file.path for file in one.files],
                    }
                    for one in topic.partitions
                ],
            }
            for topic in manifest.topics
        ],
        "groups": sorted(manifest.groups),
        "acls": None if manifest.acls is None else len(manifest.acls),
    }
