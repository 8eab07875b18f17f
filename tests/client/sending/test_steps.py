"""When steps are made, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkaraw.client.sending.steps import Steps
from kafkaraw.testing.virtual import Simulation, run_virtual


class Maker:
    """Makes steps, and notes when, in milliseconds since it was made."""

    def __init__(self, simulation: Simulation) -> None:
        self.loop = simulation.loop
        self.steps = Steps(self._step)
        self.steps.loop = self.loop
        self.began_ms = self.steps.now_ms()
        self.made_ms: list[int] = []

    def _step(self) -> None:
        self.steps.begun()
        self.made_ms.append(self.steps.now_ms() - self.began_ms)

    def make_by(self, ms: int) -> None:
        self.steps.make_by(self.began_ms + ms)

    async def steps_within(self, ms: int) -> list[int]:
        await asyncio.sleep(ms / 1000)
        return self.made_ms


def with_maker(test: Callable[[Maker], Awaitable[None]]) -> None:
    run_virtual(lambda simulation: test(Maker(simulation)), 1)


@pytest.mark.parametrize("make", [Steps.make_soon, Steps.make_soon_from_thread])
def test_one_that_is_asked_for_often_is_made_once_and_then_again(make: Callable[[Steps], None]) -> None:
    async def test(maker: Maker) -> None:
        for _ in range(3):
            make(maker.steps)
        assert maker.made_ms == []  # not inside of the call
        assert await maker.steps_within(10) == [0]
        make(maker.steps)
        assert await maker.steps_within(10) == [0, 10]

    with_maker(test)


@pytest.mark.parametrize("make", [Steps.make_soon, Steps.make_soon_from_thread])
def test_what_is_asked_for_inside_of_a_step_is_another_one(make: Callable[[Steps], None]) -> None:
    async def test(maker: Maker) -> None:
        make(maker.steps)
        maker.steps.begun()  # somebody else makes one now
        make(maker.steps)
        assert await maker.steps_within(10) == [0, 0]

    with_maker(test)


def test_none_is_made_without_a_loop() -> None:
    made: list[None] = []
    steps = Steps(lambda: made.append(None))
    steps.make_soon()
    steps.make_soon_from_thread()
    assert not steps.is_due_within(1000)
    steps.cancel_timer()
    assert made == []


def test_a_step_by_a_time_finds_the_time_reached_and_comes_less_than_a_millisecond_late() -> None:
    async def test(maker: Maker) -> None:
        await asyncio.sleep(0.0003)  # the clock is nowhere near whole milliseconds
        for ms in range(5, 500, 7):
            maker.make_by(ms)
            await asyncio.sleep(0.007)
        assert maker.made_ms == list(range(5, 500, 7))

    with_maker(test)


def test_an_earlier_time_counts_and_a_later_one_changes_nothing() -> None:
    async def test(maker: Maker) -> None:
        maker.make_by(50)
        maker.make_by(20)
        maker.make_by(80)
        assert await maker.steps_within(200) == [20]
        maker.make_by(300)
        assert await maker.steps_within(200) == [20, 300]

    with_maker(test)


def test_it_is_known_whether_the_timer_fires_in_time() -> None:
    async def test(maker: Maker) -> None:
        assert not maker.steps.is_due_within(1000)
        maker.make_by(50)
        assert maker.steps.is_due_within(51)
        assert not maker.steps.is_due_within(49)
        await maker.steps_within(60)
        assert not maker.steps.is_due_within(1000)

    with_maker(test)


def test_at_the_end_no_timer_fires() -> None:
    async def test(maker: Maker) -> None:
        maker.make_by(50)
        maker.steps.cancel_timer()
        assert await maker.steps_within(100) == []

    with_maker(test)
