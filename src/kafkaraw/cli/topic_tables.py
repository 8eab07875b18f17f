"""The work of `kafkaraw topics`: rows about topics and their offsets, and changes to them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import click

from kafkaraw.cli.changes import Change, count_of
from kafkaraw.cli.clients import Cluster
from kafkaraw.cli.rendering import TABLE, Row, show, time_text
from kafkaraw.cli.start_offsets import timestamp_ms
from kafkaraw.client.admin.configs import ConfigResource
from kafkaraw.client.admin.offsets import OffsetSpec
from kafkaraw.client.admin.topics import NewTopic, TopicDescription
from kafkaraw.client.blocking.admin import Admin
from kafkaraw.client.fetching.offsets import OffsetAndTimestamp
from kafkaraw.core.cluster import PartitionView
from kafkaraw.errors import AuthorizationError, BrokerError, UsageError
from kafkaraw.protocol.config_codes import ConfigSource
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition

_PLACES: Final = {
    "earliest": OffsetSpec.EARLIEST,
    "latest": OffsetSpec.LATEST,
    "max-timestamp": OffsetSpec.MAX_TIMESTAMP,
    "earliest-local": OffsetSpec.EARLIEST_LOCAL,
    "latest-tiered": OffsetSpec.LATEST_TIERED,
}


def topics_described(admin: Admin, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Return descriptions of topics.

    Raises:
        UsageError: a topic does not exist.
        KafkaError: a topic cannot be described for another reason.
    """
    wanted = list(dict.fromkeys(names))
    try:
        return admin.describe_topics(wanted)
    except BrokerError as error:
        missing = [
            name
            for name, each in (error.failures or {}).items()
            if getattr(each, "code", None) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ] or ([] if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else wanted)
        if not missing:
            raise
        shown = ", ".join(map(repr, missing))
        raise UsageError(f"no topic {shown} in this cluster; see: kafkaraw topics list") from error


def partitions_chosen(admin: Admin, texts: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions that `TOPIC` and `TOPIC:0,2` select.

    Raises:
        UsageError: a topic or a partition does not exist, or a text has neither form.
    """
    named = [_topic_and_numbers(text) for text in texts]
    described = topics_described(admin, [topic for topic, _ in named])
    chosen: dict[TopicPartition, None] = {}
    for topic, numbers in named:
        there = [each.partition for each in described[topic].partitions]
        for number in there if numbers is None else numbers:
            if number not in there:
                raise UsageError(f"{topic}:{number}: topic {topic!r} has the partitions 0 to {len(there) - 1}")
            chosen[TopicPartition(topic, number)] = None
    return sorted(chosen)


def _topic_and_numbers(text: str) -> tuple[str, list[int] | None]:
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    words = numbers.split(",")
    if not all(word.isascii() and word.isdigit() for word in words):
        raise UsageError(f"{text}: must be TOPIC, or TOPIC:0,2 for some of its partitions")
    return topic, [int(word) for word in words]


# -- describe


def describe_topics(
    cluster: Cluster, names: Sequence[str], *, under_replicated: bool, unavailable: bool, output: str
) -> None:
    """Print topics with their partitions.

    Raises:
        UsageError: a topic does not exist.
        KafkaError: the brokers cannot answer.
    """

    def is_wanted(partition: PartitionView) -> bool:
        if under_replicated and len(partition.isr_nodes) >= len(partition.replica_nodes):
            return False
        return not unavailable or partition.leader_id < 0

    only_some = under_replicated or unavailable
    with cluster.admin() as admin:
        described = topics_described(admin, names or [topic.name for topic in admin.list_topics()])
        configs = {} if only_some else _configs(admin, list(described))
    partitions = {name: [each for each in topic.partitions if is_wanted(each)] for name, topic in described.items()}
    if output != TABLE:
        document = [
            _topic(topic, configs.get(name)) | {"partitions": [_partition(each) for each in partitions[name]]}
            for name, topic in described.items()
            if partitions[name] or not only_some
        ]
        show([], output, document)
        return
    if not only_some:
        show([{key.upper().replace("_", "-"): value for key, value in _topic(topic, configs.get(name)).items()}
              for name, topic in described.items()], TABLE)  # fmt: skip
        sys.stdout.write("\n")
    rows: list[Row] = [
        {"TOPIC": name} | {key.upper().replace("_", "-"): value for key, value in _partition(each).items()}
        for name, chosen in partitions.items()
        for each in chosen
    ]
    show(rows, TABLE)


def _topic(topic: TopicDescription, configs: Mapping[str, str | None] | None) -> Row:
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "partition_count": len(topic.partitions),
        "replication_factor": len(topic.partitions[0].replica_nodes) if topic.partitions else None,
        "configs": configs,
    }


def _partition(partition: PartitionView) -> Row:
    return {
        "partition": partition.partition,
        "leader": partition.leader_id if partition.leader_id >= 0 else None,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replica_nodes),
        "isr": list(partition.isr_nodes),
        "offline": list(partition.offline_replicas),
    }


def _configs(admin: Admin, names: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """Return the settings of topics that are not those of the brokers."""
    try:
        found = admin.describe_configs([ConfigResource.topic(name) for name in names])
    except AuthorizationError as error:
        click.echo(f"The settings are left out: {error}", err=True)
        return {}
    return {
        resource.name: {
            name: entry.value for name, entry in entries.items() if entry.source is ConfigSource.DYNAMIC_TOPIC
        }
        for resource, entries in found.items()
    }


# -- create and delete


def create_topics(
    cluster: Cluster, wanted: Sequence[NewTopic], change: Change, *, if_not_exists: bool, output: str
) -> None:
    """Create topics, and print them.

    Raises:
        KafkaError: a broker refuses a topic.
    """
    with cluster.admin() as admin:
        if if_not_exists:
            there = {topic.name for topic in admin.list_topics()}
            for name in [topic.name for topic in wanted if topic.name in there]:
                click.echo(f"Topic {name!r} exists already.", err=True)
            wanted = [topic for topic in wanted if topic.name not in there]
        created = admin.create_topics(wanted, validate_only=change.dry_run) if wanted else {}
    rows: list[Row] = [
        {
            "TOPIC": topic.name,
            "PARTITIONS": topic.partitions if topic.partitions > 0 else None,
            "REPLICATION-FACTOR": topic.replication_factor if topic.replication_factor > 0 else None,
            "TOPIC-ID": None if change.dry_run else topic.topic_id,
        }
        for topic in created.values()
    ]
    show(rows, output)
    if change.allows("Create?"):
        click.echo(f"Created {count_of(len(created), 'topic')}.", err=True)


def delete_topics(cluster: Cluster, names: Sequence[str], change: Change, *, if_exists: bool, output: str) -> None:
    """Delete topics, after they were shown and confirmed.

    Raises:
        UsageError: a topic does not exist.
        KafkaError: a broker refuses.
    """
    with cluster.admin() as admin:
        chosen = list(dict.fromkeys(names))
        if if_exists:
            there = {topic.name for topic in admin.list_topics()}
            chosen = [name for name in chosen if name in there]
        described = topics_described(admin, chosen) if chosen else {}
        rows: list[Row] = [
            {"TOPIC": name, "PARTITIONS": len(topic.partitions), "INTERNAL": topic.is_internal}
            for name, topic in described.items()
        ]
        show(rows, output)
        if chosen and change.allows(f"Delete {count_of(len(chosen), 'topic')} with all records?"):
            admin.delete_topics(chosen)
            click.echo(f"Deleted {count_of(len(chosen), 'topic')}.", err=True)


# -- offsets and records


def show_offsets(cluster: Cluster, texts: Sequence[str], at: str | None, isolation_level: str, output: str) -> None:
    """Print both ends of partitions, or the offsets at a place.

    Raises:
        UsageError: a topic or partition does not exist, or `at` is no place.
        KafkaError: the brokers cannot answer.
    """
    place = None if at is None else _place(at)
    with cluster.admin() as admin:
        chosen = partitions_chosen(admin, texts)

        def found(spec: OffsetSpec | int) -> dict[TopicPartition, OffsetAndTimestamp | None]:
            return admin.list_offsets(dict.fromkeys(chosen, spec), isolation_level=isolation_level)

        if place is not None:
            rows = [_at(key, one) for key, one in found(place).items()]
        else:
            firsts, ends = found(OffsetSpec.EARLIEST), found(OffsetSpec.LATEST)
            rows = [_both_ends(key, firsts.get(key), ends.get(key)) for key in chosen]
    show(rows, output)


def _at(key: TopicPartition, found: OffsetAndTimestamp | None) -> Row:
    return {
        "TOPIC": key.topic,
        "PARTITION": key.partition,
        "OFFSET": None if found is None else found.offset,
        "TIMESTAMP": None if found is None else time_text(found.timestamp_ms),
    }


def _both_ends(key: TopicPartition, first: OffsetAndTimestamp | None, end: OffsetAndTimestamp | None) -> Row:
    return {
        "TOPIC": key.topic,
        "PARTITION": key.partition,
        "EARLIEST": first and first.offset,
        "LATEST": end and end.offset,
        "OFFSETS": end.offset - first.offset if first and end else None,
    }


def _place(text: str) -> OffsetSpec | int:
    if text in _PLACES:
        return _PLACES[text]
    return timestamp_ms(text, _now_ms(), f"--time {text}: must be one of {', '.join(_PLACES)}, or a time")


def delete_records(
    cluster: Cluster,
    texts: Sequence[str],
    before_offset: int | None,
    before_time: str | None,
    change: Change,
    output: str,
) -> None:
    """Delete records from the beginning of partitions, after their number was shown and confirmed.

    Raises:
        UsageError: a topic or partition does not exist, or an offset is after the end.
        KafkaError: a broker refuses.
    """
    with cluster.admin() as admin:
        chosen = partitions_chosen(admin, texts)
        firsts, ends = (_offsets(admin, chosen, at) for at in (OffsetSpec.EARLIEST, OffsetSpec.LATEST))
        new = dict(ends)
        if before_offset is not None:
            new = dict.fromkeys(chosen, before_offset)
        elif before_time is not None:
            at = timestamp_ms(before_time, _now_ms(), f"--before {before_time}")
            new |= _offsets(admin, chosen, at)
        for key, offset in new.items():
            if offset > ends[key]:
                raise UsageError(
                    f"--before-offset {offset}: {key.topic} [{key.partition}] ends at offset {ends[key]}; --all "
                    "deletes all records"
                )
        new = {key: max(offset, firsts[key]) for key, offset in new.items()}
        rows: list[Row] = [
            {"TOPIC": key.topic, "PARTITION": key.partition, "EARLIEST": firsts[key], "NEW-EARLIEST": new[key],
             "LATEST": ends[key], "DELETED-OFFSETS": new[key] - firsts[key]}
            for key in chosen
        ]  # fmt: skip
        show(rows, output)
        if change.allows(f"Delete the records before NEW-EARLIEST in {count_of(len(chosen), 'partition')}?"):
            admin.delete_records(new)
            click.echo(f"Deleted records of {count_of(len(chosen), 'partition')}.", err=True)


def _offsets(admin: Admin, keys: Sequence[TopicPartition], at: OffsetSpec | int) -> dict[TopicPartition, int]:
    """Return the offsets at a place, of partitions that have one."""
    return {key: one.offset for key, one in admin.list_offsets(dict.fromkeys(keys, at)).items() if one is not None}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
