"""ListTransactions (66): the transactions that a broker coordinates (KIP-664)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int16, int32, int64, string


@struct
class TransactionState:
    """One transaction.

    Attributes:
        transaction_state: its state.
    """

    transactional_id: string
    producer_id: int64
    transaction_state: string


@request(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest(Request["ListTransactionsResponse"]):
    """List transactions; every broker knows its own ones only.

    Version 1 filters by age (KIP-994), 2 by pattern (KIP-1152).

    Attributes:
        state_filters: states wanted; empty for all.
        producer_id_filters: producer ids wanted; empty for all.
        duration_filter: only those older than so many milliseconds; below 0 for all.
        transactional_id_pattern: regular expression; null or empty for all.
    """

    state_filters: list[string]
    producer_id_filters: list[int64]
    duration_filter: int64 = field(versions="1+", default=-1)
    transactional_id_pattern: string | None = field(versions="2+", default=None)


@response(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse(Response):
    """The transactions.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        unknown_state_filters: states asked for that do not exist.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    unknown_state_filters: list[string]
    transaction_states: list[TransactionState]
