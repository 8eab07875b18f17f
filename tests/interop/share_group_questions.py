"""Conversations about the members and offsets of share groups, to be had with two brokers; see `group_questions`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kafkaraw.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkaraw.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkaraw.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kafkaraw.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkaraw.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest
from kafkaraw.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkaraw.protocol.messages.list_groups import ListGroupsRequest
from kafkaraw.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kafkaraw.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.interop.group_questions import READY_SECONDS, TOPIC, Table
from tests.interop.share_state_questions import ready

MEMBER: Final = "member-of-a-share-group"


def heartbeat(table: Table, member_id: str = MEMBER, epoch: int = 0, **fields: Any) -> ShareGroupHeartbeatRequest:
    if epoch == 0:
        fields.setdefault("subscribed_topic_names", [TOPIC])
    return ShareGroupHeartbeatRequest(group_id=table.group_id, member_id=member_id, member_epoch=epoch, **fields)


def settled(table: Table, client: Any, epoch: int, member_id: str = MEMBER) -> Any:
    """Send heartbeats until the member has partitions."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        answer = client.ask(heartbeat(table, member_id, epoch), 1)
        epoch = answer.member_epoch
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return answer
        assert time.monotonic() < deadline and not answer.error_code, answer
        time.sleep(0.05)


def describe(table: Table) -> ShareGroupDescribeRequest:
    return ShareGroupDescribeRequest(group_ids=[table.group_id], include_authorized_operations=False)


def offsets(table: Table, *partitions: int, topic: str = TOPIC) -> DescribeShareGroupOffsetsRequest:
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=list(partitions))]
    group = DescribeShareGroupOffsetsRequestGroup(group_id=table.group_id, topics=topics if partitions else None)
    return DescribeShareGroupOffsetsRequest(groups=[group])


def alter(table: Table, topic: str = TOPIC, **starts: int) -> AlterShareGroupOffsetsRequest:
    parts = [
        AlterShareGroupOffsetsRequestPartition(partition_index=int(name[1:]), start_offset=offset)
        for name, offset in starts.items()
    ]
    asked = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=parts)
    return AlterShareGroupOffsetsRequest(group_id=table.group_id, topics=[asked])


def delete(table: Table, *topics: str) -> DeleteShareGroupOffsetsRequest:
    asked = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    return DeleteShareGroupOffsetsRequest(group_id=table.group_id, topics=asked)


def _members(table: Table) -> Iterator[Any]:
    """A member joins, gets partitions, and leaves."""
    ready(table)
    client = table.client()
    yield client.ask(describe(table), 1)
    yield client.ask(heartbeat(table), 1)
    yield client.ask(describe(table), 1).groups[0].members[0].client_host
    joined = settled(table, client, 2)
    yield joined
    yield client.ask(heartbeat(table, epoch=joined.member_epoch), 1)
    yield client.ask(heartbeat(table, epoch=joined.member_epoch, subscribed_topic_names=[TOPIC]), 1)
    yield client.ask(heartbeat(table, epoch=joined.member_epoch - 1), 1)
    yield client.ask(describe(table), 1)
    listed = client.ask(ListGroupsRequest(types_filter=["Share"]), 5)
    yield next(group.group_type for group in listed.groups if group.group_id == table.group_id)
    yield client.ask(heartbeat(table, epoch=-1), 1)
    yield client.ask(describe(table), 1)
    yield client.ask(DeleteGroupsRequest(groups_names=[table.group_id]), 2).results[0].error_code
    yield client.ask(describe(table), 1)


def _refused(table: Table) -> Iterator[Any]:
    """Heartbeats that are invalid, or fenced."""
    ready(table)
    client = table.client()
    yield client.ask(heartbeat(table, member_id=""), 1)
    yield client.ask(heartbeat(table, member_id="m" * 37), 1)
    yield client.ask(heartbeat(table, epoch=5), 1)
    yield client.ask(heartbeat(table, epoch=-1), 1)
    yield client.ask(heartbeat(table, epoch=-2), 1)
    yield client.ask(heartbeat(table, subscribed_topic_names=None), 1)
    yield client.ask(heartbeat(table, subscribed_topic_names=[]), 1)
    yield client.ask(heartbeat(table, rack_id=""), 1)
    joined = client.ask(heartbeat(table), 1)
    yield client.ask(heartbeat(table, epoch=joined.member_epoch + 100), 1)
    yield client.ask(heartbeat(table, member_id="another", epoch=joined.member_epoch), 1)
    yield client.ask(heartbeat(table, member_id="another", epoch=-1), 1)
    group_id, table.group_id = table.group_id, ""
    yield client.ask(heartbeat(table), 1).error_code
    yield client.ask(describe(table), 1).groups[0].error_code
    table.group_id = group_id


def _wrong_type(table: Table) -> Iterator[Any]:
    """Requests for groups of other types."""
    ready(table)
    client = table.client()
    client.ask(heartbeat(table), 1)
    yield client.ask(table.join("m"), 5)
    yield client.ask(table.join(), 5).error_code
    yield client.ask(HeartbeatRequest(group_id=table.group_id, generation_id=1, member_id=MEMBER), 4)
    yield client.ask(LeaveGroupRequest(group_id=table.group_id, members=[MemberIdentity(member_id=MEMBER)]), 5)
    yield client.ask(ConsumerGroupDescribeRequest(group_ids=[table.group_id], include_authorized_operations=False), 1)
    yield client.ask(DescribeGroupsRequest(groups=[table.group_id]), 6)
    yield client.ask(DeleteGroupsRequest(groups_names=[table.group_id]), 2)
    table.group_id += "-classic"
    client.ask(table.join(), 3)
    yield client.ask(heartbeat(table), 1)
    yield client.ask(describe(table), 1)
    yield client.ask(offsets(table), 1)
    yield client.ask(delete(table, TOPIC), 0)
    yield client.ask(alter(table, p0=1), 0)


def _offsets(table: Table) -> Iterator[Any]:
    """Offsets are altered, described and deleted."""
    ready(table)
    client = table.client()
    yield client.ask(offsets(table), 1)
    yield client.ask(offsets(table, 0, 1), 1)
    yield client.ask(offsets(table, 0, topic="no-such-topic"), 1)
    yield client.ask(delete(table, TOPIC), 0)
    yield client.ask(alter(table, p0=3, p1=0), 0)
    yield client.ask(describe(table), 1)
    yield [part.start_offset for part in client.ask(offsets(table), 1).groups[0].topics[0].partitions]
    yield client.ask(offsets(table, 0), 0)
    yield client.ask(alter(table, p0=1, p7=0), 0)
    yield client.ask(alter(table, topic="no-such-topic", p0=0), 0)
    yield client.ask(delete(table, TOPIC, "no-such-topic"), 0)
    yield client.ask(delete(table, TOPIC), 0)
    yield client.ask(offsets(table), 1)
    settled(table, client, 0)
    yield client.ask(alter(table, p0=1), 0)
    yield client.ask(delete(table, TOPIC), 0)
    client.ask(heartbeat(table, epoch=-1), 1)
    yield client.ask(DeleteGroupsRequest(groups_names=[table.group_id]), 2)
    group_id, table.group_id = table.group_id, ""
    yield client.ask(alter(table, p0=1), 0)
    yield client.ask(delete(table, TOPIC), 0)
    table.group_id = group_id


def _two_members(table: Table) -> Iterator[Any]:
    """Two members share partitions, and both have them."""
    ready(table)
    client = table.client()
    settled(table, client, 0)
    settled(table, client, 0, "other")
    deadline = time.monotonic() + READY_SECONDS
    while True:
        client.ask(heartbeat(table), 1)
        group = client.ask(describe(table), 1).groups[0]
        counts = sorted(
            sum(len(part.partitions) for part in each.assignment.topic_partitions) for each in group.members
        )
        if counts == [1, 1]:
            break
        assert time.monotonic() < deadline, group
    client.ask(heartbeat(table, "third"), 1)
    yield counts
    yield ErrorCode(client.ask(heartbeat(table, epoch=-1), 1).error_code)


CONVERSATIONS: Final[dict[str, Callable[[Table], Iterator[Any]]]] = {
    "share_members": _members,
    "share_refused": _refused,
    "share_wrong_type": _wrong_type,
    "share_offsets": _offsets,
    "share_two_members": _two_members,
}
