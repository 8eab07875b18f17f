"""Producers whose calls are interrupted, overlap, and are made in callbacks; and consumers that are interrupted.

Some records are larger than the topic takes, so there are failures to report. What `flush`, `commit_transaction` and
`close` tell is written into `History.reports`. A flush of a thread is a `FlushCall`, as the blocking face makes it,
with a moment between its end on the loop and what the thread does then. Start at `Account`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow

from kafkaraw.client.admin import NewTopic
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.sending.arrow_rows import ArrowTicket
from kafkaraw.errors import KafkaError
from kafkaraw.records import Ticket, TopicPartition
from tests.simulation.climate import PARTITIONS, TOPIC
from tests.simulation.world import World

LARGEST = 600
"""Bytes of a batch that the topic takes."""
PRODUCERS, TRANSACTIONS, CONSUMERS, ROUNDS, SOURCE_RECORDS = 3, 6, 4, 6, 40
SOURCE = "source"
TIMEOUT_S = 20.0


class Leaves(BaseException):
    """What a callback raises to end the program, as `sys.exit()` does; and an interruption."""


async def make_topics(world: World) -> None:
    """Make the topics, and fill the one that consumers read."""
    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()
    assert handler is not None
    loop.set_exception_handler(
        lambda loop, context: None if isinstance(context.get("exception"), Leaves) else handler(loop, context)
    )
    async with world.admin("founder") as admin:
        limit = {"max.message.bytes": str(LARGEST)}
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, configs=limit), NewTopic(SOURCE, 1)], timeout=20)
    async with world.producer("filler", delivery_timeout_ms=30_000) as filler:
        for number in range(SOURCE_RECORDS):
            await filler.send(SOURCE, b"%d" % number)


class Account:
    """One producer, its records, and what is told of them.

    Args:
        world: where it lives.
        name: of the producer.
        settings: of the producer.
    """

    def __init__(self, world: World, name: str, **settings: object) -> None:
        self.producer: AsyncProducer = world.producer(
            name, linger_ms=5, buffer_memory=100_000, delivery_timeout_ms=30_000, compression_type="none", **settings
        )
        self.rng = world.rng(f"account of {name}")
        self.name = name
        self._world = world
        self._reports = world.history.reports
        self._records: dict[bytes, Ticket | ArrowTicket] = {}
        self._told_by_ticket: set[bytes] = set()
        self._count = 0

    async def send(self, partition: int | None = None) -> None:
        """Send a record; of some, a callback hears."""
        rng = self.rng
        value = self._value(b"x" * (LARGEST if rng.random() < 0.15 else rng.choice([1, 30])))
        with suppress(KafkaError):
            self._take([value], await self.producer.send(TOPIC, value, partition=partition))
        ticket = self._records.get(value)
        if ticket is not None and rng.random() < 0.3:
            what = rng.choice([None, None, Leaves, self._send_more])
            ticket.add_done_callback(lambda _: self._called_back(value, what))

    async def send_rows(self) -> None:
        """Send rows."""
        values = [self._value(b"r") for _ in range(3)]
        rows = pyarrow.table({"value": pyarrow.array(values, pyarrow.binary())})
        with suppress(KafkaError):
            self._take(values, await self.producer.send_arrow(TOPIC, rows))

    def _value(self, content: bytes) -> bytes:
        self._count += 1
        return b"%s-%d-%s" % (self.name.encode(), self._count, content)

    def _take(self, values: list[bytes], ticket: Ticket | ArrowTicket) -> None:
        self._records |= dict.fromkeys(values, ticket)
        self._reports.taken.update(values)

    def _called_back(self, value: bytes, what: Callable[[], object] | type[Leaves] | None) -> None:
        if self._failed(value):
            self._told_by_ticket.add(value)
            self._reports.told.add(value)
        if what is Leaves:
            self._world.covered["left in a callback"] += 1
            raise Leaves
        if what is not None:
            what()

    def _send_more(self) -> None:
        value = self._value(b"from a callback")
        with suppress(KafkaError):
            self._take([value], self.producer.send_nowait(TOPIC, value))

    def _failed(self, value: bytes) -> bool:
        ticket = self._records[value]
        if isinstance(ticket, ArrowTicket):
            return any(promise.error is not None for promise in ticket._promises)
        return ticket.batch_promise.part_of(ticket.index)[0].error is not None

    async def report(self, name: str, work: Awaitable[object]) -> None:
        """Wait for a call that answers for the records sent before it, and write down what it told."""
        pending = [value for value, ticket in self._records.items() if not ticket.done]
        older = [value for value, ticket in self._records.items() if ticket.done]
        try:
            await self._world.call(f"{self.name}: {name}", work, TIMEOUT_S)
        except KafkaError:
            self._world.covered[f"{name} raised"] += 1
            self._reports.told.update(value for value in self._records if self._failed(value))
        else:
            told = self._reports.told
            answered = [value for value in pending if value not in self._told_by_ticket]
            answered += [value for value in older if value not in told]
            self._reports.vouched |= dict.fromkeys(answered, f"{name} of {self.name}")

    async def flush(self, *, on_thread: bool) -> None:
        """Flush, with either face."""
        await self.report("flush", self._flush_of_thread() if on_thread else self.producer.flush(TIMEOUT_S))

    async def _flush_of_thread(self) -> None:
        call = self.producer._core.flush_call(TIMEOUT_S)
        told = asyncio.get_running_loop().create_future()

        def over(error: BaseException | None) -> None:
            if error is None:
                told.set_result(None)
            else:
                told.set_exception(error)

        call.begin(over)
        while not told.done():  # a thread hears of it at some later moment, and of what happens until then
            await asyncio.sleep(self.rng.choice([0.0, 0.001]))
        told.result()
        call.finish()

    async def interrupted_flush(self) -> None:
        """A flush that is cancelled tells nothing."""
        task = asyncio.create_task(self.producer.flush(TIMEOUT_S))
        await asyncio.sleep(self.rng.uniform(0, 0.004))
        task.cancel()
        with suppress(asyncio.CancelledError, KafkaError):
            await task
            return
        if not task.cancelled():
            self._reports.told.update(value for value in self._records if self._failed(value))

    def values(self) -> set[bytes]:
        """All that was taken so far."""
        return set(self._records)


async def send_and_flush(world: World, name: str) -> None:
    """Producers one after the other, with flushes that overlap and are interrupted; some break."""
    for number in range(PRODUCERS):
        account = Account(world, f"{name}-{number}")
        for _ in range(ROUNDS):
            for _ in range(account.rng.randrange(1, 6)):
                await account.send()
            await account.send_rows()
            if account.rng.random() < 0.4:
                await account.interrupted_flush()
            flushes = [account.flush(on_thread=account.rng.random() < 0.6) for _ in range(account.rng.randrange(1, 4))]
            await asyncio.gather(*flushes)
        await account.send()
        if account.rng.random() < 0.5:
            account.producer._core.sender.break_down(ValueError("a handler's bug"))
            world.covered["broken"] += 1
        await account.report("close", account.producer.close(TIMEOUT_S))


async def commit(world: World, name: str) -> None:
    """Transactions in which callbacks send while they are being committed."""
    account = Account(world, name, transactional_id=name, max_block_ms=2_000)
    await account.producer.init_transactions(TIMEOUT_S)
    for _ in range(TRANSACTIONS):
        before = account.values()
        await account.producer.begin_transaction()
        for _ in range(account.rng.randrange(1, 6)):
            await account.send()
        try:
            await account.producer.commit_transaction(TIMEOUT_S)
        except KafkaError:
            world.covered["commit raised"] += 1
            world.history.reports.told |= account.values()
            await account.producer.abort_transaction(TIMEOUT_S)
        else:
            mine = dict.fromkeys(account.values() - before, f"commit of {name}")
            world.history.reports.committed |= mine
    await account.report("close", account.producer.close(TIMEOUT_S))


async def read(world: World, name: str) -> None:
    """Consumers that are interrupted while they read, and closed; what they commit, they have been given."""
    rng, partition = world.rng(name), TopicPartition(SOURCE, 0)
    for number in range(CONSUMERS):
        group, left = f"{name}-{number}", rng.randrange(1, SOURCE_RECORDS)

        def convert(value: bytes, interrupted_at: int = left) -> bytes:
            if int(value) == interrupted_at:
                raise Leaves
            return value

        consumer = world.consumer(
            group, group_id=group, value_deserializer=convert, enable_auto_commit=True, max_poll_records=None
        )
        consumer.assign([partition])
        given = 0
        try:
            while True:
                given = (await anext(consumer)).offset + 1
        except Leaves:
            world.covered["reading interrupted"] += 1
        if rng.random() < 0.5:
            with suppress(KafkaError):
                await consumer.commit(timeout=TIMEOUT_S)
        await consumer.close(TIMEOUT_S)
        world.history.reports.given[group, partition] = given
        async with world.consumer(f"{group} asks", group_id=group) as asking:
            at = (await asking.committed([partition], TIMEOUT_S))[partition]
        if at is not None:
            world.history.reports.stored[group, partition] = at.offset


Part = Callable[[World], Any]
PARTS: list[Part] = [
    partial(send_and_flush, name="flushing"),
    partial(commit, name="committing"),
    partial(read, name="reading"),
]
