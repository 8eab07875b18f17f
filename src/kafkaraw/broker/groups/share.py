"""The share group protocol (KIP-932): members send heartbeats, and the coordinator assigns share partitions.

Several members may have the same partition. A partition is assigned once the share coordinator has initialized its
state; the next heartbeat of a member assigns it. A request changes a copy of the group by a list of records, which
replaces the group when they are in the log; the response is sent once they are replicated. Start at `heartbeat`.
Source: the share part of org.apache.kafka.coordinator.group.{GroupCoordinatorService, GroupMetadataManager} of
Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.share_settings import ShareLimits
from kafkaraw.broker.groups.assignors import MemberSpec, PartitionsByTopic
from kafkaraw.broker.groups.records import GroupRecord
from kafkaraw.broker.groups.runtime import Caller, CoordinatorContext, Done, Topics, Writer, metadata_hash
from kafkaraw.broker.groups.share_assignor import assign_simple
from kafkaraw.broker.groups.share_group import (
    LEAVING,
    Parts,
    ShareGroup,
    ShareMember,
    StatePartitions,
    TopicPartitions,
    joined,
    without,
)
from kafkaraw.light_classes import NamedTuple, dataclass, field, replace
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafkaraw.protocol.messages.share_group_heartbeat import TopicPartitions as AssignedPartitions
from kafkaraw.protocol.printable import printable

NO_OFFSET: Final = -1

_logger = logging.getLogger("kafkaraw.broker.groups")

Answer = Callable[[ShareGroupHeartbeatResponse], None]
StartOffsets = Mapping[Uuid, Mapping[int, int]]
"""Topic id -> partition -> the first record to deliver; -1 if the group's settings decide about it."""


class Failure(NamedTuple):
    """Why an operation on the state of a share partition failed."""

    code: ErrorCode
    message: str | None


Failures = Mapping[tuple[Uuid, int], Failure]


class StateSummary(NamedTuple):
    """What a group coordinator reads about a share partition.

    Attributes:
        start_offset: the first record that the group is not done with; -1 before the partition is first read.
        complete_count: number of records from the start offset on that are done with; -1 if unknown.
    """

    start_offset: int
    leader_epoch: int
    complete_count: int


class ShareStates(Protocol):
    """The share coordinators of the cluster."""

    def initialize(
        self, group_id: str, state_epoch: int, offsets: StartOffsets, done: Callable[[Failures], None]
    ) -> None:
        """Initialize states; `done` gets the failures."""
        ...

    def delete(self, group_id: str, parts: PartitionsByTopic, done: Callable[[Failures], None]) -> None:
        """Delete states; `done` gets the failures."""
        ...

    def summaries(
        self,
        group_id: str,
        parts: PartitionsByTopic,
        done: Callable[[Mapping[tuple[Uuid, int], StateSummary | Failure]], None],
    ) -> None:
        """Read the start offsets."""
        ...


@dataclass(slots=True)
class ShareChange:
    """A decision about a share group, which takes effect when its records are in the log.

    Attributes:
        group: a copy of the group, changed.
        records: the records that change it.
        after: what to do once they are in the log.
    """

    group: ShareGroup
    records: list[GroupRecord] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)

    def add(self, *records: GroupRecord) -> None:
        """Add records, and apply them to the copy."""
        for record in records:
            self.records.append(record)
            self.group.replay(record)


class GroupTable(Protocol):
    """The groups of a coordinator."""

    def share_group(self, group_id: str, *, create: bool = False) -> ShareGroup:
        """Return a share group.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND, there is none, or a group of another type.
        """
        ...

    def put(self, group: ShareGroup) -> None:
        """Replace a group."""
        ...


class ShareProtocol:
    """Decides about members of share groups.

    Args:
        context: services of the node.
        limits_of: the settings of one group.
        topics: the cluster's topics.
        groups: the groups of the coordinator.
        writer: writes to the coordinator's log.
        states: the share coordinators.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        limits_of: Callable[[str], ShareLimits],
        topics: Topics,
        groups: GroupTable,
        writer: Writer,
        states: ShareStates,
    ) -> None:
        self._context = context
        self._limits_of = limits_of
        self._topics = topics
        self._groups = groups
        self._writer = writer
        self._states = states

    def commit(self, change: ShareChange, done: Done) -> None:
        """Write a change and apply it; call back once it and everything before it is replicated."""

        def appended() -> None:
            self._groups.put(change.group)
            for act in change.after:
                act()

        if change.records:
            self._writer.append(change.records, done, appended=appended)
        else:
            appended()
            self._writer.when_replicated(done)

    # ---- requests

    def heartbeat(self, request: ShareGroupHeartbeatRequest, caller: Caller, answer: Answer) -> None:
        """Handle the heartbeat of a member that joins, stays or leaves.

        Args:
            request: the heartbeat.
            caller: the client that sent it.
            answer: called with the response, which has the assignment.
        """
        try:
            _check_request(request)
            leaves = request.member_epoch == LEAVING
            change, response = self._leave(request) if leaves else self._stay(request, caller)
        except ApiError as error:
            answer(refused(error.code, error.message))
            return
        self.commit(change, lambda code: answer(refused(code) if code else response))

    def _stay(
        self, request: ShareGroupHeartbeatRequest, caller: Caller
    ) -> tuple[ShareChange, ShareGroupHeartbeatResponse]:
        joins = request.member_epoch == 0
        change = ShareChange(self._begun(request.group_id, create=joins).copy())
        group, limits = change.group, self._limits_of(request.group_id)
        known = group.members.get(request.member_id)
        if known is None and len(group.members) >= limits.size_max:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {limits.size_max} members.",
            )
        if known is None and not joins:
            raise unknown_member(group, request.member_id)
        before = known or ShareMember(request.member_id)
        _check_epoch(before, request.member_epoch)
        names = request.subscribed_topic_names
        member = replace(
            before,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            topic_names=before.topic_names if names is None else frozenset(names),
            client_id=caller.client_id,
            client_host=caller.host,
        )
        changed = member.topic_names != before.topic_names
        if known != member:
            change.add(group.member_record(member))
        bumped = self._refresh(change, bump=changed or (group.target_epoch >= group.epoch and group.has_unassigned))
        self._update_target(change, limits)
        after = self._reconciled(change, request.member_id, subscription_changed=bumped)
        self._initialize_topics(change, limits)
        change.after.append(lambda: self._watch_session(request.group_id, request.member_id))
        response = ShareGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=after.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=limits.heartbeat_interval_ms,
        )
        if joins or names is not None or after.assigned != before.assigned:
            response.assignment = Assignment(
                topic_partitions=[
                    AssignedPartitions(topic_id=topic_id, partitions=sorted(partitions))
                    for topic_id, partitions in sorted(after.assigned.items())
                ]
            )
        return change, response

    def _begun(self, group_id: str, *, create: bool) -> ShareGroup:
        try:
            return self._groups.share_group(group_id, create=create)
        except ApiError as error:
            if not error.message.endswith("not found."):
                raise
            raise ApiError(error.code, f"Share group {group_id} not found.") from error

    def _refresh(self, change: ShareChange, *, bump: bool) -> bool:
        """Begin a new group epoch if necessary; return whether there is one."""
        group = change.group
        stale = group.topics_version != self._topics.version
        if not bump and not stale:
            return False
        group.topics_version = self._topics.version
        seen = metadata_hash(self._topics, group.topics())
        if not bump and seen == group.metadata_hash:
            return False
        change.add(group.epoch_record(group.epoch + 1, seen))
        _logger.info("share group %r is in epoch %d", group.group_id, group.epoch)
        return True

    def _update_target(self, change: ShareChange, limits: ShareLimits) -> None:
        """Compute a target assignment for a new epoch, unless the minimum interval since the last one is not over."""
        group, now_ms = change.group, self._context.now_ms()
        interval_ms = limits.assignment_interval_ms
        recent = group.target_ms and interval_ms and now_ms < group.target_ms + interval_ms
        if group.epoch <= group.target_epoch or recent:
            return
        specs = {
            member_id: MemberSpec(None, self._ids(member), group.target.get(member_id, {}))
            for member_id, member in group.members.items()
        }
        made = assign_simple(specs, {topic_id: each.partitions for topic_id, each in group.initialized.items()})
        for member_id in specs:
            parts = made.get(member_id, {})
            if group.target.get(member_id) != parts:
                change.add(group.target_record(member_id, parts))
        change.add(group.target_epoch_record(group.epoch, now_ms))

    def _ids(self, member: ShareMember) -> frozenset[Uuid]:
        return frozenset(found[0] for name in member.topic_names if (found := self._topics.find(name)))

    def _reconciled(self, change: ShareChange, member_id: str, *, subscription_changed: bool) -> ShareMember:
        """Give a member its target assignment; unlike in consumer groups, it need not revoke partitions first."""
        group = change.group
        member = group.members[member_id]
        if member.epoch == group.target_epoch and not subscription_changed:
            return member
        readable = self._ids(member)
        assigned = {
            topic_id: partitions
            for topic_id, partitions in group.target.get(member_id, {}).items()
            if topic_id in readable
        }
        after = replace(member, assigned=assigned)
        if member.epoch != group.target_epoch:
            after = replace(after, epoch=group.target_epoch, previous_epoch=member.epoch)
        if after != member:
            change.add(group.assignment_record(after))
        return after

    # ---- leaving

    def _leave(self, request: ShareGroupHeartbeatRequest) -> tuple[ShareChange, ShareGroupHeartbeatResponse]:
        change = ShareChange(self._groups.share_group(request.group_id).copy())
        if request.member_id not in change.group.members:
            raise unknown_member(change.group, request.member_id)
        _logger.info("share group %r: member %r left", request.group_id, printable(request.member_id))
        self._remove(change, request.member_id)
        return change, ShareGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=0,
        )

    def _remove(self, change: ShareChange, member_id: str) -> None:
        group = change.group
        change.add(*group.member_tombstones(member_id))
        change.add(group.epoch_record(group.epoch + 1, metadata_hash(self._topics, group.topics())))
        change.after.append(lambda: self._context.timers.cancel(_session(group.group_id, member_id)))

    def _fence(self, group_id: str, member_id: str) -> None:
        """Remove a member whose session has expired."""
        try:
            change = ShareChange(self._groups.share_group(group_id).copy())
        except ApiError:
            return
        if member_id in change.group.members:
            _logger.info("share group %r: member %r is fenced: the member session expired", group_id, member_id)
            self._remove(change, member_id)
            self.commit(change, lambda code: self._watch_session(group_id, member_id) if code else None)

    # ---- time

    def begin(self, group: ShareGroup) -> None:
        """Start the session timeouts of a group that was read from the log."""
        for member_id in group.members:
            self._watch_session(group.group_id, member_id)

    def _watch_session(self, group_id: str, member_id: str) -> None:
        self._context.timers.set(
            _session(group_id, member_id),
            self._limits_of(group_id).session_ms,
            lambda: self._fence(group_id, member_id),
        )

    # ---- the states of share partitions

    def _initialize_topics(self, change: ShareChange, limits: ShareLimits) -> None:
        """Begin to initialize the partitions of subscribed topics that have no state yet."""
        group, now_ms = change.group, self._context.now_ms()
        states = group.states or StatePartitions()
        recent = {
            topic_id: each
            for topic_id, each in states.initializing.items()
            if now_ms - group.initializing_since_ms.get(topic_id, 0) < limits.initialize_retry_ms
        }
        begun = joined(states.initialized, recent)
        missing: dict[Uuid, TopicPartitions] = {}
        for name in sorted(group.topics()):
            found = self._topics.find(name)
            if found is not None:
                having = begun[found[0]].partitions if found[0] in begun else frozenset[int]()
                left = frozenset(range(found[1])) - having
                if left:
                    missing[found[0]] = TopicPartitions(name, left)
        if missing:
            self.begin_initialization(change, missing)
            group_id, epoch = group.group_id, group.epoch
            offsets = {topic_id: dict.fromkeys(each.partitions, NO_OFFSET) for topic_id, each in missing.items()}
            change.after.append(lambda: self._initialize(group_id, epoch, offsets))

    def begin_initialization(self, change: ShareChange, missing: Parts) -> None:
        """Note in the group that partitions are being initialized."""
        group = change.group
        states = group.states or StatePartitions()
        initializing = joined(states.initializing, missing)
        deleting = {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in initializing}
        change.add(group.states_record(StatePartitions(initializing, states.initialized, deleting)))
        group.initializing_since_ms.update(dict.fromkeys(missing, self._context.now_ms()))

    def _initialize(self, group_id: str, epoch: int, offsets: StartOffsets) -> None:
        def initialized(failures: Failures) -> None:
            if not self._writer.resigned:
                self.end_initialization(group_id, offsets, failed=bool(failures), done=lambda code: None)

        self._states.initialize(group_id, epoch, offsets, initialized)

    def end_initialization(self, group_id: str, offsets: StartOffsets, *, failed: bool, done: Done) -> None:
        """Note that partitions are initialized, or that it failed, so that a heartbeat tries again."""
        try:
            group = self._groups.share_group(group_id)
        except ApiError as error:
            done(error.code)
            return
        change = ShareChange(group.copy())
        states = group.states or StatePartitions()
        parts = {topic_id: frozenset(partitions) for topic_id, partitions in offsets.items()}
        initialized = dict(states.initialized)
        if not failed:
            named = {
                topic_id: TopicPartitions(name, partitions)
                for topic_id, partitions in parts.items()
                if (name := self._topics.name_of(topic_id)) is not None
            }
            initialized = joined(initialized, named)
        left = without(states.initializing, parts)
        change.add(change.group.states_record(StatePartitions(left, initialized, states.deleting)))
        self.commit(change, done)

    def forget_topic(self, group: ShareGroup, name: str) -> None:
        """Forget the share partitions of a deleted topic."""
        states = group.states
        if states is None:
            return
        kept = [
            {topic_id: each for topic_id, each in parts.items() if each.name != name}
            for parts in (states.initializing, states.initialized)
        ]
        after = StatePartitions(
            kept[0], kept[1], {topic_id: other for topic_id, other in states.deleting.items() if other != name}
        )
        if after != states:
            change = ShareChange(group.copy())
            change.add(group.states_record(after))
            self.commit(change, lambda code: None)


def refused(code: ErrorCode, message: str | None = None) -> ShareGroupHeartbeatResponse:
    """Return the response to a heartbeat that is refused."""
    return ShareGroupHeartbeatResponse(
        error_code=code, error_message=message, member_id=None, member_epoch=0, heartbeat_interval_ms=0
    )


def unknown_member(group: ShareGroup, member_id: str) -> ApiError:
    """Return the error of a member id that the group does not have."""
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def _check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Check the fields of a heartbeat that do not depend on the group.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    problem = ""
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id)):
        if not problem and value is not None and not value.strip():
            problem = f"{name} can't be empty."
    if not problem and request.member_epoch == 0 and not request.subscribed_topic_names:
        problem = "SubscribedTopicNames must be set in first request."
    if not problem and request.member_epoch < LEAVING:
        problem = "MemberEpoch is invalid."
    if problem:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """Check the epoch of a member; it may be one behind if a response was lost.

    Raises:
        ApiError: FENCED_MEMBER_EPOCH.
    """
    if epoch in (0, member.epoch) or (epoch < member.epoch and epoch == member.previous_epoch):
        return
    if epoch > member.epoch:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a greater member epoch ({epoch}) than the one known by the group coordinator "
            f"({member.epoch}). The member must abandon all its partitions and rejoin.",
        )
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a smaller member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}), and it does not match the previous member epoch ({member.previous_epoch}). The member must "
        "abandon all its partitions and rejoin.",
    )


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "share session", group_id, member_id
