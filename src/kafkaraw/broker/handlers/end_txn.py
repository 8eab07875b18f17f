"""EndTxn: commit or abort a transaction.

Source: kafka.server.KafkaApis.handleEndTxnRequest; KIP-890 (version 5 ends with a new epoch).
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
from kafkaraw.broker.transactions.coordinator import Outcome, ProducerIdAndEpoch
from kafkaraw.broker.transactions.states import EPOCH_BUMP_VERSION
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_VERSION_MIN: Final = 2
EPOCH_BUMP_API_VERSION_MIN: Final = 5
_ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def authorize(call: Call[EndTxnRequest, EndTxnResponse], request: EndTxnRequest) -> Reply[EndTxnResponse]:
    """WRITE on the transactional id."""
    if not call.may_write_transactions(request.transactional_id):
        return EndTxnResponse(error_code=_ID_DENIED)
    return call.go_on(request)


@handles(
    EndTxnRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),),
)
def handle(state: BrokerState, context: RequestContext, request: EndTxnRequest) -> Reply[EndTxnResponse]:
    """Commit or abort the transaction; answered when the outcome is replicated."""
    bumps = context.api_version >= EPOCH_BUMP_API_VERSION_MIN

    def response(outcome: Outcome) -> EndTxnResponse:
        code = fenced_code(outcome.code, knows_fenced=context.api_version >= FENCED_VERSION_MIN)
        return EndTxnResponse(
            error_code=code, producer_id=outcome.identity.producer_id, producer_epoch=outcome.identity.epoch
        )

    try:
        coordinator = state.transactions.coordinator(request.transactional_id)
    except ApiError as error:
        return response(Outcome(error.code))
    return answered(
        lambda done: coordinator.end(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            commit=request.committed,
            version=EPOCH_BUMP_VERSION if bumps else 0,
            answer=lambda outcome: done(response(outcome)),
        )
    )
