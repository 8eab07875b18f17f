"""DescribeTransactions: the state of transactional ids that this node coordinates.

Source: KIP-664; kafka.coordinator.transaction.TransactionCoordinator.handleDescribeTransactions.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import Divided
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.transactions.states import Transaction
from kafkaraw.light_classes import replace
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

_ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def authorize(
    call: Call[DescribeTransactionsRequest, DescribeTransactionsResponse], request: DescribeTransactionsRequest
) -> Reply[DescribeTransactionsResponse]:
    """DESCRIBE on each transactional id; topics without DESCRIBE are left out of the transaction."""
    denied = {name for name in request.transactional_ids if not call.may_describe_transaction(name)}
    asked = [name for name in request.transactional_ids if name not in denied]

    def merge(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for one in response.transaction_states:
            one.topics = [
                topic
                for topic in one.topics
                if call.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic, log_denial=False)
            ]
        response.transaction_states.extend(_not_described(name, _ID_DENIED) for name in sorted(denied))
        return response

    return call.go_on(replace(request, transactional_ids=asked), merge)


@handles(
    DescribeTransactionsRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),),
    note="topics without DESCRIBE are left out",
    divided={0: Divided(("transactional_ids",), ("transaction_states",))},
)
def handle(
    state: BrokerState, context: RequestContext, request: DescribeTransactionsRequest
) -> Reply[DescribeTransactionsResponse]:
    """Describe each."""
    return DescribeTransactionsResponse(transaction_states=[_one(state, name) for name in request.transactional_ids])


def _one(state: BrokerState, name: str) -> TransactionState:
    if not name:
        return _not_described(name, ErrorCode.INVALID_REQUEST)
    try:
        found = state.transactions.coordinator(name).transaction(name)
    except ApiError as error:
        return _not_described(name, error.code)
    return _not_described(name, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND) if found is None else _described(found)


def _described(transaction: Transaction) -> TransactionState:
    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=[each.partition for each in partitions])
            for topic, partitions in groupby(sorted(transaction.partitions), key=lambda each: each.topic)
        ],
    )


def _not_described(name: str, code: ErrorCode) -> TransactionState:
    """Return the entry of a transactional id that is not described."""
    return TransactionState(
        error_code=code,
        transactional_id=name,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
