"""Checks of ConsumerGroupHeartbeat requests, responses that refuse, and the member that a request describes.

Pure; decisions about the group are in `consumer`.
Source: org.apache.kafka.coordinator.group.GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid and
GroupMetadataManager.throwIf* of Kafka 4.3; KIP-848, KIP-1082.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.groups.assignors import PartitionsByTopic
from kafkaraw.broker.groups.consumer_group import LEAVING, LEAVING_FOR_A_WHILE, ConsumerGroup, ConsumerMember
from kafkaraw.broker.groups.runtime import Caller
from kafkaraw.light_classes import replace
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

CLIENTS_MEMBER_ID_SINCE: Final = 1


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    """Check the fields of a heartbeat that do not depend on the group.

    Args:
        request: the heartbeat.
        version: its version.
        assignors: names of the known assignors.

    Raises:
        ApiError: INVALID_REQUEST or UNSUPPORTED_ASSIGNOR.
    """
    epoch = request.member_epoch
    problem = ""
    if not request.member_id.strip() and (version >= CLIENTS_MEMBER_ID_SINCE or epoch > 0 or epoch == LEAVING):
        problem = "MemberId can't be empty."
    for name, value in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if not problem and value is not None and not value.strip():
            problem = f"{name} can't be empty."
    problem = problem or _problem_at(epoch, request)
    if problem:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def refused(code: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """Return the response to a heartbeat that is refused."""
    return ConsumerGroupHeartbeatResponse(
        error_code=code, error_message=message, member_id=None, member_epoch=0, heartbeat_interval_ms=0
    )


def unknown_member(group: ConsumerGroup, member_id: str) -> ApiError:
    """Return the error of a member id that the group does not have."""
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def check_static(holder: ConsumerMember | None, member_id: str, instance_id: str) -> None:
    """Check that a static member is the one with the instance id.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    if holder is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.",
        )


def partitions_by_topic(claimed: Iterable[TopicPartitions] | None) -> PartitionsByTopic | None:
    """Return the owned partitions in the request of a member."""
    if claimed is None:
        return None
    return {Uuid(each.topic_id): frozenset(each.partitions) for each in claimed}


def _problem_at(epoch: int, request: ConsumerGroupHeartbeatRequest) -> str:
    """Return what is invalid in a request with this epoch."""
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        if request.topic_partitions is None or request.topic_partitions:
            return "TopicPartitions must be empty when (re-)joining."
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    if epoch == LEAVING_FOR_A_WHILE and request.instance_id is None:
        return "InstanceId can't be null."
    return "MemberEpoch is invalid." if epoch < LEAVING_FOR_A_WHILE else ""


def check_epoch(member: ConsumerMember, epoch: int, claimed: PartitionsByTopic | None) -> None:
    """Check the epoch of a member; it may be one behind if a response was lost.

    After a lost response, the member still has the partitions that the response asked it to revoke. Apache Kafka fences
    the member then, although these partitions cannot be assigned to another member.

    Raises:
        ApiError: FENCED_MEMBER_EPOCH.
    """
    if epoch == member.epoch:
        return
    lost = epoch == member.previous_epoch and claimed is not None and _is_subset(claimed, member)
    if epoch < member.epoch and lost:
        return
    size = "greater" if epoch > member.epoch else "smaller"
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_subset(claimed: PartitionsByTopic, member: ConsumerMember) -> bool:
    return all(
        partitions <= member.assigned.get(topic_id, {}).keys() | member.revoking.get(topic_id, {}).keys()
        for topic_id, partitions in claimed.items()
    )


def updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerMember:
    """Return the member, updated with the request."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=caller.client_id,
        client_host=caller.host,
        classic=None,
    )
