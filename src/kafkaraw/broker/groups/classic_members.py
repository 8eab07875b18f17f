"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup there.

There is no leader, and members do not wait for each other: the coordinator assigns partitions, as for all members of
the group. The heartbeat response asks a classic member to rejoin for its next assignment. Start at `join`.
Source: the classicGroup*ToConsumerGroup methods of org.apache.kafka.coordinator.group.GroupMetadataManager of Kafka
4.3; KIP-848.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.group_settings import MigrationPolicy
from kafkaraw.broker.groups.assignors import PartitionsByTopic
from kafkaraw.broker.groups.classic import MEMBER_ID_REQUIRED_SINCE
from kafkaraw.broker.groups.classic_group import CONSUMER_TYPE, UNKNOWN_MEMBER, Joined, Synced, refused_join
from kafkaraw.broker.groups.consumer import ConsumerProtocol
from kafkaraw.broker.groups.consumer_group import ClassicSide, ConsumerGroup, ConsumerMember, MemberState
from kafkaraw.broker.groups.consumer_protocol import read_subscription, version_of, write_assignment
from kafkaraw.broker.groups.consumer_requests import check_static, unknown_member
from kafkaraw.broker.groups.migration import downgrades_with
from kafkaraw.broker.groups.runtime import Caller, CommitChange, CoordinatorContext, GroupChange, Topics
from kafkaraw.errors import ProtocolError
from kafkaraw.light_classes import replace
from kafkaraw.protocol.embedded.consumer_protocol import ConsumerProtocolSubscription
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest
from kafkaraw.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkaraw.protocol.messages.leave_group import MemberIdentity
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkaraw.protocol.printable import printable

_logger = logging.getLogger("kafkaraw.broker.groups")

Left = Callable[[list[ErrorCode]], None]


class ClassicMembers:
    """Decides about members of the classic protocol in consumer groups.

    Args:
        context: services of the node.
        topics: the cluster's topics.
        consumer: decides about the groups.
        commit_change: writes a change to the log.
    """

    def __init__(
        self, context: CoordinatorContext, topics: Topics, consumer: ConsumerProtocol, commit_change: CommitChange
    ) -> None:
        self._context = context
        self._topics = topics
        self._consumer = consumer
        self._commit_change = commit_change

    # ---- joining

    def join(self, change: GroupChange, request: JoinGroupRequest, caller: Caller, answer: Joined) -> None:
        """Let a new member join, or a member rejoin for its next assignment.

        Args:
            change: the change of a group that has members.
            request: the JoinGroup request.
            caller: the client that sent it.
            answer: called with the response.
        """
        group, member_id = change.group, request.member_id or self._context.new_id()
        try:
            self._check_join(group, member_id, request)
            dynamic = request.group_instance_id is None
            if dynamic and not request.member_id and caller.version >= MEMBER_ID_REQUIRED_SINCE:
                answer(refused_join(ErrorCode.MEMBER_ID_REQUIRED, member_id))
                return
            member = self._join(change, member_id, request, caller)
        except ApiError as error:
            _logger.info("group %r: %r cannot join: %s", request.group_id, member_id, printable(error.message))
            answer(refused_join(error.code))
            return
        response = JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=member.epoch,
            protocol_type=CONSUMER_TYPE,
            protocol_name=request.protocols[0].name,
            leader="",
            member_id=member_id,
            members=[],
        )

        def written(code: ErrorCode) -> None:
            if not code:
                self._consumer.cancel_waits(group.group_id, member_id, "join")
                if change.becomes is None:
                    self._consumer.watch_session(group.group_id, member_id, request.session_timeout_ms)
                    self._consumer.expect("sync", group.group_id, member_id, request.rebalance_timeout_ms)
            answer(refused_join(code) if code else response)

        self._commit_change(change, written)

    def _check_join(self, group: ConsumerGroup, member_id: str, request: JoinGroupRequest) -> None:
        if self._context.limits.migration is MigrationPolicy.DISABLED:
            raise ApiError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Cannot join the consumer group {group.group_id} with the classic protocol because the group "
                "migration is disabled.",
            )
        self._consumer.check_size(group, member_id)
        if not group.knows_protocol(request.protocol_type, [each.name for each in request.protocols]):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")

    def _join(self, change: GroupChange, member_id: str, request: JoinGroupRequest, caller: Caller) -> ConsumerMember:
        group = change.group
        holder = group.static_member(request.group_instance_id)
        goes_down = downgrades_with(group, holder, self._context.limits)
        before = self._member(change, holder, member_id, request)
        said = _subscription(request)
        member = replace(
            before,
            instance_id=request.group_instance_id or before.instance_id,
            rack_id=said.rack_id or before.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topic_names=frozenset(said.topics),
            topic_regex="",
            client_id=caller.client_id,
            client_host=caller.host,
            classic=ClassicSide(
                request.session_timeout_ms, tuple((each.name, bytes(each.metadata)) for each in request.protocols)
            ),
        )
        claimed = self._owned(said)
        changed = self._consumer.subscribe(change, before, member, caller)
        stale = goes_down and group.target_epoch < group.epoch
        if not goes_down:
            self._consumer.update_target(change)
        after = group.members[member_id]
        if not stale:
            after = self._consumer.reconciled(change, member_id, claimed, readable_changed=changed)
        if goes_down:
            why = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
            self._consumer.downgrade(change, (), why if stale else "")
        return after

    def _member(
        self, change: GroupChange, holder: ConsumerMember | None, member_id: str, request: JoinGroupRequest
    ) -> ConsumerMember:
        """Return the member that sends the request, as it is before."""
        group, instance_id = change.group, request.group_instance_id
        if instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if request.member_id != UNKNOWN_MEMBER:
            check_static(holder, member_id, instance_id)
            assert holder is not None
            return holder
        if holder is None:
            return ConsumerMember(member_id)
        return self._consumer.replace_static_member(change, holder, member_id, released=True)

    def _owned(self, said: ConsumerProtocolSubscription) -> PartitionsByTopic:
        found = ((self._topics.find(owned.topic), owned.partitions) for owned in said.owned_partitions)
        return {topic[0]: frozenset(partitions) for topic, partitions in found if topic is not None}

    # ---- assignments

    def sync(self, change: GroupChange, request: SyncGroupRequest, answer: Synced) -> None:
        """Answer a member with its assignment."""
        group = change.group
        try:
            member = self._classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
            _check_protocol(member, request)
            if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self._require_rejoin(group, member)
                raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS, f"{member.member_id} must rejoin.")
        except ApiError as error:
            answer(SyncGroupResponse(error_code=error.code, assignment=b""))
            return
        side = member.classic
        assert side is not None
        session_ms, version = side.session_timeout_ms, version_of(side.protocols[0][1])
        named = {self._topics.name_of(topic_id): numbers for topic_id, numbers in member.assigned.items()}
        parts = {name: numbers for name, numbers in named.items() if name is not None}
        response = SyncGroupResponse(
            error_code=ErrorCode.NONE,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(parts, version),
        )

        def written(code: ErrorCode) -> None:
            if code:
                answer(SyncGroupResponse(error_code=code, assignment=b""))
                return
            self._consumer.cancel_waits(group.group_id, member.member_id, "sync")
            self._consumer.watch_session(group.group_id, member.member_id, session_ms)
            answer(response)

        self._commit_change(change, written)

    # ---- staying and leaving

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
        """Handle a heartbeat; return the error code for the response.

        In a group without members of the consumer protocol, no other request notices that the group or its topics have
        changed. There, this heartbeat asks the member to rejoin. (Apache Kafka 4.3 does not: partitions stay unread.)
        """
        on_its_own = all(member.classic is not None for member in group.members.values())
        if on_its_own and group.topics_version != self._topics.version:
            change = GroupChange(group.copy())
            self._consumer.refresh(change, bump=False)
            self._commit_change(change, lambda code: None)
            group = change.group
        try:
            member = self._classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
        except ApiError as error:
            return error.code
        assert member.classic is not None
        self._consumer.watch_session(group.group_id, member.member_id, member.classic.session_timeout_ms)
        newest = group.epoch if on_its_own else group.target_epoch
        behind = member.epoch < newest or member.state is MemberState.UNREVOKED_PARTITIONS
        waits = member.state is MemberState.UNRELEASED_PARTITIONS
        if behind or (waits and not group.waits_for_others(member)):
            self._require_rejoin(group, member)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _require_rejoin(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        if not self._consumer.expects("join", group.group_id, member.member_id):
            self._consumer.expect("join", group.group_id, member.member_id, member.rebalance_timeout_ms)

    def leave(self, change: GroupChange, leaving: Iterable[MemberIdentity], answer: Left) -> None:
        """Remove members of either protocol by member id or instance id; answer with the error code of each."""
        codes: list[ErrorCode] = []
        gone: dict[str, None] = {}
        for one in leaving:
            try:
                gone[_leaving_member(change.group, one).member_id] = None
                codes.append(ErrorCode.NONE)
            except ApiError as error:
                codes.append(error.code)
        if not gone:
            answer(codes)
            return
        for member_id in gone:
            _logger.info("group %r: member %r left", change.group.group_id, member_id)
        self._consumer.remove(change, list(gone))
        self._commit_change(change, lambda code: answer([own or code for own in codes]))

    def _classic_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ConsumerMember:
        member = _find(group, member_id, instance_id)
        if member.classic is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
        if member.epoch != generation:
            raise ApiError(
                ErrorCode.ILLEGAL_GENERATION,
                f"The request generation id {generation} is not equal to the member epoch {member.epoch} of member "
                f"{member_id}.",
            )
        return member


def _find(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is not None:
        holder = group.static_member(instance_id)
        check_static(holder, member_id, instance_id)
        assert holder is not None
        return holder
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(group, member_id)
    return member


def _leaving_member(group: ConsumerGroup, one: MemberIdentity) -> ConsumerMember:
    holder = group.static_member(one.group_instance_id)
    if holder is not None and one.member_id == UNKNOWN_MEMBER:
        return holder  # an administrator identifies the member this way
    return _find(group, one.member_id, one.group_instance_id)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """Return the subscription of a member, which is the same for every assignor."""
    try:
        return read_subscription(bytes(request.protocols[0].metadata))
    except ProtocolError as error:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"Malformed embedded consumer protocol in subscription: {error}"
        ) from error


def _check_protocol(member: ConsumerMember, request: SyncGroupRequest) -> None:
    assert member.classic is not None
    named = (request.protocol_type, CONSUMER_TYPE), (request.protocol_name, member.classic.protocols[0][0])
    if any(said is not None and said != is_so for said, is_so in named):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The protocol is not the one in the JoinGroup response.")
