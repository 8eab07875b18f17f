"""Sticky: as even as possible, and with as few partitions moved as possible.

Two ways, as in Kafka's AbstractStickyAssignor: `constrained` when all members want the same topics, `general` when not.
The two assignors differ in how a member's former partitions are known: the eager one puts them into its user data,
because they are revoked before it joins; the cooperative one keeps them, and lists them in its subscription. The user
data of the eager one has topics with their partitions, and (version 1) the generation; that of the cooperative one, the
generation alone. Neither has a version number: the shorter form is tried when the longer one does not fit, and user
data that fits neither is ignored.

Source: Kafka's StickyAssignor, CooperativeStickyAssignor; KIP-54, KIP-341, KIP-429, KIP-792.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar

from kafkaraw.core.group.assignors.constrained import assign_constrained
from kafkaraw.core.group.assignors.general import assign_general
from kafkaraw.core.group.assignors.interface import Assignment, Assignor, Members, RackMap, Topics
from kafkaraw.core.group.assignors.java_order import hash_order
from kafkaraw.core.group.assignors.owned import Claim, ClaimOf, settle_claims
from kafkaraw.core.group.consumer_protocol import NO_GENERATION, MemberSubscription, by_topic
from kafkaraw.records import TopicPartition


class StickyAssignor(Assignor):
    """Keeps partitions where they are, as far as that is even; all are given up during a rebalance."""

    name: ClassVar[str] = "sticky"

    def __init__(self) -> None:
        self._assigned: tuple[TopicPartition, ...] | None = None
        self._generation_id = NO_GENERATION

    def assign(self, topics: Topics, members: Members) -> Assignment:
        """Share the partitions out; see `Assignor.assign`."""
        assignment, _ = _assign(topics, members, decode_sticky)
        return assignment

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """What this member had, and since when."""
        return None if self._assigned is None else encode_sticky(self._assigned, self._generation_id)

    def assigned(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:
        """Remember what this member was given."""
        self._assigned, self._generation_id = tuple(partitions), generation_id


class CooperativeStickyAssignor(Assignor):
    """Keeps partitions where they are, and lets members go on with them during a rebalance."""

    name: ClassVar[str] = "cooperative-sticky"
    cooperative: ClassVar[bool] = True

    def __init__(self) -> None:
        self._generation_id = NO_GENERATION

    def assign(self, topics: Topics, members: Members) -> Assignment:
        """Share the partitions out, without those that have to be taken from their owners first."""
        assignment, moving = _assign(topics, members, _claim_in_subscription)
        if moving is None:
            moving = _moved(members, assignment)
        for partition, member_id in moving.items():
            assignment[member_id].remove(partition)
        return assignment

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """The generation, for leaders that look for it here."""
        return encode_generation(self._generation_id)

    def assigned(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:
        """Remember the generation."""
        self._generation_id = generation_id


def _assign(topics: Topics, members: Members, claim_of: ClaimOf) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """The assignment, and where partitions move from one member to another, if that is known already."""
    ordered = {member_id: members[member_id] for member_id in hash_order(members.keys())}
    owned = settle_claims(topics, ordered, claim_of)
    owned.partitions = {member_id: owned.partitions[member_id] for member_id in hash_order(owned.partitions.keys())}
    racks = RackMap(topics, ordered)
    if len({frozenset(member.topics) for member in ordered.values()}) <= 1:
        return assign_constrained(topics, racks, owned)
    return assign_general(topics, ordered, racks, owned), None


def _claim_in_subscription(member: MemberSubscription) -> Claim:
    generation = member.generation_id
    return Claim(member.owned_partitions, decode_generation(member.user_data) if generation is None else generation)


def _moved(members: Members, assignment: Assignment) -> dict[TopicPartition, str]:
    owner_before = {
        partition: member_id for member_id in assignment for partition in members[member_id].owned_partitions
    }
    lost = {
        partition
        for member_id, given in assignment.items()
        for partition in set(members[member_id].owned_partitions) - set(given)
    }
    return {
        partition: member_id
        for member_id, given in assignment.items()
        for partition in given
        if partition in owner_before and partition in lost and partition not in members[member_id].owned_partitions
    }


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
