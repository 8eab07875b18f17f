"""ReadShareGroupStateSummary: read the start offsets of share partitions, for a group coordinator.

Source: KIP-932; kafka.server.KafkaApis.handleReadShareGroupStateSummaryRequest.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import handles
from kafkaraw.broker.handlers.share_state_requests import (
    PERMISSIONS,
    Results,
    authorize_brokers,
    each_partition,
    operations_of,
)
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.shares.coordinator import Outcome
from kafkaraw.broker.shares.node import Operation
from kafkaraw.broker.shares.state import UNKNOWN_COUNT, ShareKey
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)


def authorize(
    call: Call[ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse],
    request: ReadShareGroupStateSummaryRequest,
) -> Reply[ReadShareGroupStateSummaryResponse]:
    """CLUSTER_ACTION on the cluster."""
    return authorize_brokers(call, request, _operations(request), _response)


@handles(ReadShareGroupStateSummaryRequest, authorize=authorize, permissions=PERMISSIONS)
def handle(
    state: BrokerState, context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> Reply[ReadShareGroupStateSummaryResponse]:
    """Read each."""
    return each_partition(state, _operations(request), _response)


def _operations(request: ReadShareGroupStateSummaryRequest) -> dict[ShareKey, Operation]:
    return operations_of(request.group_id, request.topics, _operation)


def _operation(key: ShareKey, asked: PartitionData) -> Operation:
    return lambda coordinator, done: done(coordinator.summary(key))


def _response(results: Results) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(
                topic_id=topic_id,
                partitions=[_result(partition, outcome) for partition, outcome in outcomes],
            )
            for topic_id, outcomes in results.items()
        ]
    )


def _result(partition: int, outcome: Outcome) -> PartitionResult:
    found = outcome.state
    return PartitionResult(
        partition=partition,
        error_code=outcome.code,
        error_message=outcome.message,
        state_epoch=0 if found is None else found.state_epoch,
        leader_epoch=0 if found is None else found.leader_epoch,
        start_offset=0 if found is None else found.start_offset,
        delivery_complete_count=UNKNOWN_COUNT if found is None else found.complete_count,
    )
