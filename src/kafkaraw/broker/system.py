"""The one module of this package that chooses the real clock, randomness, network and storage.

Other modules take them as arguments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kafkaraw.broker.cluster import Cluster, Surroundings
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.faults import Faults
from kafkaraw.broker.log.dir_failures import FailedStorage
from kafkaraw.broker.log.directories import IN_MEMORY, LogDirectory, Storages, Volume
from kafkaraw.broker.log.memory_storage import Descriptors, MemoryStorage
from kafkaraw.broker.log.storage import LogStorage
from kafkaraw.broker.server import BrokerNode
from kafkaraw.core.log.directories import Listing, check_directories
from kafkaraw.core.log.names import META_PROPERTIES_FILE
from kafkaraw.errors import ConfigError
from kafkaraw.net import AsyncioNetwork, SystemClock
from kafkaraw.net.listener import HeldPort

if TYPE_CHECKING:
    from secrets import SystemRandom

    from kafkaraw.broker.kafka_export import Exported
    from kafkaraw.broker.topic_import import TopicImport


def real_node(config: BrokerConfig, faults: Faults | None = None, max_versions: str | None = None) -> BrokerNode:
    """A broker on this machine's TCP, its clock, and the directories of `log.dirs` (or memory, without any).

    Raises:
        ConfigError: a directory cannot be used; none is changed.
    """
    return BrokerNode(
        config,
        network=AsyncioNetwork(),
        storage=_opened(config.logs.directories, config.node_id, read_only=config.read_only)
        if config.logs.directories
        else _in_memory(),
        clock=SystemClock(),
        rng=_system_random(),
        faults=faults,
        max_versions=max_versions,
    )


def real_cluster(
    node_ids: Sequence[int],
    config_of: Callable[[int], BrokerConfig],
    data_dirs: Sequence[str],
    faults: Faults | None = None,
    max_versions: str | None = None,
) -> Cluster:
    """Several brokers, in directories (or in memory, without any): a folder for each node, facts in the first one.

    Raises:
        ConfigError: a directory cannot be used.
    """
    in_memory: dict[int, Sequence[LogDirectory]] = {}
    descriptors = Descriptors()

    def storage_of(node_id: int) -> Storages:
        if not data_dirs:
            return in_memory.setdefault(node_id, _in_memory(descriptors))
        return _opened([os.path.join(path, f"node-{node_id}") for path in data_dirs], node_id)

    around = Surroundings(
        network=AsyncioNetwork(),
        storage_of=storage_of,
        facts=_facts(data_dirs[0]) if data_dirs else MemoryStorage(descriptors),
        clock=SystemClock(),
        rng=_system_random(),
        hold_port=HeldPort,
    )
    return Cluster(node_ids, config_of, around, faults=faults, max_versions=max_versions)


def real_export(directory: str | os.PathLike[str]) -> Exported:
    """Hand the data directory of a stopped broker over to Apache Kafka; see `kafka_export`.

    Raises:
        ConfigError: the directory cannot be exported, or a broker uses it.
        OSError: a file cannot be read or written.
    """
    from kafkaraw.broker.kafka_export import export  # only for that command
    from kafkaraw.broker.log.file_storage import FileStorage

    if not os.path.exists(os.path.join(directory, META_PROPERTIES_FILE)):
        raise ConfigError(f"{directory} has no {META_PROPERTIES_FILE}: give the data directory of a kafkaraw broker")
    storage = FileStorage(directory)
    try:
        return export(storage, SystemClock().time_ms(), _system_random())
    finally:
        storage.close()


def real_import(directory: str | os.PathLike[str]) -> TopicImport:
    """Return an import of topics into a directory of this machine, which is made if it does not exist.

    Raises:
        ConfigError: the directory cannot be used, or a broker uses it.
    """
    from kafkaraw.broker.log.file_storage import FileStorage  # only for that command
    from kafkaraw.broker.topic_import import TopicImport

    path = os.path.abspath(directory)
    return TopicImport(LogDirectory(path, FileStorage(path)), SystemClock(), _system_random())


def _in_memory(descriptors: Descriptors | None = None) -> tuple[LogDirectory, ...]:
    return (LogDirectory(IN_MEMORY, MemoryStorage(descriptors), delays_deletion=False),)


def _opened(paths: Sequence[str], node_id: int, *, read_only: bool = False) -> tuple[LogDirectory, ...]:
    """Open the directories of a node, after a look at all of them.

    As in Kafka, one whose disk has failed is offline, while there are others (`LogManager.createAndValidateLogDirs`).

    Raises:
        ConfigError: a directory may not be used, or none can be.
    """
    from kafkaraw.broker.log.file_storage import (  # only for brokers that keep their topics on disk
        FileStorage,
        UnusableDirectoryError,
    )
    from kafkaraw.broker.log.read_only_storage import ReadOnlyStorage

    places = [os.path.abspath(path) for path in paths]
    doubled = [path for path in places if places.count(path) > 1]
    if doubled:
        raise ConfigError(f"log.dirs: {doubled[0]} is listed twice; each directory can be listed once")
    failures: dict[str, UnusableDirectoryError] = {}
    listings = []
    for path in places:
        try:
            listings.append(_listing(path))
        except OSError as error:
            failures[path] = UnusableDirectoryError(path, error)
    found = check_directories(listings, node_id)
    if read_only and None in found:
        raise ConfigError(
            f"read.only: {listings[found.index(None)].path} has no {META_PROPERTIES_FILE}, so it is no data directory "
            "to serve"
        )
    storages: dict[str, LogStorage] = {}
    try:
        for path in [listing.path for listing in listings]:
            try:
                storages[path] = ReadOnlyStorage(path) if read_only else FileStorage(path)
            except UnusableDirectoryError as failure:
                failures[path] = failure
        if failures and (read_only or not storages):
            raise next(iter(failures.values()))
    except ConfigError:
        for storage in storages.values():
            storage.close()
        raise
    storages |= {path: FailedStorage(failure.error) for path, failure in failures.items()}
    return tuple(LogDirectory(path, storages[path], partial(_volume, path)) for path in places)


def _facts(path: str) -> LogStorage:
    """Open the directory of the metadata that the nodes of a cluster share.

    Raises:
        ConfigError: it is the directory of a single broker, or cannot be used.
    """
    from kafkaraw.broker.log.file_storage import FileStorage  # as in `_opened`

    if os.path.exists(os.path.join(path, META_PROPERTIES_FILE)):
        raise ConfigError(
            f"data_dir: {path} is the directory of a single broker; start it without several nodes, or choose another "
            "directory"
        )
    return FileStorage(path)


def _listing(path: str) -> Listing:
    """Return what lies in a directory, before it is opened; a directory that does not exist yet is empty.

    Raises:
        OSError: it is no directory, or cannot be read.
    """
    meta = None
    try:
        with os.scandir(path) as entries:
            found = {entry.name: entry.is_dir() for entry in entries}
        if META_PROPERTIES_FILE in found:
            with open(os.path.join(path, META_PROPERTIES_FILE), encoding="utf-8", errors="replace") as file:
                meta = file.read()
    except FileNotFoundError:
        found = {}
    folders = [name for name, is_folder in found.items() if is_folder]
    return Listing(path, folders, [name for name in found if name not in folders], meta)


def _volume(path: str) -> Volume:
    """Return the size of the file system of a directory, and what this process may use of it."""
    try:
        found = os.statvfs(path)
    except OSError:
        return Volume()
    return Volume(found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail)


def _system_random() -> SystemRandom:
    from secrets import SystemRandom  # here, for it brings hmac and hashlib with it

    return SystemRandom()
