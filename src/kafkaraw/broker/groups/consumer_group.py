"""A group of the consumer protocol (KIP-848): members, target and current assignments, and its records.

A group only changes by records (`replay`), both new ones and those loaded from the log. Decisions are in
`consumer`. Source: org.apache.kafka.coordinator.group.modern.consumer.{ConsumerGroup, ConsumerGroupMember}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from kafkaraw.broker.groups.assignors import PartitionsByTopic
from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.broker.groups.records import GroupRecord
from kafkaraw.broker.groups.states import GroupType
from kafkaraw.light_classes import NamedTuple, dataclass, field, replace
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.embedded import consumer_group_records as stored
from kafkaraw.protocol.error_codes import ErrorCode

LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2
"""The epoch of a static member that leaves temporarily."""
COMMIT_SINCE: Final = 9
"""The first version of OffsetCommit with member epochs."""
Owned = Mapping[Uuid, Mapping[int, int]]
"""Topic id -> partition -> the epoch in which it was assigned."""


class MemberState(IntEnum):
    """The reconciliation state of a member; the numbers are those in the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @property
    def label(self) -> str:
        """Kafka's name of the state."""
        return self.name


class ClassicSide(NamedTuple):
    """The JoinGroup data of a member that uses the classic protocol.

    Attributes:
        protocols: (assignor, subscription).
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Resolved(NamedTuple):
    """The topics that match a regex.

    Attributes:
        version: version of the cluster's topics when the regex was matched.
        resolved_ms: when the regex was matched, in milliseconds since 1970.
    """

    topics: frozenset[str]
    version: int
    resolved_ms: int


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member.

    Attributes:
        epoch: the member epoch; -2 for a static member that has left and may rejoin.
        previous_epoch: the previous epoch, which distinguishes a lost response from a fenced member.
        assigned: its assigned partitions.
        revoking: partitions that it has to revoke first.
        classic: its JoinGroup data, if it uses the classic protocol.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    server_assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)
    classic: ClassicSide | None = None

    def at(self, epoch: int, state: MemberState, assigned: Owned, revoking: Owned) -> ConsumerMember:
        """Return the member with another assignment."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking)


@dataclass(slots=True)
class ConsumerGroup:
    """One group.

    Attributes:
        epoch: incremented at each change of members, subscriptions or topics.
        metadata_hash: hash of the subscribed topics; it changes when they change.
        target_epoch: the group epoch of the target assignment.
        target_ms: when the target was computed, in milliseconds since 1970; 0 for never.
        target: the target assignment, by member id.
        regexes: the topics that subscribed regexes match.
    """

    group_id: str
    epoch: int = 1
    metadata_hash: int = 0
    target_epoch: int = 0
    target_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_ids: dict[str, str] = field(default_factory=dict)
    target: dict[str, PartitionsByTopic] = field(default_factory=dict)
    regexes: dict[str, Resolved] = field(default_factory=dict)
    topics_version: int = -1
    type: GroupType = GroupType.CONSUMER
    protocol_type: str = "consumer"

    def copy(self) -> ConsumerGroup:
        """Return a copy that can be changed independently."""
        return replace(
            self,
            members=dict(self.members),
            static_ids=dict(self.static_ids),
            target=dict(self.target),
            regexes=dict(self.regexes),
        )

    # ---- what follows

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    @property
    def state_label(self) -> str:
        """Kafka's name of the state."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        settled = all(
            member.state is MemberState.STABLE and member.epoch == self.target_epoch for member in self.members.values()
        )
        return "Stable" if settled else "Reconciling"

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics that a member is subscribed to, by name or by regex."""
        resolved = self.regexes.get(member.topic_regex) if member.topic_regex else None
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    def topics(self) -> frozenset[str]:
        """Return the topics that any member is subscribed to."""
        return frozenset[str]().union(*(self.topics_of(member) for member in self.members.values()))

    def reads(self, topic: str) -> bool:
        """Return whether a member is subscribed to a topic."""
        return any(topic in self.topics_of(member) for member in self.members.values())

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member with this instance id."""
        return None if instance_id is None else self.members.get(self.static_ids.get(instance_id, ""))

    def owned(self) -> set[tuple[Uuid, int]]:
        """Return the partitions that members own, or have not revoked yet."""
        return {
            (topic_id, partition)
            for member in self.members.values()
            for parts in (member.assigned, member.revoking)
            for topic_id, partitions in parts.items()
            for partition in partitions
        }

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Return whether another member still owns a partition of the target of a member."""
        owned = self.owned()
        return any(
            (topic_id, partition) in owned and partition not in member.assigned.get(topic_id, {})
            for topic_id, partitions in self.target.get(member.member_id, {}).items()
            for partition in partitions
        )

    def knows_protocol(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a member with these assignors can join by the classic protocol."""
        if protocol_type != self.protocol_type:
            return False
        known = [{name for name, _ in each.classic.protocols} for each in self.members.values() if each.classic]
        return any(all(name in names for names in known) for name in names)

    def preferred_assignor(self, default: str) -> str:
        """Return the assignor that most members prefer."""
        votes = Counter(member.server_assignor for member in self.members.values() if member.server_assignor)
        return max(votes, key=lambda name: votes[name], default=default) or default

    # ---- access to committed offsets

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, in_transaction: bool, version: int
    ) -> ErrorCode:
        """Return the error code of a commit with this identity; for its partitions see `may_commit`."""
        if generation < 0 and not self.members:
            return ErrorCode.NONE
        if in_transaction and generation == -1 and not member_id and instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not in_transaction and member.classic is None and version < COMMIT_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        if generation > member.epoch or generation < 0:
            return self._stale(member, in_transaction=in_transaction)
        return ErrorCode.NONE

    def may_commit(
        self, member_id: str, epoch: int, parts: Iterable[tuple[Uuid, int]], *, in_transaction: bool
    ) -> ErrorCode:
        """Return the error code of a commit with an earlier epoch, from which on the member must own the partitions."""
        member = self.members.get(member_id)
        if member is None or epoch == member.epoch:
            return ErrorCode.NONE
        for topic_id, partition in parts:
            since = member.assigned.get(topic_id, {}).get(partition)
            if since is None:
                since = member.revoking.get(topic_id, {}).get(partition)
            if since is None or epoch < since:
                return self._stale(member, in_transaction=in_transaction)
        return ErrorCode.NONE

    def _stale(self, member: ConsumerMember, *, in_transaction: bool) -> ErrorCode:
        older = in_transaction or member.classic is not None
        return ErrorCode.ILLEGAL_GENERATION if older else ErrorCode.STALE_MEMBER_EPOCH

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return the error code of a request for committed offsets with this identity."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member_epoch != member.epoch:
            return self._stale(member, in_transaction=False)
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        """Return the error code of a deletion of the group."""
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def check_delete_offsets(self) -> ErrorCode:
        """Return the error code of a deletion of committed offsets."""
        return ErrorCode.NONE

    def expires_from_ms(self, committed: CommittedOffset) -> int | None:
        """Return the start of the retention time of a committed offset."""
        return committed.committed_ms

    # ---- records

    def replay(self, record: GroupRecord) -> None:
        """Apply a record."""
        key, value = record
        if isinstance(key, stored.ConsumerGroupMetadataKey):
            if value is not None:
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
        elif isinstance(key, stored.ConsumerGroupMemberMetadataKey):
            self._replay_member(key.member_id, value)
        elif isinstance(key, stored.ConsumerGroupTargetAssignmentMetadataKey):
            self.target_epoch = LEAVING if value is None else value.assignment_epoch
            self.target_ms = 0 if value is None else value.assignment_timestamp
        elif isinstance(key, stored.ConsumerGroupTargetAssignmentMemberKey):
            self.target.pop(key.member_id, None)
            if value is not None:
                self.target[key.member_id] = {
                    Uuid(each.topic_id): frozenset(each.partitions) for each in value.topic_partitions
                }
        elif isinstance(key, stored.ConsumerGroupCurrentMemberAssignmentKey):
            self._replay_assignment(key.member_id, value)
        elif isinstance(key, stored.ConsumerGroupRegularExpressionKey):
            self.regexes.pop(key.regular_expression, None)
            if value is not None:
                self.regexes[key.regular_expression] = Resolved(frozenset(value.topics), value.version, value.timestamp)

    def _replay_member(self, member_id: str, value: stored.ConsumerGroupMemberMetadataValue | None) -> None:
        before = self.members.get(member_id)
        if value is None:
            self.members.pop(member_id, None)
            if before is not None and self.static_ids.get(before.instance_id or "") == member_id:
                del self.static_ids[before.instance_id or ""]
            return
        side = value.classic_member_metadata
        self.members[member_id] = replace(
            before or ConsumerMember(member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex or "",
            server_assignor=value.server_assignor,
            classic=None
            if side is None
            else ClassicSide(
                side.session_timeout_ms, tuple((each.name, bytes(each.metadata)) for each in side.supported_protocols)
            ),
        )
        if value.instance_id is not None:
            self.static_ids[value.instance_id] = member_id

    def _replay_assignment(
        self, member_id: str, value: stored.ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        member = self.members.get(member_id)
        if value is None:
            if member is not None:
                self.members[member_id] = replace(
                    member, epoch=LEAVING, previous_epoch=LEAVING, assigned={}, revoking={}
                )
            return
        known = value.state if value.state in {state.value for state in MemberState} else MemberState.UNKNOWN
        self.members[member_id] = replace(
            member or ConsumerMember(member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(known),
            assigned=_owned(value.assigned_partitions, value.member_epoch),
            revoking=_owned(value.partitions_pending_revocation, value.member_epoch),
        )

    # ---- as records

    def epoch_record(self, epoch: int, metadata_hash: int) -> GroupRecord:
        """Return the record of a group epoch."""
        key = stored.ConsumerGroupMetadataKey(group_id=self.group_id)
        return GroupRecord(key, stored.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))

    def member_record(self, member: ConsumerMember) -> GroupRecord:
        """Return the record of a member and its subscription."""
        key = stored.ConsumerGroupMemberMetadataKey(group_id=self.group_id, member_id=member.member_id)
        side = member.classic
        value = stored.ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topic_names),
            subscribed_topic_regex=member.topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=None
            if side is None
            else stored.ClassicMemberMetadata(
                session_timeout_ms=side.session_timeout_ms,
                supported_protocols=[
                    stored.ClassicProtocol(name=name, metadata=metadata) for name, metadata in side.protocols
                ],
            ),
        )
        return GroupRecord(key, value)

    def assignment_record(self, member: ConsumerMember) -> GroupRecord:
        """Return the record of the current assignment of a member."""
        key = stored.ConsumerGroupCurrentMemberAssignmentKey(group_id=self.group_id, member_id=member.member_id)
        value = stored.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=_stored(member.assigned),
            partitions_pending_revocation=_stored(member.revoking),
        )
        return GroupRecord(key, value)

    def target_record(self, member_id: str, parts: PartitionsByTopic) -> GroupRecord:
        """Return the record of the target assignment of a member."""
        key = stored.ConsumerGroupTargetAssignmentMemberKey(group_id=self.group_id, member_id=member_id)
        topics = [
            stored.TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(parts.items())
        ]
        return GroupRecord(key, stored.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics))

    def target_epoch_record(self, epoch: int, now_ms: int) -> GroupRecord:
        """Return the record of the epoch of the target assignment."""
        key = stored.ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id)
        value = stored.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
        return GroupRecord(key, value)

    def regex_record(self, regex: str, resolved: Resolved | None) -> GroupRecord:
        """Return the record of the topics that a regex matches; a tombstone for None."""
        key = stored.ConsumerGroupRegularExpressionKey(group_id=self.group_id, regular_expression=regex)
        if resolved is None:
            return GroupRecord(key, None)
        topics, version, resolved_ms = resolved
        value = stored.ConsumerGroupRegularExpressionValue(
            topics=sorted(topics), version=version, timestamp=resolved_ms
        )
        return GroupRecord(key, value)

    def member_tombstones(self, member_id: str) -> list[GroupRecord]:
        """Return the tombstones of a member."""
        ids = {"group_id": self.group_id, "member_id": member_id}
        return [
            GroupRecord(stored.ConsumerGroupCurrentMemberAssignmentKey(**ids), None),
            GroupRecord(stored.ConsumerGroupTargetAssignmentMemberKey(**ids), None),
            GroupRecord(stored.ConsumerGroupMemberMetadataKey(**ids), None),
        ]

    def tombstones(self) -> list[GroupRecord]:
        """Return the tombstones of the group."""
        records = [record for member_id in self.members for record in self.member_tombstones(member_id)]
        records.extend(self.regex_record(regex, None) for regex in self.regexes)
        records.append(GroupRecord(stored.ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id), None))
        # Groups of Kafka before 4.1 have one of these.
        records.append(GroupRecord(stored.ConsumerGroupPartitionMetadataKey(group_id=self.group_id), None))
        records.append(GroupRecord(stored.ConsumerGroupMetadataKey(group_id=self.group_id), None))
        return records


def _owned(parts: Iterable[stored.TopicPartitions], epoch: int) -> Owned:
    """Return partitions with the epochs of their assignment; records without them get the member's epoch."""
    return {
        Uuid(each.topic_id): dict(
            zip(
                each.partitions,
                each.assignment_epochs or [epoch] * len(each.partitions),
                strict=False,
            )
        )
        for each in parts
    }


def _stored(parts: Owned) -> list[stored.TopicPartitions]:
    return [
        stored.TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[partition] for partition in sorted(partitions)],
        )
        for topic_id, partitions in sorted(parts.items())
    ]
