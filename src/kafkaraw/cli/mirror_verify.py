"""`kafkaraw mirror verify`: compare a topic with its copy, or all topics of a mirror's flow with theirs."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkaraw.cli.clients import Cluster, cluster_options, to_cluster_options
from kafkaraw.cli.copies import progress_bar
from kafkaraw.cli.mirror_options import clients_of, read_flow, unread_flow_option
from kafkaraw.cli.notes import Notes
from kafkaraw.cli.rendering import TABLE, Row, output_option, show
from kafkaraw.errors import KafkaError, UsageError

if TYPE_CHECKING:
    from kafkaraw.client.consumer import AsyncConsumer
    from kafkaraw.mirror.settings import MirrorFlow, MirrorSettings
    from kafkaraw.mirror.verification import Checkpoint, PartitionReport

_IGNORABLE: Final = ("headers", "timestamp")
_SHOWN_MAX: Final = 20
"""Differences of a partition that a table shows."""

EPILOG: Final = """\b
Examples:
  kafkaraw mirror verify -m mirror.properties
  kafkaraw mirror verify -m mirror.properties orders
  kafkaraw mirror verify -b source:9092 --to-bootstrap-server target:9092 orders
  kafkaraw mirror verify -b source:9092 --to-bootstrap-server target:9092 orders source.orders --state orders.json
\b
Exit codes: 0 if the copies are complete up to their ends, 1 if records differ, or a copy lacks newer records (unless
--allow-behind) or does not exist, 2 for invalid options.
"""


@dataclass(frozen=True, slots=True)
class _Work:
    """What is compared.

    Attributes:
        make_source, make_target: make consumers, which do not reset their offsets.
        copies: names of topics and of their copies.
        problems: why topics cannot be compared.
        of_flow: whether it is all of a flow, so that a topic that fails does not end the command.
    """

    make_source: Callable[[], AsyncConsumer]
    make_target: Callable[[], AsyncConsumer]
    copies: dict[str, str]
    problems: dict[str, str]
    of_flow: bool


@click.command(epilog=EPILOG)
@click.argument("source", metavar="[TOPIC]", required=False)
@click.argument("target", metavar="[COPY]", required=False)
@unread_flow_option
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
@click.option("--allow-behind", is_flag=True, help="Exit with 0 if copies only lack the newest records.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors and the result only.")
@output_option
def verify(  # noqa: PLR0913
    mirror_file: Path | None,
    flow_name: str | None,
    cluster: Cluster,
    to_cluster: Cluster | None,
    source: str | None,
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
    """Compare topics with their copies, record by record: key, value, headers, timestamp, and their order.

    With the configuration of a mirror (-m, or the file of the current folder), all topics of a flow are compared, or
    TOPIC alone. With -b and --to-bootstrap-server, one TOPIC is compared with its COPY in any cluster, whatever tool
    has made it: MirrorMaker 2, `kafkaraw copy`, or another one.

    Offsets may differ. Each partition is compared up to the ends that both sides have at the start.
    """
    try:
        from kafkaraw.mirror.comparison import COLUMNS
        from kafkaraw.mirror.verification import verify_topic
    except ImportError as error:
        raise UsageError(f"mirror verify needs pyarrow: pip install 'kafkaraw[arrow]' ({error})") from error
    if source is None or (mirror_file is not None and target is None and to_cluster is None):
        if to_cluster is not None:
            raise click.UsageError("no TOPIC is given for --to-bootstrap-server; with -m, the clusters are in the file")
        work = _work_of_flow(*read_flow(mirror_file, flow_name), source, isolation_level)
    elif to_cluster is None and target in (None, source):
        raise click.UsageError(
            f"{source} would be compared with itself: name a COPY, --to-bootstrap-server, or a mirror with -m"
        )
    else:
        work = _work_of_clusters(cluster, to_cluster or cluster, (source, target or source), isolation_level)
    compared = _State(state)
    found: dict[str, list[PartitionReport]] = {}
    with Notes(quiet=quiet, shares_terminal=False) as notes, progress_bar("compare", quiet=quiet) as progress:
        if progress.is_shown and (count := _offsets_count(work, compared, partitions)):
            progress.begin(count)
        for topics in work.copies.items():
            try:
                found[topics[0]] = asyncio.run(
                    verify_topic(
                        work.make_source,
                        work.make_target,
                        topics,
                        partitions=partitions or None,
                        columns=[name for name in COLUMNS if name not in ignore],
                        checkpoints=compared.of(topics),
                        parallel=parallel,
                        advance=progress.advance,
                        finished=partial(compared.add, topics),
                    )
                )
            except KafkaError as error:
                if not work.of_flow:
                    raise
                work.problems[topics[0]] = str(error)
        reports = [each for of_topic in found.values() for each in of_topic]
        for text in _sentences(reports):
            notes.say(text)
    _show(found, output)
    for topic, why in work.problems.items():
        click.echo(f"Error: topic {topic}: {why}", err=True)
    if work.problems or not all(report.is_equal and (allow_behind or not report.counts) for report in reports):
        sys.exit(1)


def _work_of_clusters(cluster: Cluster, to_cluster: Cluster, topics: tuple[str, str], isolation_level: str) -> _Work:
    from kafkaraw.client.config import ConsumerConfig
    from kafkaraw.client.consumer import AsyncConsumer

    def consumer(of: Cluster) -> AsyncConsumer:
        more: dict[str, object] = {
            "group_id": None,
            "auto_offset_reset": "none",
            "isolation_level": isolation_level,
            "allow_auto_create_topics": False,
        }
        return AsyncConsumer(runtime=None, **of.settings(ConsumerConfig, **more))

    return _Work(lambda: consumer(cluster), lambda: consumer(to_cluster), dict([topics]), {}, of_flow=False)


def _work_of_flow(mirror: MirrorSettings, flow: MirrorFlow, topic: str | None, isolation_level: str) -> _Work:
    clients = clients_of(flow)
    committed = isolation_level == "read_committed"

    def consumer(*, of_source: bool) -> AsyncConsumer:
        return clients.consumer(of_source=of_source, read_committed=committed, auto_offset_reset="none")

    copies, problems = asyncio.run(_copies_of_flow(mirror, flow, topic))
    return _Work(lambda: consumer(of_source=True), lambda: consumer(of_source=False), copies, problems, of_flow=True)


async def _copies_of_flow(
    mirror: MirrorSettings, flow: MirrorFlow, topic: str | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the copies of a flow's topics, and why topics cannot be compared.

    Raises:
        click.UsageError: the flow does not copy the topic.
    """
    from kafkaraw.mirror.policies import HEARTBEATS
    from kafkaraw.mirror.topics import selected

    clients = clients_of(flow)
    async with clients.admin(of_source=True) as source, clients.admin(of_source=False) as target:
        ours, theirs = await asyncio.gather(source.list_topics(), target.list_topics())
    # Heartbeats never end, so their copy is always behind; status shows their age.
    names = [each.name for each in ours if each.name != HEARTBEATS]
    copied, problems = selected(flow.route, mirror.topology, names)
    there = {each.name for each in theirs}
    problems |= {name: f"its copy {copy} does not exist" for name, copy in copied.items() if copy not in there}
    copied = {name: copy for name, copy in copied.items() if copy in there}
    if topic is not None:
        if topic not in copied and topic not in problems:
            raise click.UsageError(f"{flow.name} does not copy a topic {topic!r}")
        copied = {name: copy for name, copy in copied.items() if name == topic}
        problems = {name: why for name, why in problems.items() if name == topic}
    return copied, problems


def _offsets_count(work: _Work, compared: _State, partitions: tuple[int, ...]) -> int:
    """Return how many offsets of the source will be read; 0 if a topic of a flow cannot be read, as is told later."""
    from kafkaraw.mirror.verification import offsets_to_compare

    async def count() -> int:
        async with work.make_source() as source:
            topics = {names[0]: compared.of(names) for names in work.copies.items()}
            return await offsets_to_compare(source, topics, partitions or None)

    try:
        return asyncio.run(count())
    except KafkaError:
        if work.of_flow:
            return 0
        raise


# -- the result


def _show(found: Mapping[str, list[PartitionReport]], output: str) -> None:
    reports = [(topic, report) for topic, of_topic in found.items() for report in of_topic]
    rows: list[Row] = [
        {
            "TOPIC": topic,
            "PARTITION": report.partition,
            "SOURCE": report.source_count,
            "COPY": report.target_count,
            "EQUAL": report.equal_count,
            **_every_count(report),
        }
        for topic, report in reports
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
        for row, (_, report) in zip(rows, reports, strict=True)
    ]
    show(rows, output, document)
    if output == TABLE:
        for topic, report in reports:
            _show_differences(topic, report)


def _every_count(report: PartitionReport) -> dict[str, int]:
    from kafkaraw.mirror.comparison import DifferenceKind

    return {kind.name: report.counts.get(kind, 0) for kind in DifferenceKind}


def _show_differences(topic: str, report: PartitionReport) -> None:
    of = f"{topic}-{report.partition}"
    for each in report.differences[:_SHOWN_MAX]:
        places = [
            f"{side} {_range(offsets)}"
            for side, offsets in (("source", each.source_offsets), ("copy", each.target_offsets))
            if offsets is not None
        ]
        what = f" ({', '.join(each.columns)})" if each.columns else ""
        click.echo(f"{of}: {each.kind.name.lower()}{what}: {', '.join(places)}")
    left = len(report.differences) - _SHOWN_MAX
    if left > 0:
        click.echo(f"{of}: {left} more; -o json shows them")


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


class _State:
    """How far the partitions of topics and their copies were compared, in the file of `--state`.

    Args:
        file: its path; None keeps nothing.

    Raises:
        UsageError: the file is not one of this command.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._offsets: dict[tuple[str, str], dict[int, Checkpoint]] = {}
        if file is None or not file.exists():
            return
        try:
            for entry in json.loads(file.read_text())["copies"]:
                source, target = entry["topics"]
                self._offsets[source, target] = _checkpoints(entry["partitions"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"--state {file}: not a file of this command ({error}); name another one") from error

    def of(self, topics: tuple[str, str]) -> Mapping[int, Checkpoint]:
        """Return how far a topic was compared with its copy, by partition."""
        return dict(self._offsets.get(topics, {}))

    def add(self, topics: tuple[str, str], report: PartitionReport) -> None:
        """Keep the end of a comparison; the file is replaced at once."""
        if self._file is None:
            return
        self._offsets.setdefault(topics, {})[report.partition] = report.checkpoint
        copies = [
            {
                "topics": each,
                "partitions": {number: [at.source_offset, at.target_offset] for number, at in offsets.items()},
            }
            for each, offsets in self._offsets.items()
        ]
        draft = self._file.with_name(f"{self._file.name}.draft")
        draft.write_text(json.dumps({"copies": copies}, indent=1) + "\n")
        draft.replace(self._file)


def _checkpoints(partitions: Mapping[str, Any]) -> dict[int, Checkpoint]:
    from kafkaraw.mirror.verification import Checkpoint

    return {int(number): Checkpoint(*map(int, offsets)) for number, offsets in partitions.items()}
