"""What each error code in a produce response means for the batch: one table. What follows from it: `remedies.py`.

Source: Kafka's Sender.completeBatch and TransactionManager.canRetry; KIP-360; wire facts 37, 38, 41, 42.
"""

from __future__ import annotations

from enum import Enum, auto

from kafkaraw.protocol.error_codes import ErrorCode, is_retriable


class Verdict(Enum):
    """What to do with a batch after an answer."""

    WRITTEN = auto()
    """Acknowledged, now or (a duplicate) before."""
    AGAIN = auto()
    """Send the same bytes again."""
    AGAIN_ELSEWHERE = auto()
    """Send the same bytes again, after a metadata refresh."""
    OUT_OF_SEQUENCE = auto()
    """The broker expects another sequence number: an earlier batch is missing."""
    FORGOTTEN = auto()
    """The broker knows nothing of this producer, though the batch is not its first: retention, or loss."""
    OLD_EPOCH = auto()
    """The broker knows a later epoch."""
    TOO_LARGE = auto()
    """The broker takes no batch of this size, and has not written it."""
    REFUSED = auto()
    """The broker will never take it, and has not written it."""


_VERDICTS: dict[int, Verdict] = {
    ErrorCode.NONE: Verdict.WRITTEN,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Verdict.WRITTEN,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.OUT_OF_SEQUENCE,
    ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.FORGOTTEN,
    ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.OLD_EPOCH,
    ErrorCode.MESSAGE_TOO_LARGE: Verdict.TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE: Verdict.TOO_LARGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Verdict.AGAIN_ELSEWHERE,
    ErrorCode.LEADER_NOT_AVAILABLE: Verdict.AGAIN_ELSEWHERE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Verdict.AGAIN_ELSEWHERE,
    ErrorCode.REPLICA_NOT_AVAILABLE: Verdict.AGAIN_ELSEWHERE,
    ErrorCode.NETWORK_EXCEPTION: Verdict.AGAIN_ELSEWHERE,
    ErrorCode.KAFKA_STORAGE_ERROR: Verdict.AGAIN_ELSEWHERE,
    ErrorCode.FENCED_LEADER_EPOCH: Verdict.AGAIN_ELSEWHERE,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Verdict.AGAIN_ELSEWHERE,
    ErrorCode.UNKNOWN_TOPIC_ID: Verdict.AGAIN_ELSEWHERE,
    ErrorCode.INCONSISTENT_TOPIC_ID: Verdict.AGAIN_ELSEWHERE,
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
    return Verdict.AGAIN if is_retriable(error_code) else Verdict.REFUSED


HINTS: dict[int, str] = {
    ErrorCode.MESSAGE_TOO_LARGE: "raise the topic's max.message.bytes, or send less in one record",
    ErrorCode.RECORD_LIST_TOO_LARGE: "raise the topic's segment.bytes, or send less in one record",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks must be 0, 1 or 'all'",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the broker does not take this compression_type",
    ErrorCode.INVALID_RECORD: "the topic refuses such records (a compacted topic takes none without a key)",
    ErrorCode.INVALID_TIMESTAMP: "the timestamp lies outside what the topic allows (message.timestamp.*.max.ms)",
}
"""What to try, by error code."""
