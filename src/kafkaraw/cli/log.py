"""`kafkaraw log`: read, verify and repair log directories of kafkaraw's broker and of Apache Kafka."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from kafkaraw.errors import KafkaError

if TYPE_CHECKING:
    from kafkaraw.logs.directory import PartitionSummary
    from kafkaraw.logs.verify import Finding

T = TypeVar("T")
MAX_MESSAGE_SIZE: Final = 5 * 1024 * 1024
PARALLEL_BYTES_MIN: Final = 1 << 30
"""From this size on, two processes take less time than one: starting one costs what reading 500 MB does."""
_DIRECTORY: Final = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
def log() -> None:
    """Read, verify and repair log directories.

    The directories are those of Apache Kafka's `log.dirs`, or of `kafkaraw broker --data-dir`. No broker is needed;
    `dump`, `list` and `verify` change nothing.
    """


@log.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--deep-iteration", is_flag=True, help="Print the records of each batch.")
@click.option("--print-data-log", is_flag=True, help="Print keys and values, too. Implies --deep-iteration.")
@click.option("--offsets-decoder", "decoder", flag_value="offsets-decoder", help="Decode __consumer_offsets.")
@click.option(
    "--transaction-log-decoder", "decoder", flag_value="transaction-log-decoder", help="Decode __transaction_state."
)
@click.option(
    "--share-group-state-decoder", "decoder", flag_value="share-group-state-decoder", help="Decode __share_group_state."
)
@click.option(
    "--cluster-metadata-decoder", "decoder", flag_value="cluster-metadata-decoder", help="Decode __cluster_metadata."
)
@click.option(
    "--remote-log-metadata-decoder",
    "decoder",
    flag_value="remote-log-metadata-decoder",
    help="Decode __remote_log_metadata.",
)
@click.option("--skip-record-metadata", is_flag=True, help="Print of a record nothing but its key and value.")
@click.option("--index-sanity-check", is_flag=True, help="Check indexes as a broker does when it starts.")
@click.option("--verify-index-only", is_flag=True, help="Compare indexes with their logs, and print no entry.")
@click.option(
    "--max-message-size",
    type=click.IntRange(1),
    default=MAX_MESSAGE_SIZE,
    show_default=True,
    metavar="BYTES",
    help="Size of the largest batch, for indexes.",
)
@click.option("--max-bytes", type=click.IntRange(0, 2**31 - 1), metavar="BYTES", help="Read no more of each log file.")
@click.option("--jobs", type=click.IntRange(1), help="Processes that read; one per core if not given.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of the output.")
@click.pass_context
def dump(  # noqa: PLR0913 - the options of kafka-dump-log
    ctx: click.Context,
    files: tuple[str, ...],
    deep_iteration: bool,
    print_data_log: bool,
    decoder: str | None,
    skip_record_metadata: bool,
    index_sanity_check: bool,
    verify_index_only: bool,
    max_message_size: int,
    max_bytes: int | None,
    jobs: int | None,
    output: str,
) -> None:
    """Print log files, indexes and producer snapshots.

    The text is that of Apache Kafka's kafka-dump-log, byte for byte. FILE is a .log, .index, .timeindex, .txnindex,
    .snapshot or .checkpoint file; .index and .timeindex are compared with the .log beside them. `-o json` prints one
    JSON object per line.

    Differences between an index and its log go to the standard error, as with kafka-dump-log. Exits with 1 if a file
    cannot be read to its end.
    """
    from kafkaraw.logs.decoders import DecoderName
    from kafkaraw.logs.dump import NO_LIMIT, DumpOptions
    from kafkaraw.logs.dump_files import DumpSettings, dump_files, size_of_file

    shows_content = print_data_log or decoder is not None
    options = DumpOptions(
        deep=deep_iteration or shows_content,
        skip_record_metadata=skip_record_metadata,
        index_sanity_check=index_sanity_check,
        verify_index_only=verify_index_only,
        max_message_size=max_message_size,
        max_bytes=NO_LIMIT if max_bytes is None else max_bytes,
    )
    name = DecoderName(decoder) if decoder else DecoderName.TEXT
    settings = DumpSettings(options, name if shows_content else None, as_json=output == "json")
    jobs = min(jobs or _cores(), len(files))
    with _progress(sum(map(size_of_file, files)), hidden=sys.stdout.isatty()) as advance:
        error = dump_files(files, settings, sys.stdout.buffer, jobs, _complain, advance)
    if error:
        _complain(f"Error: {error}")
        ctx.exit(1)


def _complain(line: str) -> None:
    click.echo(line, err=True)


@log.command("list")
@click.argument("directory", metavar="DIR", type=_DIRECTORY)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of the output.")
@click.pass_context
def list_command(ctx: click.Context, directory: Path, output: str) -> None:
    """List the partitions of a log directory.

    DIR is one of the broker's log.dirs. For each partition: its segments, bytes, log start and end offset, the times of
    the first and the newest record, and its leader epochs. Only indexes and the ends of logs are read.

    Exits with 1 if a partition could not be read whole; `kafkaraw log verify` says more.
    """
    from kafkaraw.logs.directory import summaries

    with _errors_of_files():
        found = summaries(directory)
    if output == "json":
        from kafkaraw.logs.kafka_json import render

        for one in found:
            click.echo(render(_summary_json(one)))
    else:
        rows = [
            ("PARTITION", "SEGMENTS", "BYTES", "START", "END", "FIRST", "NEWEST", "EPOCHS"),
            *map(_summary_row, found),
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            numbers = (cell.rjust(width) for cell, width in zip(row[1:5], widths[1:5], strict=True))
            times = (cell.ljust(width) for cell, width in zip(row[5:], widths[5:], strict=True))
            click.echo("  ".join((row[0].ljust(widths[0]), *numbers, *times)).rstrip())
    problems = [one.problem for one in found if one.problem]
    for problem in problems:
        _complain(problem)
    if problems:
        ctx.exit(1)


def _summary_json(one: PartitionSummary) -> dict[str, object]:
    return {
        "topic": one.folder.topic,
        "partition": one.folder.partition,
        "folder": one.folder.name,
        "topicId": one.topic_id or None,
        "segments": one.segments,
        "bytes": one.size_bytes,
        "startOffset": one.start_offset,
        "endOffset": one.end_offset,
        "firstTimestamp": one.first_timestamp_ms,
        "newestTimestamp": one.last_timestamp_ms,
        "epochs": [{"epoch": epoch, "startOffset": start} for epoch, start in one.epochs],
        "problem": one.problem or None,
    }


def _summary_row(one: PartitionSummary) -> tuple[str, ...]:
    epochs = [str(epoch) for epoch, _ in one.epochs]
    return (
        one.folder.name,
        str(one.segments),
        str(one.size_bytes),
        str(one.start_offset),
        str(one.end_offset),
        _time(one.first_timestamp_ms),
        _time(one.last_timestamp_ms),
        epochs[0] if len(epochs) == 1 else f"{epochs[0]}-{epochs[-1]}" if epochs else "",
    )


def _time(timestamp_ms: int) -> str:
    """Return a timestamp in UTC; `-` for none, and the number for one beyond the calendar."""
    from datetime import UTC, datetime, timedelta

    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


@log.command()
@click.argument("directory", metavar="DIR", type=_DIRECTORY)
@click.option("--jobs", type=click.IntRange(1), help="Processes that read; one per core if not given.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of the output.")
@click.pass_context
def verify(ctx: click.Context, directory: Path, jobs: int | None, output: str) -> None:
    """Verify every checksum, index, snapshot, leader epoch and checkpoint.

    DIR is one of the broker's log.dirs. Each line names a file, the byte, what is wrong, what `kafkaraw log repair`
    would do, and what that would lose. What a killed broker leaves and finishes when it starts is shown, too, and is no
    damage. Nothing is changed. While a broker writes, the end of a log may look cut short.

    Exits with 1 if something is damaged.
    """
    from kafkaraw.logs.directory import partition_folders
    from kafkaraw.logs.verify import examine_root, report
    from kafkaraw.records import TopicPartition

    with _errors_of_files():
        folders = partition_folders(directory)
        reports = _read_all(report, [path for _, path in folders], jobs)
        ends = {
            TopicPartition(folder.topic, folder.partition): reports[path].end_offset
            for folder, path in folders
            if not folder.state
        }
        findings = examine_root(directory, ends)
    for _, path in folders:
        findings += reports[path].findings
    _print_findings(findings, output)
    damaged = sum(finding.is_damage for finding in findings)
    batches = sum(one.batches for one in reports.values())
    size = sum(one.size_bytes for one in reports.values())
    _complain(f"{len(folders)} partitions, {batches} batches, {size} bytes: {damaged or 'no'} damaged places")
    if damaged:
        ctx.exit(1)


def _print_findings(findings: list[Finding], output: str) -> None:
    from kafkaraw.logs.kafka_json import render
    from kafkaraw.logs.verify import Repair

    for finding in findings:
        if output == "text":
            if finding.repair is not Repair.TRIM:  # two in each partition of a killed broker
                click.echo(finding.text())
            continue
        shown = {"file": finding.file, "position": finding.position, "problem": finding.problem}
        click.echo(render(shown | {"repair": finding.repair, "loses": finding.loss, "isDamage": finding.is_damage}))


def _read_all(read: Callable[[Path], T], paths: list[Path], jobs: int | None) -> dict[Path, T]:
    """Read partitions, in several processes if there is much to read; show the progress on a terminal."""
    from kafkaraw.logs.directory import size_of

    sizes = {path: size_of(path) for path in paths}
    jobs = min(jobs or _cores(), len(paths))
    with _progress(sum(sizes.values())) as advance:
        found: dict[Path, T] = {}
        if jobs < 2 or sum(sizes.values()) < PARALLEL_BYTES_MIN:
            for path in paths:
                found[path] = read(path)
                advance(sizes[path])
            return found
        from concurrent.futures import as_completed

        from kafkaraw.logs.processes import processes

        with processes(jobs) as pool:
            largest_first = sorted(paths, key=lambda path: -sizes[path])
            waiting = {pool.submit(read, path): path for path in largest_first}
            for done in as_completed(waiting):
                found[waiting[done]] = done.result()
                advance(sizes[waiting[done]])
        return found


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def _progress(total_bytes: int, *, hidden: bool = False) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on the standard error if that is a terminal, and the bar is not hidden."""
    if hidden or not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total_bytes)
        yield lambda size: bar.update(task, advance=size)


@log.command()
@click.argument("directory", metavar="DIR", type=_DIRECTORY)
@click.option("--yes", is_flag=True, help="Make the changes. Without it, they are only shown.")
@click.option("--jobs", type=click.IntRange(1), help="Processes that read; one per core if not given.")
@click.pass_context
def repair(ctx: click.Context, directory: Path, yes: bool, jobs: int | None) -> None:
    """Repair what `kafkaraw log verify` finds, as Kafka recovers its logs.

    DIR is one of the log.dirs of a broker that is stopped. A log is truncated at its first invalid batch, and the
    segments behind it are removed: copy the directory before. Indexes and leader epochs are rebuilt from the batches;
    damaged producer snapshots are removed; renames that a killed broker began are finished. After a change of a
    log the marker of a clean shutdown is removed, so that the broker recovers when it starts.

    Exits with 1 if something remains to be repaired.
    """
    from kafkaraw.logs.directory import locked, partition_folders
    from kafkaraw.logs.repair import apply, plan_root, planned
    from kafkaraw.logs.verify import Repair, examine_root
    from kafkaraw.records import TopicPartition

    with _errors_of_files():
        folders = partition_folders(directory)
        with locked(directory, creates=yes):
            changes, findings, ends = [], [], {}
            plans = _read_all(planned, [path for _, path in folders], jobs)
            for folder, path in folders:
                found = plans[path]
                changes += found.changes
                findings += found.findings
                if not folder.state:
                    ends[TopicPartition(folder.topic, folder.partition)] = found.end_offset
            root = examine_root(directory, ends)
            changes += plan_root(directory, root, ends, changes_logs=bool(changes))
            _print_findings(findings + root, "text")
            for change in changes:
                click.echo(f"{'' if yes else 'would '}{change.text()}")
            if yes:
                apply(changes)
    left = [finding for finding in findings + root if finding.repair is Repair.NONE]
    if left:
        _complain(f"{len(left)} findings cannot be repaired here: restore the files from another replica or a backup")
    if changes and not yes:
        _complain("Nothing was changed. To make these changes, copy the directory, then add --yes.")
    if left or (changes and not yes):
        ctx.exit(1)


@log.command("export-kafka")
@click.argument("directory", metavar="DIR", type=_DIRECTORY)
def export_kafka(directory: Path) -> None:
    """Write the metadata of a data directory for Apache Kafka, which then starts on it.

    DIR is the --data-dir of a kafkaraw broker of one node that is stopped. Topics with their ids, settings, SCRAM
    credentials, quotas, ACLs and the next producer id become records in bootstrap.checkpoint. The logs stay as they
    are. A metadata log that Kafka wrote earlier is renamed, so that Kafka starts a new one.

    The output is what Kafka's server.properties must have.
    """
    from kafkaraw.broker.system import real_export

    with _errors_of_files():
        done = real_export(directory)
    _complain(f"exported {done.topics} topics of cluster {done.cluster_id}")
    if done.set_aside:
        _complain(f"renamed __cluster_metadata-0 to {done.set_aside}; remove it when Kafka has started")
    click.echo(f"node.id={done.node_id}")
    click.echo("process.roles=broker,controller")
    click.echo(f"log.dirs={directory.absolute()}")


@contextlib.contextmanager
def _errors_of_files() -> Iterator[None]:
    """Show an error of the operating system as one line."""
    try:
        yield
    except OSError as error:
        if isinstance(error, KafkaError | BrokenPipeError):
            raise
        from kafkaraw.logs.dump_files import words_of

        raise click.ClickException(words_of(error)) from error
