"""`kafkaraw mirror verify`: compare a topic with its copy."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.clients import Cluster, cluster_options, to_cluster_options
from kafkaraw.cli.notes import Notes
from kafkaraw.cli.rendering import TABLE, Row, output_option, show
from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    from kafkaraw.client.consumer import AsyncConsumer
    from kafkaraw.mirror.verification import Checkpoint, PartitionReport

_IGNORABLE: Final = ("headers", "timestamp")
_SHOWN_MAX: Final = 20
"""Differences of a partition that a table shows."""

EPILOG: Final = """\b
Examples:
  kafkaraw mirror verify -b source:9092 --to-bootstrap-server target:9092 orders
  kafkaraw mirror verify -b source:9092 --to-bootstrap-server target:9092 orders source.orders --state orders.json
\b
Exit codes: 0 if the copy is complete up to its ends, 1 if records differ or the copy lacks newer records (unless
--allow-behind), 2 for invalid options.
"""


@click.command(epilog=EPILOG)
@click.argument("source", metavar="TOPIC")
@click.argument("target", metavar="[COPY]", required=False)
@cluster_options
@to_cluster_options
@click.option("-p", "--partition", "partitions", type=click.IntRange(0), multiple=True, help="Compare only these.")
@click.option(
    "--ignore",
    type=click.Choice(_IGNORABLE),
    multiple=True,
    help="Do not compare this; timestamps differ in a copy with LogAppendTime.",
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="Whether to leave out records of aborted transactions, on both sides.",
)
@click.option("--parallel", type=click.IntRange(1, 64), default=4, show_default=True, help="Partitions at once.")
@click.option(
    "--state",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep in this file how far each partition was compared; the next run compares newer records only.",
)
@click.option("--allow-behind", is_flag=True, help="Exit with 0 if the copy only lacks the newest records.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors and the result only.")
@output_option
def verify(  # noqa: PLR0913
    cluster: Cluster,
    to_cluster: Cluster | None,
    source: str,
    target: str | None,
    partitions: tuple[int, ...],
    ignore: tuple[str, ...],
    isolation_level: str,
    parallel: int,
    state: Path | None,
    allow_behind: bool,
    quiet: bool,
    output: str,
) -> None:
    """Compare a topic with its copy, record by record: key, value, headers, timestamp, and their order.

    The copy may be in another cluster, and any tool may have made it: MirrorMaker 2, `kafkaraw copy`, or another one.
    Offsets may differ. Each partition is compared up to the ends that both sides have at the start.
    """
    if to_cluster is None and target in (None, source):
        raise click.UsageError(f"{source} would be compared with itself: name a COPY, or --to-bootstrap-server")
    try:
        from kafkaraw.mirror.comparison import COLUMNS
        from kafkaraw.mirror.verification import verify_topic
    except ImportError as error:
        raise UsageError(f"mirror verify needs pyarrow: pip install 'kafkaraw[arrow]' ({error})") from error
    topics = (source, target or source)
    to = to_cluster or cluster
    checkpoints = _read(state, topics)
    with Notes(quiet=quiet, shares_terminal=False) as notes, _progress(quiet=quiet) as advance:
        reports = asyncio.run(
            verify_topic(
                lambda: _consumer(cluster, isolation_level),
                lambda: _consumer(to, isolation_level),
                topics,
                partitions=partitions or None,
                columns=[name for name in COLUMNS if name not in ignore],
                checkpoints=checkpoints,
                parallel=parallel,
                advance=advance,
                finished=lambda report: _write(state, topics, checkpoints, report),
            )
        )
        for text in _sentences(reports):
            notes.say(text)
    _show(reports, output)
    if not all(report.is_equal and (allow_behind or not report.counts) for report in reports):
        sys.exit(1)


def _consumer(cluster: Cluster, isolation_level: str) -> AsyncConsumer:
    from kafkaraw.client.config import ConsumerConfig
    from kafkaraw.client.consumer import AsyncConsumer

    more: dict[str, object] = {
        "group_id": None,
        "auto_offset_reset": "none",
        "isolation_level": isolation_level,
        "allow_auto_create_topics": False,
    }
    return AsyncConsumer(runtime=None, **cluster.settings(ConsumerConfig, **more))


# -- the result


def _show(reports: list[PartitionReport], output: str) -> None:
    rows: list[Row] = [
        {
            "PARTITION": report.partition,
            "SOURCE": report.source_count,
            "COPY": report.target_count,
            "EQUAL": report.equal_count,
            **_every_count(report),
        }
        for report in reports
    ]
    document = [
        {name.lower(): value for name, value in row.items()}
        | {
            "older_in_copy": report.older_count,
            "first_offsets": report.first_offsets,
            "last_offsets": report.last_offsets,
            "differences": [
                {
                    "kind": each.kind.name.lower(),
                    "count": each.count,
                    "source_offsets": each.source_offsets,
                    "copy_offsets": each.target_offsets,
                    "columns": list(each.columns),
                }
                for each in report.differences
            ],
        }
        for row, report in zip(rows, reports, strict=True)
    ]
    show(rows, output, document)
    if output == TABLE:
        for report in reports:
            _show_differences(report)


def _every_count(report: PartitionReport) -> dict[str, int]:
    from kafkaraw.mirror.comparison import DifferenceKind

    return {kind.name: report.counts.get(kind, 0) for kind in DifferenceKind}


def _show_differences(report: PartitionReport) -> None:
    for each in report.differences[:_SHOWN_MAX]:
        places = [
            f"{side} {_range(offsets)}"
            for side, offsets in (("source", each.source_offsets), ("copy", each.target_offsets))
            if offsets is not None
        ]
        what = f" ({', '.join(each.columns)})" if each.columns else ""
        click.echo(f"partition {report.partition}: {each.kind.name.lower()}{what}: {', '.join(places)}")
    left = len(report.differences) - _SHOWN_MAX
    if left > 0:
        click.echo(f"partition {report.partition}: {left} more; -o json shows them")


def _range(offsets: tuple[int, int]) -> str:
    first, last = offsets
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _sentences(reports: list[PartitionReport]) -> Iterator[str]:
    from kafkaraw.mirror.comparison import DifferenceKind

    source, equal = sum(each.source_count for each in reports), sum(each.equal_count for each in reports)
    behind = sum(each.counts.get(DifferenceKind.BEHIND, 0) for each in reports)
    older = sum(each.older_count for each in reports)
    yield f"compared {source:,} records of {len(reports)} partitions: {equal:,} are equal"
    if behind:
        yield f"the copy has not reached {behind:,} of the newest records"
    if older:
        yield f"the copy has {older:,} offsets from before the log start of the source, which were not compared"


# -- the state of earlier runs


def _read(state: Path | None, topics: tuple[str, str]) -> dict[int, Checkpoint]:
    """Return how far the partitions were compared.

    Raises:
        UsageError: the file is of other topics, or is not one of this command.
    """
    if state is None or not state.exists():
        return {}
    from kafkaraw.mirror.verification import Checkpoint

    try:
        content = json.loads(state.read_text())
        found = {int(number): Checkpoint(*offsets) for number, offsets in content["partitions"].items()}
        of = tuple(content["topics"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"--state {state}: not a file of this command ({error}); name another one") from error
    if of != topics:
        raise UsageError(f"--state {state}: it is of {of[0]} and {of[-1]}; name another file for {topics[0]}")
    return found


def _write(
    state: Path | None, topics: tuple[str, str], checkpoints: dict[int, Checkpoint], report: PartitionReport
) -> None:
    if state is None:
        return
    checkpoints[report.partition] = report.checkpoint
    content = {
        "topics": topics,
        "partitions": {number: [each.source_offset, each.target_offset] for number, each in checkpoints.items()},
    }
    draft = state.with_name(f"{state.name}.draft")
    draft.write_text(json.dumps(content, indent=1) + "\n")
    draft.replace(state)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show on a terminal how many records were compared."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} records compared, {task.speed:,.0f} a second"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress, suppress(KeyError):
        task = progress.add_task("compare", total=None)
        yield lambda rows: progress.advance(task, rows)
