"""Descriptions of groups, of one type for all protocols.

`of_classic`, `of_consumer`, `of_share` and `of_streams` read the responses of DescribeGroups, ConsumerGroupDescribe,
ShareGroupDescribe and StreamsGroupDescribe. An attribute that a protocol does not have is None. This module sends no
requests.
Source: KIP-518, KIP-848, KIP-1043, KIP-1071, KIP-1099; Kafka's DescribeConsumerGroupsHandler.
"""

from __future__ import annotations

from enum import StrEnum

from kafkaraw.client.admin.cluster import NOT_TOLD, operations_in
from kafkaraw.core.cluster import BrokerNode
from kafkaraw.core.group.consumer_protocol import (
    PROTOCOL_TYPE,
    MemberSubscription,
    decode_assignment,
    decode_subscription,
)
from kafkaraw.errors import ProtocolError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.acl_codes import AclOperation
from kafkaraw.protocol.messages import (
    consumer_group_describe,
    describe_groups,
    share_group_describe,
    streams_group_describe,
)
from kafkaraw.records import TopicPartition

_CLASSIC_MEMBER = 0


class GroupType(StrEnum):
    """The protocol of a group; the values are Kafka's names."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"


class GroupState(StrEnum):
    """The state of a group; the values are Kafka's names.

    PREPARING_REBALANCE and COMPLETING_REBALANCE are of classic groups, ASSIGNING and RECONCILING of those of KIP-848
    and of streams groups, NOT_READY of streams groups without all their topics.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"
    NOT_READY = "NotReady"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in the result of `list_groups`.

    Attributes:
        group_id: its name.
        protocol_type: "consumer" for consumers; empty when only offsets were committed under that name.
        state: None when the broker does not say (before 2.6).
        group_type: None when the broker does not say (before 3.8).
    """

    group_id: str
    protocol_type: str
    state: GroupState | None = None
    group_type: GroupType | None = None


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group.

    Attributes:
        member_id: given by the coordinator, or chosen by the member.
        group_instance_id: name of a static member.
        client_id: as it calls itself.
        host: where its requests come from.
        assignment: partitions that it owns; none when the members of this group are not consumers.
        target_assignment: partitions that the coordinator wants it to own; None in classic groups.
        subscribed_topics: the topics that it has subscribed to by name.
        subscribed_regex: the regex that it has subscribed to, which the broker evaluates.
        rack_id: the rack that it reports.
        member_epoch: the epoch of the last assignment that it has reconciled; None in classic groups.
        protocol: the protocol that this member speaks: a group of KIP-848 may have classic members, too. None when
            the broker does not say (before 4.0).
        active_tasks: the tasks that a member of a streams group runs, such as "0_3": subtopology and partition.
        standby_tasks: the tasks of which it keeps copies.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] = ()
    target_assignment: tuple[TopicPartition, ...] | None = None
    subscribed_topics: tuple[str, ...] = ()
    subscribed_regex: str | None = None
    rack_id: str | None = None
    member_epoch: int | None = None
    protocol: GroupType | None = GroupType.CLASSIC
    active_tasks: tuple[str, ...] = ()
    standby_tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group.

    Attributes:
        group_id: its name.
        group_type: its protocol.
        state: its state.
        protocol_type: "consumer" for consumers, "streams" for streams groups; empty when only offsets were committed
            under that name.
        assignor: the name of the assignor; empty before the first assignment.
        coordinator: its group coordinator.
        members: by member id.
        group_epoch: increases with every change of the group; None in classic groups.
        assignment_epoch: the group epoch of the target assignment; None in classic groups.
        authorized_operations: the operations on the group that this client may do; None when not requested.
    """

    group_id: str
    group_type: GroupType
    state: GroupState
    protocol_type: str
    assignor: str
    coordinator: BrokerNode
    members: tuple[MemberDescription, ...]
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    authorized_operations: frozenset[AclOperation] | None = None

    def _repr_html_(self) -> str:
        """Return what notebooks show: the state, and the members with their partitions."""
        from kafkaraw.notebooks import table, tables

        rows = (
            (each.member_id, each.client_id, each.host, len(each.assignment),
             ", ".join(f"{of.topic}-{of.partition}" for of in each.assignment))
            for each in self.members
        )  # fmt: skip
        title = f"group {self.group_id}: {self.state.value}, {self.group_type.value}, {len(self.members):,} members"
        names = ("member id", "client id", "host", "partitions", "assignment")
        return tables(title, table(names, rows, count=len(self.members)))


def state_of(name: str) -> GroupState:
    """Return the state with this name, in any spelling; UNKNOWN for a state that this client does not know."""
    return next((state for state in GroupState if state.value.lower() == name.lower()), GroupState.UNKNOWN)


def type_of(name: str) -> GroupType:
    """Return the type with this name, in any spelling; UNKNOWN for a type that this client does not know."""
    return next((kind for kind in GroupType if kind.value == name.lower()), GroupType.UNKNOWN)


def of_classic(group: describe_groups.DescribedGroup, coordinator: BrokerNode) -> GroupDescription:
    """A classic group, as the coordinator describes it."""
    members = [_classic_member(member, group.protocol_type) for member in group.members]
    return GroupDescription(
        group_id=group.group_id,
        group_type=GroupType.CLASSIC,
        state=state_of(group.group_state),
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=_in_order(members),
        authorized_operations=_operations(group.authorized_operations),
    )


def of_consumer(group: consumer_group_describe.DescribedGroup, coordinator: BrokerNode) -> GroupDescription:
    """A group of KIP-848, as the coordinator describes it."""
    return GroupDescription(
        group_id=group.group_id,
        group_type=GroupType.CONSUMER,
        state=state_of(group.group_state),
        protocol_type=PROTOCOL_TYPE,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=_in_order([_consumer_member(member) for member in group.members]),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        authorized_operations=_operations(group.authorized_operations),
    )


def of_share(group: share_group_describe.DescribedGroup, coordinator: BrokerNode) -> GroupDescription:
    """A share group (KIP-932), as the coordinator describes it."""
    return GroupDescription(
        group_id=group.group_id,
        group_type=GroupType.SHARE,
        state=state_of(group.group_state),
        protocol_type=GroupType.SHARE.value,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=_in_order([_share_member(member) for member in group.members]),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        authorized_operations=_operations(group.authorized_operations),
    )


def of_streams(group: streams_group_describe.DescribedGroup, coordinator: BrokerNode) -> GroupDescription:
    """A streams group (KIP-1071), as the coordinator describes it; it does not tell the assignor."""
    return GroupDescription(
        group_id=group.group_id,
        group_type=GroupType.STREAMS,
        state=state_of(group.group_state),
        protocol_type=GroupType.STREAMS.value,
        assignor="",
        coordinator=coordinator,
        members=_in_order([_streams_member(member) for member in group.members]),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        authorized_operations=_operations(group.authorized_operations),
    )


def _share_member(member: share_group_describe.Member) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=None,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(member.assignment),
        subscribed_topics=tuple(sorted(member.subscribed_topic_names)),
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        protocol=GroupType.SHARE,
    )


def _streams_member(member: streams_group_describe.Member) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        protocol=GroupType.STREAMS,
        active_tasks=_tasks(member.assignment.active_tasks),
        standby_tasks=_tasks(member.assignment.standby_tasks),
    )


def _tasks(tasks: list[streams_group_describe.TaskIds]) -> tuple[str, ...]:
    ids = sorted((each.subtopology_id, partition) for each in tasks for partition in each.partitions)
    return tuple(f"{subtopology_id}_{partition}" for subtopology_id, partition in ids)


def _classic_member(member: describe_groups.DescribedGroupMember, protocol_type: str) -> MemberDescription:
    subscription, assignment = MemberSubscription(()), tuple[TopicPartition, ...]()
    if protocol_type == PROTOCOL_TYPE:
        subscription, assignment = _what_it_says(member)
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=tuple(sorted(assignment)),
        subscribed_topics=tuple(sorted(subscription.topics)),
        rack_id=subscription.rack_id,
    )


def _what_it_says(
    member: describe_groups.DescribedGroupMember,
) -> tuple[MemberSubscription, tuple[TopicPartition, ...]]:
    """Decode a member's bytes: empty while the group rebalances, or when an assignor has a format of its own."""
    subscription, assignment = MemberSubscription(()), tuple[TopicPartition, ...]()
    try:
        if member.member_metadata:
            subscription = decode_subscription(member.member_metadata)
        assignment = decode_assignment(member.member_assignment)
    except ProtocolError:
        pass
    return subscription, assignment


def _consumer_member(member: consumer_group_describe.Member) -> MemberDescription:
    classic = member.member_type == _CLASSIC_MEMBER
    known = member.member_type >= 0
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(member.assignment),
        target_assignment=_partitions(member.target_assignment),
        subscribed_topics=tuple(sorted(member.subscribed_topic_names)),
        subscribed_regex=member.subscribed_topic_regex or None,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        protocol=(GroupType.CLASSIC if classic else GroupType.CONSUMER) if known else None,
    )


def _partitions(
    assignment: consumer_group_describe.Assignment | share_group_describe.Assignment,
) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, number)
            for topic in assignment.topic_partitions
            for number in topic.partitions
        )
    )


def _in_order(members: list[MemberDescription]) -> tuple[MemberDescription, ...]:
    return tuple(sorted(members, key=lambda member: member.member_id))


def _operations(bits: int) -> frozenset[AclOperation] | None:
    return None if bits == NOT_TOLD else operations_in(bits)
