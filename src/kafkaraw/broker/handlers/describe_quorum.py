"""DescribeQuorum: the quorum of controllers, as a Kafka cluster whose brokers are all controllers answers.

The nodes share their metadata, so every node that runs has all of it: the quorum has no log of its own. The offsets
count the changes of topics.
Source: KIP-595, KIP-836, KIP-853; org.apache.kafka.raft.KafkaRaftClient.handleDescribeQuorumRequest.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.handlers.authorization import MESSAGES, on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)

METADATA_PARTITION: Final = ("__cluster_metadata", 0)
DIRECTORIES_VERSION_MIN: Final = 2
UNKNOWN: Final = -1


def _not_authorized(request: DescribeQuorumRequest, message: str) -> DescribeQuorumResponse:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return DescribeQuorumResponse(error_code=code, error_message=MESSAGES[code], topics=[])


@handles(
    DescribeQuorumRequest,
    authorize=on_cluster(AclOperation.DESCRIBE, _not_authorized),
    permissions=(Permission(AclOperation.DESCRIBE, ResourceType.CLUSTER),),
)
def handle(
    state: BrokerState, context: RequestContext, request: DescribeQuorumRequest
) -> Reply[DescribeQuorumResponse]:
    """Describe the quorum of the metadata; a request for another partition gets an error for all of them."""
    asked = [(topic.topic_name, one.partition_index) for topic in request.topics for one in topic.partitions]
    known = asked == [METADATA_PARTITION]
    topics = [
        DescribeQuorumResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[_quorum(state) if known else _unknown(one.partition_index) for one in topic.partitions],
        )
        for topic in request.topics
    ]
    nodes = _nodes(state, context.listener) if known and context.api_version >= DIRECTORIES_VERSION_MIN else []
    return DescribeQuorumResponse(error_code=ErrorCode.NONE, topics=topics, nodes=nodes)


def _quorum(state: BrokerState) -> DescribeQuorumResponsePartitionData:
    catalog, now_ms = state.catalog, state.clock.time_ms()
    voters = [
        ReplicaState(
            replica_id=node_id,
            log_end_offset=catalog.version if node_id in catalog.brokers else UNKNOWN,
            last_fetch_timestamp=now_ms if node_id in catalog.brokers else UNKNOWN,
            last_caught_up_timestamp=now_ms if node_id in catalog.brokers else UNKNOWN,
        )
        for node_id in sorted({*catalog.racks, *catalog.brokers})
    ]
    return DescribeQuorumResponsePartitionData(
        partition_index=METADATA_PARTITION[1],
        error_code=ErrorCode.NONE,
        error_message="",
        leader_id=catalog.controller_id,
        leader_epoch=catalog.controller_epoch,
        high_watermark=catalog.version,
        current_voters=voters,
        observers=[],
    )


def _unknown(number: int) -> DescribeQuorumResponsePartitionData:
    return DescribeQuorumResponsePartitionData(
        partition_index=number,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="This server does not host this topic-partition.",
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )


def _nodes(state: BrokerState, listener: str) -> list[Node]:
    """Return the addresses on the listener of the client: the nodes have no listener of controllers."""
    return [
        Node(node_id=node_id, listeners=[Listener(name=listener, host=endpoint.host, port=endpoint.port)])
        for node_id, broker in sorted(state.catalog.brokers.items())
        if (endpoint := broker.endpoints.get(listener)) is not None
    ]
