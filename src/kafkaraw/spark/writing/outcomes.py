"""How each transaction in a partition ended, read from the partition itself. Pure.

The coordinator of a transaction reports the outcome if it is asked in time, but its refusals prove nothing: it fences a
producer in the same way if the transaction was committed before the id was taken over, and if it was aborted. The
log is the proof: records carry the producer id and epoch of their transaction, and the next control batch of that
producer id ends it, as COMMIT or ABORT. This holds for both generations of transactions (KIP-890): a producer id has
one transaction at a time, and a marker with any epoch ends the open one.

Above the last stable offset every control batch is there, because compaction stops at that offset. Below it,
compaction may have removed a marker, but only together with the records that it ended, or after them.

Must not read: `decisions` does. Start at `TransactionFold`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.records import BatchHeader, ControlType

if TYPE_CHECKING:
    from kafkaraw.client.fetching.whole_log import LogBatch


class Outcome(Enum):
    """How a transaction ended, as far as a log shows; the value ends the sentence "the transaction ..."."""

    COMMITTED = "is committed"
    ABORTED = "is aborted"
    OPEN = "is open"


class TransactionOwner(NamedTuple):
    """The identity in the header of each batch of a transaction; no two transactions of a slot have the same."""

    producer_id: int
    producer_epoch: int


class LogRecord(NamedTuple):
    """A record, and the transaction that it belongs to."""

    offset: int
    key: bytes
    value: bytes
    owner: TransactionOwner


class Ended(NamedTuple):
    """The records of one transaction, in their order; a record without a transaction is committed by itself."""

    outcome: Outcome
    records: tuple[LogRecord, ...]


def owner_of(transaction: PreparedTransaction) -> TransactionOwner:
    """The identity that the batches of a prepared transaction carry."""
    return TransactionOwner(transaction.producer_id, transaction.producer_epoch)


@dataclass
class TransactionFold:
    """The transactions of a partition, batch after batch.

    Attributes:
        wanted: selects the records to keep, by their key.
        open: the records of transactions that have not ended, by producer id.
    """

    wanted: Callable[[bytes], bool]
    open: dict[int, list[LogRecord]] = field(default_factory=dict)

    def add(self, batch: LogBatch) -> list[Ended]:
        """Take the next batch; return the transactions that it ends."""
        header = batch.header
        if batch.ends is ControlType.UNKNOWN:
            return []
        if batch.ends is not None:
            records = self.open.pop(header.producer_id, [])
            outcome = Outcome.COMMITTED if batch.ends is ControlType.COMMIT else Outcome.ABORTED
            return [Ended(outcome, tuple(records))] if records else []
        records = self._kept(header, batch)
        if not records:
            return []
        if not header.is_transactional:
            return [Ended(Outcome.COMMITTED, (record,)) for record in records]
        self.open.setdefault(header.producer_id, []).extend(records)
        return []

    def _kept(self, header: BatchHeader, batch: LogBatch) -> list[LogRecord]:
        owner = TransactionOwner(header.producer_id, header.producer_epoch)
        return [
            LogRecord(record.offset, record.key, record.value or b"", owner)
            for record in batch.records
            if record.key is not None and self.wanted(record.key)
        ]


@dataclass
class MarkerFold:
    """The outcomes of some slots' transactions, by the markers that the slots' tasks wrote.

    Attributes:
        wanted: by the key of its marker, the transaction to find the outcome of.
    """

    wanted: dict[bytes, TransactionOwner]

    def __post_init__(self) -> None:
        self._fold = TransactionFold(self.wanted.__contains__)
        self._found: dict[bytes, Outcome] = {}
        self._committed: dict[bytes, LogRecord] = {}

    def add(self, batch: LogBatch) -> None:
        """Take the next batch."""
        for outcome, records in self._fold.add(batch):
            for record in records:
                if record.owner == self.wanted[record.key]:
                    self._found[record.key] = outcome
                if outcome is Outcome.COMMITTED:
                    self._committed[record.key] = record

    def outcome(self, key: bytes) -> Outcome | None:
        """Return the outcome of the transaction that has the marker with this key; None if there is no such marker."""
        if key in self._found:
            return self._found[key]
        owner = self.wanted[key]
        still_open = any(record.owner == owner for record in self._fold.open.get(owner.producer_id, ()))
        return Outcome.OPEN if still_open else None

    def committed(self, key: bytes) -> LogRecord | None:
        """The slot's last committed marker, of any transaction."""
        return self._committed.get(key)
