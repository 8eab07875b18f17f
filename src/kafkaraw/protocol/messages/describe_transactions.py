"""DescribeTransactions (65): the state of transactions (KIP-664)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import int16, int32, int64, string


@struct
class TopicData:
    """Partitions of one topic."""

    topic: string
    partitions: list[int32]


@struct
class TransactionState:
    """One transaction.

    Attributes:
        transaction_state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort,
            PrepareEpochFence or Dead.
        transaction_timeout_ms: after which it is aborted, in milliseconds.
        transaction_start_time_ms: when it began, in milliseconds since 1970; -1 when it has not.
        topics: partitions that it has written to.
    """

    error_code: int16
    transactional_id: string
    transaction_state: string
    transaction_timeout_ms: int32
    transaction_start_time_ms: int64
    producer_id: int64
    producer_epoch: int16
    topics: list[TopicData]


@request(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"]):
    """Ask about transactions; must reach their coordinators."""

    transactional_ids: list[string]


@response(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse(Response):
    """The transactions.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    transaction_states: list[TransactionState]
