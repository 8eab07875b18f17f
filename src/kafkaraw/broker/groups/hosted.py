"""A group coordinator on a partition of `__consumer_offsets`: its journal in the log, and its view of the catalog.

`GroupNode` imports this module when it leads the first such partition, so that a broker without groups never loads the
coordinator. Start at `HostedCoordinator`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafkaraw.broker.coordinator_runtime.coordinator_log import CoordinatorLog
from kafkaraw.broker.groups.coordinator import GroupCoordinator
from kafkaraw.broker.groups.records import GroupRecord, decode_record, encode_record
from kafkaraw.broker.groups.runtime import Batch, Done
from kafkaraw.broker.groups.timers import Timers
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import Uuid
from kafkaraw.records import ControlType

if TYPE_CHECKING:
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
