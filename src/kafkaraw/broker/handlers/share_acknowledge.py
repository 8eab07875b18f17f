"""ShareAcknowledge: accept, release, reject or renew records that a member has acquired.

Source: kafka.server.KafkaApis.handleShareAcknowledgeRequest; KIP-932, KIP-1222.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.fetch import LEADER_IS_ELSEWHERE
from kafkaraw.broker.handlers.leadership import CurrentLeaders
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.handlers.share_acknowledgements import RENEW_SINCE, Outcomes, acknowledge
from kafkaraw.broker.handlers.share_requests import NOT_ENABLED, authorize_reading, is_member_id, unreadable_topics
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.shares.sessions import FINAL_EPOCH, Part, SessionKey
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kafkaraw.records import TopicPartition

_API: Final = "ShareAcknowledge"


def authorize(
    call: Call[ShareAcknowledgeRequest, ShareAcknowledgeResponse], request: ShareAcknowledgeRequest
) -> Reply[ShareAcknowledgeResponse]:
    """READ on the group; `handle` checks READ on each topic."""
    return authorize_reading(call, request, _refused)


@handles(
    ShareAcknowledgeRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.READ, ResourceType.GROUP),
        Permission(AclOperation.READ, ResourceType.TOPIC),
    ),
)
def handle(
    state: BrokerState, context: RequestContext, request: ShareAcknowledgeRequest
) -> Reply[ShareAcknowledgeResponse]:
    """Apply the acknowledgements; answered when the states are replicated."""
    if not state.controller.features.has_share_groups:
        return _refused(NOT_ENABLED)
    if request.group_id is None or request.member_id is None or not is_member_id(request.member_id):
        return _refused(ErrorCode.INVALID_REQUEST)
    member = SessionKey(request.group_id, request.member_id)
    try:
        state.share_partitions.sessions.acknowledge(member, request.share_session_epoch)
    except ApiError as error:
        return _refused(error.code)
    sent: dict[Part, list[AcknowledgementBatch]] = {
        (Uuid(topic.topic_id), each.partition_index): each.acknowledgement_batches
        for topic in request.topics
        for each in topic.partitions
    }

    def begin(done: Callable[[ShareAcknowledgeResponse], None]) -> None:
        def acknowledged(outcomes: Outcomes) -> None:
            if request.share_session_epoch == FINAL_EPOCH:
                state.share_partitions.close_session(member)
            done(_response(state, context, member.group_id, outcomes))

        renews = context.api_version >= RENEW_SINCE and request.is_renew_ack
        unreadable = unreadable_topics(state, context, _API, (topic_id for topic_id, _ in sent))
        acknowledge(state, member, sent, acknowledged, unreadable=unreadable, renews=renews)

    return answered(begin)


def _response(
    state: BrokerState, context: RequestContext, group_id: str, outcomes: Outcomes
) -> ShareAcknowledgeResponse:
    leaders = CurrentLeaders(state, context.listener)
    topics: dict[Uuid, list[PartitionData]] = {}
    for (topic_id, partition), error in outcomes.items():
        leader = LeaderIdAndEpoch()
        topic = state.catalog.topic_by_id(topic_id)
        if error is not None and error.code in LEADER_IS_ELSEWHERE and topic is not None:
            leader_id, leader_epoch = leaders.leader_of(TopicPartition(topic.name, partition))
            leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        topics.setdefault(topic_id, []).append(
            PartitionData(
                partition_index=partition,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message or None,
                current_leader=leader,
            )
        )
    return ShareAcknowledgeResponse(
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=state.groups.share_limits_of(group_id).lock_duration_ms,
        responses=[
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=parts) for topic_id, parts in topics.items()
        ],
        node_endpoints=[
            NodeEndpoint(node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in leaders.endpoints()
        ],
    )


def _refused(code: ErrorCode) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=code, responses=[], node_endpoints=[])
