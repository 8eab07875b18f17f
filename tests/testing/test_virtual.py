from __future__ import annotations

import asyncio
import threading
import time

import pytest

from kafkaraw.testing.virtual import START_MS, Simulation, SimulationStalledError, VirtualClock, run_virtual


def test_a_day_passes_in_no_time() -> None:
    async def main(simulation: Simulation) -> tuple[float, int]:
        await asyncio.sleep(86_400 * 3)
        return simulation.loop.time(), simulation.clock.time_ms()

    started = time.monotonic()
    now_s, now_ms = run_virtual(main, 1)
    assert (now_s, now_ms) == (86_400 * 3, START_MS + 86_400_000 * 3)
    assert time.monotonic() - started < 60


def test_timers_fire_in_their_order() -> None:
    async def main(simulation: Simulation) -> list[str]:
        order: list[str] = []
        for delay, name in ((3.0, "c"), (1.0, "a"), (2.0, "b")):
            simulation.loop.call_later(delay, order.append, name)
        await asyncio.sleep(2.5)
        order.append("now")
        await asyncio.sleep(1)
        return order

    assert run_virtual(main, 1) == ["a", "b", "now", "c"]


def test_a_deadlock_is_an_error_that_names_the_tasks() -> None:
    async def main(simulation: Simulation) -> None:
        asyncio.current_task().set_name("the one that waits")
        await simulation.loop.create_future()

    with pytest.raises(SimulationStalledError, match="the one that waits"):
        run_virtual(main, 1)


def test_a_schedule_that_goes_on_for_ever_does_not_hide_a_deadlock() -> None:
    async def main(simulation: Simulation) -> None:
        asyncio.current_task().set_name("the one that waits")

        class Schedule:
            is_schedule = True
            runs = 0

            def run(self) -> None:
                self.runs += 1
                simulation.loop.call_later(1, self.run)

        schedule = Schedule()
        schedule.run()
        await asyncio.sleep(5.5)
        assert schedule.runs == 6
        await simulation.loop.create_future()

    with pytest.raises(SimulationStalledError, match="the one that waits"):
        run_virtual(main, 1)


def test_threads_are_refused() -> None:
    async def main(simulation: Simulation) -> list[str]:
        refusals: list[str] = []

        def intrude() -> None:
            try:
                simulation.loop.call_soon_threadsafe(print)
            except RuntimeError as error:
                refusals.append(str(error))

        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
        try:
            await asyncio.to_thread(print)
        except RuntimeError as error:
            refusals.append(str(error))
        return refusals

    first, second = run_virtual(main, 1)
    assert "another thread called" in first
    assert "no executor or thread" in second


def test_an_error_in_a_callback_is_not_lost() -> None:
    async def main(simulation: Simulation) -> None:
        simulation.loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError):
        run_virtual(main, 1)


def test_the_clock_follows_its_loop() -> None:
    async def main(simulation: Simulation) -> int:
        clock = VirtualClock(simulation.loop, start_ms=5)
        await asyncio.sleep(1.5)
        return clock.time_ms()

    assert run_virtual(main, 1) == 1505


def test_pending_tasks_are_named() -> None:
    async def main(simulation: Simulation) -> list[str]:
        nobody_resolves = simulation.loop.create_future()
        simulation.loop.call_later(5, print)
        sleeper = asyncio.create_task(asyncio.Event().wait(), name="sleeper")
        await asyncio.sleep(1)
        found = simulation.loop.left_over()
        sleeper.cancel()
        nobody_resolves.cancel()
        return found

    found = run_virtual(main, 1)
    assert [what.split()[0] for what in found] == ["task", "future", "future", "timer"]
    assert found[0] == "task sleeper"


def test_tasks_that_wait_while_they_are_cancelled_are_ended_and_hide_no_error() -> None:
    ended: list[str] = []

    async def for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    async def stubborn(name: str) -> None:
        try:
            await for_ever()
        finally:
            try:
                await for_ever()  # as who closes a connection, and nobody answers
            finally:
                try:
                    await for_ever()
                finally:
                    ended.append(name)

    async def main(simulation: Simulation) -> None:
        tasks = [asyncio.create_task(stubborn(name)) for name in ("a", "b")]
        await asyncio.sleep(1)
        raise ValueError(f"the reason, with {len(tasks)} tasks at work")

    with pytest.raises(ValueError, match="the reason"):
        run_virtual(main, 1)
    assert sorted(ended) == ["a", "b"]


def test_objects_in_reference_cycles_are_not_left_over() -> None:
    async def main(simulation: Simulation) -> list[str]:
        cycle: list[object] = [simulation.loop.create_future()]
        cycle.append(cycle)
        del cycle
        return simulation.loop.left_over()

    assert run_virtual(main, 1) == []


def test_nothing_is_left_over_after_all_tasks_have_ended() -> None:
    async def main(simulation: Simulation) -> list[str]:
        await asyncio.gather(asyncio.sleep(1), asyncio.wait_for(asyncio.sleep(1), 9))
        return simulation.loop.left_over()

    assert run_virtual(main, 1) == []
