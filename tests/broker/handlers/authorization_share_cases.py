"""How the APIs about share groups are asked, and which rights that takes; see `authorization_cases`."""

from __future__ import annotations

from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from tests.broker.handlers.authorization_support import CLUSTER_DENIED, Case, Op, on_cluster, topic


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


_OF_BROKERS = [on_cluster(Op.CLUSTER_ACTION)]
SHARE_CASES: dict[str, list[Case]] = {
    "InitializeShareGroupState": [Case(initialize_state, CLUSTER_DENIED, _OF_BROKERS)],
    "ReadShareGroupState": [Case(read_state, CLUSTER_DENIED, _OF_BROKERS)],
    "WriteShareGroupState": [Case(write_state, CLUSTER_DENIED, _OF_BROKERS)],
    "DeleteShareGroupState": [Case(delete_state, CLUSTER_DENIED, _OF_BROKERS)],
    "ReadShareGroupStateSummary": [Case(summary, CLUSTER_DENIED, _OF_BROKERS)],
}
"""API -> how it is asked."""
