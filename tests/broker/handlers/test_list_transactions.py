"""ListTransactions: the pattern of transactional ids is RE2's and is matched in linear time (KIP-1152)."""

from __future__ import annotations

import asyncio
import time

import pytest

from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.broker.support import ask, make_state

LONG = "a" * 30


def state_with_ids() -> BrokerState:
    state = make_state()

    async def begin() -> None:
        for name in ("orders-1", "orders-2", LONG):
            ask(state, InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000))
        await asyncio.sleep(0)

    asyncio.run(begin())
    return state


def listed(state: BrokerState, pattern: str) -> ListTransactionsResponse:
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern)
    answer: ListTransactionsResponse = ask(state, request)
    return answer


def test_the_pattern_must_match_the_whole_id():
    found = listed(state_with_ids(), "orders-[2-9]|rders.*").transaction_states
    assert [one.transactional_id for one in found] == ["orders-2"]


def test_a_pattern_that_backtracks_without_end_is_matched_at_once():
    state = state_with_ids()
    began = time.process_time()
    assert listed(state, "(.|.)*,").transaction_states == []
    assert time.process_time() - began < 0.2


@pytest.mark.parametrize("pattern", ["(", "(?=o)orders", r"(o)\1", r"\pL{900}", "(a{900}){900}"])
def test_a_pattern_that_re2_does_not_take_is_refused(pattern: str):
    assert listed(state_with_ids(), pattern).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
