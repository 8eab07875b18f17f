"""The state of a partition's idempotent producers: the epoch and the last five batches of each.

It decides whether a batch is new, a duplicate (answered with its old offset, not appended again) or out of order. At
startup it is restored from the last snapshot, and from the headers of the batches around it and behind it.

A transactional batch may be refused before it is checked, while its partition cannot be added to the transaction yet.
Later batches in flight must not be appended instead of it: `attempted` records the lowest sequence that was refused.
Source: KIP-98, KIP-890; org.apache.kafka.storage.internals.log.{ProducerAppendInfo, ProducerStateEntry,
ProducerStateManager, VerificationStateEntry}.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.core.log.producer_snapshot import ProducerSnapshot
from kafkaraw.light_classes import NamedTuple, dataclass, field
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import BatchHeader

BATCHES_REMEMBERED: Final = 5  # as many as a producer may have in flight
SEQUENCE_MAX: Final = (1 << 31) - 1
NO_EPOCH: Final = -1
EPOCHS_GROW_FROM: Final = 2
"""The `transaction.version` from which every transaction ends with a new epoch."""
EXPIRY_SWEEP_MS: Final = 600_000  # producer.id.expiration.check.interval.ms


def add_sequence(sequence: int, count: int) -> int:
    """Return the sequence `count` records later; 2147483647 is followed by 0."""
    return (sequence + count) % (SEQUENCE_MAX + 1)


class AppendedBatch(NamedTuple):
    """One batch that a producer has appended."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp_ms: int
    next_offset: int


_NOTHING: Final = AppendedBatch(-1, -1, -1, -1, 0)
"""The last batch of a producer that has appended none with its current epoch."""


@dataclass(slots=True)
class ProducerEntry:
    """The state of one producer in this partition."""

    epoch: int
    last_timestamp_ms: int
    coordinator_epoch: int = NO_EPOCH  # of the newest coordinator whose marker was appended here
    batches: deque[AppendedBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))


@dataclass(slots=True)
class _Attempt:
    """A batch that a producer sent before its partition was added to the transaction."""

    epoch: int
    lowest_sequence: int
    bumps_epochs: bool
    tried_ms: int


class ProducerTable:
    """The producers of one partition.

    Args:
        expiration_ms: age of a producer's last batch, in milliseconds, after which the producer is removed.
        transaction_of: returns the first offset of a producer's open transaction; such a producer is not removed.
    """

    def __init__(
        self, expiration_ms: int, transaction_of: Callable[[int], int | None] = lambda producer_id: None
    ) -> None:
        self.expiration_ms = expiration_ms
        self._transaction_of = transaction_of
        self._entries: dict[int, ProducerEntry] = {}
        self._attempts: dict[int, _Attempt] = {}
        self._swept_ms = 0

    def __len__(self) -> int:
        return len(self._entries)

    def check(self, header: BatchHeader) -> AppendedBatch | None:
        """Check a batch that has a producer id.

        Returns:
            None if the batch is new and may be appended; the earlier batch if this one is a duplicate.

        Raises:
            ApiError: INVALID_PRODUCER_EPOCH, or OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        entry = self._entries.get(header.producer_id)
        if entry is not None and header.producer_epoch < entry.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {entry.epoch}, the batch says {header.producer_epoch}",
            )
        old = None if entry is None else _repeated(entry, header)
        if old is None:
            self._check_sequence(entry, header)
        return old

    def _check_sequence(self, entry: ProducerEntry | None, header: BatchHeader) -> None:
        attempt = self._attempts.get(header.producer_id)
        if attempt is not None and attempt.epoch == header.producer_epoch:
            if entry is None and attempt.bumps_epochs and header.base_sequence != 0:
                raise self._out_of_order(header, "a transaction starts at sequence 0")
            if header.base_sequence > attempt.lowest_sequence:
                raise self._out_of_order(header, f"{attempt.lowest_sequence} was rejected before")
        if entry is None:
            return  # first batch of an unknown producer: any sequence is valid, older batches may be deleted (KIP-360)
        if header.producer_epoch > entry.epoch:
            if header.base_sequence != 0:
                raise self._out_of_order(header, "a new epoch starts at sequence 0")
            return
        # An entry without batches was created by a marker that began a new epoch.
        expected = add_sequence(entry.batches[-1].last_sequence, 1) if entry.batches else 0
        if header.base_sequence != expected:
            raise self._out_of_order(header, f"expected {expected}")

    def attempted(self, header: BatchHeader, now_ms: int, *, bumps_epochs: bool) -> None:
        """Record a transactional batch that waits until its partition is added to the transaction.

        Args:
            header: header of the batch.
            now_ms: wall clock, in milliseconds.
            bumps_epochs: the producer uses a new epoch for each transaction, with sequences starting at 0.
        """
        self._sweep(now_ms)
        entry = self._entries.get(header.producer_id)
        if entry is not None and _repeated(entry, header) is not None:
            return  # it was appended, only the response was lost
        attempt = self._attempts.get(header.producer_id)
        epoch, lowest = header.producer_epoch, header.base_sequence
        if attempt is not None and epoch < attempt.epoch:
            return  # fenced
        if attempt is not None and epoch == attempt.epoch:
            lowest = min(lowest, attempt.lowest_sequence)
        self._attempts[header.producer_id] = _Attempt(epoch, lowest, bumps_epochs, now_ms)

    def is_attempted(self, header: BatchHeader) -> bool:
        """Return whether a batch still waits: no marker has ended its transaction since it was `attempted`."""
        attempt = self._attempts.get(header.producer_id)
        return attempt is not None and attempt.epoch == header.producer_epoch

    def epoch_of(self, producer_id: int) -> int | None:
        """Return the newest epoch of a producer; None if the producer is unknown."""
        entry = self._entries.get(producer_id)
        return None if entry is None else entry.epoch

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, *, transaction_version: int = 0
    ) -> None:
        """Check the marker that ends a transaction.

        Args:
            producer_id: producer of the transaction.
            epoch: producer epoch of the marker.
            coordinator_epoch: epoch of the coordinator that sent the marker.
            transaction_version: since version 2, a marker has a later epoch than the records of its transaction
                (KIP-1228); a marker with the same epoch can only be a duplicate.

        Raises:
            ApiError: INVALID_PRODUCER_EPOCH, because the producer has a later epoch by now, or
                TRANSACTION_COORDINATOR_FENCED.
        """
        entry = self._entries.get(producer_id)
        if entry is not None:
            late = epoch < entry.epoch
            if transaction_version >= EPOCHS_GROW_FROM and epoch == entry.epoch:
                late = self._transaction_of(producer_id) is not None
            if late:
                raise ApiError(
                    ErrorCode.INVALID_PRODUCER_EPOCH,
                    f"producer {producer_id} has epoch {entry.epoch}, the marker says {epoch}",
                )
        if entry is not None and coordinator_epoch < entry.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"producer {producer_id}: a coordinator with epoch {entry.coordinator_epoch} has ended a transaction; "
                f"the marker is from epoch {coordinator_epoch}",
            )

    def describe(self) -> list[tuple[int, ProducerEntry]]:
        """Return all producers, by id."""
        return sorted(self._entries.items())

    def _out_of_order(self, header: BatchHeader, why: str) -> ApiError:
        return ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id}, epoch {header.producer_epoch}: sequence {header.base_sequence}; {why}",
        )

    def note(self, header: BatchHeader, now_ms: int, *, coordinator_epoch: int = NO_EPOCH) -> None:
        """Update the state with a batch that was appended or found in the log.

        Args:
            header: header of the batch.
            now_ms: wall clock, in milliseconds.
            coordinator_epoch: epoch of the coordinator, if the batch is a marker.
        """
        if header.producer_id < 0:
            return
        self._sweep(now_ms)
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            known = NO_EPOCH if entry is None else entry.coordinator_epoch
            entry = ProducerEntry(header.producer_epoch, header.max_timestamp, known)
            self._entries[header.producer_id] = entry
        entry.last_timestamp_ms = header.max_timestamp
        self._attempts.pop(header.producer_id, None)
        if header.is_control:
            entry.coordinator_epoch = max(entry.coordinator_epoch, coordinator_epoch)
            return
        entry.batches.append(_appended(header))

    def snapshots(self) -> Iterator[ProducerSnapshot]:
        """Return the snapshots of all producers."""
        for producer_id, entry in self.describe():
            first_offset = self._transaction_of(producer_id)
            last = entry.batches[-1] if entry.batches else _NOTHING
            yield ProducerSnapshot(
                producer_id,
                entry.epoch,
                last.last_sequence,
                last.next_offset - 1,
                last.next_offset - 1 - last.base_offset,
                entry.last_timestamp_ms,
                entry.coordinator_epoch,
                -1 if first_offset is None else first_offset,
            )

    def restore(self, snapshot: ProducerSnapshot, now_ms: int) -> None:
        """Restore a producer from a snapshot if the log has none of its batches."""
        expired = now_ms - snapshot.timestamp_ms >= self.expiration_ms and snapshot.transaction_first_offset < 0
        if snapshot.producer_id in self._entries or expired:
            return
        entry = ProducerEntry(snapshot.epoch, snapshot.timestamp_ms, snapshot.coordinator_epoch)
        if snapshot.last_offset >= 0:
            first_sequence = add_sequence(snapshot.last_sequence, -snapshot.offset_delta)
            base_offset = snapshot.last_offset - snapshot.offset_delta
            entry.batches.append(
                AppendedBatch(
                    first_sequence,
                    snapshot.last_sequence,
                    base_offset,
                    snapshot.timestamp_ms,
                    snapshot.last_offset + 1,
                )
            )
        self._entries[snapshot.producer_id] = entry

    def recall(self, headers: Iterable[BatchHeader]) -> None:
        """Add earlier batches to the restored producers, whose snapshots have the last batch only.

        Args:
            headers: headers of the batches before the snapshot, the oldest first.
        """
        found: dict[int, list[AppendedBatch]] = {}
        for header in headers:
            entry = self._entries.get(header.producer_id)
            if entry is not None and entry.batches and entry.epoch == header.producer_epoch and not header.is_control:
                found.setdefault(header.producer_id, []).append(_appended(header))
        for producer_id, batches in found.items():
            entry = self._entries[producer_id]
            if batches[-1].next_offset == entry.batches[-1].next_offset:
                entry.batches.clear()
                entry.batches.extend(batches)

    def clear(self) -> None:
        """Remove all producers, before the state is rebuilt from the log."""
        self._entries.clear()
        self._attempts.clear()

    def _sweep(self, now_ms: int) -> None:
        """Remove expired producers at intervals, so that the table does not grow without limit."""
        self._swept_ms = self._swept_ms or now_ms
        if now_ms - self._swept_ms < EXPIRY_SWEEP_MS:
            return
        self._swept_ms = now_ms
        oldest = now_ms - self.expiration_ms
        for producer_id in [key for key, entry in self._entries.items() if entry.last_timestamp_ms <= oldest]:
            if self._transaction_of(producer_id) is None:
                del self._entries[producer_id]
        for producer_id in [key for key, attempt in self._attempts.items() if attempt.tried_ms < oldest]:
            del self._attempts[producer_id]


def _appended(header: BatchHeader) -> AppendedBatch:
    last_sequence = add_sequence(header.base_sequence, header.last_offset_delta)
    return AppendedBatch(
        header.base_sequence, last_sequence, header.base_offset, header.max_timestamp, header.next_offset
    )


def _repeated(entry: ProducerEntry, header: BatchHeader) -> AppendedBatch | None:
    """Return the earlier batch of which this one is a duplicate; None if it is none."""
    if header.producer_epoch != entry.epoch:
        return None
    last_sequence = add_sequence(header.base_sequence, header.last_offset_delta)
    for batch in entry.batches:
        if batch.first_sequence == header.base_sequence and batch.last_sequence == last_sequence:
            return batch
    return None
