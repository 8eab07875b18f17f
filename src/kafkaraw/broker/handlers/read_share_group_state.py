"""ReadShareGroupState: read the state of share partitions, for the leader of a partition.

Source: KIP-932; kafka.server.KafkaApis.handleReadShareGroupStateRequest.
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
from kafkaraw.broker.shares.state import ShareKey
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)


def authorize(
    call: Call[ReadShareGroupStateRequest, ReadShareGroupStateResponse], request: ReadShareGroupStateRequest
) -> Reply[ReadShareGroupStateResponse]:
    """CLUSTER_ACTION on the cluster."""
    return authorize_brokers(call, request, _operations(request), _response)


@handles(ReadShareGroupStateRequest, authorize=authorize, permissions=PERMISSIONS)
def handle(
    state: BrokerState, context: RequestContext, request: ReadShareGroupStateRequest
) -> Reply[ReadShareGroupStateResponse]:
    """Read each; a new leader epoch is stored first."""
    return each_partition(state, _operations(request), _response)


def _operations(request: ReadShareGroupStateRequest) -> dict[ShareKey, Operation]:
    return operations_of(request.group_id, request.topics, _operation)


def _operation(key: ShareKey, asked: PartitionData) -> Operation:
    return lambda coordinator, done: coordinator.read(key, asked.leader_epoch, done)


def _response(results: Results) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse(
        results=[
            ReadStateResult(
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
        start_offset=0 if found is None else found.start_offset,
        state_batches=[]
        if found is None
        else [
            StateBatch(
                first_offset=batch.first_offset,
                last_offset=batch.last_offset,
                delivery_state=batch.state,
                delivery_count=batch.delivery_count,
            )
            for batch in found.batches
        ],
    )
