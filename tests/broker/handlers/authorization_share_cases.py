"""How the APIs about share groups are asked, and which rights that takes; see `authorization_cases`."""

from __future__ import annotations

from kafkaraw.broker.groups.runtime import Caller
from kafkaraw.broker.shares.sessions import SessionKey
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import replace
from kafkaraw.protocol.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    delete_share_group_state,
    describe_share_group_offsets,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    write_share_group_state,
)
from tests.broker.handlers.authorization_support import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    Case,
    On,
    Op,
    on_cluster,
    on_topic,
    topic,
)


def initialize_state(state: BrokerState) -> initialize_share_group_state.InitializeShareGroupStateRequest:
    asked = initialize_share_group_state.PartitionData(partition=0, state_epoch=1, start_offset=-1)
    data = initialize_share_group_state.InitializeStateData(topic_id=topic(state).topic_id, partitions=[asked])
    return initialize_share_group_state.InitializeShareGroupStateRequest(group_id="g", topics=[data])


def read_state(state: BrokerState) -> read_share_group_state.ReadShareGroupStateRequest:
    asked = read_share_group_state.PartitionData(partition=0, leader_epoch=0)
    data = read_share_group_state.ReadStateData(topic_id=topic(state).topic_id, partitions=[asked])
    return read_share_group_state.ReadShareGroupStateRequest(group_id="g", topics=[data])


def write_state(state: BrokerState) -> write_share_group_state.WriteShareGroupStateRequest:
    asked = write_share_group_state.PartitionData(
        partition=0, state_epoch=1, leader_epoch=0, start_offset=0, state_batches=[]
    )
    data = write_share_group_state.WriteStateData(topic_id=topic(state).topic_id, partitions=[asked])
    return write_share_group_state.WriteShareGroupStateRequest(group_id="g", topics=[data])


def delete_state(state: BrokerState) -> delete_share_group_state.DeleteShareGroupStateRequest:
    asked = delete_share_group_state.PartitionData(partition=0)
    data = delete_share_group_state.DeleteStateData(topic_id=topic(state).topic_id, partitions=[asked])
    return delete_share_group_state.DeleteShareGroupStateRequest(group_id="g", topics=[data])


def summary(state: BrokerState) -> read_share_group_state_summary.ReadShareGroupStateSummaryRequest:
    asked = read_share_group_state_summary.PartitionData(partition=0, leader_epoch=0)
    data = read_share_group_state_summary.ReadStateSummaryData(topic_id=topic(state).topic_id, partitions=[asked])
    return read_share_group_state_summary.ReadShareGroupStateSummaryRequest(group_id="g", topics=[data])


def heartbeat(state: BrokerState) -> share_group_heartbeat.ShareGroupHeartbeatRequest:
    return share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["flights"]
    )


def describe(state: BrokerState) -> share_group_describe.ShareGroupDescribeRequest:
    """Of a group that there is, with a member, as it is when the state of its partitions is initialized."""
    coordinator = state.groups.coordinator("g")
    coordinator.share_heartbeat(heartbeat(state), Caller("c", "/h", 1), lambda response: None)
    members = coordinator.share_group("g").members
    members["m"] = replace(members["m"], assigned={topic(state).topic_id: frozenset({0})})
    return share_group_describe.ShareGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)


def describe_offsets(state: BrokerState) -> describe_share_group_offsets.DescribeShareGroupOffsetsRequest:
    asked = describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(topic_name="flights", partitions=[0])
    group = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[asked])
    return describe_share_group_offsets.DescribeShareGroupOffsetsRequest(groups=[group])


def alter_offsets(state: BrokerState) -> alter_share_group_offsets.AlterShareGroupOffsetsRequest:
    asked = alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    moved = alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(topic_name="flights", partitions=[asked])
    return alter_share_group_offsets.AlterShareGroupOffsetsRequest(group_id="g", topics=[moved])


def delete_offsets(state: BrokerState) -> delete_share_group_offsets.DeleteShareGroupOffsetsRequest:
    """Of a group that there is."""
    state.groups.coordinator("g").share_offsets.alter("g", {"flights": {0: 0}}, lambda outcomes: None)
    asked = delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name="flights")
    return delete_share_group_offsets.DeleteShareGroupOffsetsRequest(group_id="g", topics=[asked])


def fetch(state: BrokerState) -> share_fetch.ShareFetchRequest:
    asked = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=[])
    return share_fetch.ShareFetchRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=0,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=0,
        topics=[share_fetch.FetchTopic(topic_id=topic(state).topic_id, partitions=[asked])],
        forgotten_topics_data=[],
    )


def acknowledge(state: BrokerState) -> share_acknowledge.ShareAcknowledgeRequest:
    """Of a member with a session."""
    part = (topic(state).topic_id, 0)
    state.share_partitions.sessions.fetch(SessionKey("g", "m"), 0, "", [part], [], acks=False)
    asked = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=[])
    return share_acknowledge.ShareAcknowledgeRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=1,
        topics=[share_acknowledge.AcknowledgeTopic(topic_id=topic(state).topic_id, partitions=[asked])],
    )


_OF_BROKERS = [on_cluster(Op.CLUSTER_ACTION)]
SHARE_CASES: dict[str, list[Case]] = {
    "ShareGroupHeartbeat": [Case(heartbeat, GROUP_DENIED, [[(Op.READ, On.GROUP, "g"), *on_topic(Op.DESCRIBE)]])],
    "ShareFetch": [Case(fetch, GROUP_DENIED, [[(Op.READ, On.GROUP, "g"), *on_topic(Op.READ)]])],
    "ShareAcknowledge": [Case(acknowledge, GROUP_DENIED, [[(Op.READ, On.GROUP, "g"), *on_topic(Op.READ)]])],
    "ShareGroupDescribe": [Case(describe, GROUP_DENIED, [[(Op.DESCRIBE, On.GROUP, "g"), *on_topic(Op.DESCRIBE)]])],
    "DescribeShareGroupOffsets": [
        Case(describe_offsets, GROUP_DENIED, [[(Op.DESCRIBE, On.GROUP, "g"), *on_topic(Op.DESCRIBE)]])
    ],
    "AlterShareGroupOffsets": [Case(alter_offsets, GROUP_DENIED, [[(Op.READ, On.GROUP, "g"), *on_topic(Op.READ)]])],
    "DeleteShareGroupOffsets": [Case(delete_offsets, GROUP_DENIED, [[(Op.DELETE, On.GROUP, "g"), *on_topic(Op.READ)]])],
    "InitializeShareGroupState": [Case(initialize_state, CLUSTER_DENIED, _OF_BROKERS)],
    "ReadShareGroupState": [Case(read_state, CLUSTER_DENIED, _OF_BROKERS)],
    "WriteShareGroupState": [Case(write_state, CLUSTER_DENIED, _OF_BROKERS)],
    "DeleteShareGroupState": [Case(delete_state, CLUSTER_DENIED, _OF_BROKERS)],
    "ReadShareGroupStateSummary": [Case(summary, CLUSTER_DENIED, _OF_BROKERS)],
}
"""API -> how it is asked."""
