"""One partition on the node that leads it: its log, its producers, and the fetches that wait for new records.

Start at `Partition.append`. It knows nothing of requests; handlers ask it and put its answers into responses.
Source: kafka.cluster.Partition, UnifiedLog.append.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from kafkaraw.broker.batch_checks import check_records
from kafkaraw.broker.log.partition_log import PartitionLog
from kafkaraw.broker.log.storage import LogStorage
from kafkaraw.broker.producers import NO_PRODUCER_ID, ProducerTable
from kafkaraw.broker.recompression import recompressed
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.topic_config import PRODUCER, TopicConfig
from kafkaraw.net import Clock
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import BatchHeader, TopicPartition, parse_header, patch_header

_logger = logging.getLogger("kafkaraw.broker")


class AppendWatcher(Protocol):
    """Whoever waits for records in a partition."""

    def appended(self, size_bytes: int) -> None:
        """A batch of that size was appended."""
        ...

    def removed(self) -> None:
        """The partition is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a batch is.

    Attributes:
        base_offset: offset of its first record.
        log_append_time_ms: the broker's timestamp; -1 when records keep the producer's.
    """

    base_offset: int
    log_append_time_ms: int = -1


class Partition:
    """A partition that this node leads.

    Args:
        topic_partition: its name.
        storage: where its log is.
        config: the topic's settings in effect.
        clock: wall clock.
        producer_expiration_ms: when an idle producer's sequences are forgotten.
        leader_epoch: written into batches, told to clients.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        storage: LogStorage,
        config: TopicConfig,
        clock: Clock,
        *,
        producer_expiration_ms: int,
        leader_epoch: int = 0,
    ) -> None:
        self.topic_partition = topic_partition
        self.config = config
        self.leader_epoch = leader_epoch
        self.log = PartitionLog(storage, folder_name(topic_partition), segment_bytes=config.segment_bytes)
        self.producers = ProducerTable(producer_expiration_ms)
        self._clock = clock
        # A dict, because its order is that of arrival: a set's order would differ from run to run.
        self._watchers: dict[AppendWatcher, None] = {}

    def open(self) -> None:
        """Read the log; what it says about producers is remembered."""
        now_ms = self._clock.time_ms()
        self.log.open(lambda header: self.producers.note(header, now_ms))

    @property
    def high_watermark(self) -> int:
        """The offset up to which consumers may read: everything, as there is one replica."""
        return self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which read_committed consumers may read: there are no open transactions."""
        return self.log.log_end_offset

    def append(self, records: memoryview | None, *, version: int) -> Appended:
        """Check one batch from a producer and append it.

        Args:
            records: the `records` field of a Produce request; patched in place where it is writable.
            version: of the Produce request.

        Raises:
            Refusal: with the code that the producer is to see.
        """
        now_ms = self._clock.time_ms()
        header = check_records(records, self.config, version=version, now_ms=now_ms)
        assert records is not None
        if header.producer_id != NO_PRODUCER_ID:
            old = self.producers.check(header)
            if old is not None:
                return Appended(old.base_offset, old.max_timestamp_ms if self.config.stamps_on_append else -1)
        batch = self._stored_form(records, header)
        return self._write(batch, now_ms)

    def _stored_form(self, records: memoryview, header: BatchHeader) -> memoryview:
        if self.config.compression_type != PRODUCER:
            records = recompressed(records, header, self.config.compression_type, self.config.compression_level)
        if len(records) > self.config.segment_bytes:
            raise Refusal(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"the batch has {len(records)} bytes, segment.bytes is {self.config.segment_bytes}",
            )
        return memoryview(bytearray(records)) if records.readonly else records

    def _write(self, batch: memoryview, now_ms: int) -> Appended:
        append_time = now_ms if self.config.stamps_on_append else None
        patch_header(
            batch,
            base_offset=self.log.log_end_offset,
            partition_leader_epoch=self.leader_epoch,
            max_timestamp=append_time,
        )
        header = parse_header(batch)
        try:
            self.log.append(batch)
            self.producers.note(header, now_ms)
            if self.log.unsynced_records >= self.config.flush_messages:
                self.log.sync()
        except OSError as error:
            name = folder_name(self.topic_partition)
            _logger.error("%s cannot be written: %s", name, error)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} cannot be written: {error.strerror}") from error
        for watcher in list(self._watchers):
            watcher.appended(header.size)
        return Appended(header.base_offset, -1 if append_time is None else append_time)

    def watch(self, watcher: AppendWatcher) -> None:
        """Tell `watcher` about appends."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: AppendWatcher) -> None:
        """Tell it no longer."""
        self._watchers.pop(watcher, None)

    def close(self, *, sync: bool) -> None:
        """Let go of the files; with `sync`, after what was written is there for good."""
        if sync:
            self.log.sync()
        self.log.close()

    def remove(self) -> None:
        """Let go of the files of a topic that is being deleted; whoever waits is told."""
        self.log.close()
        for watcher in list(self._watchers):
            watcher.removed()


def folder_name(topic_partition: TopicPartition) -> str:
    """The name of a partition's folder in the data directory."""
    return f"{topic_partition.topic}-{topic_partition.partition}"
