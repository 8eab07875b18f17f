"""AddOffsetsToTxn: add the committed offsets of a group to a transaction.

Source: kafka.server.KafkaApis.handleAddOffsetsToTxnRequest.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.init_producer_id import fenced_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.transactions.coordinator import ProducerIdAndEpoch
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_VERSION_MIN: Final = 2
_ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def authorize(
    call: Call[AddOffsetsToTxnRequest, AddOffsetsToTxnResponse], request: AddOffsetsToTxnRequest
) -> Reply[AddOffsetsToTxnResponse]:
    """WRITE on the transactional id, and READ on the group."""
    if not call.may_write_transactions(request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=_ID_DENIED)
    if not call.may_read_group(request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return call.go_on(request)


@handles(
    AddOffsetsToTxnRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
        Permission(AclOperation.READ, ResourceType.GROUP),
    ),
)
def handle(
    state: BrokerState, context: RequestContext, request: AddOffsetsToTxnRequest
) -> Reply[AddOffsetsToTxnResponse]:
    """Add the partition of `__consumer_offsets` that the group belongs to."""
    knows_fenced = context.api_version >= FENCED_VERSION_MIN

    def response(code: ErrorCode) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=fenced_code(code, knows_fenced=knows_fenced))

    identity = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        partitions = frozenset({state.groups.partition_for(request.group_id)})
        coordinator = state.transactions.coordinator(request.transactional_id)
    except ApiError as error:
        return response(error.code)
    return answered(
        lambda done: coordinator.add_partitions(
            request.transactional_id, identity, partitions, 0, lambda code: done(response(code))
        )
    )
