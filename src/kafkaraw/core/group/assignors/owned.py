"""Who owns what before a sticky assignment, when members' claims may be old or contradict each other. Pure.

A claim of a later generation is believed. Two claims of the same generation are both dropped: the partition counts as
one that moves. Source: Kafka's AbstractStickyAssignor; KAFKA-12984.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkaraw.core.group.assignors.interface import Assignment, Members, Topics
from kafkaraw.core.group.subscription import NO_GENERATION, MemberSubscription
from kafkaraw.light_classes import dataclass, field
from kafkaraw.records import TopicPartition


@dataclass(frozen=True, slots=True)
class Claim:
    """What a member says that it owns.

    Attributes:
        generation_id: since when; None when it did not say.
    """

    partitions: tuple[TopicPartition, ...]
    generation_id: int | None


ClaimOf = Callable[[MemberSubscription], Claim]


@dataclass(slots=True)
class Owned:
    """What is believed.

    Attributes:
        partitions: of each member, in the order of the members.
        disputed: partitions that several members of one generation claim.
        former: the member with the newest of the claims that are older than the newest generation, by partition.
    """

    partitions: Assignment
    disputed: set[TopicPartition] = field(default_factory=set)
    former: dict[TopicPartition, str] = field(default_factory=dict)


def settle_claims(topics: Topics, members: Members, claim_of: ClaimOf) -> Owned:
    """Find out what members own of what exists; `members` in the order in which claims are heard."""
    claims = {member_id: claim_of(member) for member_id, member in members.items()}
    owned = Owned({member_id: [] for member_id in members})
    owner: dict[TopicPartition, str] = {}
    for member_id, claim in claims.items():
        generation = _known(claim.generation_id)
        for partition in claim.partitions:
            if partition.partition >= len(topics.get(partition.topic, ())):
                continue
            other = owner.get(partition)
            if other is not None:
                others = _known(members[other].generation_id)
                if generation < others:
                    continue
                owned.partitions[other] = [each for each in owned.partitions[other] if each != partition]
                if generation == others:
                    owned.disputed.add(partition)
            owner[partition] = member_id
            if other is None or generation > _known(members[other].generation_id):
                owned.partitions[member_id].append(partition)
    owned.former = _former(claims)
    return owned


def _former(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    newest = max((_known(claim.generation_id) for claim in claims.values()), default=NO_GENERATION)
    former: dict[TopicPartition, tuple[int, str]] = {}
    for member_id, claim in claims.items():
        generation = _known(claim.generation_id)
        if generation >= newest:
            continue
        for partition in claim.partitions:
            if partition not in former or generation > former[partition][0]:
                former[partition] = generation, member_id
    return {partition: member_id for partition, (_, member_id) in former.items()}


def _known(generation_id: int | None) -> int:
    return NO_GENERATION if generation_id is None else generation_id
