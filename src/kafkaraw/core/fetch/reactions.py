"""What a broker's error about one partition means for reading it: a table.

Used for Fetch and for ListOffsets alike. A code that is not listed is retried when Kafka declares it retriable, and is
the user's to hear otherwise.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from kafkaraw.protocol.error_codes import ErrorCode, is_retriable


class Reaction(Enum):
    """What to do about an error."""

    REFRESH = "refresh the metadata, then try again"
    RETRY = "try again later"
    RESET = "the position is gone: find another"
    RAISE = "tell the user"


_REACTIONS: Final[dict[int, Reaction]] = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Reaction.REFRESH,
    ErrorCode.LEADER_NOT_AVAILABLE: Reaction.REFRESH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction.REFRESH,
    ErrorCode.UNKNOWN_TOPIC_ID: Reaction.REFRESH,
    ErrorCode.INCONSISTENT_TOPIC_ID: Reaction.REFRESH,
    ErrorCode.FENCED_LEADER_EPOCH: Reaction.REFRESH,
    ErrorCode.REPLICA_NOT_AVAILABLE: Reaction.REFRESH,
    ErrorCode.KAFKA_STORAGE_ERROR: Reaction.REFRESH,
    ErrorCode.BROKER_NOT_AVAILABLE: Reaction.REFRESH,
    # The broker is behind the metadata: waiting is all that helps.
    ErrorCode.UNKNOWN_LEADER_EPOCH: Reaction.RETRY,
    ErrorCode.OFFSET_NOT_AVAILABLE: Reaction.RETRY,
    ErrorCode.UNKNOWN_SERVER_ERROR: Reaction.RETRY,
    ErrorCode.OFFSET_OUT_OF_RANGE: Reaction.RESET,
}


def reaction_to(error_code: int) -> Reaction:
    """What to do about an error code other than 0.  Source: Kafka's FetchCollector, OffsetFetcherUtils."""
    known = _REACTIONS.get(error_code)
    if known is not None:
        return known
    return Reaction.RETRY if is_retriable(error_code) else Reaction.RAISE
