"""A share coordinator on a partition of `__share_group_state`: its log, and its view of the catalog.

`ShareNode` imports this module when it leads the first such partition. Start at `host`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.coordinator_runtime.coordinator_log import CoordinatorLog
from kafkaraw.broker.shares.coordinator import ShareCoordinator
from kafkaraw.broker.shares.state import ShareRecord, decode_record, encode_record
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.printable import printable
from kafkaraw.records import Record

if TYPE_CHECKING:
    from kafkaraw.broker.partitions.partition import Partition
    from kafkaraw.broker.topics.catalog import Catalog
    from kafkaraw.net import Clock

# A coordinator whose log refuses a write answers with these: the operation is tried again elsewhere.
_CODES_OF_LOG: Final = {
    ErrorCode.NONE: ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}

_logger = logging.getLogger("kafkaraw.broker.shares")


class HostedShareCoordinator(NamedTuple):
    """A coordinator and the partition of its log."""

    coordinator: ShareCoordinator
    partition: Partition

    def prune(self, cold_interval_ms: int) -> None:
        """Delete the records of the log that no later load needs (KIP-932)."""
        self.coordinator.snapshot_cold(cold_interval_ms)
        needed = self.coordinator.needed_from()
        if needed is None or needed <= self.partition.log.log_start_offset:
            return
        try:
            self.partition.delete_records(min(needed, self.partition.high_watermark))
        except (ApiError, OSError) as error:
            _logger.warning("%s cannot be pruned: %s", self.partition.log.folder, printable(str(error)))


class PartitionStateLog:
    """The log of a partition, as `coordinator.StateLog`."""

    def __init__(self, log: CoordinatorLog) -> None:
        self._log = log

    def append(self, record: ShareRecord, done: Callable[[ErrorCode], None]) -> int | None:
        """Write a record; see `coordinator.StateLog`."""
        try:
            position = self._log.append([encode_record(record)])
        except ApiError as error:
            done(_CODES_OF_LOG.get(error.code, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return None
        self._log.when_replicated(
            position, lambda code: done(_CODES_OF_LOG.get(code, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        )
        return position - 1

    def read(self) -> list[tuple[int, ShareRecord]]:
        """Return the records of the log with their offsets.

        Raises:
            OSError: the storage is broken.
        """
        return [found for batch in self._log.read(_decoded) for found in batch.records]


class KnownPartitions:
    """The catalog's topics; implements `coordinator.PartitionCounts`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def partitions_of(self, topic_id: Uuid) -> int | None:
        """Return the number of partitions of a topic; None if it does not exist."""
        topic = self._catalog.topic_by_id(topic_id)
        return None if topic is None else topic.partitions_count


def host(
    partition: Partition, catalog: Catalog, clock: Clock, updates_per_snapshot: int
) -> tuple[HostedShareCoordinator, Callable[[], None]]:
    """Return the coordinator of a partition of `__share_group_state`, and the callable that loads its states.

    Raises:
        OSError: the log cannot be read.
    """
    log = PartitionStateLog(CoordinatorLog(partition, clock.time_ms))
    coordinator = ShareCoordinator(log, KnownPartitions(catalog), clock.time_ms, updates_per_snapshot)
    found = log.read()
    return HostedShareCoordinator(coordinator, partition), lambda: coordinator.load(found)


def _decoded(record: Record) -> tuple[int, ShareRecord] | None:
    decoded = decode_record(record.key or b"", record.value)
    return None if decoded is None else (record.offset, decoded)
