"""`kafkaraw pipelines checkpoint`: show, fork and rewind the checkpoints of a pipeline's flows."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkaraw.cli.pipelines_options import place_option
from kafkaraw.cli.start_offsets import TIME_FORMS

if TYPE_CHECKING:
    from kafkaraw.pipelines.running.checkpoints import Batch, Checkpoint, NewGeneration, Offsets
    from kafkaraw.pipelines.running.storage import Storage
    from kafkaraw.pipelines.specification import Specification


@click.group()
def checkpoint() -> None:
    """What flows have read, and new checkpoints that start elsewhere. Spark's files are never edited.

    A flow has one checkpoint at a time, a generation. `fork` and `rewind` begin a new one; the old ones stay.
    """


@checkpoint.command()
@click.argument("flow", required=False)
@place_option
@click.option("--all", "every", is_flag=True, help="Show former generations, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(place: Path, flow: str | None, every: bool, as_json: bool) -> None:
    """Show what flows have read and written."""
    from kafkaraw.pipelines.running.checkpoints import checkpoint_of, flow_named

    _, storage = _storage(place)
    flows = storage.flows() if flow is None else [flow_named(storage, flow)]
    found = [
        checkpoint_of(each, number) for each in flows for number in (each.generations() if every else [each.generation])
    ]
    if as_json:
        click.echo(json.dumps([each.as_json() for each in found], indent=2))
    else:
        click.echo("\n".join(_shown(each) for each in found))


def _shown(found: Checkpoint) -> str:
    former = "" if found.is_current else ", which no run continues"
    lines = [f"{found.flow}: generation {found.generation}{former}"]
    if found.start is not None:
        lines.append(f"  started at {_offsets(found.start)}")
    lines.append(f"  finished   {_batch(found.finished)}")
    if found.unfinished is not None:
        lines.append(f"  unfinished {_batch(found.unfinished)}; the next run repeats it")
    rows = found.totals.get("kafkaraw.written", {}).get("rows")
    if rows is not None:
        lines.append(f"  written    {rows} rows since the first run or full refresh")
    return "\n".join(lines)


def _batch(batch: Batch | None) -> str:
    if batch is None:
        return "no micro-batch"
    read = _offsets(batch.offsets) if batch.offsets else "files of tables"
    watermark = batch.watermark_ms
    late = (
        "" if watermark is None else f", watermark {datetime.fromtimestamp(watermark / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    )
    return f"micro-batch {batch.number}, up to {read}{late}"


def _offsets(offsets: Offsets) -> str:
    return "; ".join(
        f"{topic} {' '.join(f'{number}:{at}' for number, at in sorted(partitions.items())) or 'earliest'}"
        for topic, partitions in sorted(offsets.items())
    )


@checkpoint.command()
@click.argument("flow")
@place_option
@click.option(
    "--unfinished",
    type=click.Choice(["skip", "repeat"]),
    help="What to do with a micro-batch of which it is not known whether it was written.",
)
@click.option(
    "--anew",
    metavar="TOPIC",
    multiple=True,
    help="A topic that was deleted and made anew: the flow reads it from its beginning. Repeatable.",
)
def fork(place: Path, flow: str, unfinished: str | None, anew: tuple[str, ...]) -> None:
    """Begin a new checkpoint where the current one has ended: after a change that it cannot follow.

    No record is lost or read twice. State of aggregations, joins and deduplication is not taken over.
    """
    from kafkaraw.pipelines.running.checkpoints import fork as begin

    _, storage = _storage(place)
    _print(begin(storage, flow, unfinished=unfinished, anew=anew))


@checkpoint.command()
@click.argument("flow")
@place_option
@click.option("--to", required=True, metavar="WHERE", help=f"earliest, latest, or a time: {TIME_FORMS}.")
def rewind(place: Path, flow: str, to: str) -> None:
    """Begin a new checkpoint at other offsets: the earliest, the latest, or those of a time.

    What the flow has written stays. Records that it reads again are written again.
    """
    from kafkaraw.pipelines.running.checkpoints import rewind as begin
    from kafkaraw.pipelines.running.checkpoints import topics_of

    specification, storage = _storage(place)
    topics = topics_of(storage, flow)
    replays = specification.settings.replay_topic
    start = _resolved(specification, [each for each in topics if each != replays], to)
    _print(begin(storage, flow, start, is_beginning=to == "earliest"))


def _resolved(specification: Specification, topics: list[str], to: str) -> Offsets:
    """Return the offsets that a word or time means."""
    from kafkaraw.cli.start_offsets import timestamp_ms
    from kafkaraw.client.blocking.consumer import Consumer
    from kafkaraw.pipelines.topic_admin import client_of

    at = None if to in ("earliest", "latest") else timestamp_ms(to, int(time.time() * 1000), "--to")
    with client_of(Consumer, specification.settings) as consumer:
        partitions = [each for topic in topics for each in consumer.partitions_for(topic)]
        found = dict(consumer.beginning_offsets(partitions) if to == "earliest" else consumer.end_offsets(partitions))
        if at is not None:
            of_time = consumer.offsets_for_times(dict.fromkeys(partitions, at))
            found |= {each: record.offset for each, record in of_time.items() if record is not None}
    start = dict[str, dict[int, int]]()
    for each, offset in found.items():
        start.setdefault(each.topic, {})[each.partition] = offset
    return start


def _print(begun: NewGeneration) -> None:
    click.echo(f"{begun.flow}: generation {begun.number} starts at {_offsets(begun.start)}")
    click.echo("\n".join(begun.notes))


def _storage(place: Path) -> tuple[Specification, Storage]:
    """Return a pipeline's specification and its storage.

    Raises:
        ConfigError: the pipeline has not run yet, or the storage is another one's.
    """
    from kafkaraw.errors import ConfigError
    from kafkaraw.pipelines.running.storage import Storage, local_path
    from kafkaraw.pipelines.specification import read_specification

    specification = read_specification(place)
    storage = Storage(local_path(specification.storage))
    if storage.owner() is None:
        raise ConfigError(f"pipeline {specification.name!r} has not run yet: its storage {storage.root} is empty")
    storage.claim(specification.name)
    return specification, storage
