"""The ways in which a consumer can be read: each gives what comes, piece by piece, until there is enough or time is up.

A piece is what a user goes through before they ask for more. Every call of a consumer is made by `Ask`, so that whoever
reads can write down when it began and ended. The ways are in `MANNERS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, NamedTuple, Protocol

from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.records import TopicPartition

CALLBACK_STEP_S = 0.01
COLUMNS = ("value", "offset", "partition", "topic")


class Piece(NamedTuple):
    """Records of one partition: offset and value of each."""

    topic_partition: TopicPartition
    records: list[tuple[int, bytes | None]]


class Ask(Protocol):
    """Makes a call of the consumer, and waits for it."""

    def __call__(self, name: str, work: Awaitable[Any], timeout: float) -> Awaitable[Any]: ...


class Surroundings(NamedTuple):
    """What a way of reading needs to know.

    Attributes:
        ask: makes calls.
        is_called: whether a callback of the consumer is under way.
    """

    ask: Ask
    is_called: Callable[[], bool]


async def by_polling(consumer: AsyncConsumer, timeout: float, around: Surroundings) -> AsyncIterator[Piece]:
    """One poll."""
    for tp, batch in (await around.ask("poll", consumer.poll(timeout), timeout)).items():
        yield Piece(tp, [(record.offset, record.value) for record in batch])


async def by_batches(consumer: AsyncConsumer, timeout: float, around: Surroundings) -> AsyncIterator[Piece]:
    """Batch after batch, until nothing comes for so long."""
    async with aclosing(consumer.batches(timeout)) as batches:
        while (batch := await around.ask("batches", anext(batches, None), timeout)) is not None:
            yield Piece(batch.topic_partition, [(record.offset, record.value) for record in batch])


async def by_records(consumer: AsyncConsumer, timeout: float, around: Surroundings) -> AsyncIterator[Piece]:
    """Record after record; that nothing comes for so long is found out by who waits, and no longer wants to."""
    while (record := await around.ask("next record", _next_record(consumer, timeout, around), timeout)) is not None:
        yield Piece(TopicPartition(record.topic, record.partition), [(record.offset, record.value)])


async def _next_record(consumer: AsyncConsumer, timeout: float, around: Surroundings) -> Any:
    loop, limit = asyncio.get_running_loop(), asyncio.timeout(None)

    def look() -> None:
        nonlocal looking
        if around.is_called():  # who is called back does not interrupt themselves
            looking = loop.call_later(CALLBACK_STEP_S, look)
        else:
            limit.reschedule(loop.time())

    looking = loop.call_later(timeout, look)
    try:
        async with limit:
            return await anext(consumer, None)  # none when somebody has closed it meanwhile
    except TimeoutError:
        return None
    finally:
        looking.cancel()


async def by_arrow(consumer: AsyncConsumer, timeout: float, around: Surroundings) -> AsyncIterator[Piece]:
    """One table."""
    table = await around.ask("poll_arrow", consumer.poll_arrow(timeout=timeout, columns=COLUMNS), timeout)
    pieces: dict[TopicPartition, list[tuple[int, bytes | None]]] = {}
    for row in table.to_pylist():
        tp = TopicPartition(row["topic"], row["partition"])
        pieces.setdefault(tp, []).append((row["offset"], row["value"]))
    for tp, records in pieces.items():
        yield Piece(tp, records)


Manner = Callable[[AsyncConsumer, float, Surroundings], AsyncIterator[Piece]]
MANNERS: dict[str, Manner] = {
    "poll": by_polling,
    "batches": by_batches,
    "records": by_records,
    "arrow": by_arrow,
}
AT_ONCE = frozenset({"poll", "arrow"})
"""Ways in which all pieces are given at once, so that all of them are to be processed."""
