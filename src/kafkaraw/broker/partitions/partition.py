"""One replica of a partition on a node: the leader or a follower.

The leader validates and appends batches of producers (`check`, `append`), notifies watchers of readable bytes, answers
the fetches of followers (`answer_follower`) and advances the high watermark. A follower copies the log of its leader
(`take`). A partition does not know requests; handlers call it and build the responses.
Source: kafka.cluster.Partition, UnifiedLog.append.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.log.directories import folder_name
from kafkaraw.broker.log.log_loader import StoppedAs
from kafkaraw.broker.log.partition_log import PartitionLog
from kafkaraw.broker.log.storage import Content, LogStorage
from kafkaraw.broker.partitions.elections import NO_LEADER, PartitionState
from kafkaraw.broker.partitions.followers import (
    Batches,
    DivergingEpoch,
    Followers,
    IsrKeeper,
    OffsetOutOfRange,
    ReplicaFetch,
    ReplicaFetchResult,
)
from kafkaraw.broker.partitions.open_transactions import OpenTransactions
from kafkaraw.broker.partitions.producers import ProducerTable
from kafkaraw.broker.turns import Steps, run_to_end
from kafkaraw.broker.validation.log_validator import validated
from kafkaraw.core.log.cleaner import LastRecord
from kafkaraw.core.log.indexes import AbortedTransaction
from kafkaraw.core.log.leader_epochs import UNKNOWN_END, EpochEnd
from kafkaraw.core.log.producer_snapshot import ProducerSnapshot
from kafkaraw.core.log.retention import Retention, expired_segments
from kafkaraw.errors import CorruptBatchError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.net import Clock
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import (
    DECOMPRESSED_SIZE_MAX_BYTES,
    BatchHeader,
    Marker,
    TopicPartition,
    iter_headers,
    marker_of,
    patch_header,
    unpack_header,
)

ALL_IN_SYNC: Final = -1
"""Value of `acks`: acknowledge a batch when all in-sync replicas have it."""
ONE: Final = 1
HIGH_WATERMARK: Final = -1
"""Offset in DeleteRecords requests that means the high watermark."""
FOLLOWER_FETCH_BYTES: Final = 1_048_576  # replica.fetch.max.bytes

_logger = logging.getLogger("kafkaraw.broker")


class Watcher(Protocol):
    """Waits for changes of a partition."""

    def readable(self, size_bytes: int) -> None:
        """Called when the high watermark has advanced by this number of bytes."""
        ...

    def ended(self) -> None:
        """Called when this node is no longer the leader, or leads in a new epoch, or the partition is deleted."""
        ...


class Checked(NamedTuple):
    """A producer's batch as it will be stored, with the header that the producer sent."""

    batch: memoryview
    header: BatchHeader


class Appended(NamedTuple):
    """The offsets and the timestamp of an appended batch.

    Attributes:
        base_offset: offset of its first record.
        next_offset: the offset after its last record.
        log_append_time_ms: the broker's timestamp; -1 if the records keep the producer's timestamps.
    """

    base_offset: int
    next_offset: int
    log_append_time_ms: int = -1


class Partition:
    """One replica.

    Args:
        topic_partition: topic and number of the partition.
        node_id: id of the node with this replica.
        storage: storage of its log.
        config: the topic's settings in effect.
        clock: wall clock.
        isr_keeper: notified of followers that have caught up or lag.
        producer_expiration_ms: time after which the state of an idle producer is removed, in milliseconds.
        lag_max_ms: how long an in-sync follower may lag, in milliseconds.
        reads_all_records: validate every record of every batch, even if the topic's settings do not require it.

    Attributes:
        on_start_moved: called when the log start offset has increased.
        is_offline: its log directory has failed; the broker neither reads nor writes its log.
    """

    def __init__(  # noqa: PLR0913  # what it depends on, and what of it is configured
        self,
        topic_partition: TopicPartition,
        node_id: int,
        storage: LogStorage,
        config: TopicConfig,
        clock: Clock,
        isr_keeper: IsrKeeper,
        *,
        producer_expiration_ms: int,
        lag_max_ms: int = 30_000,
        reads_all_records: bool = False,
    ) -> None:
        self.topic_partition = topic_partition
        self.node_id = node_id
        self.config: TopicConfig = config
        self.state: PartitionState = PartitionState((node_id,), NO_LEADER, (node_id,))
        self.transactions: OpenTransactions = OpenTransactions()
        # Not a function that refers to this partition: such a cycle would keep it until the garbage collector runs.
        self.producers: ProducerTable = ProducerTable(producer_expiration_ms, self.transactions.first_offset_of)
        self._clock = clock
        self.log: PartitionLog = self.new_log(storage, folder_name(topic_partition))
        self._isr_keeper = isr_keeper
        self.on_start_moved: Callable[[], None] = lambda: None
        self.is_offline = False
        self._lag_max_s = lag_max_ms / 1000
        self._reads_all_records = reads_all_records
        self._high_watermark = 0
        self._epoch_start_offset = 0
        self._followers: Followers | None = None
        self._waiting_followers: dict[int, Callable[[], None]] = {}
        self._lag_timer: asyncio.TimerHandle | None = None
        # A dict, because it keeps the order of insertion; the order of a set would differ between runs.
        self._watchers: dict[Watcher, None] = {}

    def open(self, high_watermark: int = 0, stopped: StoppedAs | None = None) -> None:
        """Run `opening` to its end immediately."""
        run_to_end(self.opening(high_watermark, stopped))

    def opening(self, high_watermark: int = 0, stopped: StoppedAs | None = None) -> Steps[None]:
        """Open the log, and restore the producer state.

        Args:
            high_watermark: the high watermark of the checkpoint.
            stopped: how the broker stopped that wrote the log; None: unclean, and nothing is known.

        Raises:
            OSError: the storage is full or broken.
        """
        yield from self.log.opening(stopped)
        self._read_producers()
        self._high_watermark = min(max(high_watermark, self.log.log_start_offset), self.log.log_end_offset)

    def reconfigure(self, config: TopicConfig, producer_expiration_ms: int) -> None:
        """Apply changed settings; they hold for batches appended from now on."""
        self.config = config
        self.log.settings = config.segments
        self.producers.expiration_ms = producer_expiration_ms
        if self.is_leader:
            self._advance()  # fewer in-sync replicas may be enough now

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this replica is the leader."""
        return self.state.leader == self.node_id

    @property
    def leader_epoch(self) -> int:
        """The leader epoch, incremented at each change of leader; stored in batches and sent to clients."""
        return self.state.leader_epoch

    @property
    def high_watermark(self) -> int:
        """The offset up to which consumers may read: all in-sync replicas have the records before it."""
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which read_committed consumers may read: no open transaction has records before it."""
        return self.transactions.last_stable_offset(self._high_watermark)

    @property
    def high_watermark_is_behind(self) -> bool:
        """Whether this new leader does not know the high watermark of the previous leader yet."""
        return self._high_watermark < self._epoch_start_offset

    def end_for(self, *, committed_only: bool) -> int:
        """Return the offset up to which a consumer may read."""
        return self.last_stable_offset if committed_only else self._high_watermark

    def read(self, offset: int, size_max: int, *, at_least_one: bool, committed_only: bool = False) -> Content | None:
        """Return the batches that a consumer may read, starting with the one that contains `offset`; None for none.

        Raises:
            ApiError: CORRUPT_MESSAGE or KAFKA_STORAGE_ERROR, the log cannot be read there.
        """
        end_offset = self.end_for(committed_only=committed_only)
        if offset >= end_offset:
            return None
        try:
            return self.log.read(offset, size_max, at_least_one=at_least_one, end_offset=end_offset)
        except (OSError, CorruptBatchError) as error:
            raise self._not_read(offset, error) from error

    def aborted_transactions(self, offset: int, size_bytes: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in what `read` has returned; see `PartitionLog`.

        Raises:
            ApiError: CORRUPT_MESSAGE or KAFKA_STORAGE_ERROR, the log cannot be read there.
        """
        try:
            return self.log.aborted_transactions(offset, size_bytes)
        except (OSError, CorruptBatchError) as error:
            raise self._not_read(offset, error) from error

    def _not_read(self, offset: int, error: OSError | CorruptBatchError) -> ApiError:
        """Return the error that a consumer gets when the log cannot be read."""
        _logger.error("%s cannot be read at offset %d: %s", self.log.folder, offset, error)
        if isinstance(error, OSError):
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log cannot be read: {error.strerror}")
        return ApiError(ErrorCode.CORRUPT_MESSAGE, error.message)

    def readable_bytes(self, offset: int, *, committed_only: bool = False) -> int:
        """Return the number of bytes that a consumer may read, starting with the batch that contains `offset`."""
        return self.log.bytes_between(offset, self.end_for(committed_only=committed_only))

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Return the end offset of a leader epoch in this log."""
        return self.log.epochs.end_of(epoch, self.log.log_end_offset)

    def best_follower(self, offset: int, nodes: Collection[int]) -> int | None:
        """Return the in-sync node among `nodes` that has an offset and is most caught up; None if there is none.

        Source: Java's RackAwareReplicaSelector and ReplicaView.comparator.
        """
        if self._followers is None:
            return None
        having = [one for one in self._followers.having(self.state.isr, offset) if one[-1] in nodes]
        return max(having)[-1] if having else None

    def watch(self, watcher: Watcher) -> None:
        """Notify `watcher` of changes from now on."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Stop notifying `watcher`."""
        self._watchers.pop(watcher, None)

    # -- leading ---------------------------------------------------------------------------------------------------

    def check(
        self, sent: memoryview, *, acks: int = ONE, size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES
    ) -> Steps[Checked]:
        """Validate a producer's batch on its own, and convert it to the form in which it is stored.

        Args:
            sent: the bytes of the batch; patched in place if they are writable.
            acks: `acks` of the Produce request.
            size_max_bytes: limit on its decompressed size, if its records must be read.

        Raises:
            BatchTooLargeError: its decompressed size exceeds `size_max_bytes`.
            ApiError: with the error code for the producer.
        """
        if acks == ALL_IN_SYNC:
            self._check_in_sync()
        batch, header = yield from validated(
            sent,
            self.config,
            where=self.log.folder,
            now_ms=self._clock.time_ms(),
            reads_all=self._reads_all_records,
            size_max_bytes=size_max_bytes,
        )
        return Checked(batch, header)

    def append(self, checked: Checked, *, acks: int = ONE, in_transaction: bool = False) -> Appended:
        """Append a producer's batch that this partition has checked.

        Args:
            checked: the batch.
            acks: `acks` of the Produce request.
            in_transaction: the coordinator confirmed, after `attempted`, that this partition is in the batch's
                transaction.

        Raises:
            ApiError: with the error code for the producer.
        """
        if acks == ALL_IN_SYNC:
            self._check_in_sync()
        batch, header = checked
        if header.producer_id >= 0:
            old = self.producers.check(header)
            if old is not None:
                return Appended(old.base_offset, old.next_offset, old.max_timestamp_ms)
            if self.transactions.first_offset_of(header.producer_id) is not None and not header.is_transactional:
                message = f"Expected transactional write from producer {header.producer_id}"
                raise ApiError(ErrorCode.INVALID_TXN_STATE, message)
            is_awaited = in_transaction and self.producers.is_attempted(header)  # and no marker has been appended since
            if header.is_transactional and not (is_awaited or self.knows_transaction(header)):
                raise ApiError(ErrorCode.INVALID_TXN_STATE, "The records are not part of an ongoing transaction.")
        return self._write(batch, self._clock.time_ms())

    def knows_transaction(self, header: BatchHeader) -> bool:
        """Return whether the transaction of a batch already has records in this partition, with the same epoch."""
        open_here = self.transactions.first_offset_of(header.producer_id) is not None
        return open_here and self.producers.epoch_of(header.producer_id) == header.producer_epoch

    def attempted(self, header: BatchHeader, *, bumps_epochs: bool) -> None:
        """Note a batch that waits until this partition is added to its transaction; see `ProducerTable.attempted`."""
        self.producers.attempted(header, self._clock.time_ms(), bumps_epochs=bumps_epochs)

    def append_as_leader(self, batch: bytes) -> Appended:
        """Append a batch that this node has created, such as a marker, if enough replicas are in sync.

        Raises:
            ApiError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS or KAFKA_STORAGE_ERROR.
        """
        if not self.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{folder_name(self.topic_partition)} has another leader")
        self._check_in_sync()
        return self._write(memoryview(bytearray(batch)), self._clock.time_ms())

    def _check_in_sync(self) -> None:
        if not self.has_enough_in_sync:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {list(self.state.isr)} is insufficient to satisfy the min.isr "
                f"requirement of {self._isr_min} for partition {folder_name(self.topic_partition)}",
            )

    @property
    def _isr_min(self) -> int:
        """min.insync.replicas of the topic, limited to its number of replicas."""
        return min(self.config.min_insync_replicas, len(self.state.replicas))

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether the ISR has at least min.insync.replicas replicas."""
        return self._followers is None or len(self.state.isr) >= self._isr_min

    def has_acknowledged(self, next_offset: int) -> bool:
        """Return whether all in-sync replicas have the records before an offset, and the ISR is large enough."""
        return self._high_watermark >= next_offset and self.has_enough_in_sync

    def _write(self, batch: memoryview, now_ms: int) -> Appended:
        append_time = now_ms if self.config.stamps_on_append else None
        patch_header(
            batch,
            base_offset=self.log.log_end_offset,
            partition_leader_epoch=self.leader_epoch,
            max_timestamp=append_time,
        )
        header = unpack_header(batch)
        try:
            self._store(batch, header, now_ms)
        except OSError as error:
            name = folder_name(self.topic_partition)
            _logger.error("%s cannot be written: %s", name, error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} cannot be written: {error.strerror}") from error
        finally:  # a failed batch may still be in the log, if it could not be removed
            if self._followers is not None:
                self._wake_followers()
                self._watch_lag()
            self._advance()
        return Appended(header.base_offset, header.next_offset, -1 if append_time is None else append_time)

    def _store(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        """Append a batch and update the producer state: both or neither.

        Raises:
            OSError: the storage is full or broken.
        """
        marker = marker_of(batch) if header.is_control else None
        self.log.append(batch, header)
        try:
            if self.log.unflushed_messages >= self.config.flush_messages:
                self.log.flush()
        except OSError:
            # The producer gets an error for this batch. If the batch cannot be removed either, it is noted below.
            self.log.truncate_to(header.base_offset)
            raise
        finally:
            if self.log.log_end_offset >= header.next_offset:
                aborted = self._note(header, now_ms, marker)
                if aborted is not None:
                    self.log.add_aborted_transaction(aborted)

    def _advance(self) -> None:
        """Advance the high watermark as far as possible, and notify watchers and waiting followers."""
        reached = self.log.log_end_offset
        if self.is_offline:
            return
        if self._followers is not None:
            if not self.has_enough_in_sync:
                return
            reached = self._followers.high_watermark(self.state.isr, reached, _now_s(), self._is_live)
        if reached > self._high_watermark:
            self._raise_high_watermark(reached)
            self._wake_followers()

    def _is_live(self, node_id: int) -> bool:
        return self._isr_keeper.is_live(self.topic_partition, node_id)

    def _raise_high_watermark(self, reached: int) -> None:
        before, self._high_watermark = self._high_watermark, reached
        if self._watchers:
            size_bytes = self.log.bytes_between(before, reached)
            for watcher in list(self._watchers):
                watcher.readable(size_bytes)

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of all running replicas; -1 while that of a replica is unknown."""
        start = self.log.log_start_offset
        return start if self._followers is None else self._followers.low_watermark(start, self._is_live)

    def delete_records(self, offset: int) -> int:
        """Delete the records before an offset; followers do so when a fetch response has the new log start offset.

        Args:
            offset: the first offset to keep; -1 is the high watermark.

        Returns:
            the new log start offset.

        Raises:
            ApiError: POLICY_VIOLATION, OFFSET_OUT_OF_RANGE or KAFKA_STORAGE_ERROR.
        """
        name = folder_name(self.topic_partition)
        if not self.config.deletes_old:
            message = f"Records of partition {name} can not be deleted due to the configured policy"
            raise ApiError(ErrorCode.POLICY_VIOLATION, message)
        first = self._high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= first <= self._high_watermark:
            message = f"The offset {first} for partition {name} is not valid: it ends at {self._high_watermark}"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        try:
            self._move_start(first)
        except OSError as error:
            _logger.error("%s: records cannot be deleted: %s", name, error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} cannot be changed: {error.strerror}") from error
        self._wake_followers()
        return first

    def last_records(self) -> dict[int, LastRecord]:
        """Return where the active producers stand, by producer id: the cleaner keeps their last sequences."""
        return {
            one.producer_id: LastRecord(one.last_offset if one.last_sequence >= 0 else None, one.epoch)
            for one in self.producers.snapshots()
        }

    def delete_old_segments(self) -> int:
        """Delete the oldest segments that the retention settings of the topic allow to delete.

        Every replica does so for itself, below its own high watermark.

        Returns:
            their number.

        Raises:
            OSError: the storage is full or broken.
        """
        log, config = self.log, self.config
        expired = expired_segments(
            log.segments,
            Retention(config.deletes_old, config.retention_ms, config.retention_bytes),
            now_ms=self._clock.time_ms(),
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=self._high_watermark,
        )
        for base_offset in expired.future:
            _logger.warning(
                "%s: segment %d contains future timestamp(s), making it ineligible to be deleted",
                log.folder, base_offset,
            )  # fmt: skip
        if not expired.reasons:
            return 0
        if expired.rolls:
            log.roll()
        before = log.log_start_offset
        self.delete_oldest_segments(len(expired.reasons))
        for reason, count in Counter(expired.reasons).items():
            shown = reason.format(
                log_start_offset=before, size_bytes=config.retention_bytes, time_ms=config.retention_ms
            )
            _logger.info("%s: deleted %d segments due to %s", log.folder, count, shown)
        return len(expired.reasons)

    def delete_oldest_segments(self, count: int) -> None:
        """Delete the oldest segments; see `PartitionLog.delete_oldest_segments`.

        Raises:
            OSError: the storage is broken.
        """
        before = self.log.log_start_offset
        try:
            self.log.delete_oldest_segments(count)
        finally:
            if self.log.log_start_offset != before:  # it is the name of a file now, and needs no checkpoint
                self._wake_followers()

    def _move_start(self, offset: int) -> None:
        if self.log.move_start(offset):
            _logger.info("%s on node %d: starts at %d now", self.log.folder, self.node_id, offset)
            self.on_start_moved()

    # -- the followers of this leader ------------------------------------------------------------------------------

    def answer_follower(self, fetch: ReplicaFetch, wake: Callable[[], None]) -> ReplicaFetchResult | None:
        """Answer the fetch of a follower; None if there is nothing new, or this node is not leader in that epoch.

        Args:
            fetch: the follower's fetch.
            wake: called after an answer of None, as soon as there is something new to fetch.
        """
        followers = self._followers
        if not self.is_leader or fetch.leader_epoch != self.leader_epoch or followers is None or self.is_offline:
            return None
        if not followers.knows(fetch.node):
            return None
        if fetch.offset < self.log.log_start_offset:
            return OffsetOutOfRange(self.log.log_start_offset)
        if fetch.last_epoch >= 0:
            end = self.end_of_epoch(fetch.last_epoch)
            if end == UNKNOWN_END or end.epoch < fetch.last_epoch or end.end_offset < fetch.offset:
                return DivergingEpoch(end)
        elif fetch.offset > self.log.log_end_offset:  # it has no batches: retention has deleted them
            return OffsetOutOfRange(self.log.log_start_offset)
        followers.asked(fetch.node, fetch.offset, self.log.log_end_offset, _now_s())
        self._note_start(followers, fetch)
        self._admit(fetch)
        self._advance()
        data = self.log.copy(fetch.offset, FOLLOWER_FETCH_BYTES)
        log_start_offset = self.log.log_start_offset
        if not data and fetch.high_watermark == self._high_watermark and fetch.log_start_offset >= log_start_offset:
            self._waiting_followers[fetch.node] = wake
            return None
        return Batches(data, self._high_watermark, log_start_offset)

    def _note_start(self, followers: Followers, fetch: ReplicaFetch) -> None:
        """Note the log start offset of a follower; if the low watermark changes, notify the watchers."""
        before = self.low_watermark
        followers.starts_at(fetch.node, fetch.log_start_offset)
        if self.low_watermark != before:
            for watcher in list(self._watchers):
                watcher.readable(0)

    def _admit(self, fetch: ReplicaFetch) -> None:
        """Report a follower as in sync if it has reached the high watermark and the start of this epoch."""
        if fetch.node not in self.state.isr and fetch.offset >= max(self._high_watermark, self._epoch_start_offset):
            self._isr_keeper.expand_isr(self.topic_partition, fetch.node)

    def _wake_followers(self) -> None:
        if self._waiting_followers:
            waiting, self._waiting_followers = self._waiting_followers, {}
            for wake in waiting.values():
                wake()

    def _watch_lag(self) -> None:
        """Check the lag of the in-sync followers after half of `lag_max_s`; only while one of them is behind."""
        if self._lag_timer is None and len(self.state.isr) > 1:
            loop = asyncio.get_running_loop()
            self._lag_timer = loop.call_later(self._lag_max_s / 2, self._look_for_lag)

    def _look_for_lag(self) -> None:
        self._lag_timer = None
        if self._followers is None:
            return
        log_end_offset = self.log.log_end_offset
        lagging = self._followers.lagging(self.state.isr, log_end_offset, _now_s())
        if lagging:
            self._isr_keeper.shrink_isr(self.topic_partition, lagging)  # it replies with a new state
        if self._followers.any_behind(self.state.isr, log_end_offset):
            self._watch_lag()

    # -- following -------------------------------------------------------------------------------------------------

    def next_fetch(self) -> ReplicaFetch:
        """Return this follower's next fetch."""
        return ReplicaFetch(
            self.node_id,
            self.leader_epoch,
            self.log.log_end_offset,
            self.log.epochs.latest,
            self._high_watermark,
            self.log.log_start_offset,
        )

    def take(self, answer: ReplicaFetchResult) -> None:
        """Apply the leader's answer.

        Raises:
            OSError: the storage is full or broken.
        """
        if isinstance(answer, Batches):
            self._copy(answer)
        elif isinstance(answer, DivergingEpoch):
            self._truncate(self._end_in_common(answer.end))
        else:
            self.log.restart_at(answer.log_start_offset)
            self._read_producers()
            self._high_watermark = answer.log_start_offset
            self.on_start_moved()

    def _copy(self, batches: Batches) -> None:
        now_ms = self._clock.time_ms()
        for header, batch in iter_headers(memoryview(batches.data)):
            if header.base_offset < self.log.log_end_offset:
                # The leader's log starts within a batch; this log must start at the base offset of that batch.
                self.log.restart_at(header.base_offset)
            self._store(batch, header, now_ms)
        reached = min(batches.high_watermark, self.log.log_end_offset)
        if reached > self._high_watermark:
            self._raise_high_watermark(reached)
        self._high_watermark = reached
        self._move_start(min(batches.log_start_offset, self._high_watermark))

    def _end_in_common(self, leaders: EpochEnd) -> int:
        """Return the truncation offset: the end of the newest epoch that this log shares with the leader's log."""
        if leaders == UNKNOWN_END:
            return self._high_watermark
        own = self.end_of_epoch(leaders.epoch)
        if own == UNKNOWN_END:
            return min(leaders.end_offset, self.log.log_end_offset)
        # The epoch differs from the leader's: truncate to its end and fetch again; each answer gets closer.
        return own.end_offset if own.epoch != leaders.epoch else min(own.end_offset, leaders.end_offset)

    def _truncate(self, offset: int) -> None:
        lost = self.log.log_end_offset - offset
        if lost > 0:
            _logger.info("%s on node %d: cut to %d, %d offsets lost", self.log.folder, self.node_id, offset, lost)
        self.log.truncate_to(offset)
        self._read_producers()
        self._high_watermark = min(self._high_watermark, self.log.log_end_offset)

    def _read_producers(self) -> None:
        """Restore the state of producers and transactions from the last snapshot and the batches behind it."""
        self.producers.clear()
        self.transactions.clear()
        now_ms = self._clock.time_ms()
        offset, snapshots = self.log.newest_snapshot()
        for snapshot in snapshots:
            if snapshot.transaction_first_offset >= 0:
                self.transactions.restore(snapshot.producer_id, snapshot.transaction_first_offset)
            self.producers.restore(snapshot, now_ms)
        if len(self.producers):
            self.producers.recall(self.log.recent_headers(offset))
        for header, control in self.log.headers(offset):
            self._note(header, now_ms, None if control is None else marker_of(control))

    def _note(self, header: BatchHeader, now_ms: int, marker: Marker | None) -> AbortedTransaction | None:
        self.producers.note(header, now_ms, coordinator_epoch=-1 if marker is None else marker.coordinator_epoch)
        if not header.is_transactional:
            return None
        return self.transactions.note(header, None if marker is None else marker.kind)

    # -- start and stop ----------------------------------------------------------------------------------------------

    def lead_or_follow(self, state: PartitionState) -> None:
        """Become leader or follower, as a new partition state says."""
        before, self.state = self.state, state
        if state.leader != self.node_id:
            self._stop_leading()
            self._tell_ended()
            return
        if before.leader != self.node_id or before.leader_epoch != state.leader_epoch:
            self._stop_leading()
            self._begin_to_lead()
            self._tell_ended()  # last, because a watcher may append when it is notified
        self._advance()
        self._wake_followers()  # a follower that fetched before its node was registered may be in sync now

    def _begin_to_lead(self) -> None:
        self._epoch_start_offset = self.log.log_end_offset
        try:
            self.log.begin_epoch(self.leader_epoch, self._epoch_start_offset)
        except OSError as error:
            _logger.error(
                "%s: leader epoch %d is written with its first batch: %s", self.log.folder, self.leader_epoch, error
            )
        others = [node for node in self.state.replicas if node != self.node_id]
        if others:
            self._followers = Followers(others, self.state.isr, _now_s(), self._lag_max_s)
            self._watch_lag()

    def _stop_leading(self) -> None:
        self._followers = None
        self._waiting_followers.clear()
        if self._lag_timer is not None:
            self._lag_timer.cancel()
            self._lag_timer = None

    def _tell_ended(self) -> None:
        for watcher in list(self._watchers):
            watcher.ended()

    def new_log(
        self, storage: LogStorage, folder: str, producers: Callable[[], Iterable[ProducerSnapshot]] | None = None
    ) -> PartitionLog:
        """Return a log with the settings of this replica, not open yet.

        Args:
            storage: where its files are.
            folder: its folder.
            producers: returns the producer state at its end; None for the state of this replica.
        """
        return PartitionLog(
            storage, folder, self._clock, self.config.segments, producers=producers or self.producers.snapshots
        )

    def use_log(self, log: PartitionLog) -> None:
        """Go on with another log that has the same batches, because the replica has moved to another directory."""
        self.log = log

    def close(self, *, sync: bool) -> None:
        """Close the files. No watcher may be waiting.

        Args:
            sync: sync everything first, so that the next broker opens the log without reading it; without it, the
                files are as after a crash.

        Raises:
            OSError: the storage is full or broken; the files are closed, and the next broker must recover the log.
        """
        self._watchers.clear()
        self._stop_leading()
        if sync:
            self.log.close_cleanly()
        else:
            self.log.close()

    def remove(self) -> None:
        """Close the files of a topic that is being deleted, and notify the watchers."""
        self.log.close()
        self._stop_leading()
        self._tell_ended()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
