"""Where epochs end: the question by which a truncated log is found where a Fetch cannot tell (KIP-320).

A Fetch of version 12 says the epoch of the record before the position, and the leader answers where its log parts from
that. Leaders of older brokers are asked before the first Fetch in each of their epochs. Values only; `fetcher.py`
decides. Source: Kafka's OffsetsForLeaderEpochClient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kafkaraw.core.fetch.plan import TOLD_FROM_VERSION, FetchTarget
from kafkaraw.errors import UnsupportedVersionError
from kafkaraw.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkaraw.records import TopicPartition

ALLOWED_FROM_VERSION: Final = 3
"""Of OffsetForLeaderEpoch: before, only brokers had the right to ask."""
_CONSUMER: Final = -1
_OFFSET_FOR_LEADER_EPOCH: Final = 23


def must_ask_for_ends(fetch_version: int, version_for: Callable[[int], int]) -> bool:
    """Whether a Fetch cannot tell, and the broker can be asked.

    Args:
        fetch_version: of the Fetch.
        version_for: the version that is spoken with the broker, by API key.
    """
    if fetch_version >= TOLD_FROM_VERSION:
        return False
    try:
        return version_for(_OFFSET_FOR_LEADER_EPOCH) >= ALLOWED_FROM_VERSION
    except UnsupportedVersionError:
        return False


def ends_request(targets: Iterable[FetchTarget]) -> OffsetForLeaderEpochRequest:
    """Ask where the epochs of the last records end."""
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for target in targets:
        topics.setdefault(target.topic_partition.topic, []).append(
            OffsetForLeaderPartition(
                partition=target.topic_partition.partition,
                current_leader_epoch=target.leader_epoch,
                leader_epoch=target.last_epoch,
            )
        )
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=[OffsetForLeaderTopic(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )


def ends_of(response: OffsetForLeaderEpochResponse) -> dict[TopicPartition, EpochEndOffset]:
    """The answers by partition."""
    return {TopicPartition(topic.topic, end.partition): end for topic in response.topics for end in topic.partitions}
