"""What to say when a partition cannot be read, and whether trying again is pointless."""

from __future__ import annotations

from typing import Final

from kafkaraw.core.cluster import ClusterView
from kafkaraw.core.fetch.plan import FetchTarget
from kafkaraw.core.fetch.reactions import Reaction, reaction_to
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
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.records import TopicPartition

_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


def where(target: FetchTarget) -> str:
    """The partition and the offset that were asked for, for messages."""
    return f"{target.topic_partition.topic}-{target.topic_partition.partition} at offset {target.offset}"


def truncated(target: FetchTarget, end_offset: int) -> LogTruncationError:
    """The broker no longer has what was read before the position."""
    return LogTruncationError(
        f"{where(target)}: the log was truncated, and goes on with other records from offset {end_offset} on, as after "
        f"an unclean election; what was read behind that is lost; seek(), or set auto_offset_reset"
    )


def left_out(target: FetchTarget, node_id: int | None) -> KafkaError:
    """A broker was asked about a partition and does not answer about it."""
    return KafkaError(f"{where(target)}: broker {node_id} left the partition out of its answer")


def is_final(error: KafkaError) -> bool:
    """Whether trying again is pointless."""
    if isinstance(error, BrokerError):
        return reaction_to(error.code) is Reaction.RAISE
    return isinstance(error, UnsupportedVersionError | AuthenticationError | UsageError)


def is_unknown(error: KafkaError) -> bool:
    """Whether the topic or partition does not exist, as far as is known."""
    by_code = isinstance(error, BrokerError) and error.code in _UNKNOWN
    return by_code or isinstance(error, UnknownTopicError | StaleMetadataError)


def no_position(topic_partition: TopicPartition) -> UsageError:
    """A partition can neither be fetched nor be reset."""
    name = f"{topic_partition.topic}-{topic_partition.partition}"
    return UsageError(
        f"{name} has no position and auto_offset_reset is 'none': seek() to one, or choose 'earliest', 'latest' or "
        f"'by_duration:...'"
    )


def why_no_leader(topic_partition: TopicPartition, cluster: ClusterView) -> KafkaError:
    """What to say about a partition without a leader."""
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
    return error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{number}: are its brokers up?")
