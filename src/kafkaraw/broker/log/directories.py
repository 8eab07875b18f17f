"""The log directories of a broker: which one holds which partition, and where a new one goes.

One `LogDirectory` for each entry of `log.dirs`, or one in memory. `LogDirectories` gives them their identity and finds
the folders of partitions; `log_manager` works on their files by schedule.
Source: org.apache.kafka.storage.internals.log.LogManager.{nextLogDirs, getOrCreateLog, asyncDelete}.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kafkaraw.broker.ids import RandomBits, random_uuid
from kafkaraw.broker.log.dir_failures import LogDirFailureChannel
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.directories import Listing, check_directories
from kafkaraw.core.log.metadata_files import (
    MetaProperties,
    read_partition_metadata,
    write_meta_properties,
    write_partition_metadata,
)
from kafkaraw.core.log.names import (
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    FolderState,
    PartitionFolder,
    parse_folder,
)
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.records import TopicPartition

UNKNOWN_BYTES: Final = -1
IN_MEMORY: Final = "memory"
"""The path of the directory of a broker without `log.dirs`."""

_logger = logging.getLogger("kafkaraw.broker")


class Volume(NamedTuple):
    """The size of the file system that a directory is on, and what is free, in bytes; -1 if unknown."""

    total_bytes: int = UNKNOWN_BYTES
    usable_bytes: int = UNKNOWN_BYTES


class LogDirectory:
    """One log directory.

    Args:
        path: where it is.
        storage: its files.
        volume: returns the size of its file system.
        delays_deletion: whether deleted files stay for file.delete.delay.ms. In memory nothing else could read them.

    Attributes:
        directory_id: its id, once the directories are open.
        is_offline: whether its storage has failed: no replica of it can be used.
    """

    def __init__(
        self,
        path: str,
        storage: LogStorage,
        volume: Callable[[], Volume] = Volume,
        *,
        delays_deletion: bool = True,
    ) -> None:
        self.path = path
        self.storage = storage
        self.volume = volume
        self.delays_deletion = delays_deletion
        self.directory_id = ZERO_UUID
        self.is_offline = False

    def guarded(self, failures: LogDirFailureChannel) -> LogDirectory:
        """Return this directory, with a storage whose failures take it offline."""
        storage = failures.guard(self.storage, self.path)
        return LogDirectory(self.path, storage, self.volume, delays_deletion=self.delays_deletion)

    def listing(self) -> Listing:
        """Return what lies in the directory."""
        return Listing(
            self.path,
            self.storage.folders(),
            self.storage.files(ROOT),
            self.storage.read_text(ROOT, META_PROPERTIES_FILE),
        )

    def topic_id_of(self, folder: str) -> Uuid | None:
        """Return the topic id in a partition's folder; None if the folder has none that can be read."""
        text = self.storage.read_text(folder, PARTITION_METADATA_FILE)
        try:
            return None if text is None else read_partition_metadata(text)
        except DamagedFileError as error:
            _logger.warning("%s/%s: %s", self.path, folder, error)
            return None

    def make_folder(self, folder: str, topic_id: Uuid, rng: RandomBits) -> None:
        """Create the folder of a replica; one that a topic of the same name has left is renamed.

        Raises:
            OSError: the storage is full or broken.
        """
        self.storage.make_folder(folder)
        found = self.topic_id_of(folder)
        if found == topic_id:
            return
        if found is not None:
            self.set_aside(folder, rng)
            self.storage.make_folder(folder)
        text = write_partition_metadata(topic_id)
        self.storage.write_text(folder, PARTITION_METADATA_FILE, text, durable=False)

    def set_aside(self, folder: str, rng: RandomBits) -> str:
        """Rename a folder that belongs to no topic, as Kafka renames stray replicas; return its new name.

        Raises:
            OSError: the storage is broken.
        """
        stray = aside_name(folder, random_uuid(rng), FolderState.STRAY)
        self.storage.rename_folder(folder, stray)
        return stray


def aside_name(folder: str, unique: Uuid, state: FolderState) -> str:
    """Return Kafka's name for a partition folder that is to be deleted, ignored or used in the future."""
    topic, _, partition = folder.rpartition("-")
    return PartitionFolder(topic, int(partition), state, unique.hex()).name


def folder_name(topic_partition: TopicPartition) -> str:
    """Return the name of a partition's folder in a log directory."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


Storages = LogStorage | Sequence[LogDirectory]
"""What a broker is given: its directories, or the storage of its only one."""


def as_directories(storages: Storages) -> tuple[LogDirectory, ...]:
    """Return the directories of a broker."""
    return tuple(storages) if isinstance(storages, Sequence) else (LogDirectory(IN_MEMORY, storages),)


class LogDirectories:
    """All log directories of a broker.

    Args:
        directories: at least one; the metadata of a single node is in the first.
        rng: source of random ids.
        cordoned: returns the paths of directories that get no new replicas.
    """

    def __init__(
        self, directories: Sequence[LogDirectory], rng: RandomBits, cordoned: Callable[[], frozenset[str]] = frozenset
    ) -> None:
        self.all: tuple[LogDirectory, ...] = tuple(directories)
        self._rng = rng
        self._cordoned = cordoned
        self._homes: dict[TopicPartition, LogDirectory] = {}
        self._futures: dict[TopicPartition, LogDirectory] = {}
        self._preferred: dict[TopicPartition, LogDirectory] = {}
        self._counts = dict.fromkeys((directory.path for directory in self.all), 0)

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that can be used."""
        return [directory for directory in self.all if not directory.is_offline]

    def at(self, path: str) -> LogDirectory | None:
        """Return the directory with a path."""
        return next((directory for directory in self.all if directory.path == path), None)

    def is_cordoned(self, directory: LogDirectory) -> bool:
        """Return whether a directory gets no new replicas."""
        return directory.path in self._cordoned()

    def open(self, node_id: int, cluster_id: str | None) -> str:
        """Check the directories, give an identity to new ones, and return the cluster id.

        Args:
            node_id: the broker's id.
            cluster_id: the broker's cluster; None takes that of the directories, or a new one.

        Raises:
            ConfigError: a directory may not be used; none is changed.
            OSError: no directory can be read or written; one that cannot is offline.
        """
        listings = self._listings()
        found = check_directories(listings, node_id, cluster_id)
        known = [meta for meta in found if meta is not None]
        if cluster_id is None:
            cluster_id = known[0].cluster_id if known else str(random_uuid(self._rng))
        for directory, meta in zip(self.online, found, strict=True):
            directory.directory_id = meta.directory_id if meta and meta.directory_id else random_uuid(self._rng)
            if meta is None or meta.directory_id is None:
                text = write_meta_properties(MetaProperties(cluster_id, node_id, directory.directory_id))
                directory.storage.write_text(ROOT, META_PROPERTIES_FILE, text)
        return cluster_id

    def _listings(self) -> list[Listing]:
        """Return what lies in the directories that can be read.

        Raises:
            OSError: none can.
        """
        found = []
        for directory in self.all:
            try:
                found.append(directory.listing())
            except OSError:
                directory.is_offline = True
                if not self.online:
                    raise
        return found

    # -- where replicas are ----------------------------------------------------------------------------------------

    def home_of(self, key: TopicPartition) -> LogDirectory | None:
        """Return the directory of a replica; None if it has none yet."""
        return self._homes.get(key)

    def future_of(self, key: TopicPartition) -> LogDirectory | None:
        """Return the directory to which a replica is being moved."""
        return self._futures.get(key)

    def replicas_in(self, directory: LogDirectory) -> list[TopicPartition]:
        """Return the replicas in a directory."""
        return [key for key, home in self._homes.items() if home is directory]

    def set_home(self, key: TopicPartition, directory: LogDirectory) -> None:
        """Note the directory of a replica."""
        self._note(self._homes, key, directory)

    def set_future(self, key: TopicPartition, directory: LogDirectory | None) -> None:
        """Note the directory to which a replica is being moved; None for no longer."""
        self._note(self._futures, key, directory)

    def forget(self, key: TopicPartition) -> None:
        """Forget a replica, which is closed."""
        self._note(self._homes, key, None)
        self._note(self._futures, key, None)

    def _note(
        self, table: dict[TopicPartition, LogDirectory], key: TopicPartition, directory: LogDirectory | None
    ) -> None:
        before = table.pop(key, None)
        if before is not None:
            self._counts[before.path] -= 1
        if directory is not None:
            table[key] = directory
            self._counts[directory.path] += 1

    def prefer(self, key: TopicPartition, directory: LogDirectory) -> None:
        """Choose the directory of a replica that is created later."""
        self._preferred[key] = directory

    def find(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, list[LogDirectory]]:
        """Note the directories that have folders of these partitions.

        Returns:
            the partitions with folders in several directories; none of these is noted.
        """
        wanted = {folder_name(key): key for key in keys}
        found: dict[TopicPartition, list[LogDirectory]] = {}
        for directory in self.online:
            for folder in directory.storage.folders():
                key = wanted.get(folder)
                if key is not None:
                    found.setdefault(key, []).append(directory)
        for key, homes in found.items():
            if len(homes) == 1:
                self.set_home(key, homes[0])
        return {key: homes for key, homes in found.items() if len(homes) > 1}

    def place(self, key: TopicPartition) -> LogDirectory:
        """Return the directory of a replica; a new one goes to the directory with the fewest replicas."""
        home = self._homes.get(key)
        if home is None:
            home = self._preferred.pop(key, None) or self._emptiest()
            self.set_home(key, home)
        return home

    def _emptiest(self) -> LogDirectory:
        candidates = self.online or list(self.all)
        if len(candidates) == 1:
            return candidates[0]
        candidates = [one for one in candidates if not self.is_cordoned(one)] or candidates
        return min(candidates, key=lambda directory: self._counts[directory.path])

    def close(self) -> None:
        """Close all storages, so that another broker may use them."""
        for directory in self.all:
            directory.storage.close()


def future_folders(directory: LogDirectory) -> dict[TopicPartition, str]:
    """Return the folders of copies that were to replace replicas, by partition."""
    found = {}
    for name in directory.storage.folders():
        folder = parse_folder(name)
        if folder is not None and folder.state is FolderState.FUTURE:
            found[TopicPartition(folder.topic, folder.partition)] = name
    return found
