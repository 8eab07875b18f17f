"""The consumer group protocol (KIP-848): members send heartbeats, and the coordinator assigns partitions.

A heartbeat changes a copy of the group by a list of records. The copy replaces the group once the records are in the
log, and the response is sent once they are replicated. Start at `heartbeat`.
Source: the consumer part of org.apache.kafka.coordinator.group.GroupMetadataManager of Kafka 4.3; KIP-848, KIP-1082,
KIP-1263 (minimum interval between assignments).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.groups.assignors import ASSIGNORS, MemberSpec, PartitionsByTopic
from kafkaraw.broker.groups.classic_group import ClassicGroup
from kafkaraw.broker.groups.consumer_group import (
    LEAVING,
    LEAVING_FOR_A_WHILE,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Resolved,
)
from kafkaraw.broker.groups.consumer_requests import (
    check_epoch,
    check_request,
    check_static,
    partitions_by_topic,
    refused,
    unknown_member,
    updated,
)
from kafkaraw.broker.groups.migration import downgrade, downgrades_without
from kafkaraw.broker.groups.reconciliation import MemberTarget, reconcile
from kafkaraw.broker.groups.regexes import check_work, compile_regex
from kafkaraw.broker.groups.runtime import (
    BeginChange,
    Caller,
    CommitChange,
    CoordinatorContext,
    GroupChange,
    Topics,
    metadata_hash,
)
from kafkaraw.light_classes import replace
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafkaraw.protocol.printable import printable

_logger = logging.getLogger("kafkaraw.broker.groups")

Answer = Callable[[ConsumerGroupHeartbeatResponse], None]
Downgraded = Callable[[ClassicGroup, str], None]
"""Called with a group that is now classic, and the reason for a rebalance; empty if members need not rejoin."""


class ConsumerProtocol:
    """Decides about members of consumer groups.

    Args:
        context: services of the node.
        topics: the cluster's topics.
        begin: creates the change of a request.
        commit_change: writes a change to the log.
        downgraded: called with a group that has become a classic group.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        topics: Topics,
        begin: BeginChange,
        commit_change: CommitChange,
        downgraded: Downgraded,
    ) -> None:
        self._context = context
        self._topics = topics
        self._begin = begin
        self._commit_change = commit_change
        self._downgraded = downgraded

    # ---- requests

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, caller: Caller, answer: Answer) -> None:
        """Handle the heartbeat of a member that joins, stays or leaves.

        Args:
            request: the heartbeat.
            caller: the client that sent it.
            answer: called with the response, which has the assignment.
        """
        try:
            check_request(request, caller.version, self._context.limits.assignors)
            leaves = request.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE)
            change, response = self._leave(request) if leaves else self._stay(request, caller)
        except ApiError as error:
            answer(refused(error.code, error.message))
            return
        self._commit_change(change, lambda code: answer(refused(code) if code else response))

    # ---- staying

    def _stay(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> tuple[GroupChange, ConsumerGroupHeartbeatResponse]:
        joins = request.member_epoch == 0
        try:
            change = self._begin(request.group_id, joins)
        except ApiError as error:
            if not error.message.endswith("not found."):
                raise
            raise ApiError(error.code, f"Consumer group {request.group_id} not found.") from error
        group = change.group
        member_id = request.member_id or self._context.new_id()
        self.check_size(group, member_id)
        claimed = partitions_by_topic(request.topic_partitions)
        before = self._member(change, request, member_id, claimed, joins=joins)
        member = updated(before, request, caller)
        subscription_changed = self.subscribe(change, before, member, caller)
        self.update_target(change)
        after = self.reconciled(change, member_id, claimed, readable_changed=subscription_changed)
        self._watch(change, after, anew=after.state is not before.state or after.epoch != before.epoch)
        response = self._response(group.group_id, after)
        names = request.subscribed_topic_names, request.subscribed_topic_regex
        whole = request.rebalance_timeout_ms != -1 and names != (None, None) and claimed is not None
        if joins or whole or _plain(after.assigned) != _plain(before.assigned):
            response.assignment = Assignment(
                topic_partitions=[
                    TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                    for topic_id, partitions in sorted(after.assigned.items())
                ]
            )
        return change, response

    def check_size(self, group: ConsumerGroup, member_id: str) -> None:
        """Check that the group has room for another member, or already has this one.

        Raises:
            ApiError: GROUP_MAX_SIZE_REACHED.
        """
        limit = self._context.limits.consumer_size_max
        if len(group.members) >= limit and member_id not in group.members:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )

    def _response(self, group_id: str, member: ConsumerMember) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._context.limits_of(group_id).heartbeat_interval_ms,
        )

    def _member(
        self,
        change: GroupChange,
        request: ConsumerGroupHeartbeatRequest,
        member_id: str,
        claimed: PartitionsByTopic | None,
        *,
        joins: bool,
    ) -> ConsumerMember:
        """Return the member that sends the request, as it is before."""
        group, instance_id = change.group, request.instance_id
        if instance_id is None:
            member = group.members.get(member_id)
            if member is None and not joins:
                raise unknown_member(group, member_id)
            member = member or ConsumerMember(member_id)
            check_epoch(member, request.member_epoch, claimed)
            return member
        holder = group.static_member(instance_id)
        if joins:
            return (
                ConsumerMember(member_id) if holder is None else self.replace_static_member(change, holder, member_id)
            )
        check_static(holder, member_id, instance_id)
        assert holder is not None
        check_epoch(holder, request.member_epoch, claimed)
        return holder

    def replace_static_member(
        self, change: GroupChange, holder: ConsumerMember, member_id: str, *, released: bool = False
    ) -> ConsumerMember:
        """Replace a static member that rejoins with another member id; it keeps its assignment.

        Args:
            change: the change of the group.
            holder: the member that has the instance id now.
            member_id: the member id in the request.
            released: the instance id may also be taken from a member that has not left.
        """
        instance_id = holder.instance_id
        if holder.epoch != LEAVING_FOR_A_WHILE and holder.classic is None and not released:
            raise ApiError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {holder.member_id} member.",
            )
        group = change.group
        member = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
        target = group.target.get(holder.member_id, {})
        if member_id != holder.member_id:
            change.add(*group.member_tombstones(holder.member_id))
            old_id = holder.member_id
            change.after.append(lambda: self._forget(group.group_id, old_id))
        change.add(group.member_record(member), group.target_record(member_id, target), group.assignment_record(member))
        return member

    # ---- subscriptions

    def subscribe(self, change: GroupChange, before: ConsumerMember, member: ConsumerMember, caller: Caller) -> bool:
        """Update a member's subscription; if it or a topic has changed, begin a new group epoch.

        Args:
            change: the change of the group.
            before: the member before the request.
            member: the member after the request.
            caller: the client, whose permissions limit the topics of a regex.

        Returns:
            whether the member's subscribed topics have changed.
        """
        group = change.group
        if group.members.get(member.member_id) != member:
            change.add(group.member_record(member))
        changed = member.topic_names != before.topic_names
        resolved = None
        if member.topic_regex != before.topic_regex:
            changed = True
            if member.topic_regex and member.topic_regex not in group.regexes:
                self._drop_unused_regexes(change)
                resolved = member.topic_regex
                change.add(group.regex_record(member.topic_regex, self._resolve(group, member.topic_regex, caller)))
        self.refresh(change, bump=changed, caller=caller, resolved=resolved)
        return changed

    def refresh(
        self, change: GroupChange, *, bump: bool, caller: Caller | None = None, resolved: str | None = None
    ) -> None:
        """Refresh the topics of the group if they have changed, and begin a new group epoch if necessary.

        Args:
            change: the change of the group.
            bump: begin a new epoch in any case.
            caller: the member whose permissions decide which topics a regex matches. Without one, regexes keep what
                they matched until the next heartbeat of a member.
            resolved: a regex that this request has matched already.
        """
        group = change.group
        self._drop_unused_regexes(change)
        stale = group.topics_version != self._topics.version
        if not bump and not stale:
            return
        if stale and (caller is not None or not group.regexes):
            if caller is not None:
                for regex in [known for known in group.regexes if known != resolved]:
                    self._resolve_again(change, regex, caller)
            group.topics_version = self._topics.version
        seen = metadata_hash(self._topics, group.topics())
        if bump or seen != group.metadata_hash:
            change.add(group.epoch_record(group.epoch + 1, seen))
            _logger.info("group %r is in epoch %d", group.group_id, group.epoch)

    def _drop_unused_regexes(self, change: GroupChange) -> None:
        group = change.group
        wanted = {member.topic_regex for member in group.members.values()}
        change.add(*(group.regex_record(regex, None) for regex in list(group.regexes) if regex not in wanted))

    def _resolve_again(self, change: GroupChange, regex: str, caller: Caller) -> None:
        """Match a regex with the current topics; if that is refused, keep the topics that it matched before."""
        try:
            resolved = self._resolve(change.group, regex, caller)
        except ApiError as error:
            _logger.warning(
                "group %r: new topics are not matched with a regex of its members: %s",
                change.group.group_id,
                printable(error.message or ""),
            )
            return
        if resolved.topics != change.group.regexes[regex].topics:
            change.add(change.group.regex_record(regex, resolved))

    def _resolve(self, group: ConsumerGroup, regex: str, caller: Caller) -> Resolved:
        pattern = compile_regex(regex)
        names = [name for name in self._topics.names() if caller.sees(name)]
        check_work(regex, group.regexes, names)
        found = frozenset(name for name in names if pattern.fullmatch(name))
        return Resolved(found, self._topics.version, self._context.now_ms())

    # ---- assignment

    def update_target(self, change: GroupChange) -> None:
        """Compute a target assignment for a new epoch, unless the minimum interval since the last one is not over."""
        group, now_ms = change.group, self._context.now_ms()
        interval_ms = self._context.limits_of(group.group_id).assignment_interval_ms
        recent = group.target_ms and interval_ms and now_ms < group.target_ms + interval_ms
        if group.epoch <= group.target_epoch or recent:
            return
        specs = {
            member_id: MemberSpec(
                member.instance_id,
                frozenset(found[0] for name in group.topics_of(member) if (found := self._topics.find(name))),
                group.target.get(member_id, {}),
            )
            for member_id, member in group.members.items()
        }
        counts = {found[0]: found[1] for name in group.topics() if (found := self._topics.find(name))}
        name = group.preferred_assignor(self._context.limits.assignors[0])
        made = ASSIGNORS[name](specs, counts)
        for member_id in specs:
            parts = made.get(member_id, {})
            if group.target.get(member_id) != parts:
                change.add(group.target_record(member_id, parts))
        change.add(group.target_epoch_record(group.epoch, now_ms))
        _logger.debug(
            "group %r: assignor %s computed the target assignment of epoch %d", group.group_id, name, group.epoch
        )

    def reconciled(
        self, change: GroupChange, member_id: str, claimed: PartitionsByTopic | None, *, readable_changed: bool = False
    ) -> ConsumerMember:
        """Take the next step of a member towards its target assignment; see `reconcile`."""
        group = change.group
        member = group.members[member_id]
        readable = None
        if readable_changed:
            readable = {found[0] for name in group.topics_of(member) if (found := self._topics.find(name))}
        target = MemberTarget(group.target_epoch, group.target.get(member_id, {}), readable)
        after = reconcile(member, target, group.owned(), claimed)
        if after != member:
            change.add(group.assignment_record(after))
        return after

    # ---- leaving

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> tuple[GroupChange, ConsumerGroupHeartbeatResponse]:
        change = self._begin(request.group_id, False)
        group, instance_id = change.group, request.instance_id
        if instance_id is None:
            member = group.members.get(request.member_id)
            if member is None:
                raise unknown_member(group, request.member_id)
        else:
            member = group.static_member(instance_id)
            check_static(member, request.member_id, instance_id)
            assert member is not None
        if request.member_epoch == LEAVING_FOR_A_WHILE and instance_id is not None:
            change.add(group.assignment_record(replace(member, epoch=LEAVING_FOR_A_WHILE, revoking={})))
        else:
            _logger.info("group %r: member %r left", group.group_id, member.member_id)
            self.remove(change, [member.member_id])
        return change, ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=member.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=0,
        )

    def remove(self, change: GroupChange, member_ids: Collection[str]) -> None:
        """Remove members; the group may become a classic group."""
        group = change.group
        if downgrades_without(group, member_ids, self._context.limits):
            self.downgrade(
                change, member_ids, f"Downgrade group {group.group_id} from consumer to classic for member leaving."
            )
            return
        for member_id in member_ids:
            change.add(*group.member_tombstones(member_id))
            change.after.append(lambda gone=member_id: self._forget(group.group_id, gone))  # type: ignore[misc]
        self.refresh(change, bump=True)

    def downgrade(self, change: GroupChange, leaving: Collection[str], why: str) -> None:
        """Convert the group to a classic group.

        Args:
            change: the change of the group.
            leaving: the members that leave.
            why: reason for a rebalance; empty if the members need not rejoin.
        """
        group = change.group
        made = downgrade(change, leaving, self._topics, self._context.now_ms())
        change.after.append(lambda: self.drop(group))
        change.after.append(lambda: self._downgraded(made, why))

    def fence(self, group_id: str, member_id: str, why: str) -> None:
        """Remove a member after a session, rebalance or join timeout."""
        try:
            change = self._begin(group_id, False)
        except ApiError:
            return
        if member_id in change.group.members:
            _logger.info("group %r: member %r is fenced: %s", group_id, member_id, printable(why))
            self.remove(change, [member_id])
            self._commit_change(change, lambda code: self._fenced(group_id, member_id, why, code))

    def _fenced(self, group_id: str, member_id: str, why: str, code: ErrorCode) -> None:
        if code:  # it stays a member, and is checked again
            delay_ms = self._context.limits_of(group_id).consumer_session_ms
            self._context.timers.set(
                _session(group_id, member_id), delay_ms, lambda: self.fence(group_id, member_id, why)
            )

    # ---- time

    def begin(self, group: ConsumerGroup) -> None:
        """Start the session timeouts of a group that was read from the log."""
        for member in group.members.values():
            self._set_timers(group.group_id, member, anew=True)

    def _watch(self, change: GroupChange, member: ConsumerMember, *, anew: bool) -> None:
        group_id = change.group.group_id
        change.after.append(lambda: self._set_timers(group_id, member, anew=anew))

    def _set_timers(self, group_id: str, member: ConsumerMember, *, anew: bool) -> None:
        """Restart the session timeout of a member, and the rebalance timeout while it has partitions to revoke."""
        timers, member_id = self._context.timers, member.member_id
        if member.classic is None:
            self.cancel_waits(group_id, member_id)
        timeout_ms = self._context.limits_of(group_id).consumer_session_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self.watch_session(group_id, member_id, timeout_ms)
        name = _rebalance(group_id, member_id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS or member.classic is not None:
            timers.cancel(name)
        elif anew or name not in timers:
            epoch = member.epoch
            timers.set(name, member.rebalance_timeout_ms, lambda: self._rebalance_timed_out(group_id, member_id, epoch))

    def _rebalance_timed_out(self, group_id: str, member_id: str, epoch: int) -> None:
        try:
            member = self._begin(group_id, False).group.members.get(member_id)
        except ApiError:
            return
        if member is not None and member.epoch == epoch:
            self.fence(group_id, member_id, f"it failed to transition from epoch {epoch} in time")

    def watch_session(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Restart the session timeout of a member."""
        self._context.timers.set(
            _session(group_id, member_id),
            timeout_ms,
            lambda: self.fence(group_id, member_id, "the member session expired"),
        )

    def expect(self, wait: str, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Start the timeout for a JoinGroup or SyncGroup of a classic member.

        Args:
            wait: "join" or "sync".
            group_id: id of the group.
            member_id: id of the member.
            timeout_ms: the timeout.
        """
        self._context.timers.set(
            _wait(wait, group_id, member_id),
            timeout_ms,
            lambda: self.fence(
                group_id, member_id, f"the classic member failed to {wait} within the rebalance timeout"
            ),
        )

    def expects(self, wait: str, group_id: str, member_id: str) -> bool:
        """Return whether such a timeout is running."""
        return _wait(wait, group_id, member_id) in self._context.timers

    def cancel_waits(self, group_id: str, member_id: str, *waits: str) -> None:
        """Cancel the timeout of a member that has sent the request; without a name, cancel both."""
        for wait in waits or ("join", "sync"):
            self._context.timers.cancel(_wait(wait, group_id, member_id))

    def _forget(self, group_id: str, member_id: str) -> None:
        self.cancel_waits(group_id, member_id)
        self._context.timers.cancel(_session(group_id, member_id))
        self._context.timers.cancel(_rebalance(group_id, member_id))

    def drop(self, group: ConsumerGroup) -> None:
        """Cancel all timeouts of a group that this coordinator no longer has."""
        for member_id in group.members:
            self._forget(group.group_id, member_id)


def _plain(owned: object) -> dict[Uuid, frozenset[int]]:
    assert isinstance(owned, dict)
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "consumer session", group_id, member_id


def _rebalance(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "consumer rebalance", group_id, member_id


def _wait(wait: str, group_id: str, member_id: str) -> tuple[str, str, str]:
    return f"consumer {wait}", group_id, member_id
