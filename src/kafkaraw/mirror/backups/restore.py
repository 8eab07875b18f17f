"""`restore`: write topics of a backup into a cluster, with settings, committed offsets and ACLs.

Theory of operation. Records get new offsets, without gaps: the n-th record of a partition has the offset of the first
one plus n. So the offset of a group is translated exactly, by counting the records before it. No other client may
write to the topics meanwhile: at the end, the number of records is compared with the end offset, and offsets are
committed only then. A topic that is created gets the settings that would change or delete records (retention,
compaction, timestamps of the broker) at the end, too.

A topic that has records is refused, so a second restore, or one after a kill, writes nothing twice. Start at `restore`.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from kafkaraw.core.fetch.failures import name_of
from kafkaraw.errors import BrokerError, KafkaError, UsageError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.mirror.backups.data_files import arrow_batches
from kafkaraw.mirror.backups.manifest import (
    BackupError,
    BackupState,
    PartitionState,
    StoredAcl,
    TopicState,
    states_of,
)
from kafkaraw.mirror.backups.store import BackupStore
from kafkaraw.mirror.cluster_facts import CommittedOffset, GroupOffsets
from kafkaraw.mirror.slices import Progress
from kafkaraw.protocol.config_codes import ConfigSource
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaraw.client.admin.acls import AclBinding
    from kafkaraw.client.admin.client import AsyncAdmin
    from kafkaraw.client.consumer import AsyncConsumer
    from kafkaraw.client.producer import AsyncProducer
    from kafkaraw.client.sending.arrow_rows import ArrowTicket

_IN_FLIGHT_MAX: Final = 8
"""Arrow batches that are sent and not acknowledged."""
_MEANWHILE: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
}
"""Settings of a new topic until its records are there."""
_AT_THE_END: Final = frozenset((*_MEANWHILE, "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"))


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster that is written.

    Attributes:
        make_producer: makes a producer.
        make_consumer: makes a consumer without a group.
        make_admin: makes an admin client.
    """

    make_producer: Callable[[], AsyncProducer]
    make_consumer: Callable[[], AsyncConsumer]
    make_admin: Callable[[], AsyncAdmin]


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """What to restore.

    Attributes:
        topics: names of topics, or patterns.
        rename: new names of topics, by name.
        to_ms: leave out records with a later timestamp; None is all.
        run: the backup as it was after this run; None is the last one.
        groups: names or patterns of the groups whose offsets are committed.
        acls: whether ACLs of the topics and groups are created.
        append: write behind the records that a topic has.
        configs: settings of the topics, instead of those of the backup; None leaves one out.
        keep_settings: accept a topic that exists with other settings.
        replication_factor: of new topics; -1 is the cluster's default.
        dry_run: change nothing.
    """

    topics: Collection[str] = ("*",)
    rename: Mapping[str, str] = field(default_factory=dict)
    to_ms: int | None = None
    run: int | None = None
    groups: Collection[str] = ("*",)
    acls: bool = False
    append: bool = False
    configs: Mapping[str, str | None] = field(default_factory=dict)
    keep_settings: bool = False
    replication_factor: int = -1
    dry_run: bool = False


@dataclass(slots=True)
class PartitionRestore:
    """What is restored of one partition.

    Attributes:
        source: topic and partition in the backup.
        target: topic and partition in the cluster.
        first_offset: offset of the first record in the cluster.
        records_count: number of records that are written.
        left_out_count: number of records with a later timestamp than wanted.
    """

    source: TopicPartition
    target: TopicPartition
    first_offset: int
    records_count: int = 0
    left_out_count: int = 0


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored, or would be.

    Attributes:
        partitions: in order.
        created: new topics.
        groups: committed offsets in the cluster.
        acls: ACLs.
        notices: what a user should know.
    """

    partitions: Sequence[PartitionRestore]
    created: Sequence[str]
    groups: GroupOffsets
    acls: Sequence[StoredAcl]
    notices: Sequence[str]


async def restore(
    store: BackupStore, target: Target, options: RestoreOptions, progress: Progress | None = None
) -> Restored:
    """Write topics of a backup into a cluster.

    Args:
        store: the backup.
        target: the cluster.
        options: what to restore.
        progress: receives the progress.

    Raises:
        UsageError: a topic is not in the backup, exists with other settings, or has records.
        BackupError: a file is damaged or missing.
        KafkaError: the cluster cannot be written.
    """
    progress = progress or Progress()
    state = states_of(store.required_manifests(options.run))
    chosen = _chosen(state, options)
    names = {topic.name: options.rename.get(topic.name, topic.name) for topic in chosen}
    async with target.make_admin() as admin, target.make_consumer() as consumer:
        notices: list[str] = []
        existing = await _existing(admin, [names[topic.name] for topic in chosen])
        # A restore that was killed leaves records, and settings that are not the backup's yet: records are the reason.
        bases = await _bases(consumer, sorted(existing), options)
        for topic in chosen:
            await _check_topic(admin, topic, names[topic.name], existing, options, notices)
        missing = [topic for topic in chosen if names[topic.name] not in existing]
        if not options.dry_run:
            await _create(admin, missing, names, options)
        work = [
            PartitionRestore(
                TopicPartition(topic.name, number),
                TopicPartition(names[topic.name], number),
                bases.get(TopicPartition(names[topic.name], number), 0),
            )
            for topic in chosen
            for number in sorted(topic.partitions)
        ]
        groups = {
            group: offsets
            for group, offsets in state.groups.items()
            if any(fnmatchcase(group, pattern) for pattern in options.groups)
        }
        translated = await _write(store, target, chosen, work, groups, options, progress)
        acls = _acls(state, names, groups, notices) if options.acls else []
        if not options.dry_run:
            await _check_ends(consumer, work)
            await _complete(admin, missing, names, options)
            await _commit(admin, translated)
            if acls:
                await admin.create_acls([_binding(acl) for acl in acls])
    return Restored(work, [names[topic.name] for topic in missing], translated, acls, notices)


# -- the plan


def _chosen(state: BackupState, options: RestoreOptions) -> list[TopicState]:
    chosen: dict[str, TopicState] = {}
    for pattern in options.topics:
        found = [name for name in state.topics if name == pattern or fnmatchcase(name, pattern)]
        if not found:
            shown = ", ".join(sorted(state.topics)) or "none"
            raise UsageError(f"the backup has no topic {pattern!r}; it has {shown}")
        chosen.update((name, state.topics[name]) for name in found)
    for name in options.rename:
        if name not in chosen:
            raise UsageError(f"topic {name!r} is to be renamed, and is not restored")
    names = [options.rename.get(name, name) for name in chosen]
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise UsageError(f"two topics would be restored as {doubled[0]!r}; rename one of them")
    return [chosen[name] for name in sorted(chosen)]


async def _existing(admin: AsyncAdmin, names: Sequence[str]) -> dict[str, int]:
    """Return the number of partitions of the topics that exist."""
    listed = await admin.list_topics()
    return {one.name: one.partitions for one in listed if one.name in names}


async def _check_topic(
    admin: AsyncAdmin,
    topic: TopicState,
    name: str,
    existing: Mapping[str, int],
    options: RestoreOptions,
    notices: list[str],
) -> None:
    """Compare a topic that exists with the backup.

    Raises:
        UsageError: it has fewer partitions, or other settings.
    """
    for partition in topic.partitions.items():
        notices += _lost(topic.name, *partition)
    if name not in existing:
        return
    from kafkaraw.client.admin.configs import ConfigResource

    if existing[name] < topic.partitions_count:
        raise UsageError(
            f"topic {name!r} exists with {existing[name]} partitions, and {topic.name!r} had {topic.partitions_count}; "
            "add partitions, or restore it under another name (--rename)"
        )
    resource = ConfigResource.topic(name)
    entries = (await admin.describe_configs([resource]))[resource]
    wanted = _settings(topic, options)
    given = {one.name: one.value for one in entries.values() if one.source is ConfigSource.DYNAMIC_TOPIC}
    for config in sorted({*wanted, *given}):
        found = entries[config].value if config in entries else None
        if config not in wanted:
            differs = given.get(config) is not None
        else:
            differs = found != wanted[config]
        if differs and not options.keep_settings:
            raise UsageError(
                f"topic {name!r} exists with {config}={found}, and the backup has {wanted.get(config, 'the default')}; "
                "alter it, restore under another name (--rename), or accept it (--keep-settings)"
            )
    timestamps = entries.get("message.timestamp.type")
    if timestamps is not None and timestamps.value == "LogAppendTime":
        notices.append(f"topic {name}: its broker replaces the timestamps of records (message.timestamp.type)")


def _lost(topic: str, number: int, partition: PartitionState) -> Iterator[str]:
    for begin, end in partition.lost:
        yield f"{topic}-{number}: offsets {begin} to {end - 1} were deleted in the source before they were backed up"


def _settings(topic: TopicState, options: RestoreOptions) -> dict[str, str]:
    merged: dict[str, str | None] = {**topic.configs, **options.configs}
    return {name: value for name, value in merged.items() if value is not None}


async def _bases(consumer: AsyncConsumer, names: Sequence[str], options: RestoreOptions) -> dict[TopicPartition, int]:
    """Return the end offsets of topics that exist.

    Raises:
        UsageError: a topic has records.
    """
    keys = [key for name in names for key in await consumer.partitions_for(name)]
    starts, ends = await consumer.beginning_offsets(keys), await consumer.end_offsets(keys)
    for key in sorted(keys):
        if starts[key] < ends[key] and not options.append:
            raise UsageError(
                f"topic {key.topic!r} is not empty: {name_of(key)} has offsets {starts[key]} to {ends[key] - 1}; "
                "delete it, restore under another name (--rename), or write behind these records (--append)"
            )
    return ends


# -- the work


async def _create(
    admin: AsyncAdmin, topics: Sequence[TopicState], names: Mapping[str, str], options: RestoreOptions
) -> None:
    from kafkaraw.client.admin.topics import NewTopic

    await admin.create_topics(
        [
            NewTopic(
                names[topic.name],
                partitions=topic.partitions_count,
                replication_factor=options.replication_factor,
                configs={
                    **{name: value for name, value in _settings(topic, options).items() if name not in _AT_THE_END},
                    **_MEANWHILE,
                },
            )
            for topic in topics
        ]
    )


async def _complete(
    admin: AsyncAdmin, topics: Sequence[TopicState], names: Mapping[str, str], options: RestoreOptions
) -> None:
    """Set the settings of new topics that had to wait for their records."""
    if not topics:
        return
    from kafkaraw.client.admin.configs import ConfigResource

    changes: dict[ConfigResource, dict[str, str | None]] = {}
    for topic in topics:
        wanted = _settings(topic, options)
        late = [name for name in sorted(_AT_THE_END) if name in wanted or name in _MEANWHILE]
        changes[ConfigResource.topic(names[topic.name])] = {name: wanted.get(name) for name in late}
    await admin.alter_configs(changes)


async def _write(
    store: BackupStore,
    target: Target,
    topics: Sequence[TopicState],
    work: Sequence[PartitionRestore],
    groups: GroupOffsets,
    options: RestoreOptions,
    progress: Progress,
) -> GroupOffsets:
    """Write the records of all partitions; return the translated offsets of groups."""
    states = {topic.name: topic for topic in topics}
    progress.begin(sum(states[one.source.topic].partitions[one.source.partition].records_count for one in work))
    translated: GroupOffsets = {}
    if options.dry_run:
        for one in work:
            await _write_partition(store, None, states[one.source.topic], one, groups, translated, options, progress)
        return translated
    async with target.make_producer() as producer:
        for one in work:
            await _write_partition(
                store, producer, states[one.source.topic], one, groups, translated, options, progress
            )
    return translated


async def _write_partition(
    store: BackupStore,
    producer: AsyncProducer | None,
    topic: TopicState,
    one: PartitionRestore,
    groups: GroupOffsets,
    translated: GroupOffsets,
    options: RestoreOptions,
    progress: Progress,
) -> None:
    """Write the records of a partition, unless there is no producer, and translate the offsets in it."""
    committed = {group: offsets[one.source] for group, offsets in groups.items() if one.source in offsets}
    before = dict.fromkeys({found.offset for found in committed.values()}, 0)  # records before each offset
    sent: deque[tuple[ArrowTicket, int, int]] = deque()
    for file in topic.partitions[one.source.partition].files:
        for rows in arrow_batches(store, one.source, file):
            kept = _until(rows, options.to_ms)
            one.left_out_count += rows.num_rows - kept.num_rows
            offsets = kept.column("offset")
            for offset in before:
                before[offset] += _rows_before(offset, offsets)
            progress.advance(rows.num_rows)
            if not kept.num_rows:
                continue
            one.records_count += kept.num_rows
            if producer is not None:
                ticket = await producer.send_arrow(one.target.topic, kept.drop_columns(["offset"]))
                sent.append((ticket, offsets[0].as_py(), offsets[-1].as_py()))
                while len(sent) > _IN_FLIGHT_MAX:
                    await _acknowledged(one, *sent.popleft())
            else:
                await asyncio.sleep(0)
    while sent:
        await _acknowledged(one, *sent.popleft())
    for group, found in committed.items():
        translated.setdefault(group, {})[one.target] = CommittedOffset(
            one.first_offset + before[found.offset], found.metadata
        )


def _rows_before(offset: int, offsets: pa.Array) -> int:
    return bisect_left(range(len(offsets)), offset, key=lambda row: offsets[row].as_py())


async def _acknowledged(one: PartitionRestore, ticket: ArrowTicket, first: int, last: int) -> None:
    try:
        await ticket
    except KafkaError as error:
        raise BackupError(
            f"{name_of(one.target)}: records with offsets {first} to {last} of {name_of(one.source)} in the backup "
            f"cannot be written: {error}"
        ) from error


def _until(rows: pa.RecordBatch, to_ms: int | None) -> pa.RecordBatch:
    """Return the records with a timestamp up to a time."""
    if to_ms is None:
        return rows
    import pyarrow.compute as pc

    return rows.filter(pc.less_equal(rows.column("timestamp").cast("int64"), to_ms))


async def _check_ends(consumer: AsyncConsumer, work: Sequence[PartitionRestore]) -> None:
    """Compare the end offsets with the number of records.

    Raises:
        BackupError: they differ: another client has written to the topic.
    """
    ends = await consumer.end_offsets([one.target for one in work])
    for one in work:
        expected = one.first_offset + one.records_count
        if ends[one.target] != expected:
            raise BackupError(
                f"{name_of(one.target)} ends at offset {ends[one.target]}, and would at {expected} with the restored "
                "records alone: another producer writes to it, so offsets cannot be translated; stop it, delete the "
                "topic, and restore it again"
            )


async def _commit(admin: AsyncAdmin, groups: GroupOffsets) -> None:
    from kafkaraw.client.committed import OffsetAndMetadata

    for group, offsets in groups.items():
        try:
            await admin.alter_group_offsets(
                group, {key: OffsetAndMetadata(one.offset, one.metadata) for key, one in offsets.items()}
            )
        except BrokerError as error:
            raise BackupError(
                f"all records are restored, but the offsets of group {group!r} are not committed: {error}"
            ) from error


# -- ACLs


def _acls(state: BackupState, names: Mapping[str, str], groups: Collection[str], notices: list[str]) -> list[StoredAcl]:
    """Return the ACLs of the restored topics, with their new names, and of the restored groups."""
    kept: list[StoredAcl] = []
    for acl in state.acls or ():
        is_literal = acl.pattern_type == "LITERAL"
        if is_literal and acl.resource_type == "TOPIC" and acl.resource_name in names:
            kept.append(_renamed(acl, names[acl.resource_name]))
        elif is_literal and acl.resource_type == "GROUP" and acl.resource_name in groups:
            kept.append(acl)
    left_count = len(state.acls or ()) - len(kept)
    if left_count:
        notices.append(f"{left_count} ACLs are of other resources, or of patterns, and are not restored")
    return kept


def _renamed(acl: StoredAcl, name: str) -> StoredAcl:
    return StoredAcl(
        acl.resource_type, name, acl.pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type
    )


def _binding(acl: StoredAcl) -> AclBinding:
    from kafkaraw.client.admin.acls import AclBinding, ResourcePattern
    from kafkaraw.protocol.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType

    return AclBinding(
        ResourcePattern(ResourceType[acl.resource_type], acl.resource_name, PatternType[acl.pattern_type]),
        acl.principal,
        AclOperation[acl.operation],
        AclPermissionType[acl.permission_type],
        acl.host,
    )
