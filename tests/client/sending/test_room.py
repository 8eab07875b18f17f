"""Who is let in when there is room again, and when."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.sending.room import PATIENCE_S, Room
from kafkaraw.errors import ClosedError
from kafkaraw.testing.virtual import Simulation, run_virtual


async def queue_up(room: Room, name: str, entered: list[str]) -> None:
    """Wait for room, and let the next one in."""
    if await room.wait(room.releases, timeout=10, first=False):
        entered.append(name)
        room.let_one_in()


def room_with_memory() -> Room:
    return Room(lambda: True)


def test_who_came_first_enters_first() -> None:
    async def main(_: Simulation) -> None:
        room, entered = room_with_memory(), []
        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(queue_up(room, name, entered))
            await asyncio.sleep(0)
            room.let_one_in()
        assert entered == ["a", "b", "c"]

    run_virtual(main, 1)


def test_a_little_room_is_waited_with_for_more() -> None:
    async def main(simulation: Simulation) -> None:
        room, entered = room_with_memory(), []
        waiting = asyncio.create_task(queue_up(room, "a", entered))
        await asyncio.sleep(0)
        room.let_one_in_soon()
        await asyncio.sleep(PATIENCE_S / 2)
        room.let_one_in_soon()
        assert entered == []
        await waiting
        assert entered == ["a"]
        assert simulation.loop.time() == pytest.approx(PATIENCE_S)

    run_virtual(main, 1)


def test_much_room_after_a_little_lets_in_at_once_and_once() -> None:
    async def main(simulation: Simulation) -> None:
        full = False
        room, entered = Room(lambda: not full), []
        first = asyncio.create_task(room.wait(0, timeout=10, first=False))
        second = asyncio.create_task(queue_up(room, "b", entered))
        await asyncio.sleep(0)
        room.let_one_in_soon()
        room.let_one_in()
        assert await first
        assert simulation.loop.time() == 0
        full = True
        await asyncio.sleep(2 * PATIENCE_S)
        assert entered == []
        room.let_one_in()
        await second

    run_virtual(main, 1)


@pytest.mark.parametrize("when", ["chosen", "woken"])
def test_a_sender_that_is_cancelled_after_it_was_let_in_lets_the_next_one_in(when: str) -> None:
    async def main(simulation: Simulation) -> None:
        room, entered = room_with_memory(), []
        first = asyncio.create_task(room.wait(0, timeout=10, first=False))
        second = asyncio.create_task(queue_up(room, "b", entered))
        await asyncio.sleep(0)
        room.let_one_in()
        if when == "woken":
            await asyncio.sleep(0)
        first.cancel()
        await second
        assert entered == ["b"]
        assert simulation.loop.time() == 0
        assert first.cancelled()

    run_virtual(main, 1)


def test_a_sender_that_is_cancelled_while_it_waits_leaves_the_queue() -> None:
    async def main(simulation: Simulation) -> None:
        room, entered = room_with_memory(), []
        first = asyncio.create_task(room.wait(0, timeout=10, first=False))
        second = asyncio.create_task(queue_up(room, "b", entered))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        room.let_one_in()
        await second
        assert simulation.loop.time() == 0

    run_virtual(main, 1)


def test_a_sender_that_was_let_in_and_does_not_come_holds_nobody_up() -> None:
    async def main(simulation: Simulation) -> None:
        room, entered = room_with_memory(), []
        first = asyncio.create_task(room.wait(0, timeout=10, first=False))
        rest = [asyncio.create_task(queue_up(room, name, entered)) for name in "bc"]
        await asyncio.sleep(0)
        room.let_one_in()
        assert await first  # and then its partitioner raises, or its thread is interrupted
        await asyncio.gather(*rest)
        assert entered == ["b", "c"]
        assert simulation.loop.time() == pytest.approx(PATIENCE_S)

    run_virtual(main, 1)


def test_at_the_end_everybody_is_sent_home() -> None:
    async def main(_: Simulation) -> None:
        room = room_with_memory()
        waiting = [asyncio.create_task(room.wait(0, timeout=10, first=False)) for _ in range(2)]
        await asyncio.sleep(0)
        room.let_one_in_soon()
        room.fail(ClosedError("closed"))
        first, second = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(first, ClosedError) and isinstance(second, ClosedError)
        assert first is not second

    run_virtual(main, 1)


def test_who_waits_too_long_is_told() -> None:
    async def main(simulation: Simulation) -> None:
        assert not await room_with_memory().wait(0, timeout=3, first=False)
        assert simulation.loop.time() == pytest.approx(3)

    run_virtual(main, 1)
