"""ListTransactions: the transactional ids that this node coordinates, filtered.

RE2 matches the pattern, as in Kafka.
Source: KIP-664, KIP-994, KIP-1152; kafka.coordinator.transaction.TransactionStateManager.listTransactionStates.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.transactions.states import Transaction
from kafkaraw.broker.transactions.states import TransactionState as State
from kafkaraw.core.linear_regex import InvalidRegexError, compile_linear
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_LABELS = {state.label for state in State}


def authorize(
    call: Call[ListTransactionsRequest, ListTransactionsResponse], request: ListTransactionsRequest
) -> Reply[ListTransactionsResponse]:
    """DESCRIBE on each transactional id: those without are left out."""

    def merge(response: ListTransactionsResponse) -> ListTransactionsResponse:
        response.transaction_states = [
            one
            for one in response.transaction_states
            if call.may_describe_transaction(one.transactional_id, log_denial=False)
        ]
        return response

    return call.go_on(request, merge)


@handles(
    ListTransactionsRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),),
    note="entries without the permission are left out",
)
def handle(
    state: BrokerState, context: RequestContext, request: ListTransactionsRequest
) -> Reply[ListTransactionsResponse]:
    """List the transactional ids."""
    unknown = [name for name in request.state_filters if name not in _LABELS]
    try:
        pattern = compile_linear(request.transactional_id_pattern or "")
    except InvalidRegexError:
        return ListTransactionsResponse(
            error_code=ErrorCode.INVALID_REGULAR_EXPRESSION, unknown_state_filters=[], transaction_states=[]
        )
    now_ms = state.clock.time_ms()
    found = [
        TransactionState(
            transactional_id=one.transactional_id, producer_id=one.producer_id, transaction_state=one.state.label
        )
        for coordinator in state.transactions.hosted()
        for one in coordinator.transactions()
        if _wanted(one, request, now_ms)
        and (not request.transactional_id_pattern or pattern.fullmatch(one.transactional_id))
    ]
    return ListTransactionsResponse(error_code=ErrorCode.NONE, unknown_state_filters=unknown, transaction_states=found)


def _wanted(one: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    return (
        one.state is not State.DEAD
        and (not request.state_filters or one.state.label in request.state_filters)
        and (not request.producer_id_filters or one.producer_id in request.producer_id_filters)
        and (request.duration_filter < 0 or now_ms - one.started_ms > request.duration_filter)
    )
