"""A share group (KIP-932): members, target and current assignments, the initialized share partitions, and its records.

A group only changes by records (`replay`), both new ones and those loaded from the log. Decisions are in `share`.
Source: org.apache.kafka.coordinator.group.modern.share.{ShareGroup, ShareGroupMember};
GroupMetadataManager.ShareGroupStatePartitionMetadataInfo.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kafkaraw.broker.groups.assignors import PartitionsByTopic
from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.broker.groups.records import GroupRecord
from kafkaraw.broker.groups.states import GroupType
from kafkaraw.light_classes import NamedTuple, dataclass, field, replace
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.embedded import share_group_records as stored
from kafkaraw.protocol.error_codes import ErrorCode

LEAVING: Final = -1
STABLE: Final = 0
"""The only reconciliation state of a share group's member, as a number in records."""


@dataclass(frozen=True, slots=True)
class ShareMember:
    """One member.

    Attributes:
        epoch: the member epoch.
        previous_epoch: the previous epoch, which distinguishes a lost response from a fenced member.
        assigned: its assigned partitions.
    """

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: PartitionsByTopic = field(default_factory=dict)


class TopicPartitions(NamedTuple):
    """Partitions of a topic."""

    name: str
    partitions: frozenset[int]


Parts = Mapping[Uuid, TopicPartitions]
"""Topic id -> partitions."""


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """The share partitions of a group whose state the share coordinator has, or is to have.

    Attributes:
        initializing: those whose initialization has begun.
        initialized: those that members may be assigned.
        deleting: topics whose states are being deleted: id -> name.
    """

    initializing: Parts = field(default_factory=dict)
    initialized: Parts = field(default_factory=dict)
    deleting: Mapping[Uuid, str] = field(default_factory=dict)


def joined(left: Parts, right: Parts) -> dict[Uuid, TopicPartitions]:
    """Return the partitions that are in either."""
    found = dict(left)
    for topic_id, parts in right.items():
        before = found.get(topic_id, TopicPartitions(parts.name, frozenset()))
        found[topic_id] = TopicPartitions(parts.name, before.partitions | parts.partitions)
    return found


def without(parts: Parts, gone: PartitionsByTopic) -> dict[Uuid, TopicPartitions]:
    """Return the partitions that are not in `gone`."""
    left = {
        topic_id: each._replace(partitions=each.partitions - gone.get(topic_id, frozenset()))
        for topic_id, each in parts.items()
    }
    return {topic_id: each for topic_id, each in left.items() if each.partitions}


@dataclass(slots=True)
class ShareGroup:
    """One group.

    Attributes:
        epoch: incremented at each change of members, subscriptions, topics, or initialized partitions.
        metadata_hash: hash of the subscribed topics; it changes when they change.
        target_epoch: the group epoch of the target assignment.
        target_ms: when the target was computed, in milliseconds since 1970; 0 for never.
        target: the target assignment, by member id.
        states: the share partitions with a state; None if there is no record about them.
        initializing_since_ms: when the initialization of a topic began; it is not stored.
    """

    group_id: str
    epoch: int = 1
    metadata_hash: int = 0
    target_epoch: int = 1
    target_ms: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    target: dict[str, PartitionsByTopic] = field(default_factory=dict)
    states: StatePartitions | None = None
    initializing_since_ms: dict[Uuid, int] = field(default_factory=dict)
    topics_version: int = -1
    type: GroupType = GroupType.SHARE
    protocol_type: str = "share"

    def copy(self) -> ShareGroup:
        """Return a copy that can be changed independently."""
        return replace(
            self,
            members=dict(self.members),
            target=dict(self.target),
            initializing_since_ms=dict(self.initializing_since_ms),
        )

    # ---- what follows

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    @property
    def state_label(self) -> str:
        """Kafka's name of the state."""
        return "Stable" if self.members else "Empty"

    @property
    def initialized(self) -> Parts:
        """The partitions that members may be assigned."""
        return {} if self.states is None else self.states.initialized

    def topics(self) -> frozenset[str]:
        """Return the topics that any member is subscribed to."""
        return frozenset[str]().union(*(member.topic_names for member in self.members.values()))

    def reads(self, topic: str) -> bool:
        """Return whether a member is subscribed to a topic."""
        return any(topic in member.topic_names for member in self.members.values())

    @property
    def has_unassigned(self) -> bool:
        """Whether partitions of subscribed topics were initialized since the target assignment was computed."""
        subscribed = self.topics()
        assigned: dict[Uuid, set[int]] = {}
        for parts in self.target.values():
            for topic_id, partitions in parts.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        return any(
            each.name in subscribed and assigned.get(topic_id, set()) != set(each.partitions)
            for topic_id, each in self.initialized.items()
        )

    # ---- requests that other groups have

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, in_transaction: bool, version: int
    ) -> ErrorCode:
        """Return the error code of a commit: share groups have no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return the error code of a request for committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_delete(self) -> ErrorCode:
        """Return the error code of a deletion of the group."""
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def check_delete_offsets(self) -> ErrorCode:
        """Return the error code of a deletion of committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def expires_from_ms(self, committed: CommittedOffset) -> int | None:
        """Return None: share groups do not expire."""
        return None

    # ---- records

    def replay(self, record: GroupRecord) -> None:
        """Apply a record."""
        key, value = record
        if isinstance(key, stored.ShareGroupMetadataKey):
            if value is not None:
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
        elif isinstance(key, stored.ShareGroupMemberMetadataKey):
            self._replay_member(key.member_id, value)
        elif isinstance(key, stored.ShareGroupTargetAssignmentMetadataKey):
            self.target_epoch = LEAVING if value is None else value.assignment_epoch
            self.target_ms = 0 if value is None else value.assignment_timestamp
        elif isinstance(key, stored.ShareGroupTargetAssignmentMemberKey):
            self.target.pop(key.member_id, None)
            if value is not None:
                self.target[key.member_id] = _parts_of(value.topic_partitions)
        elif isinstance(key, stored.ShareGroupCurrentMemberAssignmentKey):
            self._replay_assignment(key.member_id, value)
        elif isinstance(key, stored.ShareGroupStatePartitionMetadataKey):
            self.states = None if value is None else _states_of(value)

    def _replay_member(self, member_id: str, value: stored.ShareGroupMemberMetadataValue | None) -> None:
        if value is None:
            self.members.pop(member_id, None)
            return
        self.members[member_id] = replace(
            self.members.get(member_id) or ShareMember(member_id),
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
        )

    def _replay_assignment(self, member_id: str, value: stored.ShareGroupCurrentMemberAssignmentValue | None) -> None:
        member = self.members.get(member_id)
        if value is None:
            if member is not None:
                self.members[member_id] = replace(member, epoch=LEAVING, previous_epoch=LEAVING, assigned={})
            return
        self.members[member_id] = replace(
            member or ShareMember(member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=_parts_of(value.assigned_partitions),
        )

    # ---- as records

    def epoch_record(self, epoch: int, metadata_hash: int) -> GroupRecord:
        """Return the record of a group epoch."""
        key = stored.ShareGroupMetadataKey(group_id=self.group_id)
        return GroupRecord(key, stored.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))

    def member_record(self, member: ShareMember) -> GroupRecord:
        """Return the record of a member and its subscription."""
        key = stored.ShareGroupMemberMetadataKey(group_id=self.group_id, member_id=member.member_id)
        value = stored.ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topic_names),
        )
        return GroupRecord(key, value)

    def assignment_record(self, member: ShareMember) -> GroupRecord:
        """Return the record of the current assignment of a member."""
        key = stored.ShareGroupCurrentMemberAssignmentKey(group_id=self.group_id, member_id=member.member_id)
        value = stored.ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=STABLE,
            assigned_partitions=[
                stored.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in sorted(member.assigned.items())
            ],
        )
        return GroupRecord(key, value)

    def target_record(self, member_id: str, parts: PartitionsByTopic) -> GroupRecord:
        """Return the record of the target assignment of a member."""
        key = stored.ShareGroupTargetAssignmentMemberKey(group_id=self.group_id, member_id=member_id)
        value = stored.ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[
                stored.TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in sorted(parts.items())
            ]
        )
        return GroupRecord(key, value)

    def target_epoch_record(self, epoch: int, now_ms: int) -> GroupRecord:
        """Return the record of the epoch of the target assignment."""
        key = stored.ShareGroupTargetAssignmentMetadataKey(group_id=self.group_id)
        value = stored.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
        return GroupRecord(key, value)

    def states_record(self, states: StatePartitions) -> GroupRecord:
        """Return the record of the share partitions with a state."""
        key = stored.ShareGroupStatePartitionMetadataKey(group_id=self.group_id)
        value = stored.ShareGroupStatePartitionMetadataValue(
            initializing_topics=_stored_parts(states.initializing),
            initialized_topics=_stored_parts(states.initialized),
            deleting_topics=[
                stored.TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in states.deleting.items()
            ],
        )
        return GroupRecord(key, value)

    def member_tombstones(self, member_id: str) -> list[GroupRecord]:
        """Return the tombstones of a member."""
        ids = {"group_id": self.group_id, "member_id": member_id}
        return [
            GroupRecord(stored.ShareGroupCurrentMemberAssignmentKey(**ids), None),
            GroupRecord(stored.ShareGroupTargetAssignmentMemberKey(**ids), None),
            GroupRecord(stored.ShareGroupMemberMetadataKey(**ids), None),
        ]

    def tombstones(self) -> list[GroupRecord]:
        """Return the tombstones of the group."""
        records = [record for member_id in self.members for record in self.member_tombstones(member_id)]
        records.append(GroupRecord(stored.ShareGroupTargetAssignmentMetadataKey(group_id=self.group_id), None))
        records.append(GroupRecord(stored.ShareGroupStatePartitionMetadataKey(group_id=self.group_id), None))
        records.append(GroupRecord(stored.ShareGroupMetadataKey(group_id=self.group_id), None))
        return records


def _parts_of(parts: Iterable[stored.TopicPartition | stored.TopicPartitions]) -> PartitionsByTopic:
    return {Uuid(each.topic_id): frozenset(each.partitions) for each in parts}


def _states_of(value: stored.ShareGroupStatePartitionMetadataValue) -> StatePartitions:
    return StatePartitions(
        _named_parts(value.initializing_topics),
        _named_parts(value.initialized_topics),
        {Uuid(each.topic_id): each.topic_name for each in value.deleting_topics},
    )


def _named_parts(parts: Iterable[stored.TopicPartitionsInfo]) -> Parts:
    return {Uuid(each.topic_id): TopicPartitions(each.topic_name, frozenset(each.partitions)) for each in parts}


def _stored_parts(parts: Parts) -> list[stored.TopicPartitionsInfo]:
    return [
        stored.TopicPartitionsInfo(topic_id=topic_id, topic_name=each.name, partitions=sorted(each.partitions))
        for topic_id, each in parts.items()
    ]
