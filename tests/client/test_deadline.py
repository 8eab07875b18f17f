"""Waiting for something that several calls wait for: each has its own time, its own cancellation and its own error."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.deadline import Deadline
from kafkaraw.errors import ClosedError, KafkaTimeoutError, NetworkError, Stage
from kafkaraw.testing.virtual import Simulation, run_virtual


def test_each_call_that_waits_for_a_shared_result_raises_an_error_of_its_own() -> None:
    async def main(_: Simulation) -> None:
        shared: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        calls = [asyncio.create_task(Deadline(5).wait_with_others(shared, "waiting")) for _ in range(3)]
        await asyncio.sleep(1)
        error = NetworkError("gone", stage=Stage.REQUEST)
        shared.set_exception(error)
        raised = await asyncio.gather(*calls, return_exceptions=True)
        assert [(type(one), str(one), one.stage) for one in raised] == [(NetworkError, "gone", Stage.REQUEST)] * 3
        assert len({id(one) for one in [error, *raised]}) == 4

    run_virtual(main, 1)


def test_a_call_that_is_cancelled_or_too_late_leaves_the_shared_result_to_the_others() -> None:
    async def main(simulation: Simulation) -> None:
        shared: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        late, cancelled, patient = (
            asyncio.create_task(Deadline(seconds).wait_with_others(shared, "waiting")) for seconds in (1, 5, 5)
        )
        await asyncio.sleep(0.5)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        with pytest.raises(KafkaTimeoutError, match="waiting: not done within 1 s"):
            await late
        assert simulation.loop.time() == pytest.approx(1)
        shared.set_result(3)
        assert await patient == 3

    run_virtual(main, 1)


def test_a_shared_attempt_that_is_cancelled_by_close_is_an_error_and_cancels_no_call() -> None:
    async def main(_: Simulation) -> None:
        shared = asyncio.create_task(asyncio.sleep(10))
        call = asyncio.create_task(Deadline(5).wait_with_others(shared, "waiting"))
        await asyncio.sleep(1)
        shared.cancel()
        with pytest.raises(ClosedError, match="the client was closed"):
            await call

    run_virtual(main, 1)
