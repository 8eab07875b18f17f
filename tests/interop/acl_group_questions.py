"""The questions about groups in the comparison of access control; see `acl_questions`.

What a coordinator says of members that it does not know is compared elsewhere: here only who may ask it. None of them
leaves a member behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaraw.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkaraw.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkaraw.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkaraw.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest
from kafkaraw.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkaraw.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkaraw.protocol.messages.list_groups import ListGroupsRequest
from kafkaraw.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkaraw.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest

GROUPS: Final = ("g", "h")
VERSIONS_MAX: Final = 99


def _join(group: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="nobody",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def _sync(group: str) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id="nobody",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[],
    )


def _beat(group: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id="nobody", member_epoch=5)


def _offset_delete(group: str) -> OffsetDeleteRequest:
    asked = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=name, partitions=asked) for name in ("flights", "planes", "nowhere")]
    return OffsetDeleteRequest(group_id=group, topics=topics)


GROUP_QUESTIONS: Final[dict[str, tuple[Callable[[str], object], range | None]]] = {
    "JoinGroup": (_join, None),
    "SyncGroup": (_sync, None),
    "Heartbeat": (lambda group: HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody"), None),
    "LeaveGroup": (lambda group: LeaveGroupRequest(group_id=group, member_id="nobody"), range(3)),
    "LeaveGroup of several": (
        lambda group: LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id="nobody")]),
        range(3, VERSIONS_MAX),
    ),
    "DescribeGroups": (lambda group: DescribeGroupsRequest(groups=[group]), None),
    "ListGroups": (lambda group: ListGroupsRequest(), None),
    "ConsumerGroupHeartbeat": (_beat, None),
    "ConsumerGroupDescribe": (
        lambda group: ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False),
        None,
    ),
    "OffsetDelete": (_offset_delete, None),
    "DeleteGroups": (lambda group: DeleteGroupsRequest(groups_names=[group]), None),
}
"""API -> a request about a group, and the versions to ask in; None for all."""

SEVERAL: Final[dict[str, tuple[object, range | None]]] = {
    "DescribeGroups of several": (
        DescribeGroupsRequest(groups=list(GROUPS), include_authorized_operations=True),
        range(3, VERSIONS_MAX),
    ),
    "ConsumerGroupDescribe of several": (
        ConsumerGroupDescribeRequest(group_ids=list(GROUPS), include_authorized_operations=True),
        None,
    ),
    "OffsetFetch of several": (
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in GROUPS]),
        range(8, VERSIONS_MAX),
    ),
    "DeleteGroups of several": (DeleteGroupsRequest(groups_names=["nowhere", *GROUPS[1:]]), None),
}
"""The same for what an administrator asks about several groups at once; one of them has positions by then."""
