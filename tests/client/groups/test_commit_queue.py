"""The commit queue lets commits through in the order in which they were queued."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.groups.commit_queue import CommitQueue
from kafkaraw.testing.virtual import Simulation, run_virtual


def test_commits_go_in_order_of_enqueue_not_of_wait() -> None:
    async def test(_: Simulation) -> None:
        queue, order = CommitQueue(), []
        slots = [queue.enqueue() for _ in range(3)]

        async def go(number: int) -> None:
            await slots[number].wait()
            order.append(number)
            slots[number].release()

        await asyncio.gather(go(2), go(1), go(0))
        assert order == [0, 1, 2]

    run_virtual(test, 1)


def test_slot_released_without_wait_neither_blocks_nor_reorders() -> None:
    async def test(_: Simulation) -> None:
        queue = CommitQueue()
        first, second, third = queue.enqueue(), queue.enqueue(), queue.enqueue()
        second.release()
        second.release()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(third.wait(), 1)
        first.release()
        await third.wait()

    run_virtual(test, 1)
