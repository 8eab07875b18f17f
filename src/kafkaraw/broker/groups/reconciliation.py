"""How a member of a consumer group gets from the partitions that it has to those that it is to have. Pure.

First it gives up what it is not to have any more, and says so by its next heartbeat; then it gets what is free; what
others have not given up yet it waits for.
Source: org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder of Kafka 4.3; KIP-848, KIP-1251.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkaraw.broker.groups.assignors import Parts
from kafkaraw.broker.groups.consumer_group import ConsumerMember, MemberState, Owned
from kafkaraw.broker.refusal import Refusal
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class Aim:
    """What a member is to have.

    Attributes:
        epoch: of the target.
        parts: the target.
        readable: ids of the topics that the member reads; None when that has not changed since the target was made.
    """

    epoch: int
    parts: Parts
    readable: Collection[Uuid] | None = None

    def wanted(self, topic_id: Uuid) -> frozenset[int]:
        """The partitions of a topic."""
        if self.readable is not None and topic_id not in self.readable:
            return frozenset()
        return self.parts.get(topic_id, frozenset())


def reconcile(
    member: ConsumerMember, aim: Aim, taken: Collection[tuple[Uuid, int]], claimed: Parts | None
) -> ConsumerMember:
    """Bring a member a step nearer to its target.

    Args:
        member: as it is.
        aim: what it is to have.
        taken: the partitions that some member has, or has not given up yet.
        claimed: what the member says it has; None when it does not say.

    Raises:
        Refusal: FENCED_MEMBER_EPOCH, the member has to begin anew.
    """
    state = member.state
    if state is MemberState.STABLE and member.epoch == aim.epoch and not _reads_too_much(member, aim):
        return member
    epoch = member.epoch
    if state is MemberState.UNREVOKED_PARTITIONS:
        if _claims(claimed, member.revoking):
            return member
        epoch += 1
    elif state is MemberState.UNKNOWN:
        if claimed is None or claimed:
            raise Refusal(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its partitions and "
                "rejoin.",
            )
        epoch = aim.epoch
    return _next(member, epoch, aim, taken, claimed)


def _reads_too_much(member: ConsumerMember, aim: Aim) -> bool:
    return aim.readable is not None and any(topic_id not in aim.readable for topic_id in member.assigned)


def _next(
    member: ConsumerMember,
    epoch: int,
    aim: Aim,
    taken: Collection[tuple[Uuid, int]],
    claimed: Parts | None,
) -> ConsumerMember:
    kept: dict[Uuid, dict[int, int]] = {}
    revoking: dict[Uuid, dict[int, int]] = {}
    added: dict[Uuid, dict[int, int]] = {}
    waits = False
    for topic_id in sorted({*aim.parts, *member.assigned}):
        wanted = aim.wanted(topic_id)
        for partition, since in member.assigned.get(topic_id, {}).items():
            (kept if partition in wanted else revoking).setdefault(topic_id, {})[partition] = since
        for partition in sorted(wanted - member.assigned.get(topic_id, {}).keys()):
            if (topic_id, partition) in taken:
                waits = True
            else:
                added.setdefault(topic_id, {})[partition] = aim.epoch
    if revoking and _claims(claimed, revoking):
        return member.at(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    for topic_id, partitions in added.items():
        kept.setdefault(topic_id, {}).update(partitions)
    return member.at(aim.epoch, MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE, kept, {})


def _claims(claimed: Parts | None, parts: Owned) -> bool:
    """Whether a member still has some of these, as far as it says."""
    if claimed is None:
        return True
    return any(not claimed.get(topic_id, frozenset()).isdisjoint(partitions) for topic_id, partitions in parts.items())
