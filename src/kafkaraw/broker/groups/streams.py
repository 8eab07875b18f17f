"""The streams group protocol (KIP-1071): members send heartbeats, and the coordinator assigns the tasks of a topology.

A heartbeat changes a copy of the group by a list of records, as in `consumer`. The first member brings the topology;
the response names the internal topics that the broker has to create. Start at `heartbeat`.
Source: the streams part of org.apache.kafka.coordinator.group.GroupMetadataManager of Kafka 4.3; KIP-1071.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.streams_settings import StreamsLimits
from kafkaraw.broker.groups.records import GroupRecord
from kafkaraw.broker.groups.runtime import Caller, CoordinatorContext, Done, Topics, metadata_hash
from kafkaraw.broker.groups.streams_assignor import NO_TASKS, TaskMember, Tasks, assign_tasks
from kafkaraw.broker.groups.streams_group import StreamsGroup, StreamsMember, TaskState
from kafkaraw.broker.groups.streams_reconciliation import reconcile, taken_tasks
from kafkaraw.broker.groups.streams_requests import (
    LEAVING,
    LEAVING_FOR_A_WHILE,
    check_epoch,
    check_request,
    check_tasks,
    claimed_tasks,
    refused,
    status_of,
    task_ids,
    updated,
)
from kafkaraw.broker.groups.streams_topology import (
    ConfiguredTopology,
    InternalTopic,
    StatusCode,
    check_topology,
    configure,
    required_topics,
    stored_topology,
)
from kafkaraw.light_classes import NamedTuple, dataclass, field
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TopicPartition,
)
from kafkaraw.protocol.printable import printable

_logger = logging.getLogger("kafkaraw.broker.groups")


class HeartbeatResult(NamedTuple):
    """What follows from a heartbeat.

    Attributes:
        response: the response.
        missing: the internal topics to create.
    """

    response: StreamsGroupHeartbeatResponse
    missing: Sequence[InternalTopic] = ()


Answer: TypeAlias = Callable[[HeartbeatResult], None]


@dataclass(slots=True)
class StreamsChange:
    """A decision about a streams group, which takes effect when its records are written.

    Attributes:
        group: a copy of the group, changed.
        is_new: whether the group did not exist.
        records: the records that change it.
        after: what to do once they are in the log.
    """

    group: StreamsGroup
    is_new: bool = False
    records: list[GroupRecord] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)

    def add(self, *records: GroupRecord) -> None:
        """Add records, and apply them to the copy."""
        for record in records:
            self.records.append(record)
            self.group.replay(record)


BeginStreams: TypeAlias = Callable[[str, bool], StreamsChange]
"""Returns the change for a request, given the group's id, and whether to create the group."""
CommitStreams: TypeAlias = Callable[[StreamsChange, Done], None]
"""Writes a change, and calls back once it is replicated."""


class StreamsProtocol:
    """Decides about members of streams groups.

    Args:
        context: services of the node.
        topics: the cluster's topics.
        begin: creates the change of a request.
        commit_change: writes a change to the log.
    """

    def __init__(
        self, context: CoordinatorContext, topics: Topics, begin: BeginStreams, commit_change: CommitStreams
    ) -> None:
        self._context = context
        self._topics = topics
        self._begin = begin
        self._commit_change = commit_change

    # ---- requests

    def heartbeat(self, request: StreamsGroupHeartbeatRequest, caller: Caller, answer: Answer) -> None:
        """Handle the heartbeat of a member that joins, stays or leaves.

        Args:
            request: the heartbeat.
            caller: the client that sent it.
            answer: called with the response, which has the tasks of the member.
        """
        try:
            check_request(request)
            leaves = request.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE)
            change, result = self._leave(request) if leaves else self._stay(request, caller)
        except ApiError as error:
            answer(HeartbeatResult(refused(error.code, error.message)))
            return
        self._commit_change(change, lambda code: answer(HeartbeatResult(refused(code)) if code else result))

    def _stay(self, request: StreamsGroupHeartbeatRequest, caller: Caller) -> tuple[StreamsChange, HeartbeatResult]:
        joins = request.member_epoch == 0
        change = self._begin_heartbeat(request.group_id, joins=joins)
        group = change.group
        limits = self._limits(group)
        claimed = claimed_tasks(request)
        was_empty = group.is_empty
        before = self._member(group, request, claimed, limits)
        member = updated(before, request, caller)
        bump = group.members.get(member.member_id) != member
        if bump:
            change.add(group.member_record(member))
        status: list[Status] = []
        bump |= self._update_topology(change, request, member, status)
        configured = self._configured(change, request, limits, bump=bump)
        if was_empty and limits.initial_rebalance_delay_ms and _delay(group) not in self._context.timers:
            self._context.timers.set(
                _delay(group), limits.initial_rebalance_delay_ms, lambda: self._initial_delay_is_over(group.group_id)
            )
        target = self._update_target(change, member.member_id, configured, status)
        taken = taken_tasks(group.members.values(), member.process_id)
        after = reconcile(group.members[member.member_id], group.target_epoch, target, taken, claimed)
        if after != group.members[member.member_id]:
            change.add(group.assignment_record(after))
        if request.shutdown_application:
            self._request_shutdown(group, member.member_id)
        response = self._response(change, request, before, after)
        if configured.problem is not None:
            status.append(status_of(configured.problem.status, str(configured.problem)))
        if group.shutdown_by is not None:
            status.append(
                status_of(
                    StatusCode.SHUTDOWN_APPLICATION,
                    f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for "
                    f"the entire application.",
                )
            )
        response.status = status
        self._watch(change, after, anew=after.state is not before.state or after.epoch != before.epoch)
        if change.is_new:  # Kafka keeps only what the records have
            group.configured, group.topics_version = None, -1
            group.endpoints_epoch, group.shutdown_by = 0, None
        return change, HeartbeatResult(response, configured.missing)

    def _begin_heartbeat(self, group_id: str, *, joins: bool) -> StreamsChange:
        try:
            return self._begin(group_id, joins)
        except ApiError as error:
            if not error.message.endswith("not found."):
                raise
            raise ApiError(error.code, f"Streams group {group_id} not found.") from error

    def _limits(self, group: StreamsGroup) -> StreamsLimits:
        return self._context.limits_of(group.group_id).streams

    def _member(
        self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, claimed: Tasks | None, limits: StreamsLimits
    ) -> StreamsMember:
        """Return the member that sends the request, as it is before."""
        member_id = request.member_id
        joins = request.member_epoch == 0
        if joins and len(group.members) >= limits.size_max:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {limits.size_max} members.",
            )
        member = group.members.get(member_id)
        if member is None and not joins:
            raise _unknown_member(group, member_id)
        member = member or StreamsMember(member_id)
        check_epoch(member, request.member_epoch, claimed)
        return member

    # ---- topology

    def _update_topology(
        self,
        change: StreamsChange,
        request: StreamsGroupHeartbeatRequest,
        member: StreamsMember,
        status: list[Status],
    ) -> bool:
        """Store the topology of the first member, and compare that of others.

        Returns:
            whether the group has a topology now that it did not have before.
        """
        group = change.group
        if group.topology is not None and member.topology_epoch < group.topology.epoch:
            status.append(
                status_of(
                    StatusCode.STALE_TOPOLOGY,
                    f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                    f"{group.topology.epoch}.",
                )
            )
        if request.topology is None:
            if group.topology is None:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Group {group.group_id} has no topology.")
            return False
        topology = stored_topology(request.topology)
        if group.topology is None:
            check_topology(topology)
            change.add(group.topology_record(topology))
            return True
        if group.topology.epoch <= topology.epoch and group.topology != topology:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return False

    def _configured(
        self, change: StreamsChange, request: StreamsGroupHeartbeatRequest, limits: StreamsLimits, *, bump: bool
    ) -> ConfiguredTopology:
        """Compare the topology with the topics of the cluster, and begin a new group epoch if something has changed."""
        group = change.group
        assert group.topology is not None
        seen = group.metadata_hash
        if group.configured is None or group.topics_version != self._topics.version:
            group.topics_version = self._topics.version
            seen = metadata_hash(self._topics, required_topics(group.topology))
            if group.configured is None or seen != group.metadata_hash:
                group.configured = configure(group.topology, self._topics)
        configured = group.configured
        validated = -1
        if configured.is_ready and configured.subtopologies is not None:
            validated = group.topology.epoch
            for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
                check_tasks(configured.subtopologies, tasks or ())
        configs = {"num.standby.replicas": str(limits.standby_replicas)}
        now = (seen, validated, configs)
        if bump or now != (group.metadata_hash, group.validated_epoch, group.assignment_configs):
            change.add(group.epoch_record(group.epoch + 1, *now))
            _logger.info("group %r is in epoch %d", group.group_id, group.epoch)
        return configured

    # ---- assignment

    def _update_target(
        self, change: StreamsChange, member_id: str, configured: ConfiguredTopology, status: list[Status]
    ) -> Tasks:
        """Compute a target assignment for a new epoch, unless it is delayed; return the target of a member."""
        group, now_ms = change.group, self._context.now_ms()
        if _delay(group) in self._context.timers:
            detail = "Assignment delayed due to the configured initial rebalance delay."
            status.append(status_of(StatusCode.ASSIGNMENT_DELAYED, detail))
            return NO_TASKS
        interval_ms = self._limits(group).assignment_interval_ms
        recent = group.target_ms and interval_ms and now_ms < group.target_ms + interval_ms
        if group.epoch > group.target_epoch and recent:
            detail = "Assignment delayed due to the configured assignment interval."
            status.append(status_of(StatusCode.ASSIGNMENT_DELAYED, detail))
        elif group.epoch > group.target_epoch:
            self._assign(change, configured)
        return group.target_of(member_id)

    def _assign(self, change: StreamsChange, configured: ConfiguredTopology) -> None:
        group = change.group
        made: dict[str, Tasks] = {}
        if configured.is_ready:
            members = {
                member_id: TaskMember(member.process_id, group.target_of(member_id))
                for member_id, member in group.members.items()
            }
            replicas = int(group.assignment_configs.get("num.standby.replicas", 0))
            made = assign_tasks(members, configured.tasks(), replicas)
        for member_id in group.members:
            tasks = made.get(member_id, NO_TASKS)
            if group.target.get(member_id) != tasks:
                change.add(group.target_record(member_id, tasks))
        change.add(group.target_epoch_record(group.epoch, self._context.now_ms()))
        _logger.debug("group %r: the target assignment of epoch %d is computed", group.group_id, group.epoch)

    def _initial_delay_is_over(self, group_id: str) -> None:
        """Assign the tasks of a new group to the members that have joined until now."""
        try:
            change = self._begin(group_id, False)
        except ApiError:
            return
        group = change.group
        if group.is_empty or group.topology is None or group.epoch <= group.target_epoch:
            return
        try:
            configured = group.configured or configure(group.topology, self._topics)
        except ApiError as error:
            _logger.warning("group %r: no assignment: %s", group_id, printable(error.message or ""))
            return
        self._assign(change, configured)
        self._commit_change(change, lambda code: None)

    # ---- the response

    def _response(
        self,
        change: StreamsChange,
        request: StreamsGroupHeartbeatRequest,
        before: StreamsMember,
        after: StreamsMember,
    ) -> StreamsGroupHeartbeatResponse:
        group = change.group
        response = StreamsGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=after.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self._limits(group).heartbeat_interval_ms,
            acceptable_recovery_lag=0,
            task_offset_interval_ms=0,
            status=[],
            endpoint_information_epoch=0,
        )
        if request.member_epoch == 0 or after.assigned != before.assigned:
            response.active_tasks = task_ids(after.assigned.active)
            response.standby_tasks = task_ids(after.assigned.standby)
            response.warmup_tasks = task_ids(after.assigned.warmup)
            if after.endpoint is not None:
                group.endpoints_epoch += 1
        if group.endpoints_epoch != request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = self._partitions_by_endpoint(group)
        if not change.is_new:
            response.endpoint_information_epoch = group.endpoints_epoch
        return response

    def _partitions_by_endpoint(self, group: StreamsGroup) -> list[EndpointToPartitions]:
        return [
            EndpointToPartitions(
                user_endpoint=Endpoint(host=member.endpoint.host, port=member.endpoint.port),
                active_partitions=self._partitions(group, member.assigned.active),
                standby_partitions=self._partitions(group, member.assigned.standby),
            )
            for member in group.members.values()
            if member.endpoint is not None
        ]

    def _partitions(self, group: StreamsGroup, owned: object) -> list[TopicPartition]:
        """Return the source partitions of tasks; a topic may have fewer partitions than its subtopology has tasks."""
        assert isinstance(owned, dict)
        parts = {} if group.configured is None else group.configured.subtopologies or {}
        found = []
        for name in sorted(owned):
            for topic in sorted(parts[name].sources) if name in parts else ():
                known = self._topics.find(topic)
                count = 0 if known is None else known[1]
                found.append(
                    TopicPartition(
                        topic=topic, partitions=[partition for partition in sorted(owned[name]) if partition < count]
                    )
                )
        return found

    # ---- leaving

    def _leave(self, request: StreamsGroupHeartbeatRequest) -> tuple[StreamsChange, HeartbeatResult]:
        change = self._begin(request.group_id, False)
        group, member_id = change.group, request.member_id
        if request.shutdown_application:
            self._request_shutdown(group, member_id)
        if member_id not in group.members:
            raise _unknown_member(group, member_id)
        _logger.info("group %r: member %r left", group.group_id, member_id)
        self._remove(change, member_id)
        response = refused(ErrorCode.NONE)
        response.member_id, response.member_epoch = member_id, request.member_epoch
        return change, HeartbeatResult(response)

    def _request_shutdown(self, group: StreamsGroup, member_id: str) -> None:
        if group.shutdown_by is None:
            _logger.info("group %r: member %r requests a shutdown of the application", group.group_id, member_id)
            group.shutdown_by = member_id

    def _remove(self, change: StreamsChange, member_id: str) -> None:
        group = change.group
        change.add(*group.member_tombstones(member_id))
        kept = (group.metadata_hash, group.validated_epoch, group.assignment_configs)
        change.add(group.epoch_record(group.epoch + 1, *kept))
        change.after.append(lambda: self._forget(group.group_id, member_id))

    def _fence(self, group_id: str, member_id: str, why: str) -> None:
        """Remove a member after a session or rebalance timeout."""
        try:
            change = self._begin(group_id, False)
        except ApiError:
            return
        if member_id in change.group.members:
            _logger.info("group %r: member %r is fenced: %s", group_id, member_id, why)
            self._remove(change, member_id)
            self._commit_change(change, lambda code: self._fenced(group_id, member_id, why, code))

    def _fenced(self, group_id: str, member_id: str, why: str, code: ErrorCode) -> None:
        if code:  # it stays a member, and is checked again
            delay_ms = self._context.limits_of(group_id).streams.session_ms
            self._context.timers.set(
                _session(group_id, member_id), delay_ms, lambda: self._fence(group_id, member_id, why)
            )

    # ---- time

    def begin(self, group: StreamsGroup) -> None:
        """Start the timeouts of a group that was read from the log."""
        for member in group.members.values():
            self._set_timers(group.group_id, member, anew=True)

    def drop(self, group: StreamsGroup) -> None:
        """Cancel all timeouts of a group that this coordinator no longer has."""
        self._context.timers.cancel(_delay(group))
        for member_id in group.members:
            self._forget(group.group_id, member_id)

    def _watch(self, change: StreamsChange, member: StreamsMember, *, anew: bool) -> None:
        group_id = change.group.group_id
        change.after.append(lambda: self._set_timers(group_id, member, anew=anew))

    def _set_timers(self, group_id: str, member: StreamsMember, *, anew: bool) -> None:
        """Restart the session timeout of a member, and the rebalance timeout while it has tasks to revoke."""
        timers, member_id, epoch = self._context.timers, member.member_id, member.epoch
        timeout_ms = self._context.limits_of(group_id).streams.session_ms
        timers.set(
            _session(group_id, member_id),
            timeout_ms,
            lambda: self._fence(group_id, member_id, "the member session expired"),
        )
        name = _rebalance(group_id, member_id)
        if member.state is not TaskState.UNREVOKED_TASKS:
            timers.cancel(name)
        elif anew or name not in timers:
            timers.set(name, member.rebalance_timeout_ms, lambda: self._rebalance_timed_out(group_id, member_id, epoch))

    def _rebalance_timed_out(self, group_id: str, member_id: str, epoch: int) -> None:
        try:
            member = self._begin(group_id, False).group.members.get(member_id)
        except ApiError:
            return
        if member is not None and member.epoch == epoch:
            self._fence(group_id, member_id, f"it failed to transition from epoch {epoch} in time")

    def _forget(self, group_id: str, member_id: str) -> None:
        self._context.timers.cancel(_session(group_id, member_id))
        self._context.timers.cancel(_rebalance(group_id, member_id))


def _unknown_member(group: StreamsGroup, member_id: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def _delay(group: StreamsGroup) -> tuple[str, str]:
    return "streams initial rebalance delay", group.group_id


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "streams session", group_id, member_id


def _rebalance(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "streams rebalance", group_id, member_id
