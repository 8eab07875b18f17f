"""A streams group (KIP-1071): topology, members, target and current tasks, and its records.

A group only changes by records (`replay`), both new ones and those loaded from the log; the attributes that no record
has are lost with a change of leader, and are computed again. Decisions are in `streams`.
Source: org.apache.kafka.coordinator.group.streams.{StreamsGroup, StreamsGroupMember, StreamsCoordinatorRecordHelpers}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, TypeAlias

from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.broker.groups.records import GroupRecord
from kafkaraw.broker.groups.states import GroupType
from kafkaraw.broker.groups.streams_assignor import NO_TASKS, TaskMap, Tasks
from kafkaraw.broker.groups.streams_topology import ConfiguredTopology, source_names
from kafkaraw.light_classes import NamedTuple, dataclass, field, replace
from kafkaraw.protocol.embedded import streams_group_records as stored
from kafkaraw.protocol.error_codes import ErrorCode

COMMIT_SINCE: Final = 9
"""The first version of OffsetCommit with member epochs."""
LEAVING: Final = -1

Owned: TypeAlias = Mapping[str, Mapping[int, int]]
"""Subtopology id -> partition -> the epoch in which the task was assigned; 0 for tasks that are not active."""


class TaskState(IntEnum):
    """The reconciliation state of a member; the numbers are those in the records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class OwnedTasks(NamedTuple):
    """The tasks that a member has, by role."""

    active: Owned
    standby: Owned
    warmup: Owned

    def overlaps(self, tasks: Tasks) -> bool:
        """Return whether one of these tasks is among others of the same role."""
        return any(
            not others.get(name, frozenset()).isdisjoint(partitions)
            for owned, others in zip(self, tasks, strict=True)
            for name, partitions in owned.items()
        )

    def covers(self, tasks: Tasks) -> bool:
        """Return whether all of these others are among these tasks."""
        return all(
            partitions <= owned.get(name, {}).keys()
            for owned, others in zip(self, tasks, strict=True)
            for name, partitions in others.items()
        )


NOTHING_OWNED: Final = OwnedTasks({}, {}, {})


class Endpoint(NamedTuple):
    """Where a member serves its state."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """One member.

    Attributes:
        topology_epoch: epoch of the topology that it runs.
        process_id: of its process, which may hold several members.
        epoch: the member epoch.
        previous_epoch: the previous epoch, which distinguishes a lost response from a fenced member.
        assigned: its assigned tasks.
        revoking: tasks that it has to revoke first.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    epoch: int = 0
    previous_epoch: int = 0
    state: TaskState = TaskState.STABLE
    assigned: OwnedTasks = NOTHING_OWNED
    revoking: OwnedTasks = NOTHING_OWNED

    def at(self, epoch: int, state: TaskState, assigned: OwnedTasks, revoking: OwnedTasks) -> StreamsMember:
        """Return the member with other tasks."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking)


@dataclass(slots=True)
class StreamsGroup:
    """One group.

    Attributes:
        epoch: incremented at each change of members, topology, topics or settings of the assignment.
        metadata_hash: hash of the topics of the topology; it changes when they change.
        validated_epoch: epoch of the topology for which all topics exist; -1 if some are missing.
        assignment_configs: the settings that the assignment was computed with.
        target_epoch: the group epoch of the target assignment.
        target_ms: when the target was computed, in milliseconds since 1970; 0 for never.
        target: the target assignment, by member id.
        topology: the topology; None until a member has sent it.
        configured: the topology with the topics of the cluster; None until the next heartbeat.
        topics_version: version of the cluster's topics at the last look.
        endpoints_epoch: incremented when the tasks of a member with an endpoint change.
        shutdown_by: the member that has asked all members to stop.
    """

    group_id: str
    epoch: int = 1
    metadata_hash: int = 0
    validated_epoch: int = 0
    assignment_configs: Mapping[str, str] = field(default_factory=dict)
    target_epoch: int = 1
    target_ms: int = 0
    members: dict[str, StreamsMember] = field(default_factory=dict)
    target: dict[str, Tasks] = field(default_factory=dict)
    topology: stored.StreamsGroupTopologyValue | None = None
    configured: ConfiguredTopology | None = None
    topics_version: int = -1
    endpoints_epoch: int = 0
    shutdown_by: str | None = None
    type: GroupType = GroupType.STREAMS
    protocol_type: str = "streams"

    def copy(self) -> StreamsGroup:
        """Return a copy that can be changed independently."""
        return replace(self, members=dict(self.members), target=dict(self.target))

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
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return "NotReady"
        if self.epoch > self.target_epoch:
            return "Assigning"
        settled = all(
            member.state is TaskState.STABLE and member.epoch == self.target_epoch for member in self.members.values()
        )
        return "Stable" if settled else "Reconciling"

    def reads(self, topic: str) -> bool:
        """Return whether the members read a topic."""
        return bool(self.members) and self._subtopology_of(topic) is not None

    def _subtopology_of(self, topic: str) -> str | None:
        parts = () if self.topology is None else self.topology.subtopologies
        return next((one.subtopology_id for one in parts if topic in source_names(one)), None)

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
        if not in_transaction and version < COMMIT_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        return _stale(in_transaction=in_transaction) if generation > member.epoch else ErrorCode.NONE

    def may_commit(
        self, member_id: str, epoch: int, parts: Iterable[tuple[str, int]], *, in_transaction: bool
    ) -> ErrorCode:
        """Return the error code of a commit with an earlier epoch, from which on the member must run the tasks.

        Args:
            member_id: the member.
            epoch: the epoch in the commit.
            parts: topics and partitions of the commit.
            in_transaction: whether the commit is part of a transaction.
        """
        member = self.members.get(member_id)
        if member is None or epoch == member.epoch:
            return ErrorCode.NONE
        for topic, partition in parts:
            name = self._subtopology_of(topic) or ""
            since = member.assigned.active.get(name, {}).get(partition)
            if since is None:
                since = member.revoking.active.get(name, {}).get(partition)
            if since is None or epoch < since:
                return _stale(in_transaction=in_transaction)
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return the error code of a request for committed offsets with this identity."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

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
        if isinstance(key, stored.StreamsGroupMetadataKey):
            if value is not None:
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
                self.validated_epoch = value.validated_topology_epoch
                self.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}
        elif isinstance(key, stored.StreamsGroupTopologyKey):
            self.topology = value
        elif isinstance(key, stored.StreamsGroupMemberMetadataKey):
            self._replay_member(key.member_id, value)
        elif isinstance(key, stored.StreamsGroupTargetAssignmentMetadataKey):
            self.target_epoch = LEAVING if value is None else value.assignment_epoch
            self.target_ms = 0 if value is None else value.assignment_timestamp
        elif isinstance(key, stored.StreamsGroupTargetAssignmentMemberKey):
            self.target.pop(key.member_id, None)
            if value is not None:
                self.target[key.member_id] = Tasks(
                    _task_map(value.active_tasks), _task_map(value.standby_tasks), _task_map(value.warmup_tasks)
                )
        elif isinstance(key, stored.StreamsGroupCurrentMemberAssignmentKey):
            self._replay_assignment(key.member_id, value)

    def _replay_member(self, member_id: str, value: stored.StreamsGroupMemberMetadataValue | None) -> None:
        if value is None:
            self.members.pop(member_id, None)
            if not self.members:
                self.shutdown_by = None
            return
        endpoint = value.user_endpoint
        self.members[member_id] = replace(
            self.members.get(member_id) or StreamsMember(member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            client_tags=tuple((tag.key, tag.value) for tag in value.client_tags),
        )

    def _replay_assignment(self, member_id: str, value: stored.StreamsGroupCurrentMemberAssignmentValue | None) -> None:
        member = self.members.get(member_id)
        if value is None:
            if member is not None:
                self.members[member_id] = replace(
                    member, epoch=LEAVING, previous_epoch=LEAVING, assigned=NOTHING_OWNED, revoking=NOTHING_OWNED
                )
            return
        known = value.state if value.state in {state.value for state in TaskState} else TaskState.UNKNOWN
        self.members[member_id] = replace(
            member or StreamsMember(member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=TaskState(known),
            assigned=OwnedTasks(
                _owned(value.active_tasks, value.member_epoch), _owned(value.standby_tasks), _owned(value.warmup_tasks)
            ),
            revoking=OwnedTasks(
                _owned(value.active_tasks_pending_revocation, value.member_epoch),
                _owned(value.standby_tasks_pending_revocation),
                _owned(value.warmup_tasks_pending_revocation),
            ),
        )

    def epoch_record(
        self, epoch: int, metadata_hash: int, validated_epoch: int, configs: Mapping[str, str]
    ) -> GroupRecord:
        """Return the record of a group epoch."""
        value = stored.StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_epoch,
            last_assignment_configs=[
                stored.LastAssignmentConfig(key=key, value=configs[key]) for key in sorted(configs)
            ],
        )
        return GroupRecord(stored.StreamsGroupMetadataKey(group_id=self.group_id), value)

    def topology_record(self, topology: stored.StreamsGroupTopologyValue) -> GroupRecord:
        """Return the record of the topology."""
        return GroupRecord(stored.StreamsGroupTopologyKey(group_id=self.group_id), topology)

    def member_record(self, member: StreamsMember) -> GroupRecord:
        """Return the record of a member."""
        key = stored.StreamsGroupMemberMetadataKey(group_id=self.group_id, member_id=member.member_id)
        endpoint = member.endpoint
        value = stored.StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=None if endpoint is None else stored.Endpoint(host=endpoint.host, port=endpoint.port),
            client_tags=[stored.KeyValue(key=key, value=value) for key, value in member.client_tags],
        )
        return GroupRecord(key, value)

    def assignment_record(self, member: StreamsMember) -> GroupRecord:
        """Return the record of the current tasks of a member."""
        key = stored.StreamsGroupCurrentMemberAssignmentKey(group_id=self.group_id, member_id=member.member_id)
        assigned, revoking = member.assigned, member.revoking
        value = stored.StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            active_tasks=_stored_active(assigned.active),
            standby_tasks=_stored(assigned.standby),
            warmup_tasks=_stored(assigned.warmup),
            active_tasks_pending_revocation=_stored_active(revoking.active),
            standby_tasks_pending_revocation=_stored(revoking.standby),
            warmup_tasks_pending_revocation=_stored(revoking.warmup),
        )
        return GroupRecord(key, value)

    def target_record(self, member_id: str, tasks: Tasks) -> GroupRecord:
        """Return the record of the target assignment of a member."""
        key = stored.StreamsGroupTargetAssignmentMemberKey(group_id=self.group_id, member_id=member_id)
        active, standby, warmup = (
            [
                stored.StreamsGroupTargetAssignmentMemberValueTaskIds(
                    subtopology_id=name, partitions=sorted(role[name])
                )
                for name in sorted(role)
            ]
            for role in tasks
        )
        value = stored.StreamsGroupTargetAssignmentMemberValue(
            active_tasks=active, standby_tasks=standby, warmup_tasks=warmup
        )
        return GroupRecord(key, value)

    def target_epoch_record(self, epoch: int, now_ms: int) -> GroupRecord:
        """Return the record of the epoch of the target assignment."""
        key = stored.StreamsGroupTargetAssignmentMetadataKey(group_id=self.group_id)
        value = stored.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
        return GroupRecord(key, value)

    def member_tombstones(self, member_id: str) -> list[GroupRecord]:
        """Return the tombstones of a member."""
        ids = {"group_id": self.group_id, "member_id": member_id}
        return [
            GroupRecord(stored.StreamsGroupCurrentMemberAssignmentKey(**ids), None),
            GroupRecord(stored.StreamsGroupTargetAssignmentMemberKey(**ids), None),
            GroupRecord(stored.StreamsGroupMemberMetadataKey(**ids), None),
        ]

    def tombstones(self) -> list[GroupRecord]:
        """Return the tombstones of the group."""
        records = [record for member_id in self.members for record in self.member_tombstones(member_id)]
        records.append(GroupRecord(stored.StreamsGroupTargetAssignmentMetadataKey(group_id=self.group_id), None))
        records.append(GroupRecord(stored.StreamsGroupMetadataKey(group_id=self.group_id), None))
        records.append(GroupRecord(stored.StreamsGroupTopologyKey(group_id=self.group_id), None))
        return records

    def target_of(self, member_id: str) -> Tasks:
        """Return the target assignment of a member."""
        return self.target.get(member_id, NO_TASKS)


def _stale(*, in_transaction: bool) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if in_transaction else ErrorCode.STALE_MEMBER_EPOCH


def _task_map(tasks: Iterable[stored.StreamsGroupTargetAssignmentMemberValueTaskIds]) -> TaskMap:
    return {each.subtopology_id: frozenset(each.partitions) for each in tasks}


def _owned(tasks: Iterable[stored.TaskIds], epoch: int = 0) -> Owned:
    """Return tasks with the epochs of their assignment; records without them get the member's epoch."""
    return {
        each.subtopology_id: dict(
            zip(each.partitions, each.assignment_epochs or [epoch] * len(each.partitions), strict=False)
        )
        for each in tasks
    }


def _stored_active(owned: Owned) -> list[stored.TaskIds]:
    return [
        stored.TaskIds(
            subtopology_id=name,
            partitions=sorted(owned[name]),
            assignment_epochs=[owned[name][partition] for partition in sorted(owned[name])],
        )
        for name in sorted(owned)
    ]


def _stored(owned: Owned) -> list[stored.TaskIds]:
    return [stored.TaskIds(subtopology_id=name, partitions=sorted(owned[name])) for name in sorted(owned)]
