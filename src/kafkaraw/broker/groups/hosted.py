"""A group coordinator on a partition of `__consumer_offsets`: its journal in the log, and its view of the catalog.

`GroupNode` imports this module when it leads the first such partition, so that a broker without groups never loads the
coordinator. Start at `HostedCoordinator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkaraw.broker.coordinator_runtime.coordinator_log import CoordinatorLog
from kafkaraw.broker.coordinator_runtime.timers import Timers
from kafkaraw.broker.groups.assignors import PartitionsByTopic
from kafkaraw.broker.groups.coordinator import GroupCoordinator
from kafkaraw.broker.groups.records import GroupRecord, decode_record, encode_record
from kafkaraw.broker.groups.runtime import Batch, Done
from kafkaraw.broker.groups.share import Failure, Failures, StartOffsets, StateSummary
from kafkaraw.broker.shares.state import ShareKey
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import Uuid
from kafkaraw.records import ControlType

if TYPE_CHECKING:
    from kafkaraw.broker.shares.coordinator import Outcome
    from kafkaraw.broker.shares.node import Operation, ShareNode
    from kafkaraw.broker.topics.catalog import Catalog


class HostedCoordinator(NamedTuple):
    """A coordinator and its timers."""

    coordinator: GroupCoordinator
    timers: Timers


class KnownTopics:
    """The catalog's topics; implements `runtime.Topics`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @property
    def version(self) -> int:
        """Version of the topics, incremented at each change."""
        return self._catalog.version

    def find(self, name: str) -> tuple[Uuid, int] | None:
        """Return the id and the number of partitions of a topic."""
        topic = self._catalog.topic(name)
        return None if topic is None else (topic.topic_id, topic.partitions_count)

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic."""
        topic = self._catalog.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def names(self) -> list[str]:
        """Return all topic names, in order."""
        return [topic.name for topic in self._catalog.topics()]


class ShareStatesOfNode:
    """The share coordinators of the cluster, as `share.ShareStates`.

    Args:
        node: the node's access to them.
    """

    def __init__(self, node: ShareNode) -> None:
        self._node = node

    def initialize(
        self, group_id: str, state_epoch: int, offsets: StartOffsets, done: Callable[[Failures], None]
    ) -> None:
        """Initialize states; see `share.ShareStates`."""
        wanted = {
            ShareKey(group_id, topic_id, partition): offset
            for topic_id, each in offsets.items()
            for partition, offset in each.items()
        }
        operations: dict[ShareKey, Operation] = {key: _initializing(key, state_epoch, at) for key, at in wanted.items()}
        self._node.ask_each(operations, lambda outcomes: done(_failures(outcomes)))

    def delete(self, group_id: str, parts: PartitionsByTopic, done: Callable[[Failures], None]) -> None:
        """Delete states; see `share.ShareStates`."""
        operations: dict[ShareKey, Operation] = {key: _deleting(key) for key in _keys(group_id, parts)}
        self._node.ask_each(operations, lambda outcomes: done(_failures(outcomes)))

    def summaries(
        self,
        group_id: str,
        parts: PartitionsByTopic,
        done: Callable[[Mapping[tuple[Uuid, int], StateSummary | Failure]], None],
    ) -> None:
        """Read the start offsets; see `share.ShareStates`."""
        operations: dict[ShareKey, Operation] = {key: _summarizing(key) for key in _keys(group_id, parts)}
        self._node.ask_each(
            operations,
            lambda outcomes: done({(key.topic_id, key.partition): _summary(each) for key, each in outcomes.items()}),
        )


def _keys(group_id: str, parts: PartitionsByTopic) -> list[ShareKey]:
    return [ShareKey(group_id, topic_id, partition) for topic_id, each in parts.items() for partition in sorted(each)]


def _initializing(key: ShareKey, state_epoch: int, offset: int) -> Operation:
    return lambda coordinator, done: coordinator.initialize(key, state_epoch, offset, done)


def _deleting(key: ShareKey) -> Operation:
    return lambda coordinator, done: coordinator.delete(key, done)


def _summarizing(key: ShareKey) -> Operation:
    return lambda coordinator, done: done(coordinator.summary(key))


def _failures(outcomes: Mapping[ShareKey, Outcome]) -> Failures:
    return {
        (key.topic_id, key.partition): Failure(outcome.code, outcome.message)
        for key, outcome in outcomes.items()
        if outcome.code
    }


def _summary(outcome: Outcome) -> StateSummary | Failure:
    if outcome.state is None:
        return Failure(outcome.code, outcome.message)
    return StateSummary(outcome.state.start_offset, outcome.state.leader_epoch, outcome.state.complete_count)


class PartitionJournal:
    """The log of a partition, as `runtime.Journal`."""

    def __init__(self, log: CoordinatorLog) -> None:
        self._log = log

    def append(self, records: Sequence[GroupRecord], producer: tuple[int, int]) -> int:
        """Append records; returns the position behind them."""
        return self._log.append([encode_record(record) for record in records], producer=producer)

    def when_replicated(self, position: int, done: Done) -> None:
        """Call `done` when the records before a position are replicated, or with the error that prevents it."""
        self._log.when_replicated(position, done)

    def read(self) -> Iterator[Batch]:
        """Return the batches of the log, without records of unknown kinds.

        Raises:
            OSError: the storage is broken.
        """
        for found in self._log.read(lambda record: decode_record(record.key or b"", record.value)):
            producer_id = found.header.producer_id if found.header.is_transactional else -1
            if found.control is not None:
                yield Batch(producer_id, (), found.control is ControlType.COMMIT)
            else:
                yield Batch(producer_id, found.records)
