"""What a start of the broker does with the folders that it finds in its log directories, before it opens replicas.

A crash may leave folders that no topic claims, or two folders of one replica; and Apache Kafka may have written them.
Start at `setting_strays_aside` and `choosing_copy`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from kafkaraw.broker.ids import RandomBits
from kafkaraw.broker.log.directories import LogDirectories, LogDirectory, folder_name
from kafkaraw.broker.log.partition_log import PartitionLog, is_segment
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.broker.topics.topic_files import TOPICS_FILE
from kafkaraw.broker.turns import Steps
from kafkaraw.core.log.leader_epochs import EPOCHS_FILE
from kafkaraw.core.log.names import (
    BOOTSTRAP_FILE,
    METADATA_FOLDER,
    PARTITION_METADATA_FILE,
    FolderState,
    parse_file,
    parse_folder,
)
from kafkaraw.errors import ConfigError
from kafkaraw.net import Clock
from kafkaraw.protocol import Uuid
from kafkaraw.records import TopicPartition

_logger = logging.getLogger("kafkaraw.broker")


def written_by_kafka(storages: Sequence[LogStorage]) -> tuple[list[LogStorage], list[LogStorage]]:
    """Return the directories with the metadata log of Kafka, and those with the checkpoint that formatting writes."""
    logs = [storage for storage in storages if METADATA_FOLDER in storage.folders()]
    return logs, [storage for storage in storages if BOOTSTRAP_FILE in storage.files(ROOT)]


def directory_with_metadata(directories: Sequence[LogDirectory]) -> LogDirectory:
    """Return the directory that has the metadata of a single node: the first one, unless another one has it already.

    Raises:
        ConfigError: it may be in a directory that cannot be read.
    """
    unread: list[tuple[LogDirectory, OSError]] = []
    for directory in directories:
        try:
            if directory.storage.read_text(ROOT, TOPICS_FILE) is not None:
                return directory
        except OSError as error:
            unread.append((directory, error))
    for directory, cause in unread:
        raise ConfigError(
            f"log.dirs: {directory.path} cannot be used as a data directory: {cause.strerror}; the broker cannot start "
            f"without it, because no other one has the broker's metadata ({TOPICS_FILE})"
        ) from cause
    return directories[0]


def setting_strays_aside(
    directory: LogDirectory,
    claimed: Mapping[str, Topic],
    is_deleting: Callable[[Uuid | None], bool],
    rng: RandomBits,
) -> Steps[None]:
    """Remove or rename the folders that no topic claims: a crash has cut their creation or deletion short.

    They are removed if they hold no record, or if it is known that their topic was being deleted. Others are
    renamed, as in Kafka, because a user may have created them.

    Args:
        directory: where.
        claimed: the topics of this node's replicas, by the names of their folders.
        is_deleting: returns whether a topic id is that of a topic that was being deleted.
        rng: source of random ids.

    Raises:
        OSError: the directory cannot be read or changed.
    """
    removed = 0
    for folder in directory.storage.folders():
        yield None
        if folder == METADATA_FOLDER:
            continue
        parsed = parse_folder(folder)
        if parsed is None or parsed.state is FolderState.STRAY:
            continue
        live = folder_name(TopicPartition(parsed.topic, parsed.partition))
        if parsed.state is FolderState.DELETED:
            remove_doomed(directory, folder)
        elif _is_stray(directory, folder, claimed.get(live)):
            if parsed.state is FolderState.FUTURE or _holds_nothing(directory, folder, is_deleting):
                remove_doomed(directory, folder)
                removed += 1
                continue
            stray = directory.set_aside(folder, rng)
            _logger.warning("%s belongs to no topic; renamed to %s", folder, stray)
    if removed:
        _logger.info("removed %d folders that have no records, or whose topic was being deleted", removed)


def _holds_nothing(directory: LogDirectory, folder: str, is_deleting: Callable[[Uuid | None], bool]) -> bool:
    """Return whether a stray folder of a partition has no records, or those of a topic that was being deleted."""
    if directory.storage.read_text(folder, PARTITION_METADATA_FILE) is None:
        return False
    if is_deleting(directory.topic_id_of(folder)):
        return True
    return all(_is_empty_file(directory, folder, name) for name in directory.storage.files(folder))


def _is_stray(directory: LogDirectory, folder: str, topic: Topic | None) -> bool:
    found = directory.topic_id_of(folder)
    if topic is not None:
        return found is not None and found != topic.topic_id
    files = directory.storage.files(folder)
    return PARTITION_METADATA_FILE in files or any(is_segment(name) for name in files)


def _is_empty_file(directory: LogDirectory, folder: str, name: str) -> bool:
    """Return whether a file of a partition's folder has no records."""
    if name.removesuffix(".tmp") in (PARTITION_METADATA_FILE, EPOCHS_FILE):
        return True
    if parse_file(name) is None:
        return False
    return not is_segment(name) or not directory.storage.file_size(folder, name)


def choosing_copy(
    key: TopicPartition, homes: Sequence[LogDirectory], directories: LogDirectories, clock: Clock, rng: RandomBits
) -> Steps[None]:
    """Keep one of several folders of a replica: the broker was killed while a move gave one the place of the other.

    The folder with the most offsets is the newer one, because only that was written to afterwards; or both are the
    same. Kafka does not start here, and asks the user to remove one.

    Args:
        key: the replica.
        homes: the directories that have a folder of it.
        directories: all of them.
        clock: wall clock.
        rng: source of random ids.

    Raises:
        OSError: a directory cannot be read or changed.
    """
    folder, ends = folder_name(key), []
    for directory in homes:
        log = PartitionLog(directory.storage, folder, clock)
        yield from log.opening()
        ends.append(log.log_end_offset)
        log.close()
    kept = homes[ends.index(max(ends))]
    directories.set_home(key, kept)
    for directory in homes:
        if directory is not kept:
            stray = directory.set_aside(folder, rng)
            _logger.warning("%s is in %s, too; renamed %s/%s to %s", folder, kept.path, directory.path, folder, stray)


def remove_doomed(directory: LogDirectory, folder: str) -> None:
    """Remove a folder that is renamed already; one that cannot be removed now is removed at the next start."""
    try:
        directory.storage.remove_folder(folder)
    except OSError as error:
        _logger.warning("%s cannot be deleted before the next start: %s", folder, error)
