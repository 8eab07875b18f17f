"""Reconciliation: the next step of a member from its current to its target assignment. Pure.

First the member revokes the partitions outside its target and acknowledges this by its next heartbeat. Then it is
assigned the free partitions of its target. It waits for partitions that other members have not revoked yet.
Source: org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder of Kafka 4.3; KIP-848, KIP-1251.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.groups.assignors import PartitionsByTopic
from kafkaraw.broker.groups.consumer_group import ConsumerMember, MemberState, Owned
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class MemberTarget:
    """The target assignment of a member.

    Attributes:
        epoch: epoch of the target.
        parts: partitions of the target, by topic id.
        readable: ids of the member's subscribed topics; None if they have not changed since the target was computed.
    """

    epoch: int
    parts: PartitionsByTopic
    readable: Collection[Uuid] | None = None

    def wanted(self, topic_id: Uuid) -> frozenset[int]:
        """The partitions of a topic."""
        if self.readable is not None and topic_id not in self.readable:
            return frozenset()
        return self.parts.get(topic_id, frozenset())


def reconcile(
    member: ConsumerMember, target: MemberTarget, taken: Collection[tuple[Uuid, int]], claimed: PartitionsByTopic | None
) -> ConsumerMember:
    """Take the next step of a member towards its target assignment.

    Args:
        member: the member before the step.
        target: its target assignment.
        taken: the partitions that members own, or have not revoked yet.
        claimed: the partitions that the member reports as owned; None if it reports none.

    Raises:
        ApiError: FENCED_MEMBER_EPOCH, the member has to rejoin.
    """
    state = member.state
    if state is MemberState.STABLE and member.epoch == target.epoch and not _reads_too_much(member, target):
        return member
    epoch = member.epoch
    if state is MemberState.UNREVOKED_PARTITIONS:
        if _claims(claimed, member.revoking):
            return member
        epoch += 1
    elif state is MemberState.UNKNOWN:
        if claimed is None or claimed:
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its partitions and "
                "rejoin.",
            )
        epoch = target.epoch
    return _next(member, epoch, target, taken, claimed)


def _reads_too_much(member: ConsumerMember, target: MemberTarget) -> bool:
    return target.readable is not None and any(topic_id not in target.readable for topic_id in member.assigned)


def _next(
    member: ConsumerMember,
    epoch: int,
    target: MemberTarget,
    taken: Collection[tuple[Uuid, int]],
    claimed: PartitionsByTopic | None,
) -> ConsumerMember:
    kept: dict[Uuid, dict[int, int]] = {}
    revoking: dict[Uuid, dict[int, int]] = {}
    added: dict[Uuid, dict[int, int]] = {}
    waits = False
    for topic_id in sorted({*target.parts, *member.assigned}):
        wanted = target.wanted(topic_id)
        for partition, since in member.assigned.get(topic_id, {}).items():
            (kept if partition in wanted else revoking).setdefault(topic_id, {})[partition] = since
        for partition in sorted(wanted - member.assigned.get(topic_id, {}).keys()):
            if (topic_id, partition) in taken:
                waits = True
            else:
                added.setdefault(topic_id, {})[partition] = target.epoch
    if revoking and _claims(claimed, revoking):
        return member.at(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    for topic_id, partitions in added.items():
        kept.setdefault(topic_id, {}).update(partitions)
    return member.at(target.epoch, MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE, kept, {})


def _claims(claimed: PartitionsByTopic | None, parts: Owned) -> bool:
    """Return whether a member claims to own some of these partitions."""
    if claimed is None:
        return True
    return any(not claimed.get(topic_id, frozenset()).isdisjoint(partitions) for topic_id, partitions in parts.items())
