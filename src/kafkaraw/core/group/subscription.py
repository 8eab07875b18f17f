"""What classic members tell each other inside JoinGroup and SyncGroup: subscriptions and assignments as bytes.

The bytes begin with a version. One that is newer than ours is read as the newest we know, as Kafka prescribes.
Source: Kafka's ConsumerProtocol; KIP-429, KIP-792, KIP-881.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

from kafkaraw.core.group.java_order import text_order
from kafkaraw.errors import ProtocolError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import decode_message, encode_message
from kafkaraw.protocol.embedded.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from kafkaraw.protocol.embedded.consumer_protocol import TopicPartition as OwnedPartitions
from kafkaraw.records import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
NO_GENERATION: Final = -1
_VERSION: Final = 3

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """One member, as an assignor sees it.

    Attributes:
        topics: what it wants to read.
        owned_partitions: what it has at the moment.
        user_data: the assignor's own bytes.
        generation_id: the generation in which it got what it owns; None when it did not say.
        group_instance_id: name of a static member.
        rack_id: where it runs.
    """

    topics: tuple[str, ...]
    owned_partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None
    generation_id: int | None = None
    group_instance_id: str | None = None
    rack_id: str | None = None


class _TopicEntry(Protocol):
    topic: str
    partitions: list[int]


def encode_subscription(subscription: MemberSubscription) -> bytes:
    """The metadata of a member for JoinGroup."""
    generation = subscription.generation_id
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics, key=text_order),
        user_data=subscription.user_data,
        owned_partitions=[
            OwnedPartitions(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(subscription.owned_partitions).items()
        ],
        generation_id=NO_GENERATION if generation is None else generation,
        rack_id=subscription.rack_id,
    )
    return _VERSION.to_bytes(2, "big") + encode_message(message, _VERSION)


def decode_subscription(metadata: bytes, group_instance_id: str | None = None) -> MemberSubscription:
    """Read a member's metadata.

    Raises:
        ProtocolError: it is not what a consumer sends.
    """
    message, _ = _decode(ConsumerProtocolSubscription, metadata)
    return MemberSubscription(
        topics=tuple(message.topics),
        owned_partitions=_partitions(message.owned_partitions),
        user_data=None if message.user_data is None else bytes(message.user_data),
        generation_id=None if message.generation_id < 0 else message.generation_id,
        group_instance_id=group_instance_id,
        rack_id=message.rack_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    """What one member shall read, for SyncGroup."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(partitions).items()
        ],
        user_data=user_data,
    )
    return _VERSION.to_bytes(2, "big") + encode_message(message, _VERSION)


def decode_assignment(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Read what this member shall read; no bytes at all are no partitions.

    Raises:
        ProtocolError: it is not what a leader of consumers sends.
    """
    if not assignment:
        return ()
    message, _ = _decode(ConsumerProtocolAssignment, assignment)
    return _partitions(message.assigned_partitions)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Numbers of partitions by topic, in order."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions, key=lambda each: (text_order(each.topic), each.partition)):
        topics.setdefault(topic, []).append(number)
    return topics


def _decode(kind: type[M], data: bytes) -> tuple[M, int]:
    if len(data) < 2:
        raise ProtocolError(f"{kind.__name__} of {len(data)} bytes has no version")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise ProtocolError(f"{kind.__name__} has the version {version}")
    return decode_message(kind, min(version, _VERSION), data, 2, allow_trailing_bytes=True), version


def _partitions(entries: Iterable[_TopicEntry]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(entry.topic, number) for entry in entries for number in entry.partitions)
