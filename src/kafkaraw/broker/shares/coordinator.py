"""The share coordinator: the states of the share partitions in one partition of `__share_group_state`.

A decision is written as one record and applied to the states; its outcome is reported once the record is replicated.
Pure: it has no clock, loop or log of its own. Start at `write`.
Source: org.apache.kafka.coordinator.share.ShareCoordinatorShard of Kafka 4.3; KIP-932.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeAlias

from kafkaraw.broker.shares.state import (
    NO_EPOCH,
    UNKNOWN_COUNT,
    ShareKey,
    ShareRecord,
    ShareState,
    ShareUpdate,
)
from kafkaraw.core.share.state_batches import NO_START_OFFSET, StateBatch, combined
from kafkaraw.light_classes import NamedTuple, dataclass, replace
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode

NEGATIVE_PARTITION: Final = "The partition id cannot be a negative number."
NOT_INITIALIZED: Final = "{} operation on uninitialized share partition not allowed."
MESSAGES: Final = {
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the epoch on the broker.",
    ErrorCode.FENCED_STATE_EPOCH: "The share coordinator rejected the request because the share-group state epoch did "
    "not match.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}
"""Kafka's texts for the codes that come without a text of their own."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an operation on a share partition.

    Attributes:
        state: the state that was read; None if nothing was.
    """

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: ShareState | None = None


Done: TypeAlias = Callable[[Outcome], None]


class Write(NamedTuple):
    """A write of the leader of a partition.

    Attributes:
        start_offset: the new start offset; -1 keeps it.
        complete_count: number of records from the start offset on that are done with; -1 if unknown.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: tuple[StateBatch, ...]


class StateLog(Protocol):
    """The log of a coordinator."""

    def append(self, record: ShareRecord, done: Callable[[ErrorCode], None]) -> int | None:
        """Write a record.

        Args:
            record: the record.
            done: called with NONE once it is replicated, or with the code of the failure.

        Returns:
            the offset of the record; None if it cannot be written, and then `done` was called.
        """
        ...


class PartitionCounts(Protocol):
    """The topics of the cluster."""

    def partitions_of(self, topic_id: Uuid) -> int | None:
        """Return the number of partitions of a topic; None if it does not exist."""
        ...


@dataclass(slots=True)
class _Entry:
    """One share partition.

    Attributes:
        fenced_leader_epoch: the highest leader epoch that was ever written.
        fenced_state_epoch: the highest state epoch that was ever written.
        updates: updates since the last snapshot.
        snapshot_offset: offset of the record from which on the log has the whole state.
    """

    state: ShareState
    fenced_leader_epoch: int
    fenced_state_epoch: int
    updates: int = 0
    snapshot_offset: int = 0


class ShareCoordinator:
    """Keeps the states of share partitions.

    Args:
        log: the coordinator's log.
        topics: the cluster's topics.
        now_ms: wall clock, in milliseconds since 1970.
        updates_per_snapshot: updates between two snapshots.
    """

    def __init__(
        self, log: StateLog, topics: PartitionCounts, now_ms: Callable[[], int], updates_per_snapshot: int
    ) -> None:
        self._log = log
        self._topics = topics
        self._now_ms = now_ms
        self._updates_per_snapshot = updates_per_snapshot
        self._entries: dict[ShareKey, _Entry] = {}
        self._resigned = False

    # ---- a change of leader

    def load(self, records: Iterable[tuple[int, ShareRecord]]) -> None:
        """Load the states from the log: records with their offsets."""
        for offset, record in records:
            self._replay(offset, record)

    def resign(self) -> None:
        """Stop, because another node leads the partition: operations in progress end with NOT_COORDINATOR."""
        self._resigned = True

    def _replay(self, offset: int, record: ShareRecord) -> None:
        key, value = record
        entry = self._entries.get(key)
        if value is None:
            self._entries.pop(key, None)
        elif isinstance(value, ShareState):
            self._entries[key] = _Entry(
                value,
                value.leader_epoch if entry is None else max(entry.fenced_leader_epoch, value.leader_epoch),
                value.state_epoch if entry is None else max(entry.fenced_state_epoch, value.state_epoch),
                snapshot_offset=offset,
            )
        elif entry is not None:  # an update without a snapshot says nothing
            entry.state = entry.state.updated(value)
            entry.fenced_leader_epoch = max(entry.fenced_leader_epoch, value.leader_epoch)
            entry.updates += 1

    # ---- operations

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, done: Done) -> None:
        """Begin the state of a share partition, or reset it.

        Args:
            key: the share partition.
            state_epoch: the new state epoch.
            start_offset: the first record to deliver; -1 if the group's settings decide about it.
            done: called with the outcome.
        """
        entry = self._entries.get(key)
        if key.partition < 0:
            done(Outcome(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION))
        elif entry is not None and NO_EPOCH != state_epoch < entry.fenced_state_epoch:
            done(_failed(ErrorCode.FENCED_STATE_EPOCH))
        elif not self._exists(key):
            done(_failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            now_ms = self._now_ms()
            state = ShareState(
                snapshot_epoch=0 if entry is None else entry.state.snapshot_epoch + 1,
                state_epoch=state_epoch,
                start_offset=start_offset,
                complete_count=UNKNOWN_COUNT if start_offset == NO_START_OFFSET else 0,
                created_ms=now_ms,
                written_ms=now_ms,
            )
            self._write(ShareRecord(key, state), Outcome(), done)

    def read(self, key: ShareKey, leader_epoch: int, done: Done) -> None:
        """Read a state for the leader of the partition, whose leader epoch fences earlier leaders from then on."""
        entry = self._entries.get(key)
        if key.partition < 0:
            done(Outcome(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION))
        elif entry is None:
            done(Outcome(ErrorCode.INVALID_REQUEST, NOT_INITIALIZED.format("Read")))
        elif NO_EPOCH != leader_epoch < entry.fenced_leader_epoch:
            done(_failed(ErrorCode.FENCED_LEADER_EPOCH))
        elif not self._exists(key):
            done(_failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif leader_epoch in (NO_EPOCH, entry.fenced_leader_epoch):
            done(Outcome(state=entry.state))
        else:
            state = entry.state
            update = Write(state.state_epoch, leader_epoch, state.start_offset, state.complete_count, ())
            self._write(self._record(key, entry, update, leader_epoch), Outcome(state=state), done)

    def write(self, key: ShareKey, write: Write, done: Done) -> None:
        """Store what a leader has decided about records."""
        entry = self._entries.get(key)
        if key.partition < 0:
            done(Outcome(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION))
        elif entry is None:
            done(Outcome(ErrorCode.INVALID_REQUEST, NOT_INITIALIZED.format("Write")))
        elif NO_EPOCH != write.leader_epoch < entry.fenced_leader_epoch:
            done(_failed(ErrorCode.FENCED_LEADER_EPOCH))
        elif NO_EPOCH != write.state_epoch < entry.fenced_state_epoch:
            done(_failed(ErrorCode.FENCED_STATE_EPOCH))
        elif not self._exists(key):
            done(_failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            self._write(self._record(key, entry, write, entry.state.leader_epoch), Outcome(), done)

    def delete(self, key: ShareKey, done: Done) -> None:
        """Delete a state; no effect if there is none."""
        if key.partition < 0:
            done(Outcome(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION))
        elif not self._exists(key):
            done(_failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif key not in self._entries:
            done(Outcome())
        else:
            self._write(ShareRecord(key, None), Outcome(), done)

    def summary(self, key: ShareKey) -> Outcome:
        """Return a state for a group coordinator; that of a partition that is not initialized has no start offset."""
        if key.partition < 0:
            return Outcome(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)
        if not self._exists(key):
            return _failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        entry = self._entries.get(key)
        return Outcome(state=ShareState() if entry is None else entry.state)

    # ---- time

    def forget_topic(self, topic_id: Uuid) -> None:
        """Delete the states of a deleted topic."""
        for key in [key for key in self._entries if key.topic_id == topic_id]:
            self._write(ShareRecord(key, None), Outcome(), lambda outcome: None)

    def snapshot_cold(self, interval_ms: int) -> None:
        """Write a snapshot of states that have not been written for some time, so that their records can be deleted."""
        now_ms = self._now_ms()
        for key, entry in list(self._entries.items()):
            if entry.updates and now_ms - entry.state.written_ms >= interval_ms:
                state = replace(entry.state, snapshot_epoch=entry.state.snapshot_epoch + 1, written_ms=now_ms)
                self._write(ShareRecord(key, state), Outcome(), lambda outcome: None)

    def needed_from(self) -> int | None:
        """Return the offset of the first record of the log that a later load needs; None without any states."""
        return min((entry.snapshot_offset for entry in self._entries.values()), default=None)

    def states(self) -> dict[ShareKey, ShareState]:
        """Return all states."""
        return {key: entry.state for key, entry in self._entries.items()}

    # ---- writing

    def _exists(self, key: ShareKey) -> bool:
        count = self._topics.partitions_of(key.topic_id)
        return count is not None and key.partition < count

    def _record(self, key: ShareKey, entry: _Entry, write: Write, leader_epoch: int) -> ShareRecord:
        """Return the update that stores a write, or a snapshot after enough updates."""
        state = entry.state
        if entry.updates < self._updates_per_snapshot:
            batches = tuple(combined(write.batches, write.start_offset))
            return ShareRecord(
                key,
                ShareUpdate(state.snapshot_epoch, leader_epoch, write.start_offset, write.complete_count, batches),
            )
        now_ms = self._now_ms()
        update = ShareUpdate(0, leader_epoch, write.start_offset, write.complete_count, write.batches)
        return ShareRecord(
            key,
            replace(
                state.updated(update), snapshot_epoch=state.snapshot_epoch + 1, created_ms=now_ms, written_ms=now_ms
            ),
        )

    def _write(self, record: ShareRecord, outcome: Outcome, done: Done) -> None:
        def replicated(code: ErrorCode) -> None:
            if self._resigned:
                done(Outcome(ErrorCode.NOT_COORDINATOR, "another node is the share coordinator"))
            else:
                done(Outcome(code, "the state cannot be written") if code else outcome)

        offset = self._log.append(record, replicated)
        if offset is not None:
            self._replay(offset, record)


def _failed(code: ErrorCode) -> Outcome:
    return Outcome(code, MESSAGES[code])
