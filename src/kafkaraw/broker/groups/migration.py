"""The migration of a group with members from one protocol to the other. Pure.

A classic group is upgraded when a member of the consumer protocol joins it, and downgraded when the last such member
leaves. In between, `classic_members` serves the classic members. Members keep their assignments.
Source: ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup and the validateOnline* methods of
org.apache.kafka.coordinator.group.GroupMetadataManager of Kafka 4.3; KIP-848.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.group_settings import Limits
from kafkaraw.broker.groups.assignors import PartitionsByTopic
from kafkaraw.broker.groups.classic_group import CONSUMER_TYPE, ClassicGroup, ClassicMember
from kafkaraw.broker.groups.consumer_group import ClassicSide, ConsumerGroup, ConsumerMember
from kafkaraw.broker.groups.consumer_protocol import (
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from kafkaraw.broker.groups.runtime import GroupChange, Topics, metadata_hash
from kafkaraw.broker.groups.states import ClassicState
from kafkaraw.errors import ProtocolError
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.embedded.consumer_protocol import ConsumerProtocolSubscription
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.printable import printable
from kafkaraw.records import TopicPartition

NEVER_MS: Final = 0

_logger = logging.getLogger("kafkaraw.broker.groups")


# ---- upgrade


def check_upgrade(group: ClassicGroup, limits: Limits) -> None:
    """Check that a classic group with members may become a consumer group.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND.
    """
    problem = ""
    if not limits.migration.upgrades:
        problem = "online upgrade is disabled"
    elif not group.of_consumers:
        problem = "the group does not use the consumer embedded protocol"
    elif len(group.members) > limits.consumer_size_max:
        problem = "the group size exceeds the consumer group maximum size"
    if problem:
        raise _no_upgrade(group, problem)


def upgrade(group: ClassicGroup, topics: Topics) -> GroupChange:
    """Return the change that makes a classic group with its members a consumer group.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, the broker cannot read the members' subscriptions.
    """
    try:
        said = {member_id: _subscription(group, member) for member_id, member in group.members.items()}
        held = _held(group, said)
        members = [
            _upgraded(group, member, said[member_id], held[member_id], topics)
            for member_id, member in group.members.items()
        ]
    except ProtocolError as error:
        _logger.warning("group %r cannot be upgraded: %s", group.group_id, printable(error))
        raise _no_upgrade(group, "the embedded consumer protocol is malformed") from error
    change = GroupChange(ConsumerGroup(group.group_id), records=list(group.tombstones()))
    made, epoch = change.group, group.generation
    change.add(*(made.member_record(member) for member in members))
    change.add(made.epoch_record(epoch, metadata_hash(topics, made.topics())))
    change.add(*(made.target_record(member.member_id, _partitions_by_topic(member)) for member in members))
    change.add(made.target_epoch_record(epoch, NEVER_MS))
    change.add(*(made.assignment_record(member) for member in members))
    _logger.info("group %r uses the consumer protocol from epoch %d on", group.group_id, epoch)
    return change


def _subscription(group: ClassicGroup, member: ClassicMember) -> ConsumerProtocolSubscription:
    name = group.protocol_name or group.select_protocol()
    # During a rebalance, a member may lack the assignor. In Kafka, its subscription is the same for each assignor.
    return read_subscription(member.metadata(name) or member.protocols[0][1])


def _held(
    group: ClassicGroup, said: Mapping[str, ConsumerProtocolSubscription]
) -> dict[str, frozenset[TopicPartition]]:
    """Return the partitions of each member: assigned ones, or owned ones if a rebalance has cleared the assignment.

    Apache Kafka ignores owned partitions here, and assigns them to other members before this member has revoked them.
    If two members claim a partition, the one with the later generation owns it.
    """
    held = {member.member_id: _given(group, member) for member in group.members.values() if member.assignment}
    taken = frozenset[TopicPartition]().union(*held.values())
    unsure = [member_id for member_id in said if member_id not in held]
    for member_id in sorted(unsure, key=lambda member_id: said[member_id].generation_id, reverse=True):
        held[member_id] = _named((part.topic, part.partitions) for part in said[member_id].owned_partitions) - taken
        taken |= held[member_id]
    return held


def _given(group: ClassicGroup, member: ClassicMember) -> frozenset[TopicPartition]:
    given = read_assignment(member.assignment)
    if given.user_data:
        raise _no_upgrade(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade",
        )
    return _named((part.topic, part.partitions) for part in given.assigned_partitions)


def _named(parts: Iterable[tuple[str, Iterable[int]]]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for topic, numbers in parts for number in numbers)


def _upgraded(
    group: ClassicGroup,
    member: ClassicMember,
    said: ConsumerProtocolSubscription,
    held: frozenset[TopicPartition],
    topics: Topics,
) -> ConsumerMember:
    assigned: dict[Uuid, dict[int, int]] = {}
    for topic, number in sorted(held):
        if (found := topics.find(topic)) is not None:
            assigned.setdefault(found[0], {})[number] = group.generation
    return ConsumerMember(
        member.member_id,
        instance_id=member.instance_id,
        rack_id=said.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topic_names=frozenset(said.topics),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned=assigned,
        classic=ClassicSide(member.session_timeout_ms, member.protocols),
    )


def _partitions_by_topic(member: ConsumerMember) -> PartitionsByTopic:
    return {topic_id: frozenset(partitions) for topic_id, partitions in member.assigned.items()}


def _no_upgrade(group: ClassicGroup, problem: str) -> ApiError:
    text = f"Cannot upgrade classic group {group.group_id} to consumer group because {problem}."
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, text)


# ---- downgrade


def downgrades_without(group: ConsumerGroup, leaving: Collection[str], limits: Limits) -> bool:
    """Return whether a group becomes a classic one if these members leave."""
    staying = [member for member in group.members.values() if member.member_id not in leaving]
    if not staying or any(member.classic is None for member in staying):
        return False
    return _may_downgrade(group, len(staying), limits)


def downgrades_with(group: ConsumerGroup, replaced: ConsumerMember | None, limits: Limits) -> bool:
    """Return whether a group becomes a classic one if a static member rejoins with the classic protocol.

    Args:
        group: the group before the request.
        replaced: the member that has the instance id now, if there is one.
        limits: the settings.
    """
    if replaced is None or replaced.classic is not None:
        return False
    others = (member for member in group.members.values() if member.member_id != replaced.member_id)
    return all(member.classic is not None for member in others) and _may_downgrade(group, len(group.members), limits)


def _may_downgrade(group: ConsumerGroup, count: int, limits: Limits) -> bool:
    problem = ""
    if not limits.migration.downgrades:
        problem = "the online downgrade is disabled"
    elif count > limits.size_max:
        problem = "its group size is greater than classic group max size"
    if problem:
        _logger.info("group %r keeps the consumer protocol: %s", group.group_id, printable(problem))
    return not problem


def downgrade(change: GroupChange, leaving: Iterable[str], topics: Topics, now_ms: int) -> ClassicGroup:
    """Make the group of a change a classic one.

    Args:
        change: the change of the group; all members that stay use the classic protocol.
        leaving: the members that leave.
        topics: the cluster's topics.
        now_ms: wall clock, in milliseconds since 1970.
    """
    group, gone = change.group, set(leaving)
    staying = [member for member in group.members.values() if member.member_id not in gone]
    made = ClassicGroup(
        group.group_id,
        state=ClassicState.STABLE,
        generation=group.epoch,
        protocol_type=CONSUMER_TYPE,
        state_since_ms=now_ms,
    )
    for member in staying:
        made.add(_downgraded(member))
    made.protocol_name = made.select_protocol()
    made.note_subscriptions()
    for classic in made.members.values():
        target = group.target.get(classic.member_id, {})
        named = {name: partitions for topic_id, partitions in target.items() if (name := topics.name_of(topic_id))}
        classic.assignment = write_assignment(named, version_of(classic.metadata(made.protocol_name)))
    change.records.extend(group.tombstones())
    change.records.append(made.record())
    change.becomes = made
    _logger.info("group %r uses the classic protocol from generation %d on", group.group_id, made.generation)
    return made


def _downgraded(member: ConsumerMember) -> ClassicMember:
    side = member.classic
    assert side is not None
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        side.session_timeout_ms,
        CONSUMER_TYPE,
        side.protocols,
    )
