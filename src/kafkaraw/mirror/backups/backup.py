"""`back_up`: add a run to a backup, with everything that is newer than the runs before.

Theory of operation. A run reads each partition from where the run before has ended to the last stable offset at its
start, and writes new files; its manifest is the last file. A run that is killed has no manifest, so it does not count,
and the next one reads the same records again; its files are removed by a later run. Nothing that counts is ever
changed, so any number of runs may fail.

A run reports what it cannot continue: offsets that the source has deleted meanwhile (`lost`), a topic
that was created again (it starts anew), and a log that ends before what was backed up (an error; `full` starts anew).

Must not change the source. Start at `back_up`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from kafkaraw.core.fetch.failures import name_of
from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.mirror.backups.data_files import RunWriter
from kafkaraw.mirror.backups.manifest import (
    RUNS_FOLDER,
    BackupError,
    BackupState,
    FileFormat,
    Manifest,
    PartitionRun,
    StoredAcl,
    TopicRun,
    folder_of,
    states_of,
)
from kafkaraw.mirror.backups.store import BackupStore
from kafkaraw.mirror.cluster_facts import Source, TopicFacts, acls_of, group_offsets, topic_facts
from kafkaraw.mirror.slices import Bounds, Progress, Slice, SourceChangedError, plan_slices, read_slices
from kafkaraw.records import TopicPartition

FILE_BYTES: Final = 64 << 20
_PARTITIONS_AT_ONCE: Final = 16
"""Partitions that are read at the same time; each has one open file."""


@dataclass(frozen=True, slots=True)
class BackupOptions:
    """How to back up.

    Attributes:
        file_format: how records are stored.
        file_bytes: size of batches after which a new file begins.
        groups: names or patterns of the groups whose committed offsets are stored.
        acls: whether the cluster's ACLs are stored.
        full: start anew, without the runs before.
    """

    file_format: FileFormat = FileFormat.SEGMENTS
    file_bytes: int = FILE_BYTES
    groups: Collection[str] = ("*",)
    acls: bool = True
    full: bool = False


@dataclass(frozen=True, slots=True)
class BackupRun:
    """What a run has added.

    Attributes:
        manifest: its manifest.
        notices: what a user should know: deleted offsets, topics that were created again.
    """

    manifest: Manifest
    notices: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Work:
    """One partition of a run.

    Attributes:
        slice: the offsets.
        continues: whether they follow those of the run before.
        lost: offsets that were deleted before they were backed up.
    """

    slice: Slice
    continues: bool
    lost: tuple[int, int] | None


async def back_up(
    source: Source,
    patterns: Collection[str],
    store: BackupStore,
    options: BackupOptions,
    *,
    now_ms: int,
    run_id: str,
    progress: Progress | None = None,
) -> BackupRun:
    """Add a run to a backup, the first one if the location is empty.

    Args:
        source: the cluster.
        patterns: names of topics, or patterns.
        store: where.
        options: how.
        now_ms: the time, in milliseconds since 1970 UTC.
        run_id: random, in hexadecimal digits.
        progress: receives the progress.

    Raises:
        UsageError: the location holds something else, or the backup of another cluster.
        BackupError: the backup is damaged, or cannot be written.
        SourceChangedError: the source lost records meanwhile, or before.
        KafkaError: the source cannot be read.
    """
    progress = progress or Progress()
    manifests = store.manifests()
    store.begin()
    run = manifests[-1].run + 1 if manifests else 1
    async with source.make_admin() as admin:
        cluster_id = (await admin.describe_cluster()).cluster_id or ""
        _check_cluster(store, manifests, cluster_id)
        topics = await topic_facts(admin, patterns)
        # Before the ends of the partitions are known, so that no offset is behind them.
        groups = await group_offsets(admin, options.groups, [topic.name for topic in topics])
        acls = await acls_of(admin) if options.acls else None
    notices: list[str] = []
    known = BackupState() if options.full else states_of(manifests)
    async with source.make_consumer() as consumer:
        slices = await plan_slices(consumer, [topic.name for topic in topics], Bounds())
        work = [_work_of(one, known, topics, notices) for one in slices]
        progress.begin(sum(one.slice.end - one.slice.begin for one in work))
        writer = RunWriter(store, folder_of(run, run_id), options.file_format, options.file_bytes)
        ids = {topic.name: topic.topic_id for topic in topics}
        with _removed_on_failure(store, writer, folder_of(run, run_id)):
            for part in _parts([one.slice for one in work]):
                ends = {one.key: one.begin for one in part}
                async for batch in read_slices(consumer, part, ids):
                    writer.append(batch, ends[batch.key])
                    at = batch.wires[-1][0].next_offset
                    progress.advance(at - ends[batch.key])
                    ends[batch.key] = at
                writer.end_all()
            manifest = Manifest(
                run=run,
                run_id=run_id,
                created_ms=now_ms,
                cluster_id=cluster_id,
                file_format=options.file_format,
                topics=tuple(_topic_run(topic, work, writer) for topic in topics),
                groups=groups,
                acls=None
                if acls is None
                else tuple(
                    StoredAcl(
                        acl.pattern.resource_type.name,
                        acl.pattern.name,
                        acl.pattern.pattern_type.name,
                        acl.principal,
                        acl.host,
                        acl.operation.name,
                        acl.permission_type.name,
                    )
                    for acl in acls
                ),
            )
            store.add(manifest)
    _remove_unfinished(store, [*manifests, manifest])
    return BackupRun(manifest, notices)


def _check_cluster(store: BackupStore, manifests: Sequence[Manifest], cluster_id: str) -> None:
    if manifests and manifests[-1].cluster_id != cluster_id:
        raise UsageError(
            f"{store.url} is a backup of cluster {manifests[-1].cluster_id}, and this is cluster {cluster_id}; name "
            "another location"
        )


def _work_of(one: Slice, known: BackupState, topics: Sequence[TopicFacts], notices: list[str]) -> _Work:
    """Decide from where on a partition is backed up.

    Raises:
        SourceChangedError: its log ends before what was backed up.
    """
    topic = known.topics.get(one.key.topic)
    topic_id = next(str(each.topic_id) for each in topics if each.name == one.key.topic)
    if topic is not None and topic.topic_id != topic_id:
        if one.key.partition == 0:
            notices.append(
                f"topic {one.key.topic} was deleted and created again: it is backed up anew, and earlier runs keep the "
                "old one"
            )
        topic = None
    before = None if topic is None else topic.partitions.get(one.key.partition)
    if before is None:
        return _Work(one, continues=False, lost=None)
    if one.end < before.end:
        raise SourceChangedError(
            f"{name_of(one.key)} ends at offset {one.end}, and offsets up to {before.end - 1} were backed up: its log "
            "was truncated, so records from there on may differ; --full backs everything up anew"
        )
    if one.log_start <= before.end:
        return _Work(Slice(one.key, before.end, one.end, one.log_start), continues=True, lost=None)
    notices.append(
        f"{name_of(one.key)}: offsets {before.end} to {one.log_start - 1} were deleted in the source before they were "
        "backed up"
    )
    return _Work(one, continues=True, lost=(before.end, one.log_start))


def _parts(slices: Sequence[Slice]) -> Iterator[Sequence[Slice]]:
    for at in range(0, len(slices), _PARTITIONS_AT_ONCE):
        yield slices[at : at + _PARTITIONS_AT_ONCE]


def _topic_run(topic: TopicFacts, work: Sequence[_Work], writer: RunWriter) -> TopicRun:
    partitions = tuple(
        PartitionRun(
            one.slice.key.partition,
            one.slice.begin,
            one.slice.end,
            one.continues,
            one.lost,
            tuple(writer.files.get(TopicPartition(topic.name, one.slice.key.partition), ())),
        )
        for one in work
        if one.slice.key.topic == topic.name
    )
    return TopicRun(topic.name, str(topic.topic_id), len(partitions), topic.configs, partitions)


@contextlib.contextmanager
def _removed_on_failure(store: BackupStore, writer: RunWriter, folder: str) -> Iterator[None]:
    """Remove the files of a run that fails."""
    try:
        yield
    except BaseException:
        writer.abandon()
        with contextlib.suppress(BackupError):  # a later run tries again; the error that led here is raised
            store.remove_folder(folder)
        raise


def _remove_unfinished(store: BackupStore, manifests: Sequence[Manifest]) -> None:
    """Remove the folders of earlier runs that were killed; those of this number may be of a run that goes on."""
    counted = {folder for manifest in manifests for folder in manifest.folders}
    newest = f"{RUNS_FOLDER}/{manifests[-1].run:06}-"
    for folder in store.run_folders():
        if folder not in counted and folder < newest:
            with contextlib.suppress(BackupError):
                store.remove_folder(folder)
