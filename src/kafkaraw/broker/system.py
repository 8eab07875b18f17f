"""The one module of this package that chooses the real clock, randomness, network and storage.

Other modules take them as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kafkaraw.broker.cluster import Cluster, Surroundings
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.faults import Faults
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import LogStorage
from kafkaraw.broker.server import BrokerNode
from kafkaraw.net import AsyncioNetwork, SystemClock
from kafkaraw.net.listener import HeldPort

if TYPE_CHECKING:
    from pathlib import Path
    from secrets import SystemRandom


def real_node(config: BrokerConfig, faults: Faults | None = None, max_versions: str | None = None) -> BrokerNode:
    """A broker on this machine's TCP, its clock, and the directory of `log.dirs` (or memory, without one).

    Raises:
        ConfigError: the directory cannot be used.
    """
    directories = config.logs.directories
    storage: LogStorage = _files(directories[0]) if directories else MemoryStorage()
    return BrokerNode(
        config,
        network=AsyncioNetwork(),
        storage=storage,
        clock=SystemClock(),
        rng=_system_random(),
        faults=faults,
        max_versions=max_versions,
    )


def real_cluster(
    node_ids: Sequence[int],
    config_of: Callable[[int], BrokerConfig],
    data_dir: Path | None,
    faults: Faults | None = None,
    max_versions: str | None = None,
) -> Cluster:
    """Several brokers, in a directory (or in memory, without one): a folder for each node, facts at its root.

    Raises:
        ConfigError: the directory cannot be used.
    """
    in_memory: dict[int, MemoryStorage] = {}

    def storage_of(node_id: int) -> LogStorage:
        if data_dir is None:
            return in_memory.setdefault(node_id, MemoryStorage())
        return _files(data_dir / f"node-{node_id}")

    around = Surroundings(
        network=AsyncioNetwork(),
        storage_of=storage_of,
        facts=MemoryStorage() if data_dir is None else _files(data_dir),
        clock=SystemClock(),
        rng=_system_random(),
        hold_port=HeldPort,
    )
    return Cluster(node_ids, config_of, around, faults=faults, max_versions=max_versions)


def _files(directory: str | Path) -> LogStorage:
    from kafkaraw.broker.log.file_storage import FileStorage  # only for brokers that keep their topics on disk

    return FileStorage(directory)


def _system_random() -> SystemRandom:
    from secrets import SystemRandom  # here, for it brings hmac and hashlib with it

    return SystemRandom()
