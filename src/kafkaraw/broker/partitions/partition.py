"""One replica of a partition, on the node that holds it: leader or follower of the others.

A leader judges and appends what producers send (`check`, `append`), tells those who wait what can be read, answers its
followers (`answer_follower`) and moves the high watermark with them. A follower takes over what its leader has
(`take`). It knows nothing of requests; handlers ask it and put its answers into responses.
Source: kafka.cluster.Partition, UnifiedLog.append.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.log.leader_epochs import UNKNOWN_END, EpochEnd
from kafkaraw.broker.log.partition_log import PartitionLog
from kafkaraw.broker.log.storage import Content, LogStorage
from kafkaraw.broker.partitions.elections import NO_LEADER, PartitionState
from kafkaraw.broker.partitions.followers import Followers
from kafkaraw.broker.partitions.open_transactions import OpenTransactions
from kafkaraw.broker.partitions.partition_observers import IsrKeeper, Watcher
from kafkaraw.broker.partitions.producers import ProducerTable
from kafkaraw.broker.partitions.replica_fetch import Batches, Parts, ReplicaAnswer, ReplicaFetch, StartsLater
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.turns import Steps
from kafkaraw.broker.validation.stored_form import validated
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
"""Acknowledge when all replicas in sync have it (acks)."""
ONE: Final = 1
HIGH_WATERMARK: Final = -1
"""Stands for the high watermark where an offset is asked for (DeleteRecords)."""
FOLLOWER_FETCH_BYTES: Final = 1_048_576  # replica.fetch.max.bytes

_logger = logging.getLogger("kafkaraw.broker")


class Checked(NamedTuple):
    """A producer's batch in the form in which it is stored, and its header as the producer wrote it."""

    batch: memoryview
    header: BatchHeader


class Appended(NamedTuple):
    """Where a batch is.

    Attributes:
        base_offset: offset of its first record.
        next_offset: the offset after its last record.
        log_append_time_ms: the broker's timestamp; -1 when records keep the producer's.
    """

    base_offset: int
    next_offset: int
    log_append_time_ms: int = -1


class Partition:
    """One replica.

    Args:
        topic_partition: its name.
        node_id: the node that holds it.
        storage: where its log is.
        config: the topic's settings in effect.
        clock: wall clock.
        isr_keeper: told of followers that catch up or lag.
        producer_expiration_ms: when an idle producer's sequences are forgotten.
        lag_max_ms: how long a follower in sync may lag.
        reads_all_records: judge every record of every batch, also where the topic's settings do not depend on them.

    Attributes:
        on_start_moved: called when the log starts later than before.
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
        self.config = config
        self.state = PartitionState((node_id,), NO_LEADER, (node_id,))
        self.log = PartitionLog(storage, folder_name(topic_partition), segment_bytes=config.segment_bytes)
        self.transactions = OpenTransactions()
        # Not a function that refers to this partition: it would keep the partition until the garbage collector runs.
        self.producers = ProducerTable(producer_expiration_ms, self.transactions.first_offset_of)
        self._clock = clock
        self._isr_keeper = isr_keeper
        self.on_start_moved: Callable[[], None] = lambda: None
        self._lag_max_s = lag_max_ms / 1000
        self._reads_all_records = reads_all_records
        self._high_watermark = 0
        self._epoch_start_offset = 0
        self._followers: Followers | None = None
        self._waiting_followers: dict[int, Callable[[], None]] = {}
        self._lag_timer: asyncio.TimerHandle | None = None
        # A dict, because its order is that of arrival: a set's order would differ from run to run.
        self._watchers: dict[Watcher, None] = {}

    def open(self, high_watermark: int = 0, log_start_offset: int = 0) -> None:
        """Read the log; what it says about producers is remembered.

        Args:
            high_watermark: what was written down of it.
            log_start_offset: what was written down of it.
        """
        self.log.open(self._note_found, log_start_offset=log_start_offset)
        if not self.log.size_bytes:
            self._forget_producers()  # the log had to start anew
        self._read_snapshot()
        self._high_watermark = min(max(high_watermark, self.log.log_start_offset), self.log.log_end_offset)

    def reconfigure(self, config: TopicConfig, producer_expiration_ms: int) -> None:
        """Act on settings that have changed; they count for what is appended from now on."""
        self.config = config
        self.log.segment_bytes = config.segment_bytes
        self.producers.expiration_ms = producer_expiration_ms
        if self.is_leader:
            self._advance()  # fewer replicas in sync may be enough now

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads."""
        return self.state.leader == self.node_id

    @property
    def leader_epoch(self) -> int:
        """Grows with every change of leader; written into batches, told to clients."""
        return self.state.leader_epoch

    @property
    def high_watermark(self) -> int:
        """The offset up to which consumers may read: all replicas in sync have what is before it."""
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which read_committed consumers may read: nothing before it is undecided."""
        return self.transactions.last_stable_offset(self._high_watermark)

    @property
    def high_watermark_is_behind(self) -> bool:
        """Whether a new leader does not know yet how far its predecessor let consumers read."""
        return self._high_watermark < self._epoch_start_offset

    def end_for(self, *, committed_only: bool) -> int:
        """The offset up to which a consumer may read."""
        return self.last_stable_offset if committed_only else self._high_watermark

    def read(self, offset: int, size_max: int, *, at_least_one: bool, committed_only: bool = False) -> Content | None:
        """Whole batches that a consumer may read, from the one that holds `offset` on; None when there are none."""
        end_offset = self.end_for(committed_only=committed_only)
        if offset >= end_offset:
            return None
        return self.log.read(offset, size_max, at_least_one=at_least_one, end_offset=end_offset)

    def readable_bytes(self, offset: int, *, committed_only: bool = False) -> int:
        """How many bytes a consumer may read, from the batch that holds `offset` on."""
        return self.log.bytes_between(offset, self.end_for(committed_only=committed_only))

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Where an epoch ends in this log."""
        return self.log.epochs.end_of(epoch, self.log.log_end_offset)

    def best_follower(self, offset: int, nodes: Collection[int]) -> int | None:
        """Of these nodes the one in sync that has an offset and is most caught up; None when there is none.

        Source: Java's RackAwareReplicaSelector and ReplicaView.comparator.
        """
        if self._followers is None:
            return None
        having = [one for one in self._followers.having(self.state.isr, offset) if one[-1] in nodes]
        return max(having)[-1] if having else None

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` what happens."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Tell it no longer."""
        self._watchers.pop(watcher, None)

    # -- leading ---------------------------------------------------------------------------------------------------

    def check(
        self, sent: memoryview, *, acks: int = ONE, size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES
    ) -> Steps[Checked]:
        """Judge a producer's batch by itself, and give it the form in which it is stored.

        Args:
            sent: the bytes of the batch; patched in place where they are writable.
            acks: of the Produce request.
            size_max_bytes: limit on its decompressed size, if its records must be read.

        Raises:
            BatchTooLargeError: it has more than `size_max_bytes` when decompressed.
            Refusal: with the code that the producer is to see.
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
            acks: of the Produce request.
            in_transaction: this partition was part of the transaction that the batch may belong to when it was
                `attempted`.

        Raises:
            Refusal: with the code that the producer is to see.
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
                raise Refusal(ErrorCode.INVALID_TXN_STATE, message)
            is_awaited = in_transaction and self.producers.is_attempted(header)  # and no marker has come since
            if header.is_transactional and not (is_awaited or self.knows_transaction(header)):
                raise Refusal(ErrorCode.INVALID_TXN_STATE, "The records are not part of an ongoing transaction.")
        return self._write(batch, self._clock.time_ms())

    def knows_transaction(self, header: BatchHeader) -> bool:
        """Whether the transaction of a batch has records here already, under the same epoch."""
        open_here = self.transactions.first_offset_of(header.producer_id) is not None
        return open_here and self.producers.epoch_of(header.producer_id) == header.producer_epoch

    def attempted(self, header: BatchHeader, *, bumps_epochs: bool) -> None:
        """A batch is to be appended once this partition is part of its transaction; see `ProducerTable.attempted`."""
        self.producers.attempted(header, self._clock.time_ms(), bumps_epochs=bumps_epochs)

    def append_own(self, batch: bytes) -> Appended:
        """Append a batch that this node has made itself, such as a marker: when enough replicas are in sync.

        Raises:
            Refusal: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS or KAFKA_STORAGE_ERROR.
        """
        if not self.is_leader:
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{folder_name(self.topic_partition)} is led elsewhere")
        self._check_in_sync()
        return self._write(memoryview(bytearray(batch)), self._clock.time_ms())

    def _check_in_sync(self) -> None:
        if not self.has_enough_in_sync:
            raise Refusal(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {list(self.state.isr)} is insufficient to satisfy the min.isr "
                f"requirement of {self._isr_min} for partition {folder_name(self.topic_partition)}",
            )

    @property
    def _isr_min(self) -> int:
        """A topic cannot ask for more replicas than it has."""
        return min(self.config.min_insync_replicas, len(self.state.replicas))

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether there are as many replicas in sync as min.insync.replicas asks for."""
        return self._followers is None or len(self.state.isr) >= self._isr_min

    def has_acknowledged(self, next_offset: int) -> bool:
        """Whether all replicas in sync have what is before an offset, and there are enough of them."""
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
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} cannot be written: {error.strerror}") from error
        finally:  # a batch that failed may be in the log all the same, when it could not be removed
            if self._followers is not None:
                self._wake_followers()
                self._watch_lag()
            self._advance()
        return Appended(header.base_offset, header.next_offset, -1 if append_time is None else append_time)

    def _store(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        """Append a batch, and note what it says of its producer: both or neither.

        Raises:
            OSError: the storage is full or broken.
        """
        marker = marker_of(batch) if header.is_control else None
        self.log.append(batch, header)
        try:
            if self.log.unsynced_records >= self.config.flush_messages:
                self.log.sync()
        except OSError:
            # The producer is told that the batch failed. Should it not leave the log either, it is noted below.
            self.log.truncate_to(header.base_offset)
            raise
        finally:
            if self.log.log_end_offset >= header.next_offset:
                self._note(header, now_ms, marker)

    def _advance(self) -> None:
        """Move the high watermark as far as it may go, and tell those who wait."""
        reached = self.log.log_end_offset
        if self._followers is not None:
            if not self.has_enough_in_sync:
                return
            reached = self._followers.high_watermark(self.state.isr, reached, _now_s(), self._isr_keeper.is_live)
        if reached > self._high_watermark:
            self._raise_high_watermark(reached)
            self._wake_followers()

    def _raise_high_watermark(self, reached: int) -> None:
        before, self._high_watermark = self._high_watermark, reached
        if self._watchers:
            size_bytes = self.log.bytes_between(before, reached)
            for watcher in list(self._watchers):
                watcher.readable(size_bytes)

    @property
    def low_watermark(self) -> int:
        """The first offset that any of the replicas has which run; -1 while one of them has not said so yet."""
        start = self.log.log_start_offset
        return start if self._followers is None else self._followers.low_watermark(start, self._isr_keeper.is_live)

    def delete_records(self, offset: int) -> int:
        """Delete the records before an offset; the followers do the same when they hear of it.

        Args:
            offset: the first one to keep; -1 keeps none that consumers could see.

        Returns:
            That first offset.

        Raises:
            Refusal: POLICY_VIOLATION, OFFSET_OUT_OF_RANGE or KAFKA_STORAGE_ERROR.
        """
        name = folder_name(self.topic_partition)
        if not self.config.deletes_old:
            message = f"Records of partition {name} can not be deleted due to the configured policy"
            raise Refusal(ErrorCode.POLICY_VIOLATION, message)
        first = self._high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= first <= self._high_watermark:
            message = f"The offset {first} for partition {name} is not valid: it ends at {self._high_watermark}"
            raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        try:
            self._move_start(first)
        except OSError as error:
            _logger.error("%s: records cannot be deleted: %s", name, error)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} cannot be changed: {error.strerror}") from error
        self._wake_followers()
        return first

    def _move_start(self, offset: int) -> None:
        if self.log.loses_segments(offset) and len(self.producers):
            self.log.write_snapshot(self.producers.snapshots())
        if self.log.move_start(offset):
            _logger.info("%s on node %d: starts at %d now", self.log.folder, self.node_id, offset)
            self.on_start_moved()

    # -- followers, seen from the leader ---------------------------------------------------------------------------

    def answer_follower(self, fetch: ReplicaFetch, wake: Callable[[], None]) -> ReplicaAnswer | None:
        """Answer a follower; None when there is nothing new, or this node does not lead in that epoch.

        Args:
            fetch: what it asks.
            wake: called when asking again is worth while, after an answer of None.
        """
        followers = self._followers
        if not self.is_leader or fetch.leader_epoch != self.leader_epoch or followers is None:
            return None
        if not followers.knows(fetch.node):
            return None
        if fetch.offset < self.log.log_start_offset:
            return StartsLater(self.log.log_start_offset)
        if fetch.last_epoch >= 0:
            end = self.end_of_epoch(fetch.last_epoch)
            if end == UNKNOWN_END or end.epoch < fetch.last_epoch or end.end_offset < fetch.offset:
                return Parts(end)
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
        """Note where a follower's log starts, and tell those who wait for all replicas to start later."""
        before = self.low_watermark
        followers.starts_at(fetch.node, fetch.log_start_offset)
        if self.low_watermark != before:
            for watcher in list(self._watchers):
                watcher.readable(0)

    def _admit(self, fetch: ReplicaFetch) -> None:
        """A follower that has all that consumers may see, and all that was before this epoch, is in sync."""
        if fetch.node not in self.state.isr and fetch.offset >= max(self._high_watermark, self._epoch_start_offset):
            self._isr_keeper.expand_isr(self.topic_partition, fetch.node)

    def _wake_followers(self) -> None:
        if self._waiting_followers:
            waiting, self._waiting_followers = self._waiting_followers, {}
            for wake in waiting.values():
                wake()

    def _watch_lag(self) -> None:
        """Look, after a while, whether those in sync still are; only while one of them is behind."""
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
            self._isr_keeper.shrink_isr(self.topic_partition, lagging)  # answered by a new state of this very leader
        if self._followers.any_behind(self.state.isr, log_end_offset):
            self._watch_lag()

    # -- following -------------------------------------------------------------------------------------------------

    def next_fetch(self) -> ReplicaFetch:
        """What to ask the leader for, as a follower."""
        return ReplicaFetch(
            self.node_id,
            self.leader_epoch,
            self.log.log_end_offset,
            self.log.epochs.latest,
            self._high_watermark,
            self.log.log_start_offset,
        )

    def take(self, answer: ReplicaAnswer) -> None:
        """Do what the leader's answer says.

        Raises:
            OSError: the storage is full or broken.
        """
        if isinstance(answer, Batches):
            self._copy(answer)
        elif isinstance(answer, Parts):
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
                # The leader's log starts within a batch: this one has to begin where the batch does.
                self.log.restart_at(header.base_offset)
            self._store(batch, header, now_ms)
        reached = min(batches.high_watermark, self.log.log_end_offset)
        if reached > self._high_watermark:
            self._raise_high_watermark(reached)
        self._high_watermark = reached
        self._move_start(min(batches.log_start_offset, self._high_watermark))

    def _end_in_common(self, leaders: EpochEnd) -> int:
        """Where to cut this log: at the end of the newest epoch that it shares with the leader's."""
        if leaders == UNKNOWN_END:
            return self._high_watermark
        own = self.end_of_epoch(leaders.epoch)
        if own == UNKNOWN_END:
            return min(leaders.end_offset, self.log.log_end_offset)
        # Another epoch than the leader's: cut to its end, ask again, and come nearer with every answer.
        return own.end_offset if own.epoch != leaders.epoch else min(own.end_offset, leaders.end_offset)

    def _truncate(self, offset: int) -> None:
        lost = self.log.log_end_offset - offset
        if lost > 0:
            _logger.info("%s on node %d: cut to %d, %d offsets lost", self.log.folder, self.node_id, offset, lost)
        self.log.truncate_to(offset)
        self._read_producers()
        self._high_watermark = min(self._high_watermark, self.log.log_end_offset)

    def _read_producers(self) -> None:
        """Know of producers and their transactions what the log says of them."""
        self._forget_producers()
        for header in self.log.headers():
            self._note_found(header)
        self._read_snapshot()

    def _forget_producers(self) -> None:
        self.producers.clear()
        self.transactions.clear()

    def _note_found(self, header: BatchHeader) -> None:
        marker = None
        if header.is_control:
            marker = marker_of(memoryview(self.log.copy(header.base_offset, header.size)))
        self._note(header, self._clock.time_ms(), marker)

    def _read_snapshot(self) -> None:
        """Know of producers, too, whose batches are no longer in the log."""
        now_ms = self._clock.time_ms()
        for snapshot in self.log.read_snapshot():
            if self.producers.epoch_of(snapshot.producer_id) is None and snapshot.transaction_first_offset >= 0:
                self.transactions.restore(snapshot.producer_id, snapshot.transaction_first_offset)
            self.producers.restore(snapshot, now_ms)

    def _note(self, header: BatchHeader, now_ms: int, marker: Marker | None) -> None:
        self.producers.note(header, now_ms, coordinator_epoch=-1 if marker is None else marker.coordinator_epoch)
        if header.is_transactional:
            self.transactions.note(header, None if marker is None else marker.kind)

    # -- start and stop ----------------------------------------------------------------------------------------------

    def lead_or_follow(self, state: PartitionState) -> None:
        """Take the part that a state gives this node."""
        before, self.state = self.state, state
        if state.leader != self.node_id:
            self._stop_leading()
            self._tell_ended()
            return
        if before.leader != self.node_id or before.leader_epoch != state.leader_epoch:
            self._stop_leading()
            self._begin_to_lead()
            self._tell_ended()  # last: who is told may append at once
        self._advance()
        self._wake_followers()  # one that asked before its node was up may be in sync now

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

    def close(self, *, sync: bool) -> None:
        """Let go of the files; with `sync`, after what was written is there for good. Nobody must wait any more."""
        self._watchers.clear()
        self._stop_leading()
        if sync:
            self.log.sync()
        self.log.close()

    def remove(self) -> None:
        """Let go of the files of a topic that is being deleted; whoever waits is told."""
        self.log.close()
        self._stop_leading()
        self._tell_ended()


def folder_name(topic_partition: TopicPartition) -> str:
    """The name of a partition's folder in the data directory."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def _now_s() -> float:
    return asyncio.get_running_loop().time()
