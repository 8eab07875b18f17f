"""The classic group protocol in the coordinator: joins, the leader, rebalances, leaves and session timeouts.

Each method works on the group that it is given; `coordinator` holds the groups. Responses are callbacks, because
members wait for each other: JoinGroup until all have joined, SyncGroup until the leader has sent the assignment.
Start at `join`.
Source: the classic part of org.apache.kafka.coordinator.group.GroupMetadataManager; KIP-62, KIP-345, KIP-394, KIP-814.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from kafkaraw.broker.groups.classic_group import (
    UNKNOWN_MEMBER,
    ClassicGroup,
    ClassicMember,
    Joined,
    Synced,
    refused_join,
)
from kafkaraw.broker.groups.consumer_protocol import read_assignment
from kafkaraw.broker.groups.runtime import Caller, CoordinatorContext, Topics
from kafkaraw.broker.groups.states import ClassicState
from kafkaraw.errors import ProtocolError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest
from kafkaraw.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkaraw.protocol.messages.leave_group import MemberIdentity
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkaraw.protocol.printable import printable

MEMBER_ID_REQUIRED_SINCE: Final = 4
SKIP_ASSIGNMENT_SINCE: Final = 9

_logger = logging.getLogger("kafkaraw.broker.groups")

_S = ClassicState

HANDED_OUT_MAX: Final = 1 << 20
"""Limit of the total length of handed-out member ids, in characters; a member cannot join with an older id."""


class ClassicProtocol:
    """Decides about members of classic groups.

    Args:
        context: services of the node.
        topics: the cluster's topics.
        find: returns the classic group with a given id, if it exists.
    """

    def __init__(self, context: CoordinatorContext, topics: Topics, find: Callable[[str], ClassicGroup | None]) -> None:
        self._context = context
        self._topics = topics
        self._timers = context.timers
        self._limits = context.limits
        self._find = find
        self._handed_out: deque[tuple[str, str]] = deque()
        self._handed_out_size = 0

    # ---- joining

    def join(self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, answer: Joined) -> None:
        """Let a new member join, or a member rejoin.

        Args:
            group: the group.
            request: the JoinGroup request.
            caller: the client that sent it.
            answer: called with the response, when all members have joined.
        """
        member_id = request.member_id
        if not self._has_capacity(group, member_id):
            group.remove(member_id)
            answer(refused_join(ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif not group.supports(request.protocol_type, (protocol.name for protocol in request.protocols)):
            answer(refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
        elif member_id == UNKNOWN_MEMBER:
            self._join_new(group, request, caller, answer)
        elif member_id in group.pending_joins:
            self._add(group, request, caller, member_id, answer)
        else:
            code = group.check_member(member_id, request.group_instance_id)
            if code:
                answer(refused_join(code, member_id))
            else:
                self._rejoin(group, group.members[member_id], request, answer)

    def _has_capacity(self, group: ClassicGroup, member_id: str) -> bool:
        """Return whether the group has room for another member, or already has this one."""
        if group.state in (_S.EMPTY, _S.DEAD):
            return True
        member = group.members.get(member_id)
        if group.state is _S.PREPARING_REBALANCE:
            waits = member is not None and member.joined is not None
            return waits or group.awaiting_join < self._limits.size_max
        return member is not None or len(group.members) < self._limits.size_max

    def _join_new(self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, answer: Joined) -> None:
        instance_id = request.group_instance_id
        new_id = f"{caller.client_id if instance_id is None else instance_id}-{self._context.new_id()}"
        if instance_id is not None:
            old_id = group.static_ids.get(instance_id)
            if old_id is None:
                self._add(group, request, caller, new_id, answer)
            else:
                self._replace(group, request, caller, (old_id, new_id), answer)
        elif caller.version >= MEMBER_ID_REQUIRED_SINCE:
            self._require_member_id(group, new_id, request.session_timeout_ms)
            answer(refused_join(ErrorCode.MEMBER_ID_REQUIRED, new_id))
        else:
            self._add(group, request, caller, new_id, answer)

    def _require_member_id(self, group: ClassicGroup, member_id: str, session_ms: int) -> None:
        """Expect a member with a new member id. The memory of ids that are never used is limited."""
        group.pending_joins[member_id] = None
        self._watch(group, member_id, session_ms)
        self._handed_out.append((group.group_id, member_id))
        self._handed_out_size += len(group.group_id) + len(member_id)
        while self._handed_out_size > HANDED_OUT_MAX:
            group_id, oldest = self._handed_out.popleft()
            self._handed_out_size -= len(group_id) + len(oldest)
            found = self._find(group_id)
            if found is not None and oldest in found.pending_joins:
                self._timers.cancel(_session(found, oldest))
                found.remove(oldest)
                self._complete_if_all_joined(found)

    def _add(
        self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, member_id: str, answer: Joined
    ) -> None:
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            caller.client_id,
            caller.host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocol_type,
            _protocols(request),
            is_new=True,
            joined=answer,
        )
        if group.state is _S.PREPARING_REBALANCE and group.previous_state is _S.EMPTY:
            group.grew = True
        group.add(member)
        self._watch(group, member_id, self._limits.new_member_join_timeout_ms)
        self._rebalance_or_complete(group, f"adding member {member_id}; reason: {_reason(request)}")

    def _rejoin(self, group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest, answer: Joined) -> None:
        same = member.protocols == _protocols(request)
        if group.state is _S.PREPARING_REBALANCE:
            self._update(group, member, request, answer)
        elif group.state is _S.COMPLETING_REBALANCE and same:
            # The previous response was probably lost.
            answer(_joined(group, member))
        elif group.state is _S.STABLE and same and not group.is_leader(member.member_id):
            answer(_joined(group, member, with_members=False))
        elif group.state in (_S.COMPLETING_REBALANCE, _S.STABLE):
            self._update(group, member, request, answer)
        else:
            answer(refused_join(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))

    def _update(self, group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest, answer: Joined) -> None:
        _update_member(member, request, answer)
        self._rebalance_or_complete(group, f"member {member.member_id} rejoins; reason: {_reason(request)}")

    def _replace(
        self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, ids: tuple[str, str], answer: Joined
    ) -> None:
        """A static member rejoins without its member id: it replaces itself (KIP-345)."""
        old_id, new_id = ids
        old_leader = group.leader_id
        member = group.replace_static(request.group_instance_id or "", old_id, new_id)
        self._timers.cancel(_session(group, old_id))
        self._watch(group, new_id, member.session_timeout_ms)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        _update_member(member, request, answer)
        if group.state is _S.STABLE and group.select_protocol() == group.protocol_name:
            self._keep_generation(group, member, old_id, old_leader, before, caller)
        elif group.state is _S.STABLE:
            self._rebalance_or_complete(group, f"the protocol changes with static member {new_id}")
        elif group.state is _S.COMPLETING_REBALANCE:
            # The leader may only know the old member id, and would assign nothing to the new one.
            self._prepare(group, f"static member {new_id} replaces {old_id}")
        else:
            self._complete_if_all_joined(group)

    def _keep_generation(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        old_id: str,
        old_leader: str | None,
        before: tuple[tuple[tuple[str, bytes], ...], int, int],
        caller: Caller,
    ) -> None:
        """Answer a static member that rejoins unchanged without a rebalance, once its new id is written."""
        new_id = member.member_id

        def written(code: ErrorCode) -> None:
            if code:
                joined, member.joined = member.joined, None
                member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms = before
                group.replace_static(member.instance_id or "", new_id, old_id)
                self._timers.cancel(_session(group, new_id))
                self._watch(group, old_id, member.session_timeout_ms)
                if joined is not None:
                    joined(refused_join(code))
                return
            skips = caller.version >= SKIP_ASSIGNMENT_SINCE
            leads = skips and group.is_leader(new_id)
            response = _joined(group, member, with_members=leads)
            response.leader = (group.leader_id if skips else old_leader) or ""
            response.skip_assignment = leads
            member.answer_join(response)

        self._context.write([group.record()], written)

    # ---- rebalances

    def _rebalance_or_complete(self, group: ClassicGroup, reason: str) -> None:
        if group.can_rebalance:
            self._prepare(group, reason)
        else:
            self._complete_if_all_joined(group)

    def _prepare(self, group: ClassicGroup, reason: str) -> None:
        """Begin a rebalance: all members have to rejoin."""
        if group.state is _S.COMPLETING_REBALANCE:
            self._propagate_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        self._timers.cancel(_sync(group))
        first = group.is_empty
        group.move_to(_S.PREPARING_REBALANCE, self._context.now_ms())
        _logger.info("group %r rebalances after generation %d: %s", group.group_id, group.generation, printable(reason))
        if first:
            delay_ms = self._limits.initial_rebalance_delay_ms
            self._wait_for_more(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        elif group.all_joined:
            self._complete(group)
        else:
            self._wait_for_joins(group)

    def _wait_for_joins(self, group: ClassicGroup) -> None:
        self._timers.set(_join(group), group.rebalance_timeout_ms, lambda: self._join_phase_over(group.group_id))

    def _wait_for_more(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        """Complete the first rebalance after a delay, which grows while members join."""

        def over() -> None:
            found = self._find(group.group_id)
            if found is None:
                return
            if found.grew and remaining_ms:
                found.grew = False
                next_ms = min(self._limits.initial_rebalance_delay_ms, remaining_ms)
                self._wait_for_more(found, next_ms, max(remaining_ms - delay_ms, 0))
            else:
                self._complete(found)

        self._timers.set(_join(group), delay_ms, over)

    def _join_phase_over(self, group_id: str) -> None:
        group = self._find(group_id)
        if group is not None:
            self._complete(group)

    def _complete_if_all_joined(self, group: ClassicGroup) -> None:
        """Complete a rebalance that all members have joined; the first one of a group ends with its delay only."""
        first = group.previous_state is _S.EMPTY
        if group.state is _S.PREPARING_REBALANCE and not first and group.all_joined:
            self._complete(group)

    def _complete(self, group: ClassicGroup) -> None:
        """Complete the join phase: remove dynamic members that have not joined, and begin the next generation."""
        self._timers.cancel(_join(group))
        for member in list(group.members.values()):
            if member.joined is None and member.instance_id is None:
                _logger.info(
                    "group %r: member %r did not rejoin within the rebalance timeout", group.group_id, member.member_id
                )
                group.remove(member.member_id)
                self._timers.cancel(_session(group, member.member_id))
        if group.state is _S.DEAD:
            return
        if group.members and not group.elect_joined_leader():
            _logger.warning("group %r: no member has rejoined; waiting for session timeouts", group.group_id)
            self._wait_for_joins(group)
            return
        group.begin_generation(self._context.now_ms())
        _logger.info(
            "group %r is in generation %d with %d members", group.group_id, group.generation, len(group.members)
        )
        if group.is_empty:
            self._context.write([group.record({})], self._when_empty_is_written(group))
            return
        for member in list(group.members.values()):
            group.pending_syncs[member.member_id] = None
            self._watch(group, member.member_id, member.session_timeout_ms)
            response = _joined(group, member)
            member.is_new = False
            member.answer_join(response)
        self._timers.set(
            _sync(group), group.rebalance_timeout_ms, lambda: self._end_syncs(group.group_id, group.generation)
        )

    def _when_empty_is_written(self, group: ClassicGroup) -> Callable[[ErrorCode], None]:
        def written(code: ErrorCode) -> None:
            if code:  # harmless: if the broker fails, it loads the previous members, which time out
                _logger.warning(
                    "group %r: the record of the empty group was not written: %s", group.group_id, code.name
                )

        return written

    def _end_syncs(self, group_id: str, generation: int) -> None:
        """Remove the members that have not sent SyncGroup in time."""
        group = self._find(group_id)
        if group is None or group.generation != generation or not group.pending_syncs:
            return
        if group.state in (_S.COMPLETING_REBALANCE, _S.STABLE):
            late = list(group.pending_syncs)
            for member_id in late:
                group.remove(member_id)
                self._timers.cancel(_session(group, member_id))
            self._prepare(group, f"removed {', '.join(late)}: did not send SyncGroup within the rebalance timeout")

    # ---- assignments

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, answer: Synced) -> None:
        """Store the leader's assignment, or let a member wait for its own."""
        code = self._check_sync(group, request)
        if not code and group.state is _S.PREPARING_REBALANCE:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        if code:
            answer(SyncGroupResponse(error_code=code, assignment=b""))
            return
        member = group.members[request.member_id]
        group.pending_syncs.pop(member.member_id, None)
        if not group.pending_syncs:
            self._timers.cancel(_sync(group))
        if group.state is _S.STABLE:
            answer(_synced(group, member))
            return
        member.synced = answer
        if group.is_leader(member.member_id):
            self._take_assignment(group, request)

    def _check_sync(self, group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
        code = group.check_member(request.member_id, request.group_instance_id)
        if code:
            return code
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        named = (request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol_name)
        if any(said is not None and said != is_so for said, is_so in named):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def _take_assignment(self, group: ClassicGroup, request: SyncGroupRequest) -> None:
        given = {assigned.member_id: bytes(assigned.assignment) for assigned in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}

        def written(code: ErrorCode) -> None:
            # A member may have joined or left meanwhile.
            if group.state is not _S.COMPLETING_REBALANCE or group.generation != request.generation_id:
                return
            if code:
                self._propagate_assignment(group, code)
                self._rebalance_or_complete(group, f"the assignment cannot be written: {code.name}")
                return
            for member in group.members.values():
                member.assignment = assignments[member.member_id]
            self._propagate_assignment(group, ErrorCode.NONE)
            group.move_to(_S.STABLE, self._context.now_ms())

        self._context.write([group.record(assignments)], written)

    def _propagate_assignment(self, group: ClassicGroup, code: ErrorCode) -> None:
        """Answer the members that wait for their assignment."""
        for member in list(group.members.values()):
            if code:
                member.assignment = b""
                response = SyncGroupResponse(error_code=code, assignment=b"")
            else:
                response = _synced(group, member)
            if member.answer_sync(response):
                self._watch(group, member.member_id, member.session_timeout_ms)

    # ---- staying and leaving

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest) -> ErrorCode:
        """Handle a heartbeat; return the error code for the response."""
        code = group.check_member(request.member_id, request.group_instance_id)
        if not code and request.generation_id != group.generation:
            code = ErrorCode.ILLEGAL_GENERATION
        if code:
            return code
        self.touch(group, request.member_id)
        rebalances = group.state is _S.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE

    def touch(self, group: ClassicGroup, member_id: str) -> None:
        """Restart the session timeout of a member."""
        member = group.members.get(member_id)
        if member is not None:
            self._watch(group, member_id, member.session_timeout_ms)

    def leave(self, group: ClassicGroup, leaving: list[MemberIdentity]) -> list[ErrorCode]:
        """Remove members by member id or instance id; return the error code of each."""
        codes = [self._remove_member(group, one) for one in leaving]
        if ErrorCode.NONE in codes:
            gone = ", ".join(one.member_id for one, code in zip(leaving, codes, strict=True) if not code)
            if group.state in (_S.STABLE, _S.COMPLETING_REBALANCE):
                self._rebalance_or_complete(group, f"({gone}) left")
            elif group.state is _S.PREPARING_REBALANCE:
                self._complete_if_all_joined(group)
        return codes

    def _remove_member(self, group: ClassicGroup, one: MemberIdentity) -> ErrorCode:
        member_id = one.member_id
        if member_id == UNKNOWN_MEMBER:
            found = None if one.group_instance_id is None else group.static_ids.get(one.group_instance_id)
            if found is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = found
        elif member_id not in group.pending_joins:
            code = group.check_member(member_id, one.group_instance_id)
            if code:
                return code
        _logger.info("group %r: %r left; reason: %r", group.group_id, member_id, one.reason or "not provided")
        self._timers.cancel(_session(group, member_id))
        member = group.members.get(member_id)
        if member is not None:
            member.answer_join(refused_join(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member_id)
        return ErrorCode.NONE

    def _watch(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        self._timers.set(
            _session(group, member_id), timeout_ms, lambda: self._session_expired(group.group_id, member_id)
        )

    def _session_expired(self, group_id: str, member_id: str) -> None:
        """Remove a member whose session has timed out."""
        group = self._find(group_id)
        if group is None:
            return
        member = group.members.get(member_id)
        if member_id in group.pending_joins:
            group.remove(member_id)
        elif member is None or member.awaits_response:
            return
        else:
            _logger.info("group %r: the session of member %r expired", group_id, member_id)
            member.answer_join(refused_join(ErrorCode.UNKNOWN_MEMBER_ID))
            group.remove(member_id)
            if group.state in (_S.STABLE, _S.COMPLETING_REBALANCE):
                self._rebalance_or_complete(group, f"{member_id} timed out")
                return
        self._complete_if_all_joined(group)

    # ---- a change of leader

    def begin(self, group: ClassicGroup) -> None:
        """Start the session timeouts of a group that was read from the log.

        The log does not record that a rebalance was pending, as after a conversion to a classic group. If partitions
        are assigned to no member, the group therefore rebalances now. (In Apache Kafka 4.3, they stay unassigned until
        a member joins or leaves.)
        """
        for member in group.members.values():
            self._watch(group, member.member_id, member.session_timeout_ms)
        if len(group.members) > self._limits.size_max:
            self._prepare(group, f"there are more members than {self._limits.size_max}")
        elif group.members and leaves_out_partitions(group, self._topics):
            self._prepare(group, "the assignment leaves partitions out")

    def adopt_members(self, group: ClassicGroup, why: str) -> None:
        """Take over a group that was a consumer group until now.

        Args:
            group: the group with all its members.
            why: reason for a rebalance; empty if the members need not rejoin.
        """
        for member in group.members.values():
            self._watch(group, member.member_id, member.session_timeout_ms)
        if why:
            self._prepare(group, why)

    def drop(self, group: ClassicGroup, code: ErrorCode) -> None:
        """Answer the members that wait, because another node coordinates the group now."""
        self._timers.cancel(_join(group))
        self._timers.cancel(_sync(group))
        for member_id in [*group.members, *group.pending_joins]:
            self._timers.cancel(_session(group, member_id))
        for member in list(group.members.values()):
            member.answer_join(refused_join(code, member.member_id))
            member.answer_sync(SyncGroupResponse(error_code=code, assignment=b""))


def leaves_out_partitions(group: ClassicGroup, topics: Topics) -> bool:
    """Return whether a subscribed partition is assigned to no member, as far as subscriptions can be read."""
    given: set[tuple[str, int]] = set()
    try:
        for member in group.members.values():
            for part in read_assignment(member.assignment).assigned_partitions:
                given.update((part.topic, number) for number in part.partitions)
    except ProtocolError:
        return False  # an assignor that writes its own form
    wanted = ((name, topics.find(name)) for name in group.subscribed_topics or ())
    return any((name, number) not in given for name, found in wanted if found for number in range(found[1]))


def _protocols(request: JoinGroupRequest) -> tuple[tuple[str, bytes], ...]:
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)


def _reason(request: JoinGroupRequest) -> str:
    return request.reason or "not provided"


def _update_member(member: ClassicMember, request: JoinGroupRequest, answer: Joined) -> None:
    """Update a member from its JoinGroup request."""
    before = member.joined
    member.protocols = _protocols(request)
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    member.joined = answer
    if before is not None and before is not answer:
        before(refused_join(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))


def _joined(group: ClassicGroup, member: ClassicMember, *, with_members: bool = True) -> JoinGroupResponse:
    leads = with_members and group.is_leader(member.member_id)
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=group.members_for_leader() if leads else [],
    )


def _synced(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def _session(group: ClassicGroup, member_id: str) -> tuple[str, str, str]:
    return "session", group.group_id, member_id


def _join(group: ClassicGroup) -> tuple[str, str]:
    return "join", group.group_id


def _sync(group: ClassicGroup) -> tuple[str, str]:
    return "sync", group.group_id
