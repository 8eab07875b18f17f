"""`take_snapshot`: copy a slice of topics into a directory that `kafkaraw broker --data-dir` opens.

Records keep partition, offset and timestamp, topics their ids and settings, and each partition starts where its slice
does and ends where the source did: committed offsets of groups mean the same records. Only committed data are copied;
producers, transactions and leader epochs of the source are not.

Theory of operation. The broker's own log code writes the files (`broker.topic_import`), in DIRECTORY.incomplete/data: a
broker that is started with DIRECTORY.incomplete refuses it. When everything is synced, the last step renames `data` to
DIRECTORY. A snapshot that is killed leaves DIRECTORY as it was; the next one begins anew and removes what is left.

Must not change the source. Start at `take_snapshot`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.log.file_storage import sync_folder
from kafkaraw.core.fetch.failures import name_of
from kafkaraw.core.log.names import CLEAN_SHUTDOWN_FILE, LOCK_FILE
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.mirror.batch_changes import Mask, for_other_log, masked, without_records
from kafkaraw.mirror.cluster_facts import GroupOffsets, Source, TopicFacts, group_offsets, topic_facts
from kafkaraw.mirror.slices import Bounds, Progress, Slice, SourceBatch, plan_slices, read_slices
from kafkaraw.net.directory_locks import DirectoryLock

if TYPE_CHECKING:
    from kafkaraw.broker.topic_import import TopicImport
    from kafkaraw.records import TopicPartition

SNAPSHOT_FILE: Final = "kafkaraw-snapshot.json"
"""The file that says what a snapshot holds; a directory without it is never replaced."""
SNAPSHOT_VERSION: Final = 1
_FOR_EVER: Final[Mapping[str, str]] = {"retention.ms": "-1", "retention.bytes": "-1"}


class SnapshotError(KafkaError):
    """A snapshot cannot be written."""


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """What to copy.

    Attributes:
        bounds: which records of each partition.
        groups: names or patterns of groups whose committed offsets are copied.
        mask: replaces keys or values; None keeps them.
        configs: settings of all topics, instead of the source's.
        keep_retention: keep the source's retention; without it, no record is deleted by its age or by size.
        replace: replace an earlier snapshot in the directory.
    """

    bounds: Bounds = field(default_factory=Bounds)
    groups: Collection[str] = ()
    mask: Mask | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    keep_retention: bool = False
    replace: bool = False


@dataclass(slots=True)
class PartitionSnapshot:
    """What was copied of a partition.

    Attributes:
        slice: the offsets.
        records_count: number of records.
        size_bytes: size of their batches in the source.
    """

    slice: Slice
    records_count: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a snapshot holds.

    Attributes:
        directory: where it is.
        topics: the topics.
        partitions: the partitions, in order.
        groups: committed offsets.
        left_out: settings that the broker does not accept, each with the reason.
    """

    directory: Path
    topics: Sequence[TopicFacts]
    partitions: Sequence[PartitionSnapshot]
    groups: GroupOffsets
    left_out: Sequence[str]


async def take_snapshot(
    source: Source,
    patterns: Collection[str],
    directory: Path,
    options: SnapshotOptions | None = None,
    progress: Progress | None = None,
) -> Snapshot:
    """Copy a slice of topics into a directory.

    Args:
        source: the cluster.
        patterns: names of topics, or patterns.
        directory: where; it does not exist, is empty, or holds an earlier snapshot (`replace`).
        options: what to copy.
        progress: receives the progress.

    Raises:
        UsageError: the directory holds something else or is in use, or an option does not fit.
        SnapshotError: the directory cannot be written.
        SourceChangedError: the source lost records meanwhile.
        KafkaError: the source cannot be read.
    """
    options, progress = options or SnapshotOptions(), progress or Progress()
    directory = _prepared(directory, replace=options.replace)
    async with source.make_admin() as admin:
        topics = await topic_facts(admin, patterns)
        # Before the ends of the partitions are known, so that no offset is behind them.
        groups = await group_offsets(admin, options.groups, [topic.name for topic in topics])
    async with source.make_consumer() as consumer:
        slices = await plan_slices(consumer, [topic.name for topic in topics], options.bounds)
        ids = {topic.name: topic.topic_id for topic in topics}
        with _draft(directory) as data:
            writer = _Writer(data, directory, slices, options.mask)
            with writer:
                left_out = writer.create(topics, options)
                progress.begin(sum(one.end - one.begin for one in slices))
                async for batch in read_slices(consumer, slices, ids):
                    progress.advance(writer.append(batch))
                writer.finish()
            kept = await _commit(data, directory, groups, slices)
            found = Snapshot(directory, topics, list(writer.partitions.values()), kept, left_out)
            with _reported(directory):
                _write(data / SNAPSHOT_FILE, _description(found))
                _put_in_place(data, directory)
    return found


class _Writer:
    """Fills the draft's data directory."""

    def __init__(self, data: Path, directory: Path, slices: Sequence[Slice], mask: Mask | None) -> None:
        from kafkaraw.broker.system import real_import

        self._directory = directory
        with _reported(directory):
            self._import: TopicImport = real_import(data)
        self._data = data
        self._mask = mask
        self.partitions: dict[TopicPartition, PartitionSnapshot] = {one.key: PartitionSnapshot(one) for one in slices}
        self._ends = {one.key: one.begin for one in slices}

    def __enter__(self) -> None:
        with _reported(self._directory):
            self._import.open()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if error is not None:
            self._import.abandon()

    def create(self, topics: Sequence[TopicFacts], options: SnapshotOptions) -> list[str]:
        """Create the topics, each partition at the beginning of its slice; return the settings that were left out."""
        left_out: list[str] = []
        for topic in topics:
            configs = {**topic.configs, **({} if options.keep_retention else _FOR_EVER), **options.configs}
            with _reported(self._directory, topic.name):
                refused = self._import.create_topic(topic.name, topic.topic_id, topic.partitions_count, configs)
            left_out += [f"topic {topic.name}: {reason}" for reason in refused]
        for one in (each.slice for each in self.partitions.values()):
            with _reported(self._directory, f"{name_of(one.key)} at offset {one.begin}"):
                self._import.begin(one.key, one.begin)
        return left_out

    def append(self, batch: SourceBatch) -> int:
        """Append batches of the source; return the number of offsets that they cover."""
        from kafkaraw.broker.topic_import import LEADER_EPOCH

        report = self.partitions[batch.key]
        first, last = batch.wires[0][0], batch.wires[-1][0]
        if self._mask is None:
            data = for_other_log(batch.wires, LEADER_EPOCH)
        else:
            data = masked(batch.key, batch.wires, self._mask, begin=batch.begin, leader_epoch=LEADER_EPOCH)
        with _reported(self._directory, f"{name_of(batch.key)} at offset {first.base_offset}"):
            if data:
                self._import.append(batch.key, data, report.slice.begin)
        before, self._ends[batch.key] = self._ends[batch.key], last.next_offset
        report.records_count += batch.records_count
        report.size_bytes += batch.size_bytes
        return last.next_offset - before

    def finish(self) -> None:
        """Make each partition end where its slice does, and sync everything."""
        from kafkaraw.broker.topic_import import LEADER_EPOCH

        for key, report in self.partitions.items():
            at, end = self._ends[key], report.slice.end
            if at < end:
                with _reported(self._directory, f"{name_of(key)} at offset {at}"):
                    self._import.append(key, without_records(at, end, LEADER_EPOCH), report.slice.begin)
        with _reported(self._directory):
            self._import.close()
        if not (self._data / CLEAN_SHUTDOWN_FILE).exists():  # the broker's log says why
            raise SnapshotError(f"{self._directory}: the checkpoints of the logs cannot be written; is the disk full?")


async def _commit(data: Path, directory: Path, groups: GroupOffsets, slices: Sequence[Slice]) -> GroupOffsets:
    """Commit the offsets of groups, at most at the ends of the slices, in a broker that serves the draft."""
    if not groups:
        return {}
    from kafkaraw.broker.embedded import EmbeddedBroker
    from kafkaraw.client.admin.client import AsyncAdmin
    from kafkaraw.client.committed import OffsetAndMetadata
    from kafkaraw.mirror.cluster_facts import CommittedOffset

    ends = {one.key: one.end for one in slices}
    kept: GroupOffsets = {
        group: {
            key: CommittedOffset(min(one.offset, ends[key]), one.metadata) for key, one in of.items() if key in ends
        }
        for group, of in groups.items()
    }
    with _reported(directory, "committed offsets"):
        async with (
            EmbeddedBroker(data_dir=str(data)) as broker,
            AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin,
        ):
            for group, offsets in kept.items():
                await admin.alter_group_offsets(
                    group, {key: OffsetAndMetadata(one.offset, one.metadata) for key, one in offsets.items()}
                )
    return kept


def _description(found: Snapshot) -> str:
    content = {
        "version": SNAPSHOT_VERSION,
        "topics": {
            topic.name: {
                "topic_id": str(topic.topic_id),
                "partitions": [
                    {"begin": each.slice.begin, "end": each.slice.end, "records": each.records_count}
                    for each in found.partitions
                    if each.slice.key.topic == topic.name
                ],
            }
            for topic in found.topics
        },
        "groups": sorted(found.groups),
    }
    return json.dumps(content, indent=1) + "\n"


# -- the directory


def _draft_of(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.incomplete")


def _replaced_of(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.replaced")


def _prepared(directory: Path, *, replace: bool) -> Path:
    """Return the absolute path of the directory, after a look at what is there.

    Raises:
        UsageError: no snapshot may be put there.
    """
    path = directory.absolute()
    _recover(path)
    _check_target(path, replace=replace)
    return path


def _recover(directory: Path) -> None:
    """Put an earlier snapshot back, if a kill came between the two renames that replace it."""
    replaced = _replaced_of(directory)
    if not (replaced / SNAPSHOT_FILE).exists():
        return
    with _reported(directory):
        if directory.exists():
            shutil.rmtree(replaced)
        else:
            replaced.rename(directory)


def _check_target(directory: Path, *, replace: bool) -> None:
    """Check that a snapshot may be put there.

    Raises:
        UsageError: it must not.
    """
    if not directory.exists():
        return
    if not directory.is_dir():
        raise UsageError(f"{directory} is a file; name a directory")
    names = sorted(entry.name for entry in directory.iterdir())
    if not names:
        return
    if SNAPSHOT_FILE not in names:
        shown = ", ".join(names[:3])
        raise UsageError(
            f"{directory} holds {shown}{'...' if len(names) > 3 else ''}, which is no snapshot; name another directory"
        )
    if not replace:
        raise UsageError(f"{directory} holds a snapshot; replace it (--replace), or name another directory")
    try:
        DirectoryLock(directory / LOCK_FILE).release()
    except OSError as error:
        raise UsageError(f"{directory} is in use by a broker ({error.strerror}); stop it first") from error


@contextmanager
def _draft(directory: Path) -> Iterator[Path]:
    """Make the folder in which a snapshot is made, and remove it at the end.

    Raises:
        UsageError: another process makes a snapshot there.
        SnapshotError: the folder cannot be made.
    """
    draft = _draft_of(directory)
    with _reported(directory):
        draft.mkdir(parents=True, exist_ok=True)
    try:
        lock = DirectoryLock(draft / LOCK_FILE)
    except OSError as error:
        raise UsageError(f"{draft} is in use: another process makes this snapshot ({error.strerror})") from error
    try:
        data = draft / "data"
        with _reported(directory):
            shutil.rmtree(data, ignore_errors=True)
            data.mkdir()
        yield data
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        lock.release()


def _put_in_place(data: Path, directory: Path) -> None:
    """Rename the finished draft to the directory; an earlier snapshot goes aside first."""
    replaced = _replaced_of(directory)
    sync_folder(data)
    if directory.exists():
        if any(directory.iterdir()):
            directory.rename(replaced)
        else:
            directory.rmdir()
    data.rename(directory)
    sync_folder(directory.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _reported(directory: Path, what: str = "") -> Iterator[None]:
    """Raise errors of the operating system as `SnapshotError`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, KafkaError):  # a timeout of a client
            raise
        named = f"{what}: " if what else ""
        raise SnapshotError(
            f"{directory}: {named}{error.strerror or error}; the snapshot was not made, and an earlier one is unchanged"
        ) from error
