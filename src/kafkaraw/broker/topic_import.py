"""`TopicImport`: fills a data directory with topics whose records keep their offsets, without a network.

The directory belongs to a cluster of one node, and no broker uses it meanwhile. Each partition takes batches as a
follower takes those of its leader, so the log, its indexes and its checkpoints are those of the broker. Batches must
not name a producer: the producer state of the source is not here, and a transaction without it would never end.

Start at `TopicImport.open`; `kafkaraw.mirror.snapshot` calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaraw.broker.configs import topic_config
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.ids import RandomBits
from kafkaraw.broker.log.directories import LogDirectory
from kafkaraw.broker.partitions.followers import Batches, OffsetOutOfRange
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.settings import LONG_MAX
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Broker
from kafkaraw.broker.topics.topic_creation import Plan
from kafkaraw.errors import ConfigError
from kafkaraw.net import Clock
from kafkaraw.protocol import Uuid
from kafkaraw.records import TopicPartition

LEADER_EPOCH: Final = 0
"""The leader epoch of batches that are imported: the partitions of a new topic are in their first epoch."""


class TopicImport:
    """Writes topics into a data directory.

    Args:
        directory: the directory, empty.
        clock: wall clock.
        rng: source of random ids.
    """

    def __init__(self, directory: LogDirectory, clock: Clock, rng: RandomBits) -> None:
        self._state = BrokerState(BrokerConfig.parse(), (directory,), clock, rng)

    def open(self) -> None:
        """Format the directory for a new cluster.

        Raises:
            ConfigError: the directory has files of something else.
            OSError: it cannot be written.
        """
        self._state.open()
        node_id = self._state.node_id
        self._state.controller.brokers_up([Broker(node_id, {})])  # partitions of new topics get leaders

    def create_topic(self, name: str, topic_id: Uuid, partitions_count: int, configs: Mapping[str, str]) -> list[str]:
        """Create a topic.

        Args:
            name: its name.
            topic_id: its id; zero, or the id of another topic, for a new one.
            partitions_count: number of partitions.
            configs: its settings; those that this broker does not accept are left out.

        Returns:
            The settings that were left out, each with the reason.

        Raises:
            OSError: the storage is full or broken.
        """
        kept: dict[str, str] = {}
        refused: list[str] = []
        for config, value in configs.items():
            try:
                topic_config.check({**kept, config: value})
            except ConfigError as error:
                refused.append(str(error))
            else:
                kept[config] = value
        assignments = ((self._state.node_id,),) * partitions_count
        self._state.controller.create_topic(Plan(name, assignments, kept), topic_id)
        return refused

    def begin(self, key: TopicPartition, offset: int) -> None:
        """Make an empty partition start at an offset.

        Raises:
            OSError: the storage is full or broken.
        """
        if offset:
            self._partition(key).take(OffsetOutOfRange(offset))

    def append(self, key: TopicPartition, batches: bytes | bytearray, log_start_offset: int) -> int:
        """Append batches with their offsets, which increase and may have gaps.

        Args:
            key: the partition.
            batches: whole batches of `LEADER_EPOCH` without producers, one after the other.
            log_start_offset: the first offset that can be read; within the first batch, or before it.

        Returns:
            The log end offset.

        Raises:
            OSError: the storage is full or broken.
        """
        partition = self._partition(key)
        partition.take(Batches(bytes(batches), LONG_MAX, log_start_offset))
        return partition.log.log_end_offset

    def _partition(self, key: TopicPartition) -> Partition:
        partition = self._state.partition(key)
        assert partition is not None, key
        return partition

    def close(self) -> None:
        """Sync all logs and write the checkpoints: the next broker opens the directory as after a clean shutdown.

        Raises:
            OSError: a log cannot be synced.
        """
        for partition in self._state.replicas():
            partition.log.flush()  # before `close`, which would only log that
        self._state.close()

    def abandon(self) -> None:
        """Close the files; the directory is of no use."""
        self._state.close(sync=False)
