"""DeleteShareGroupState: delete the state of share partitions, for a group coordinator.

Source: KIP-932; kafka.server.KafkaApis.handleDeleteShareGroupStateRequest.
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
from kafkaraw.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)


def authorize(
    call: Call[DeleteShareGroupStateRequest, DeleteShareGroupStateResponse], request: DeleteShareGroupStateRequest
) -> Reply[DeleteShareGroupStateResponse]:
    """CLUSTER_ACTION on the cluster."""
    return authorize_brokers(call, request, _operations(request), _response)


@handles(DeleteShareGroupStateRequest, authorize=authorize, permissions=PERMISSIONS)
def handle(
    state: BrokerState, context: RequestContext, request: DeleteShareGroupStateRequest
) -> Reply[DeleteShareGroupStateResponse]:
    """Delete each; answered when the tombstones are replicated."""
    return each_partition(state, _operations(request), _response)


def _operations(request: DeleteShareGroupStateRequest) -> dict[ShareKey, Operation]:
    return operations_of(request.group_id, request.topics, _operation)


def _operation(key: ShareKey, asked: PartitionData) -> Operation:
    return lambda coordinator, done: coordinator.delete(key, done)


def _response(results: Results) -> DeleteShareGroupStateResponse:
    return DeleteShareGroupStateResponse(
        results=[
            DeleteStateResult(
                topic_id=topic_id,
                partitions=[
                    PartitionResult(partition=partition, error_code=outcome.code, error_message=outcome.message)
                    for partition, outcome in outcomes
                ],
            )
            for topic_id, outcomes in results.items()
        ]
    )
