"""What to do about a batch that was not written: retry it, renumber it, split it, or fail it. Pure.

`verdict_on` says what an error code of a produce response means, by one table. `remedy_for` says what follows from it
for this batch; `machine.py` carries that out. Start at `verdict_on`, then `remedy_for`.

Source: Kafka's Sender.completeBatch and TransactionManager.canRetry; KIP-360; wire facts 37, 38, 41, 42.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from kafkaraw.core.producer.batches import ProducerBatch
from kafkaraw.core.producer.events import PartitionOutcome
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.error_codes import ErrorCode, is_retriable


class Verdict(Enum):
    """What to do with a batch after an answer."""

    WRITTEN = auto()
    """Acknowledged, now or (a duplicate) before."""
    RETRY = auto()
    """Send the same bytes again."""
    RETRY_AFTER_REFRESH = auto()
    """Send the same bytes again, after a metadata refresh."""
    OUT_OF_SEQUENCE = auto()
    """The broker expects another sequence number: an earlier batch is missing."""
    UNKNOWN_PRODUCER = auto()
    """The broker knows nothing of this producer, though the batch is not its first: retention, or loss."""
    INVALID_EPOCH = auto()
    """The broker knows a later epoch."""
    TOO_LARGE = auto()
    """The broker takes no batch of this size, and has not written it."""
    REFUSED = auto()
    """The broker will never take it, and has not written it."""


_VERDICTS: dict[int, Verdict] = {
    ErrorCode.NONE: Verdict.WRITTEN,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Verdict.WRITTEN,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.OUT_OF_SEQUENCE,
    ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.UNKNOWN_PRODUCER,
    ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.INVALID_EPOCH,
    ErrorCode.MESSAGE_TOO_LARGE: Verdict.TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE: Verdict.TOO_LARGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Verdict.RETRY_AFTER_REFRESH,
    ErrorCode.LEADER_NOT_AVAILABLE: Verdict.RETRY_AFTER_REFRESH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Verdict.RETRY_AFTER_REFRESH,
    ErrorCode.REPLICA_NOT_AVAILABLE: Verdict.RETRY_AFTER_REFRESH,
    ErrorCode.NETWORK_EXCEPTION: Verdict.RETRY_AFTER_REFRESH,
    ErrorCode.KAFKA_STORAGE_ERROR: Verdict.RETRY_AFTER_REFRESH,
    ErrorCode.FENCED_LEADER_EPOCH: Verdict.RETRY_AFTER_REFRESH,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Verdict.RETRY_AFTER_REFRESH,
    ErrorCode.UNKNOWN_TOPIC_ID: Verdict.RETRY_AFTER_REFRESH,
    ErrorCode.INCONSISTENT_TOPIC_ID: Verdict.RETRY_AFTER_REFRESH,
}

MAYBE_WRITTEN: frozenset[int] = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,  # also of a leader that appended, waited for its followers, and was deposed
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that can come after the leader appended: the records may be there, and may stay."""


def verdict_on(error_code: int) -> Verdict:
    """What a produce response's error code means for its batch; codes that are not known are refusals."""
    listed = _VERDICTS.get(error_code)
    if listed is not None:
        return listed
    return Verdict.RETRY if is_retriable(error_code) else Verdict.REFUSED


HINTS: dict[int, str] = {
    ErrorCode.MESSAGE_TOO_LARGE: "raise the topic's max.message.bytes, or send less in one record",
    ErrorCode.RECORD_LIST_TOO_LARGE: "raise the topic's segment.bytes, or send less in one record",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks must be 0, 1 or 'all'",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the broker does not take this compression_type",
    ErrorCode.INVALID_RECORD: "the topic refuses such records (a compacted topic takes none without a key)",
    ErrorCode.INVALID_TIMESTAMP: "the timestamp lies outside what the topic allows (message.timestamp.*.max.ms)",
}
"""What to try, by error code."""


log: logging.Logger = logging.getLogger(__name__)


class Remedy(Enum):
    """What to do about a batch that was not written."""

    RETRY = auto()
    """Send the same bytes again, once everything in flight has landed."""
    RETRY_AFTER_REFRESH = auto()
    """The same, after a metadata refresh."""
    NEXT_EPOCH = auto()
    """Send it and everything behind it again, from sequence 0 under the next epoch."""
    SAME_EPOCH = auto()
    """The same under the present epoch, which a coordinator gave."""
    SPLIT = auto()
    """Send it again in parts, which have its numbers."""
    FAIL = auto()
    """Fail the batch."""


@dataclass(frozen=True, slots=True)
class Case:
    """A batch that has landed unwritten.

    Attributes:
        batch: the batch.
        outcome: what the broker said of it.
        first: no earlier batch of the partition is in flight or has been sent back, so it is not refused because of
            one.
        after_hole: some batch before it can never have been written, so this one cannot have been, either.
        last_acked_offset: the largest offset of the partition that this producer has had acknowledged; -1 is none.
        epochs_from_coordinator: the producer is transactional and must not take the next epoch by itself.
    """

    batch: ProducerBatch
    outcome: PartitionOutcome
    first: bool
    after_hole: bool
    last_acked_offset: int
    epochs_from_coordinator: bool

    @property
    def may_be_written(self) -> bool:
        """Whether it must keep its numbers: with others, a broker would not know it again."""
        return self.batch.maybe_written and not self.after_hole


def remedy_for(verdict: Verdict, case: Case) -> Remedy:
    """What to do about a batch after this verdict, which is not `WRITTEN`."""
    return _REMEDIES[verdict](case)


def _out_of_order_sequence(case: Case) -> Remedy:
    """Behind a hole nothing is written. If it is only an earlier batch that comes again, this one just follows it."""
    if not case.first:
        return Remedy.RETRY
    if case.epochs_from_coordinator:
        return Remedy.FAIL
    if case.may_be_written:  # a part, because the whole is there: brokers recognise batches, not parts of them
        return Remedy.FAIL if case.batch.is_split else Remedy.RETRY_AFTER_REFRESH
    return Remedy.NEXT_EPOCH


def _forgotten(case: Case) -> Remedy:
    """A broker forgets a producer with the last of its records: they are too old and gone, or they are lost."""
    log_start = case.outcome.log_start_offset
    if not case.first or log_start < 0:  # a broker that does not lead any more does not say; another one will
        return Remedy.RETRY
    if case.may_be_written and not case.epochs_from_coordinator:
        return Remedy.RETRY_AFTER_REFRESH
    if case.last_acked_offset < log_start:
        return Remedy.SAME_EPOCH if case.epochs_from_coordinator else Remedy.NEXT_EPOCH
    log.warning(
        "%s-%d: the broker has lost records that it had acknowledged, up to offset %d (its log begins at %d)",
        *case.batch.topic_partition,
        case.last_acked_offset,
        log_start,
    )
    return Remedy.FAIL if case.epochs_from_coordinator else Remedy.NEXT_EPOCH


def _old_epoch(case: Case) -> Remedy:
    """The later epoch is this producer's own, since the producer id is; this batch may be written under it already."""
    if case.epochs_from_coordinator:
        return Remedy.FAIL
    if not case.first:
        return Remedy.RETRY
    return Remedy.RETRY_AFTER_REFRESH if case.may_be_written else Remedy.NEXT_EPOCH


_REMEDIES: Final[dict[Verdict, Callable[[Case], Remedy]]] = {
    Verdict.RETRY: lambda _: Remedy.RETRY,
    Verdict.RETRY_AFTER_REFRESH: lambda _: Remedy.RETRY_AFTER_REFRESH,
    Verdict.OUT_OF_SEQUENCE: _out_of_order_sequence,
    Verdict.UNKNOWN_PRODUCER: _forgotten,
    Verdict.INVALID_EPOCH: _old_epoch,
    Verdict.TOO_LARGE: lambda case: Remedy.SPLIT if case.batch.sealed.records_count > 1 else Remedy.FAIL,
    Verdict.REFUSED: lambda _: Remedy.FAIL,
}
