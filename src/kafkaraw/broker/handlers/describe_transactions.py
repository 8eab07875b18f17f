"""DescribeTransactions: the state of transactional ids that this node coordinates.

Source: KIP-664; kafka.coordinator.transaction.TransactionCoordinator.handleDescribeTransactions.
"""

from __future__ import annotations

from itertools import groupby

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.transactions.states import Transaction
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(
    state: BrokerState, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Describe each."""
    return DescribeTransactionsResponse(transaction_states=[_one(state, name) for name in request.transactional_ids])


def _one(state: BrokerState, name: str) -> TransactionState:
    if not name:
        return not_described(name, ErrorCode.INVALID_REQUEST)
    try:
        found = state.transactions.coordinator(name).transaction(name)
    except Refusal as refusal:
        return not_described(name, refusal.code)
    return not_described(name, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND) if found is None else _described(found)


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


def not_described(name: str, code: ErrorCode) -> TransactionState:
    """The answer for an id of which nothing is told."""
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
