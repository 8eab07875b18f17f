"""A log directory as found on disk: its partitions, their files, and who uses it. Start at `partition_folders`.

Source: org.apache.kafka.storage.internals.log.LogManager.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kafkaraw.core.log.batches import iter_batches
from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.indexes import decode_offset_index, decode_time_index
from kafkaraw.core.log.leader_epochs import EPOCHS_FILE, LeaderEpochs
from kafkaraw.core.log.metadata_files import read_partition_metadata
from kafkaraw.core.log.names import (
    LOCK_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    FileKind,
    FolderState,
    OffsetFile,
    PartitionFolder,
    Stage,
    parse_file,
    parse_folder,
)
from kafkaraw.core.log.offset_checkpoint import LOG_STARTS_FILE, read_offsets
from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.logs.dump import mapped
from kafkaraw.net.directory_locks import DirectoryLock
from kafkaraw.records import TopicPartition


def partition_folders(directory: Path) -> list[tuple[PartitionFolder, Path]]:
    """Return the folders of partitions in a log directory, by topic and partition; deleted and stray ones, too.

    Raises:
        UsageError: the path is no log directory.
    """
    if not directory.is_dir():
        raise UsageError(f"{directory} is no directory; give one of the broker's log.dirs")
    found = []
    for entry in directory.iterdir():
        folder = parse_folder(entry.name) if entry.is_dir() else None
        if folder is not None:
            found.append((folder, entry))
    if not found and not (directory / META_PROPERTIES_FILE).exists():
        hint = f"; it looks like the folder of one partition: give {directory.absolute().parent}"
        is_partition = parse_folder(directory.absolute().name) is not None and segments_in(directory)
        raise UsageError(
            f"{directory} is no log directory: it has neither {META_PROPERTIES_FILE} nor folders of partitions"
            f"{hint if is_partition else '; give one of the broker' + chr(39) + 's log.dirs'}"
        )
    return sorted(found)


def offset_files(folder: Path) -> list[OffsetFile]:
    """Return the files of a folder that are named after an offset, sorted."""
    return sorted(file for file in (parse_file(name) for name in os.listdir(folder)) if file is not None)


def segments_in(folder: Path) -> list[int]:
    """Return the base offsets of a folder's segments."""
    return [file.offset for file in offset_files(folder) if file.kind is FileKind.LOG and file.stage is Stage.LIVE]


def size_of(folder: Path) -> int:
    """Return the bytes of the files of a folder; a file that goes away meanwhile has none."""
    total = 0
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            total += entry.stat().st_size if entry.is_file() else 0
    return total


@contextlib.contextmanager
def locked(directory: Path, *, creates: bool) -> Iterator[None]:
    """Hold the lock of a log directory, as a broker does, Apache Kafka's or this package's.

    Args:
        directory: the log directory.
        creates: create the lock file if there is none; otherwise nothing is locked then.

    Raises:
        UsageError: a broker holds the lock.
        OSError: the lock file cannot be opened.
    """
    if not creates and not (directory / LOCK_FILE).exists():
        yield
        return
    try:
        lock = DirectoryLock(directory / LOCK_FILE)
    except BlockingIOError:
        raise UsageError(f"{directory} is in use by a broker, which holds its {LOCK_FILE}; stop it first") from None
    try:
        yield
    finally:
        lock.release()


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """What `kafkaraw log list` shows of a partition.

    Attributes:
        folder: its name.
        topic_id: text of the topic's id; empty if it is not known.
        segments: number of log files.
        size_bytes: of all files.
        start_offset: the log start offset.
        end_offset: the log end offset.
        first_timestamp_ms: base timestamp of the first batch; -1 if there is none.
        last_timestamp_ms: highest timestamp; -1 if there is none.
        epochs: (epoch, first offset), oldest first.
        problem: why a part of this could not be read; empty if nothing is wrong.
    """

    folder: PartitionFolder
    topic_id: str
    segments: int
    size_bytes: int
    start_offset: int
    end_offset: int
    first_timestamp_ms: int
    last_timestamp_ms: int
    epochs: list[tuple[int, int]]
    problem: str


def summaries(directory: Path) -> list[PartitionSummary]:
    """Return a summary of each partition. Only the ends of logs are read, through their indexes.

    Raises:
        UsageError: the path is no log directory.
        OSError: a file cannot be read.
    """
    starts = log_start_offsets(directory)
    return [_summary(folder, path, starts) for folder, path in partition_folders(directory)]


def log_start_offsets(directory: Path) -> dict[TopicPartition, int]:
    """Return the offsets of a log directory's `log-start-offset-checkpoint`; none if it is missing or damaged.

    Raises:
        OSError: the file cannot be read.
    """
    file = directory / LOG_STARTS_FILE
    if not file.exists():
        return {}
    try:
        return read_offsets(file.read_text(errors="replace"), str(file))
    except DamagedFileError:  # `verify` tells
        return {}


def _summary(folder: PartitionFolder, path: Path, starts: dict[TopicPartition, int]) -> PartitionSummary:
    bases = segments_in(path)
    problem, topic_id, epochs = "", "", LeaderEpochs()
    start = end = bases[0] if bases else 0
    first_ms = last_ms = -1
    try:
        metadata = path / PARTITION_METADATA_FILE
        if metadata.exists():
            topic_id = str(read_partition_metadata(metadata.read_text(errors="replace"), str(metadata)))
        if (path / EPOCHS_FILE).exists():
            epochs.load((path / EPOCHS_FILE).read_text(errors="replace"), str(path / EPOCHS_FILE))
        for base in bases:
            found = _segment_ends(path, base, reads_tail=base == bases[-1])
            first_ms = found[0] if first_ms < 0 else first_ms
            last_ms = max(last_ms, found[1])
            end = max(end, found[2])
    except DamagedFileError as error:
        problem = str(error)
    if folder.state is FolderState.LIVE:
        start = max(start, starts.get(TopicPartition(folder.topic, folder.partition), 0))
    return PartitionSummary(
        folder, topic_id, len(bases), size_of(path), start, end, first_ms, last_ms, epochs.rows, problem
    )


def _segment_ends(path: Path, base: int, *, reads_tail: bool) -> tuple[int, int, int]:
    """Return first timestamp, highest timestamp and next offset of a segment; the tail is read if it may be missing."""
    log = path / OffsetFile(base, FileKind.LOG).name
    first_ms = last_ms = -1
    position, end = 0, base
    time_index = log.with_suffix(FileKind.TIME_INDEX)
    if time_index.exists():
        times = decode_time_index(time_index.read_bytes(), base, str(time_index))
        last_ms = times[-1].timestamp_ms if times else -1
        reads_tail = reads_tail or not times
    index = log.with_suffix(FileKind.OFFSET_INDEX)
    if index.exists():
        entries = decode_offset_index(index.read_bytes(), base, str(index))
        if entries:
            position, end = entries[-1].position, entries[-1].offset + 1
    with mapped(log) as data:
        for _, header in iter_batches(data, str(log)):
            first_ms = header.base_timestamp if not header.has_delete_horizon else header.max_timestamp
            break
        if reads_tail:
            for _, header in iter_batches(data, str(log), position):
                last_ms, end = max(last_ms, header.max_timestamp), header.next_offset
    return first_ms, last_ms, end
