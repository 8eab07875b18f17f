"""The work of `kafkaraw groups reset`: make a plan, show it, and execute it on request.

The ways of choosing offsets are those of Kafka's tool, one function each in `_WAYS`. Start at `reset`.
Source: Kafka's ConsumerGroupCommand and GroupOffsetsResetter.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, TypedDict, Unpack

import click

from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.group_tables import (
    LogEnds,
    consumer_groups,
    described_groups,
    is_share_group,
    offsets_of,
    partitions_named,
)
from kafkaraw.cli.rendering import Row, show
from kafkaraw.cli.start_offsets import timestamp_ms
from kafkaraw.client.admin.group_descriptions import GroupDescription, GroupState
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.core.fetch.offsets import parse_duration_ms
from kafkaraw.errors import UsageError
from kafkaraw.records import TopicPartition

_IDLE: Final = (GroupState.EMPTY, GroupState.DEAD)


class ResetOptions(TypedDict):
    """The command's options, by click's names."""

    names: tuple[str, ...]
    more_names: tuple[str, ...]
    all_groups: bool
    topics: tuple[str, ...]
    all_topics: bool
    to: str | None
    to_offset: int | None
    shift_by: int | None
    to_datetime: str | None
    by_duration: str | None
    from_file: str | None
    dry_run: bool
    execute: bool
    export: bool
    output: str


@dataclass(frozen=True)
class _Logs:
    """The facts about the partitions of one group's plan.

    Attributes:
        committed: the group's committed offsets; of a share group the start offsets.
        begins: the first offsets.
        ends: the offsets after the last records.
        at_times: finds the first offsets not before a time.
    """

    committed: Mapping[TopicPartition, int]
    begins: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    at_times: Callable[[int], Mapping[TopicPartition, int]]


Way: TypeAlias = Callable[[TopicPartition, _Logs], int]


def reset(cluster: Cluster, **options: Unpack[ResetOptions]) -> int:
    """Run the command.

    Returns:
        the exit code.

    Raises:
        click.UsageError: the options are invalid.
        UsageError: a group has members, or the plan cannot be made.
        KafkaError: an error of a broker.
    """
    try:
        way, saved = _way(options, time.time_ns() // 1_000_000)
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    with cluster.admin() as admin:
        given = list(dict.fromkeys(options["names"] + options["more_names"]))
        names = consumer_groups(admin) if options["all_groups"] else given
        found = described_groups(admin, names)
        busy = _busy(found)
        logs = LogEnds(cluster, admin)
        plan = []
        with logs.consumer() as consumer:
            for name in names:
                if name not in busy:
                    committed = offsets_of(admin, [name], found)[name]
                    chosen = _chosen(options, logs, committed, None if saved is None else saved(name))
                    plan += _rows(name, chosen, committed, consumer, way or _from(saved, name))
        _show(plan, options, single=len(given) == 1)
        for name in names:
            if name not in found or found[name].state is GroupState.DEAD:
                sys.stderr.write(f"Warning: group {name!r} does not exist yet: setting its offsets creates it\n")
        for name, state in busy.items():
            sys.stderr.write(
                f"Error: group {name!r} has members (its state is {state}), which would ignore the new offsets: "
                f"stop them first\n"
            )
        if options["execute"]:
            _execute(admin, plan, found)
    if plan and not options["execute"]:
        sys.stderr.write("Nothing was changed: give --execute to make the change.\n")
    return 1 if busy else 0


def _busy(groups: Mapping[str, GroupDescription]) -> dict[str, GroupState]:
    return {name: group.state for name, group in groups.items() if group.state not in _IDLE}


def _chosen(
    options: ResetOptions,
    logs: LogEnds,
    committed: Mapping[TopicPartition, int],
    saved: Mapping[TopicPartition, int] | None,
) -> list[TopicPartition]:
    """Return the selected partitions."""
    if options["topics"]:
        return partitions_named(options["topics"], logs.partitions)
    wanted = list(committed) if saved is None else list(saved)
    there = logs.partitions({each.topic for each in wanted})
    return sorted(each for each in wanted if each in there.get(each.topic, ()))


def _rows(
    name: str, chosen: Sequence[TopicPartition], committed: Mapping[TopicPartition, int], consumer: Consumer, way: Way
) -> list[Row]:
    if not chosen:
        return []
    begins, ends = consumer.beginning_offsets(chosen), consumer.end_offsets(chosen)
    found: dict[int, dict[TopicPartition, int]] = {}

    def at_times(time_ms: int) -> Mapping[TopicPartition, int]:
        if time_ms not in found:
            answers = consumer.offsets_for_times(dict.fromkeys(chosen, time_ms))
            found[time_ms] = {each: ends[each] if at is None else at.offset for each, at in answers.items()}
        return found[time_ms]

    logs = _Logs(committed, begins, ends, at_times)
    rows: list[Row] = []
    for each in chosen:
        wanted = way(each, logs)
        new = min(max(wanted, begins[each]), ends[each])
        if new != wanted:
            sys.stderr.write(
                f"Warning: offset {wanted} is outside of {each.topic} [{each.partition}], whose offsets are "
                f"{begins[each]} to {ends[each]}: using {new}\n"
            )
        rows.append(
            {
                "GROUP": name,
                "TOPIC": each.topic,
                "PARTITION": each.partition,
                "CURRENT-OFFSET": committed.get(each),
                "NEW-OFFSET": new,
                "LOG-END-OFFSET": ends[each],
                "NEW-LAG": ends[each] - new,
            }
        )
    return rows


def _show(plan: Sequence[Row], options: ResetOptions, *, single: bool) -> None:
    if not options["export"]:
        show(plan, options["output"])
        return
    columns = ("TOPIC", "PARTITION", "NEW-OFFSET") if single else ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
    csv.writer(sys.stdout, lineterminator="\n").writerows([row[column] for column in columns] for row in plan)


def _execute(admin: Admin, plan: Sequence[Row], groups: Mapping[str, GroupDescription]) -> None:
    offsets: dict[str, dict[TopicPartition, int]] = {}
    for row in plan:
        partition = TopicPartition(str(row["TOPIC"]), int(str(row["PARTITION"])))
        offsets.setdefault(str(row["GROUP"]), {})[partition] = int(str(row["NEW-OFFSET"]))
    for name, wanted in offsets.items():
        if is_share_group(groups.get(name)):
            admin.alter_share_group_offsets(name, wanted)
        else:
            admin.alter_group_offsets(name, wanted)
        sys.stderr.write(f"Set {len(wanted)} offset{'' if len(wanted) == 1 else 's'} of group {name!r}.\n")


# -- where to


def _earliest(partition: TopicPartition, logs: _Logs) -> int:
    return logs.begins[partition]


def _latest(partition: TopicPartition, logs: _Logs) -> int:
    return logs.ends[partition]


def _current(partition: TopicPartition, logs: _Logs) -> int:
    return logs.committed.get(partition, logs.ends[partition])


def _shifted(by: int) -> Way:
    def shifted(partition: TopicPartition, logs: _Logs) -> int:
        if partition not in logs.committed:
            raise UsageError(
                f"--shift-by {by}: the group has no offset of {partition.topic} [{partition.partition}] to shift; "
                f"name the partitions that it has, or use --to-earliest, --to-latest ..."
            )
        return logs.committed[partition] + by

    return shifted


Saved: TypeAlias = Callable[[str], Mapping[TopicPartition, int]]


def _from(saved: Saved | None, name: str) -> Way:
    assert saved is not None
    offsets = saved(name)
    return lambda partition, logs: offsets[partition]


def _way(options: ResetOptions, now_ms: int) -> tuple[Way | None, Saved | None]:
    """Return how offsets are chosen: by rule, or for each group from a file.

    Raises:
        UsageError: none or several rules are given, or one of them is invalid.
    """
    to_offset, shift_by = options["to_offset"], options["shift_by"]
    ways: list[tuple[str, Way | None]] = []
    if options["to"] is not None:
        ways.append((f"--to-{options['to']}", _WAYS[options["to"]]))
    if to_offset is not None:
        ways.append(("--to-offset", lambda partition, logs: to_offset))
    if shift_by is not None:
        ways.append(("--shift-by", _shifted(shift_by)))
    if options["to_datetime"] is not None:
        ways.append(("--to-datetime", _at(timestamp_ms(options["to_datetime"], now_ms, "--to-datetime"))))
    if options["by_duration"] is not None:
        ways.append(("--by-duration", _at(now_ms - _duration_ms(options["by_duration"]))))
    if options["from_file"] is not None:
        ways.append(("--from-file", None))
    if len(ways) != 1:
        raise UsageError(
            f"{' and '.join(name for name, _ in ways)}: give one of them" if ways else
            "Where to? Give one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, "
            "--by-duration, --from-file"
        )  # fmt: skip
    _check_topics(options)
    if options["from_file"] is None:
        return ways[0][1], None
    names = options["names"] + options["more_names"]
    return None, _read(Path(options["from_file"]), names[0] if len(names) == 1 else None)


def _check_topics(options: ResetOptions) -> None:
    given = [name for name in ("topics", "all_topics", "from_file") if options[name]]
    if not given:
        raise UsageError("no topics given: give --topic TOPIC, --topic TOPIC:0,2, or --all-topics")
    if len(given) > 1:
        raise UsageError("--topic, --all-topics and --from-file: give one of them")


def _at(time_ms: int) -> Way:
    return lambda partition, logs: logs.at_times(max(0, time_ms))[partition]


def _duration_ms(text: str) -> int:
    duration_ms = parse_duration_ms(text)
    if duration_ms is None:
        raise UsageError(f"--by-duration {text}: must be an ISO 8601 duration, as in PT1H30M or P7D")
    return duration_ms


def _read(path: Path, only: str | None) -> Saved:
    """Read the output of `--export`: group, topic, partition, offset; without the group if there is only one."""
    found: dict[str, dict[TopicPartition, int]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            reader = csv.reader(lines)
            for fields in reader:
                if fields:
                    name, topic, partition, offset = _fields(fields, only)
                    found.setdefault(name, {})[TopicPartition(topic, partition)] = offset
    except ValueError as error:
        raise UsageError(f"--from-file {path}, line {reader.line_num}: {error}") from error
    except OSError as error:
        raise UsageError(f"--from-file {path}: {error.strerror}") from error
    return lambda name: found.get(name, {})


def _fields(fields: Iterable[str], only: str | None) -> tuple[str, str, int, int]:
    values = [field.strip() for field in fields]
    if len(values) == 3 and only is not None:
        values.insert(0, only)
    if len(values) != 4 or not values[2].isdigit() or not values[3].isdigit():
        form = "topic,partition,offset" if only is not None else "group,topic,partition,offset"
        raise ValueError(f"must be {form}, not {','.join(values)}")
    return values[0], values[1], int(values[2]), int(values[3])


_WAYS: Final[dict[str, Way]] = {"earliest": _earliest, "latest": _latest, "current": _current}
