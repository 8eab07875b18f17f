"""InitializeShareGroupState: begin the state of share partitions, for a group coordinator.

Source: KIP-932; kafka.server.KafkaApis.handleInitializeShareGroupStateRequest.
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
from kafkaraw.broker.shares.node import Operation
from kafkaraw.broker.shares.state import ShareKey
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)


def authorize(
    call: Call[InitializeShareGroupStateRequest, InitializeShareGroupStateResponse],
    request: InitializeShareGroupStateRequest,
) -> Reply[InitializeShareGroupStateResponse]:
    """CLUSTER_ACTION on the cluster."""
    return authorize_brokers(call, request, _operations(request), _response)


@handles(InitializeShareGroupStateRequest, authorize=authorize, permissions=PERMISSIONS)
def handle(
    state: BrokerState, context: RequestContext, request: InitializeShareGroupStateRequest
) -> Reply[InitializeShareGroupStateResponse]:
    """Initialize each; answered when the states are replicated."""
    return each_partition(state, _operations(request), _response)


def _operations(request: InitializeShareGroupStateRequest) -> dict[ShareKey, Operation]:
    return operations_of(request.group_id, request.topics, _operation)


def _operation(key: ShareKey, asked: PartitionData) -> Operation:
    return lambda coordinator, done: coordinator.initialize(key, asked.state_epoch, asked.start_offset, done)


def _response(results: Results) -> InitializeShareGroupStateResponse:
    return InitializeShareGroupStateResponse(
        results=[
            InitializeStateResult(
                topic_id=topic_id,
                partitions=[
                    PartitionResult(partition=partition, error_code=outcome.code, error_message=outcome.message)
                    for partition, outcome in outcomes
                ],
            )
            for topic_id, outcomes in results.items()
        ]
    )
