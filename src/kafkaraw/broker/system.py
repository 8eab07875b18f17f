"""The real world for a broker: the one module here that chooses clock, randomness, network and storage.

Nothing else in this package may reach for them.
"""

from __future__ import annotations

import secrets

from kafkaraw.broker.config import BrokerConfig
from kafkaraw.broker.faults import Faults
from kafkaraw.broker.log.file_storage import FileStorage
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import LogStorage
from kafkaraw.broker.server import BrokerNode
from kafkaraw.net import AsyncioNetwork, SystemClock


def real_node(config: BrokerConfig, faults: Faults | None = None, max_versions: str | None = None) -> BrokerNode:
    """A broker on this machine's TCP, its clock, and the directory of `log.dirs` (or memory, without one).

    Raises:
        ConfigError: the directory cannot be used.
    """
    storage: LogStorage = MemoryStorage() if config.log_dir is None else FileStorage(config.log_dir)
    return BrokerNode(
        config,
        network=AsyncioNetwork(),
        storage=storage,
        clock=SystemClock(),
        rng=secrets.SystemRandom(),
        faults=faults,
        max_versions=max_versions,
    )
