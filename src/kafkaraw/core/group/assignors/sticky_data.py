"""The bytes that Java's sticky assignors put into a subscription's user data. Pure.

Sticky: topics with their partitions, and (version 1) the generation. Cooperative sticky: the generation alone. Neither
has a version number: the shorter form is tried when the longer one does not fit, and what fits neither says nothing.
Source: Kafka's StickyAssignor, CooperativeStickyAssignor; KIP-341.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kafkaraw.core.group.assignors.owned import Claim
from kafkaraw.core.group.consumer_protocol import NO_GENERATION, MemberSubscription, by_topic
from kafkaraw.records import TopicPartition

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


def encode_sticky(partitions: Sequence[TopicPartition], generation_id: int) -> bytes:
    """What a member of a sticky group had, and in which generation."""
    topics = by_topic(partitions)
    parts = [_INT32.pack(len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        parts += [_INT16.pack(len(name)), name, struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join([*parts, _INT32.pack(generation_id)])


def decode_sticky(member: MemberSubscription) -> Claim:
    """Read it; a form without generation is taken, too, and what cannot be read claims nothing."""
    data = member.user_data
    if not data:
        return Claim((), None)
    try:
        partitions, at = _read_partitions(data)
    except (struct.error, UnicodeDecodeError, ValueError):
        return Claim((), NO_GENERATION)
    generation = _INT32.unpack_from(data, at)[0] if at + 4 <= len(data) else None
    return Claim(tuple(partitions), generation)


def encode_generation(generation_id: int) -> bytes:
    """The generation alone."""
    return _INT32.pack(generation_id)


def decode_generation(data: bytes | None) -> int | None:
    """Read it; None when there is nothing, -1 when it cannot be read."""
    if data is None:
        return None
    return int(_INT32.unpack_from(data)[0]) if len(data) >= 4 else NO_GENERATION


def _read_partitions(data: bytes) -> tuple[list[TopicPartition], int]:
    (topics,), at = _INT32.unpack_from(data), 4
    partitions: list[TopicPartition] = []
    for _ in range(_checked(topics, data, at)):
        (size,), at = _INT16.unpack_from(data, at), at + 2
        topic, at = data[at : at + _checked(size, data, at)].decode(), at + size
        (count,), at = _INT32.unpack_from(data, at), at + 4
        numbers = struct.unpack_from(f">{_checked(count * 4, data, at) // 4}i", data, at)
        partitions += [TopicPartition(topic, number) for number in numbers]
        at += 4 * count
    return partitions, at


def _checked(size: int, data: bytes, at: int) -> int:
    """A length, unless the bytes that are left cannot hold so much."""
    if not 0 <= size <= len(data) - at:
        raise ValueError(f"{size} at byte {at} of {len(data)}")
    return size
