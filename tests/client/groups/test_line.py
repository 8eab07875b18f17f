"""A line lets its places through in the order in which they were taken, whoever waits first."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.groups.line import Line
from kafkaraw.testing.virtual import Simulation, run_virtual


def test_the_order_is_that_of_taking_places_not_of_waiting() -> None:
    async def test(_: Simulation) -> None:
        line, order = Line(), []
        places = [line.take_place() for _ in range(3)]

        async def go(number: int) -> None:
            await places[number].wait()
            order.append(number)
            places[number].leave()

        await asyncio.gather(go(2), go(1), go(0))
        assert order == [0, 1, 2]

    run_virtual(test, 1)


def test_whoever_leaves_without_waiting_holds_nobody_up_and_lets_nobody_overtake() -> None:
    async def test(_: Simulation) -> None:
        line = Line()
        first, second, third = line.take_place(), line.take_place(), line.take_place()
        second.leave()
        second.leave()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(third.wait(), 1)
        first.leave()
        await third.wait()

    run_virtual(test, 1)
