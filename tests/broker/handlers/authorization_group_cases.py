"""How the APIs about members of groups are asked, and which rights that takes; see `authorization_cases`."""

from __future__ import annotations

from kafkaraw.broker.groups.coordinator import CommitIdentity
from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.broker.groups.runtime import Caller
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkaraw.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkaraw.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkaraw.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest
from kafkaraw.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkaraw.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkaraw.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkaraw.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kafkaraw.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest
from kafkaraw.records import TopicPartition
from tests.broker.handlers.authorization_support import GROUP_DENIED, Case, On, Op, on_topic

READ_GROUP = (Op.READ, On.GROUP, "g")


def join_group(state: BrokerState) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def sync_group(state: BrokerState) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id="g", generation_id=1, member_id="m", protocol_type="consumer", protocol_name="range", assignments=[]
    )


def offset_delete(state: BrokerState) -> OffsetDeleteRequest:
    """Of a group that there is."""
    kept = (TopicPartition("flights", 0), CommittedOffset(1, -1, ""))
    state.groups.coordinator("g").commit(CommitIdentity("g"), [kept], lambda code: None)
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    return OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="flights", partitions=partitions)])


def consumer_heartbeat(state: BrokerState) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["flights"],
        topic_partitions=[],
    )


def consumer_describe(state: BrokerState) -> ConsumerGroupDescribeRequest:
    """Of a group that there is, with a member."""
    caller = Caller("c", "/h", 1)
    state.groups.coordinator("g").consumer_heartbeat(consumer_heartbeat(state), caller, lambda response: None)
    return ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)


def streams_heartbeat(state: BrokerState) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        group_id="s",
        member_id="m",
        member_epoch=0,
        endpoint_information_epoch=0,
        rebalance_timeout_ms=10_000,
        topology=Topology(
            epoch=0,
            subtopologies=[
                Subtopology(
                    subtopology_id="0",
                    source_topics=["flights"],
                    source_topic_regex=[],
                    state_changelog_topics=[],
                    repartition_sink_topics=[],
                    repartition_source_topics=[],
                    copartition_groups=[],
                )
            ],
        ),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    )


def streams_describe(state: BrokerState) -> StreamsGroupDescribeRequest:
    """Of a group that there is, with a member."""
    caller = Caller("c", "/h", 0)
    state.groups.coordinator("s").streams_heartbeat(streams_heartbeat(state), caller, lambda result: None)
    return StreamsGroupDescribeRequest(group_ids=["s"], include_authorized_operations=False)


GROUP_CASES = {
    "StreamsGroupHeartbeat": [
        Case(streams_heartbeat, GROUP_DENIED, [[(Op.READ, On.GROUP, "s"), *on_topic(Op.DESCRIBE)]])
    ],
    "StreamsGroupDescribe": [
        Case(streams_describe, GROUP_DENIED, [[(Op.DESCRIBE, On.GROUP, "s"), *on_topic(Op.DESCRIBE)]])
    ],
    "ConsumerGroupHeartbeat": [Case(consumer_heartbeat, GROUP_DENIED, [[READ_GROUP, *on_topic(Op.DESCRIBE)]])],
    "ConsumerGroupDescribe": [
        Case(consumer_describe, GROUP_DENIED, [[(Op.DESCRIBE, On.GROUP, "g"), *on_topic(Op.DESCRIBE)]])
    ],
    "JoinGroup": [
        Case(join_group, GROUP_DENIED, [[READ_GROUP]]),
        Case(join_group, GROUP_DENIED, [[READ_GROUP]], version=5),
    ],
    "SyncGroup": [Case(sync_group, GROUP_DENIED, [[READ_GROUP]])],
    "Heartbeat": [
        Case(lambda state: HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), GROUP_DENIED, [[READ_GROUP]])
    ],
    "LeaveGroup": [
        Case(
            lambda state: LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]),
            GROUP_DENIED,
            [[READ_GROUP]],
        ),
        Case(lambda state: LeaveGroupRequest(group_id="g", member_id="m"), GROUP_DENIED, [[READ_GROUP]], version=2),
    ],
    "DescribeGroups": [
        Case(lambda state: DescribeGroupsRequest(groups=["g"]), GROUP_DENIED, [[(Op.DESCRIBE, On.GROUP, "g")]])
    ],
    "DeleteGroups": [
        Case(lambda state: DeleteGroupsRequest(groups_names=["g"]), GROUP_DENIED, [[(Op.DELETE, On.GROUP, "g")]])
    ],
    "OffsetDelete": [Case(offset_delete, GROUP_DENIED, [[(Op.DELETE, On.GROUP, "g"), *on_topic(Op.READ)]])],
}
"""API -> how it is asked."""
