"""WriteShareGroupState: store the state of share partitions, for the leader of a partition.

Source: KIP-932; kafka.server.KafkaApis.handleWriteShareGroupStateRequest.
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
from kafkaraw.broker.shares.coordinator import Write
from kafkaraw.broker.shares.node import Operation
from kafkaraw.broker.shares.state import ShareKey
from kafkaraw.broker.state import BrokerState
from kafkaraw.core.share.state_batches import StateBatch
from kafkaraw.protocol.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)


def authorize(
    call: Call[WriteShareGroupStateRequest, WriteShareGroupStateResponse], request: WriteShareGroupStateRequest
) -> Reply[WriteShareGroupStateResponse]:
    """CLUSTER_ACTION on the cluster."""
    return authorize_brokers(call, request, _operations(request), _response)


@handles(WriteShareGroupStateRequest, authorize=authorize, permissions=PERMISSIONS)
def handle(
    state: BrokerState, context: RequestContext, request: WriteShareGroupStateRequest
) -> Reply[WriteShareGroupStateResponse]:
    """Write each; answered when the states are replicated."""
    return each_partition(state, _operations(request), _response)


def _operations(request: WriteShareGroupStateRequest) -> dict[ShareKey, Operation]:
    return operations_of(request.group_id, request.topics, _operation)


def _operation(key: ShareKey, asked: PartitionData) -> Operation:
    batches = tuple(
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in asked.state_batches
    )
    write = Write(asked.state_epoch, asked.leader_epoch, asked.start_offset, asked.delivery_complete_count, batches)
    return lambda coordinator, done: coordinator.write(key, write, done)


def _response(results: Results) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse(
        results=[
            WriteStateResult(
                topic_id=topic_id,
                partitions=[
                    PartitionResult(partition=partition, error_code=outcome.code, error_message=outcome.message)
                    for partition, outcome in outcomes
                ],
            )
            for topic_id, outcomes in results.items()
        ]
    )
