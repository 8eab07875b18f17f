"""How long a client waits before it asks a coordinator again."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import cast

import pytest

from kafkaraw.client.config import AdminConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.coordinator import Coordinator, CoordinatorKind
from kafkaraw.client.network.engine import Engine
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkaraw.testing.virtual import run_virtual


class _Coordinator(Coordinator):
    async def node_id(self, timeout: float) -> int:
        return 1


async def seconds_until_answer(code: ErrorCode, failures: int) -> float:
    """Ask a coordinator that gives an error this many times; return how long that takes."""
    left = failures

    async def request(*_: object, **__: object) -> EndTxnResponse:
        nonlocal left
        left -= 1
        return EndTxnResponse(error_code=code if left >= 0 else ErrorCode.NONE)

    config = AdminConfig(bootstrap_servers="localhost:9092")
    engine = SimpleNamespace(config=config, request=request, runtime=SimpleNamespace(rng=random.Random(1)))
    coordinator = _Coordinator(cast("Engine", engine), CoordinatorKind.TRANSACTION, "payments")
    loop = asyncio.get_running_loop()
    began = loop.time()
    message = EndTxnRequest(transactional_id="payments", producer_id=1, producer_epoch=0, committed=True)
    await coordinator.ask(message, lambda answer: answer.error_code, deadline=Deadline(30.0))
    return loop.time() - began


@pytest.mark.parametrize("code", [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT])
def test_request_behind_a_transaction_that_ends_is_repeated_after_20_ms_and_then_backs_off(code: ErrorCode) -> None:
    assert 0.016 <= run_virtual(lambda _: seconds_until_answer(code, 1), 1) <= 0.024
    assert 0.8 * 0.620 <= run_virtual(lambda _: seconds_until_answer(code, 5), 1) <= 1.2 * 0.620


def test_request_to_a_coordinator_that_loads_is_repeated_after_the_retry_backoff() -> None:
    waited_s = run_virtual(lambda _: seconds_until_answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1), 1)
    assert 0.08 <= waited_s <= 0.12
