"""`kafkaraw mirror status`: how far the flows of a mirror are."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Final

import click

from kafkaraw.cli.mirror_options import clients_of, mirror_option
from kafkaraw.cli.rendering import TABLE, Row, output_option, show, time_text

if TYPE_CHECKING:
    from kafkaraw.mirror.settings import MirrorSettings
    from kafkaraw.mirror.status import FlowStatus

EPILOG: Final = """\b
Examples:
  kafkaraw mirror status
  kafkaraw mirror status --partitions -o json
\b
Exit codes: 0, or 1 if a partition lags by more than --lag-max, or a topic or partition cannot be copied.
"""


@click.command(epilog=EPILOG)
@mirror_option
@click.option("--partitions", is_flag=True, help="Show each partition.")
@click.option("--lag-max", type=click.IntRange(0), metavar="OFFSETS", help="Exit with 1 if a partition lags by more.")
@output_option
def status(mirror: MirrorSettings, partitions: bool, lag_max: int | None, output: str) -> None:
    """Show the flows of a mirror: topics, how far they are copied, and when the flow was last alive.

    HEARTBEAT is the age of the last heartbeat of the source that has arrived in the target. A flow of MirrorMaker has
    no positions, and shows its heartbeats only.
    """
    from kafkaraw.mirror.status import flow_status

    async def every() -> list[FlowStatus]:
        return list(await asyncio.gather(*(flow_status(flow, mirror, clients_of(flow)) for flow in mirror.flows)))

    found = asyncio.run(every())
    now_ms = time.time_ns() // 1_000_000
    document = [
        _summary(each, now_ms)
        | {
            "PARTITIONS": [
                row | {"REFUSAL": part.refusal or None}
                for row, part in zip(_partitions(each), each.partitions, strict=True)
            ],
            "PROBLEMS": each.problems,
        }
        for each in found
    ]
    rows = (
        [row for each in found for row in _partitions(each)]
        if partitions
        else [_summary(each, now_ms) for each in found]
    )
    show(rows, output, [_named(each) for each in document])
    for each in found:
        for topic, why in each.problems.items():
            click.echo(f"Error: {each.name}: topic {topic} is not copied: {why}", err=True)
        for part in each.partitions:
            if part.refusal:
                click.echo(f"Error: {each.name}: {part.refusal}", err=True)
    lags = [part.lag or 0 for each in found for part in each.partitions]
    is_behind = lag_max is not None and max(lags, default=0) > lag_max
    if output == TABLE and is_behind:
        click.echo(f"Error: a partition lags by {max(lags):,} offsets", err=True)
    is_refused = any(part.refusal for each in found for part in each.partitions)
    if is_behind or is_refused or any(each.problems for each in found):
        sys.exit(1)


def _summary(each: FlowStatus, now_ms: int) -> Row:
    begun = [part for part in each.partitions if part.position is not None]
    return {
        "FLOW": each.name,
        "TOPICS": each.topics_count,
        "PARTITIONS": len(each.partitions),
        "BEGUN": len(begun),
        "LAG": each.lag,
        "HEARTBEAT": None if each.heartbeat_ms is None else f"{max(0, now_ms - each.heartbeat_ms) / 1000:.1f}s",
        "LAST-HEARTBEAT": time_text(each.heartbeat_ms),
    }


def _partitions(each: FlowStatus) -> list[Row]:
    return [
        {
            "FLOW": each.name,
            "TOPIC": part.source.topic,
            "PARTITION": part.source.partition,
            "COPY": part.target.topic,
            "POSITION": part.position,
            "END-OFFSET": part.end,
            "LAG": part.lag,
            "COPY-END-OFFSET": part.copy_end,
        }
        for part in each.partitions
    ]


def _named(value: object) -> object:
    """Return a document with the names that rows have in JSON."""
    if isinstance(value, dict):
        return {
            str(name).lower().replace("-", "_") if str(name).isupper() else name: _named(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_named(each) for each in value]
    return value
