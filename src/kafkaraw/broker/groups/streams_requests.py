"""Checks of StreamsGroupHeartbeat requests, responses that refuse, and the member that a request describes.

Pure; decisions about the group are in `streams`.
Source: org.apache.kafka.coordinator.group.GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIs* and
GroupMetadataManager.throwIf* of Kafka 4.3; KIP-1071.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.groups.runtime import Caller
from kafkaraw.broker.groups.streams_assignor import TaskMap, Tasks
from kafkaraw.broker.groups.streams_group import Endpoint, Owned, StreamsMember
from kafkaraw.broker.groups.streams_topology import StatusCode, Subtopology
from kafkaraw.light_classes import replace
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Check the fields of a heartbeat that do not depend on the group.

    Raises:
        ApiError: INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY.
    """
    problem = _unsupported(request) or _empty(request) or _problem_at(request)
    if problem:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    for one in () if request.topology is None else request.topology.subtopologies:
        for topic in one.state_changelog_topics:
            if topic.partitions:
                raise ApiError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}.",
                )


def _unsupported(request: StreamsGroupHeartbeatRequest) -> str:
    """Return what Kafka 4.3 does not support yet."""
    if request.instance_id is not None:
        return "Static membership is not yet supported."
    if request.task_offsets is not None:
        return "TaskOffsets are not supported yet."
    if request.task_end_offsets is not None:
        return "TaskEndOffsets are not supported yet."
    if request.warmup_tasks:
        return "WarmupTasks are not supported yet."
    if request.topology is not None and any(one.source_topic_regex for one in request.topology.subtopologies):
        return "Regular expressions for source topics are not supported yet."
    return ""


def _empty(request: StreamsGroupHeartbeatRequest) -> str:
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    return ""


def _problem_at(request: StreamsGroupHeartbeatRequest) -> str:
    """Return what is invalid in a request with this epoch."""
    epoch = request.member_epoch
    tasks = {"Active": request.active_tasks, "Standby": request.standby_tasks, "Warmup": request.warmup_tasks}
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        owned = [name for name, listed in tasks.items() if listed is None or listed]
        if owned:
            return f"{owned[0]}Tasks must be empty when (re-)joining."
        if request.topology is None:
            return "Topology must be non-null when (re-)joining."
    elif epoch == LEAVING_FOR_A_WHILE:
        return "InstanceId can't be null."
    elif epoch < LEAVING_FOR_A_WHILE:
        return f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
    missing = [listed is None for listed in tasks.values()]
    if any(missing) and not all(missing):
        return "If one task-type is non-null, all must be non-null."
    if epoch != 0 and request.topology is not None:
        return "Topology can only be provided when (re-)joining."
    return ""


def refused(code: ErrorCode, message: str | None = None) -> StreamsGroupHeartbeatResponse:
    """Return the response to a heartbeat that is refused."""
    return StreamsGroupHeartbeatResponse(
        error_code=code,
        error_message=message,
        member_id="",
        member_epoch=0,
        heartbeat_interval_ms=0,
        acceptable_recovery_lag=0,
        task_offset_interval_ms=0,
        status=[],
        endpoint_information_epoch=0,
    )


def status_of(code: StatusCode, detail: str) -> Status:
    """Return a status for a member."""
    return Status(status_code=code, status_detail=detail)


def claimed_tasks(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Return the tasks that a member reports; None if it reports none."""
    listed = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(tasks is None for tasks in listed):
        return None
    active, standby, warmup = (_task_map(tasks or ()) for tasks in listed)
    return Tasks(active, standby, warmup)


def _task_map(tasks: Iterable[TaskIds]) -> TaskMap:
    return {each.subtopology_id: frozenset(each.partitions) for each in tasks}


def task_ids(owned: Owned) -> list[TaskIds]:
    """Return tasks, as the response to a heartbeat lists them."""
    return [TaskIds(subtopology_id=name, partitions=sorted(owned[name])) for name in sorted(owned)]


def check_epoch(member: StreamsMember, epoch: int, claimed: Tasks | None) -> None:
    """Check the epoch of a member; it may be one behind if a response was lost.

    Raises:
        ApiError: FENCED_MEMBER_EPOCH.
    """
    if epoch in (0, member.epoch):
        return
    lost = epoch == member.previous_epoch and claimed is not None and member.assigned.covers(claimed)
    if epoch < member.epoch and lost:
        return
    size = "greater" if epoch > member.epoch else "smaller"
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def check_tasks(subtopologies: Mapping[str, Subtopology], tasks: Sequence[TaskIds]) -> None:
    """Check that tasks exist.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    for each in tasks:
        one = subtopologies.get(each.subtopology_id)
        if one is None:
            message = f"Subtopology {each.subtopology_id} does not exist in the topology."
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        for partition in each.partitions:
            if not 0 <= partition < one.tasks:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"Task {partition} for subtopology {each.subtopology_id} is invalid. Number of tasks for this "
                    f"subtopology: {one.tasks}",
                )


def updated(member: StreamsMember, request: StreamsGroupHeartbeatRequest, caller: Caller) -> StreamsMember:
    """Return the member, updated with the request."""
    endpoint, tags = request.user_endpoint, request.client_tags
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=member.endpoint if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=member.client_tags if tags is None else tuple(sorted((tag.key, tag.value) for tag in tags)),
        client_id=caller.client_id,
        client_host=caller.host,
    )
