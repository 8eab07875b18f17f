"""What an error about one partition means for reading it, and its text. Pure.

`reaction_to` is the table, for Fetch and ListOffsets alike. A code that it lacks is retried if Kafka declares it
retriable; otherwise the next call raises it. Source: Kafka's FetchCollector and OffsetFetcherUtils.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import (
    AuthenticationError,
    BrokerError,
    KafkaError,
    LogTruncationError,
    StaleMetadataError,
    UnknownTopicError,
    UnsupportedVersionError,
    UsageError,
)
from kafkaraw.protocol.error_codes import ErrorCode, error_for, is_retriable

if TYPE_CHECKING:
    from kafkaraw.core.cluster import ClusterView
    from kafkaraw.core.fetch.requests import FetchTarget
    from kafkaraw.records import TopicPartition


class Reaction(Enum):
    """What to do about an error."""

    REFRESH = "refresh the metadata, then try again"
    RETRY = "try again later"
    RESET = "the position is out of range: reset it"
    RAISE = "raise it from the next call"


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
_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


def reaction_to(error_code: int) -> Reaction:
    """Return what to do about an error code other than 0."""
    known = _REACTIONS.get(error_code)
    if known is not None:
        return known
    return Reaction.RETRY if is_retriable(error_code) else Reaction.RAISE


def is_final(error: KafkaError) -> bool:
    """Whether trying again is pointless."""
    if isinstance(error, BrokerError):
        return reaction_to(error.code) is Reaction.RAISE
    return isinstance(error, UnsupportedVersionError | AuthenticationError | UsageError)


def is_unknown(error: KafkaError) -> bool:
    """Whether the topic or partition does not exist, as far as is known."""
    by_code = isinstance(error, BrokerError) and error.code in _UNKNOWN
    return by_code or isinstance(error, UnknownTopicError | StaleMetadataError)


# -- texts


def name_of(topic_partition: TopicPartition) -> str:
    """Return the name of a partition for messages."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def where(target: FetchTarget) -> str:
    """Return the partition and the offset that were asked for, for messages."""
    return f"{name_of(target.topic_partition)} at offset {target.offset}"


def truncated(target: FetchTarget, end_offset: int) -> LogTruncationError:
    """The broker no longer has what was read before the position."""
    return LogTruncationError(
        f"{where(target)}: the log was truncated, and goes on with other records from offset {end_offset} on, as after "
        f"an unclean election; what was read behind that is lost; seek(), or set auto_offset_reset"
    )


def left_out(target: FetchTarget, node_id: int | None) -> KafkaError:
    """A broker's response lacks a partition that it was asked about."""
    return KafkaError(f"{where(target)}: broker {node_id} left the partition out of its answer")


def no_position(topic_partition: TopicPartition) -> UsageError:
    """A partition can neither be fetched nor be reset."""
    return UsageError(
        f"{name_of(topic_partition)} has no position and auto_offset_reset is 'none': seek() to one, or choose "
        f"'earliest', 'latest' or 'by_duration:...'"
    )


def why_no_leader(topic_partition: TopicPartition, cluster: ClusterView) -> KafkaError:
    """The metadata name no leader of a partition."""
    topic, number = topic_partition
    code = cluster.error_of(topic)
    if code and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return error_for(code, f"topic {topic!r}", resource=topic, operation="DESCRIBE")
    view = cluster.topics.get(topic)
    if view is None:
        return UnknownTopicError(
            f"topic {topic!r} does not exist (UNKNOWN_TOPIC_OR_PARTITION); check the spelling, create it with "
            f"Admin.create_topics, or allow the broker to create topics (auto.create.topics.enable)"
        )
    if number not in view.partitions:
        count = len(view.partitions)
        return UnknownTopicError(f"topic {topic!r} has {count} partitions, there is no partition {number}")
    return error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{name_of(topic_partition)}: are its brokers up?")
