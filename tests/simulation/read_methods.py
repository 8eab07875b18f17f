"""The read methods of a consumer: poll, batches, iteration over records, and Arrow tables.

Each yields pieces of records until there are enough or the timeout ends. A piece is what a user processes before the
next call. Every call of the consumer goes through `MakeCall`, which records when it began and ended. Start at
`READ_METHODS`.
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


class MakeCall(Protocol):
    """Records a call of the consumer, and waits for it."""

    def __call__(self, name: str, work: Awaitable[Any], timeout: float) -> Awaitable[Any]: ...


class ReadContext(NamedTuple):
    """What a read method needs besides the consumer.

    Attributes:
        call: makes calls.
        callback_runs: returns whether a callback of the consumer is running.
    """

    call: MakeCall
    callback_runs: Callable[[], bool]


async def by_polling(consumer: AsyncConsumer, timeout: float, context: ReadContext) -> AsyncIterator[Piece]:
    """Read with one `poll`."""
    for tp, batch in (await context.call("poll", consumer.poll(timeout), timeout)).items():
        yield Piece(tp, [(record.offset, record.value) for record in batch])


async def by_batches(consumer: AsyncConsumer, timeout: float, context: ReadContext) -> AsyncIterator[Piece]:
    """Iterate over `batches` until none comes within the timeout."""
    async with aclosing(consumer.batches(timeout)) as batches:
        while (batch := await context.call("batches", anext(batches, None), timeout)) is not None:
            yield Piece(batch.topic_partition, [(record.offset, record.value) for record in batch])


async def by_records(consumer: AsyncConsumer, timeout: float, context: ReadContext) -> AsyncIterator[Piece]:
    """Iterate over the consumer, and cancel the wait if no record comes within the timeout."""
    while (record := await context.call("next record", _next_record(consumer, timeout, context), timeout)) is not None:
        yield Piece(TopicPartition(record.topic, record.partition), [(record.offset, record.value)])


async def _next_record(consumer: AsyncConsumer, timeout: float, context: ReadContext) -> Any:
    loop, limit = asyncio.get_running_loop(), asyncio.timeout(None)

    def look() -> None:
        nonlocal looking
        if context.callback_runs():  # a callback does not cancel the call in which it runs
            looking = loop.call_later(CALLBACK_STEP_S, look)
        else:
            limit.reschedule(loop.time())

    looking = loop.call_later(timeout, look)
    try:
        async with limit:
            return await anext(consumer, None)  # None if another task has closed the consumer
    except TimeoutError:
        return None
    finally:
        looking.cancel()


async def by_arrow(consumer: AsyncConsumer, timeout: float, context: ReadContext) -> AsyncIterator[Piece]:
    """Read with one `poll_arrow`."""
    table = await context.call("poll_arrow", consumer.poll_arrow(timeout=timeout, columns=COLUMNS), timeout)
    pieces: dict[TopicPartition, list[tuple[int, bytes | None]]] = {}
    for row in table.to_pylist():
        tp = TopicPartition(row["topic"], row["partition"])
        pieces.setdefault(tp, []).append((row["offset"], row["value"]))
    for tp, records in pieces.items():
        yield Piece(tp, records)


ReadMethod = Callable[[AsyncConsumer, float, ReadContext], AsyncIterator[Piece]]
READ_METHODS: dict[str, ReadMethod] = {
    "poll": by_polling,
    "batches": by_batches,
    "records": by_records,
    "arrow": by_arrow,
}
ALL_AT_ONCE = frozenset({"poll", "arrow"})
"""Methods that return all pieces of a call at once, so that all of them are processed."""
