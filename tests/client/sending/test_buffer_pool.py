"""`BufferPool`: which waiter is admitted when memory is released, and when."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.sending.accumulator import RETRY_S, BufferPool
from kafkaraw.errors import ClosedError
from kafkaraw.testing.virtual import Simulation, run_virtual


class Memory:
    """As much of open batches as a pool asks."""

    used_bytes = 0


def pool_of(memory: Memory) -> BufferPool:
    return BufferPool(memory, 100)  # type: ignore[arg-type]


def pool_with_memory() -> BufferPool:
    return pool_of(Memory())


async def queue_up(pool: BufferPool, name: str, admitted: list[str]) -> None:
    """Wait for memory, and admit the next waiter."""
    if await pool.wait(pool.releases, timeout=10, first=False):
        admitted.append(name)
        pool.admit_one()


def test_waiters_are_admitted_in_the_order_in_which_they_came() -> None:
    async def main(_: Simulation) -> None:
        pool, admitted = pool_with_memory(), []
        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(queue_up(pool, name, admitted))
            await asyncio.sleep(0)
            pool.admit_one()
        assert admitted == ["a", "b", "c"]

    run_virtual(main, 1)


def test_a_release_that_leaves_little_memory_admits_a_waiter_later() -> None:
    async def main(simulation: Simulation) -> None:
        pool, admitted = pool_with_memory(), []
        waiting = asyncio.create_task(queue_up(pool, "a", admitted))
        await asyncio.sleep(0)
        pool.admit_one_soon()
        await asyncio.sleep(RETRY_S / 2)
        pool.admit_one_soon()
        assert admitted == []
        await waiting
        assert admitted == ["a"]
        assert simulation.loop.time() == pytest.approx(RETRY_S)

    run_virtual(main, 1)


def test_a_release_of_much_memory_after_one_of_little_admits_one_waiter_at_once() -> None:
    async def main(simulation: Simulation) -> None:
        memory, admitted = Memory(), []
        pool = pool_of(memory)
        first = asyncio.create_task(pool.wait(0, timeout=10, first=False))
        second = asyncio.create_task(queue_up(pool, "b", admitted))
        await asyncio.sleep(0)
        pool.admit_one_soon()
        pool.admit_one()
        assert await first
        assert simulation.loop.time() == 0
        memory.used_bytes = 100
        await asyncio.sleep(2 * RETRY_S)
        assert admitted == []
        pool.admit_one()
        await second

    run_virtual(main, 1)


@pytest.mark.parametrize("when", ["chosen", "woken"])
def test_a_waiter_that_is_cancelled_after_it_was_admitted_admits_the_next_one(when: str) -> None:
    async def main(simulation: Simulation) -> None:
        pool, admitted = pool_with_memory(), []
        first = asyncio.create_task(pool.wait(0, timeout=10, first=False))
        second = asyncio.create_task(queue_up(pool, "b", admitted))
        await asyncio.sleep(0)
        pool.admit_one()
        if when == "woken":
            await asyncio.sleep(0)
        first.cancel()
        await second
        assert admitted == ["b"]
        assert simulation.loop.time() == 0
        assert first.cancelled()

    run_virtual(main, 1)


def test_a_waiter_that_is_cancelled_leaves_the_queue() -> None:
    async def main(simulation: Simulation) -> None:
        pool, admitted = pool_with_memory(), []
        first = asyncio.create_task(pool.wait(0, timeout=10, first=False))
        second = asyncio.create_task(queue_up(pool, "b", admitted))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        pool.admit_one()
        await second
        assert simulation.loop.time() == 0

    run_virtual(main, 1)


def test_a_waiter_that_was_admitted_and_raises_does_not_block_the_next_ones() -> None:
    async def main(simulation: Simulation) -> None:
        pool, admitted = pool_with_memory(), []
        first = asyncio.create_task(pool.wait(0, timeout=10, first=False))
        rest = [asyncio.create_task(queue_up(pool, name, admitted)) for name in "bc"]
        await asyncio.sleep(0)
        pool.admit_one()
        assert await first  # and then its partitioner raises, or its thread is interrupted
        await asyncio.gather(*rest)
        assert admitted == ["b", "c"]
        assert simulation.loop.time() == pytest.approx(RETRY_S)

    run_virtual(main, 1)


def test_fail_ends_every_wait_with_its_own_error() -> None:
    async def main(_: Simulation) -> None:
        pool = pool_with_memory()
        waiting = [asyncio.create_task(pool.wait(0, timeout=10, first=False)) for _ in range(2)]
        await asyncio.sleep(0)
        pool.admit_one_soon()
        pool.fail(ClosedError("closed"))
        first, second = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(first, ClosedError) and isinstance(second, ClosedError)
        assert first is not second

    run_virtual(main, 1)


def test_a_wait_ends_at_its_timeout() -> None:
    async def main(simulation: Simulation) -> None:
        assert not await pool_with_memory().wait(0, timeout=3, first=False)
        assert simulation.loop.time() == pytest.approx(3)

    run_virtual(main, 1)
