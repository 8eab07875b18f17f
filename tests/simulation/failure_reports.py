"""Producers whose calls are cancelled, overlap, and are made in callbacks; and consumers that are interrupted.

Some records are larger than the topic allows, so there are failures to report. The results of `flush`,
`commit_transaction` and `close` are recorded in `History.reports`. A flush of a thread is a `FlushCall`, as the
blocking producer makes it, with a delay between its end on the loop and its end in the thread. Start at
`ReportingProducer`.
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
from tests.simulation.environment import PARTITIONS, TOPIC
from tests.simulation.world import World

LARGEST = 600
"""max.message.bytes of the topic."""
PRODUCERS, TRANSACTIONS, CONSUMERS, ROUNDS, SOURCE_RECORDS = 3, 6, 4, 6, 40
SOURCE = "source"
TIMEOUT_S = 20.0


class Interruption(BaseException):
    """What a callback or a deserializer raises to end the program, as SystemExit and KeyboardInterrupt do."""


async def create_topics(world: World) -> None:
    """Create the topics, and fill the one that consumers read."""
    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()
    assert handler is not None
    loop.set_exception_handler(
        lambda loop, context: None if isinstance(context.get("exception"), Interruption) else handler(loop, context)
    )
    async with world.admin("founder") as admin:
        limit = {"max.message.bytes": str(LARGEST)}
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, configs=limit), NewTopic(SOURCE, 1)], timeout=20)
    async with world.producer("filler", delivery_timeout_ms=30_000) as filler:
        for number in range(SOURCE_RECORDS):
            await filler.send(SOURCE, b"%d" % number)


class ReportingProducer:
    """One producer, its records, and the failures that were reported.

    Args:
        world: the brokers and clients.
        name: name of the producer.
        settings: settings of the producer.
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
        self._reported_by_ticket: set[bytes] = set()
        self._count = 0

    async def send(self, partition: int | None = None) -> None:
        """Send a record, some with a callback."""
        rng = self.rng
        value = self._value(b"x" * (LARGEST if rng.random() < 0.15 else rng.choice([1, 30])))
        with suppress(KafkaError):
            self._note_accepted([value], await self.producer.send(TOPIC, value, partition=partition))
        ticket = self._records.get(value)
        if ticket is not None and rng.random() < 0.3:
            what = rng.choice([None, None, Interruption, self._send_more])
            ticket.add_done_callback(lambda _: self._on_done(value, what))

    async def send_rows(self) -> None:
        """Send rows."""
        values = [self._value(b"r") for _ in range(3)]
        rows = pyarrow.table({"value": pyarrow.array(values, pyarrow.binary())})
        with suppress(KafkaError):
            self._note_accepted(values, await self.producer.send_arrow(TOPIC, rows))

    def _value(self, content: bytes) -> bytes:
        self._count += 1
        return b"%s-%d-%s" % (self.name.encode(), self._count, content)

    def _note_accepted(self, values: list[bytes], ticket: Ticket | ArrowTicket) -> None:
        self._records |= dict.fromkeys(values, ticket)
        self._reports.accepted.update(values)

    def _on_done(self, value: bytes, what: Callable[[], object] | type[Interruption] | None) -> None:
        if self._failed(value):
            self._reported_by_ticket.add(value)
            self._reports.reported.add(value)
        if what is Interruption:
            self._world.covered["callback raised SystemExit"] += 1
            raise Interruption
        if what is not None:
            what()

    def _send_more(self) -> None:
        value = self._value(b"from a callback")
        with suppress(KafkaError):
            self._note_accepted([value], self.producer.send_nowait(TOPIC, value))

    def _failed(self, value: bytes) -> bool:
        ticket = self._records[value]
        if isinstance(ticket, ArrowTicket):
            return any(promise.error is not None for promise in ticket._promises)
        return ticket.batch_promise.part_of(ticket.index)[0].error is not None

    async def report(self, name: str, work: Awaitable[object]) -> None:
        """Wait for a call that reports on the records sent before it, and record its result."""
        pending = [value for value, ticket in self._records.items() if not ticket.done]
        older = [value for value, ticket in self._records.items() if ticket.done]
        try:
            await self._world.call(f"{self.name}: {name}", work, TIMEOUT_S)
        except KafkaError:
            self._world.covered[f"{name} raised"] += 1
            self._reports.reported.update(value for value in self._records if self._failed(value))
        else:
            reported = self._reports.reported
            answered = [value for value in pending if value not in self._reported_by_ticket]
            answered += [value for value in older if value not in reported]
            self._reports.confirmed |= dict.fromkeys(answered, f"{name} of {self.name}")

    async def flush(self, *, on_thread: bool) -> None:
        """Flush, as the asyncio or as the blocking producer does."""
        await self.report("flush", self._flush_of_thread() if on_thread else self.producer.flush(TIMEOUT_S))

    async def _flush_of_thread(self) -> None:
        call = self.producer._core.flush_call(TIMEOUT_S)
        reported = asyncio.get_running_loop().create_future()

        def over(error: BaseException | None) -> None:
            if error is None:
                reported.set_result(None)
            else:
                reported.set_exception(error)

        call.begin(over)
        while not reported.done():  # a thread continues some time later
            await asyncio.sleep(self.rng.choice([0.0, 0.001]))
        reported.result()
        call.finish()

    async def interrupted_flush(self) -> None:
        """Cancel a flush, which then reports nothing."""
        task = asyncio.create_task(self.producer.flush(TIMEOUT_S))
        await asyncio.sleep(self.rng.uniform(0, 0.004))
        task.cancel()
        with suppress(asyncio.CancelledError, KafkaError):
            await task
            return
        if not task.cancelled():
            self._reports.reported.update(value for value in self._records if self._failed(value))

    def values(self) -> set[bytes]:
        """Return the values that `send` has accepted so far."""
        return set(self._records)


async def send_and_flush(world: World, name: str) -> None:
    """Run producers one after the other, with flushes that overlap and are cancelled; some break down."""
    for number in range(PRODUCERS):
        client = ReportingProducer(world, f"{name}-{number}")
        for _ in range(ROUNDS):
            for _ in range(client.rng.randrange(1, 6)):
                await client.send()
            await client.send_rows()
            if client.rng.random() < 0.4:
                await client.interrupted_flush()
            flushes = [client.flush(on_thread=client.rng.random() < 0.6) for _ in range(client.rng.randrange(1, 4))]
            await asyncio.gather(*flushes)
        await client.send()
        if client.rng.random() < 0.5:
            client.producer._core.sender.break_down(ValueError("a handler's bug"))
            world.covered["sender broken"] += 1
        await client.report("close", client.producer.close(TIMEOUT_S))


async def commit(world: World, name: str) -> None:
    """Run transactions in which callbacks send during the commit."""
    client = ReportingProducer(world, name, transactional_id=name, max_block_ms=2_000)
    await client.producer.init_transactions(TIMEOUT_S)
    for _ in range(TRANSACTIONS):
        before = client.values()
        await client.producer.begin_transaction()
        for _ in range(client.rng.randrange(1, 6)):
            await client.send()
        try:
            await client.producer.commit_transaction(TIMEOUT_S)
        except KafkaError:
            world.covered["commit raised"] += 1
            world.history.reports.reported |= client.values()
            await client.producer.abort_transaction(TIMEOUT_S)
        else:
            mine = dict.fromkeys(client.values() - before, f"commit of {name}")
            world.history.reports.committed |= mine
    await client.report("close", client.producer.close(TIMEOUT_S))


async def read(world: World, name: str) -> None:
    """Run consumers that are interrupted while they read, and closed; they commit delivered records only."""
    rng, partition = world.rng(name), TopicPartition(SOURCE, 0)
    for number in range(CONSUMERS):
        group, left = f"{name}-{number}", rng.randrange(1, SOURCE_RECORDS)

        def convert(value: bytes, interrupted_at: int = left) -> bytes:
            if int(value) == interrupted_at:
                raise Interruption
            return value

        consumer = world.consumer(
            group, group_id=group, value_deserializer=convert, enable_auto_commit=True, max_poll_records=None
        )
        consumer.assign([partition])
        given = 0
        try:
            while True:
                given = (await anext(consumer)).offset + 1
        except Interruption:
            world.covered["read interrupted"] += 1
        if rng.random() < 0.5:
            with suppress(KafkaError):
                await consumer.commit(timeout=TIMEOUT_S)
        await consumer.close(TIMEOUT_S)
        world.history.reports.delivered[group, partition] = given
        async with world.consumer(f"{group} asks", group_id=group) as asking:
            at = (await asking.committed([partition], TIMEOUT_S))[partition]
        if at is not None:
            world.history.reports.committed_offsets[group, partition] = at.offset


Workload = Callable[[World], Any]
WORKLOADS: list[Workload] = [
    partial(send_and_flush, name="flushing"),
    partial(commit, name="committing"),
    partial(read, name="reading"),
]
