"""The work of producers, readers and admins, which record what they observe."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from kafkaraw.client.admin import NewTopic
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.errors import KafkaError
from kafkaraw.records import Ticket, TopicPartition
from kafkaraw.testing.audit import Call
from tests.simulation.environment import PARTITIONS, TOPIC
from tests.simulation.world import World

SETTLE_S = 2.0
"""The time after which the last response of a flushed producer has arrived, or never will."""
CATCH_UP_S = 60.0
"""The time within which a reader must have read everything, once there are no more faults."""


async def send_all(world: World, name: str, count: int, **settings: object) -> None:
    """Send records with one producer, record the result of each, and close it."""
    producer, rng, history = world.producer(name, **settings), world.rng(name), world.history
    tickets: list[tuple[bytes, Ticket]] = []
    for number in range(count):
        value = b"%s-%d" % (name.encode(), number)
        where = rng.choice([{"key": b"%d" % rng.randrange(5)}, {"partition": rng.randrange(PARTITIONS)}, {}])
        ticket = await persist(world, producer, partial(producer.send, TOPIC, value, **where))
        history.sent[name].append(value)
        tickets.append((value, ticket))
        if rng.random() < 0.4:
            await asyncio.sleep(rng.uniform(0, 0.15))
        if rng.random() < 0.01:
            timeout = rng.uniform(0.01, 2)
            with suppress(KafkaError):
                await world.call(f"{name}: flush", producer.flush(timeout), timeout)
    await settle(world, name, producer, tickets)


async def settle(world: World, name: str, producer: AsyncProducer, tickets: list[tuple[bytes, Ticket]]) -> None:
    """Flush and close a producer; record the result of each record, and memory that was not released."""
    history = world.history
    with suppress(KafkaError):
        await world.call(f"{name}: flush", producer.flush(60), 60)
    await asyncio.sleep(SETTLE_S)
    used_bytes = producer._core.accumulator.open_batches.used_bytes
    if used_bytes:
        history.left_over.append(f"{used_bytes} bytes of memory of {name}")
    with suppress(KafkaError):
        await world.close(name, producer.close(10), 10)
    for value, ticket in tickets:
        if ticket.done:
            error = ticket.exception()
            if error is None:
                history.acknowledged[value] = await ticket
            else:
                history.failed[value] = error
                if not world.environment.repeats_requests and says_not_written(error):
                    history.denied.add(value)


def says_not_written(error: BaseException) -> bool:
    """Return whether an error says that the record was not written."""
    entries = getattr(error, "unacknowledged", ())
    if entries:
        return not any(entry.maybe_written for entry in entries)
    return "not written" in str(error)


async def persist(world: World, producer: AsyncProducer, send: Callable[[], Awaitable[Ticket]]) -> Ticket:
    """Call `send` until it returns a ticket: if it raises, the record was not accepted, and a retry is safe."""
    config = producer._core._config
    while True:
        try:
            ticket = await world.call("send", send(), config.max_block_ms / 1000)
        except KafkaError:
            await asyncio.sleep(0.2)
            continue
        watch(world, "ticket", ticket, (config.delivery_timeout_ms + config.linger_ms) / 1000)
        return ticket


def watch(world: World, name: str, ticket: Ticket, timeout: float) -> None:
    """Record when a ticket is done."""
    call = Call(name, world.now_s, timeout)
    world.history.calls.append(call)
    ticket.add_done_callback(lambda _: setattr(call, "ended_s", world.now_s))


class Reader:
    """A consumer that reads from the beginning to the end; at times a new one resumes at its position."""

    def __init__(self, world: World, name: str, **settings: object) -> None:
        self._world, self._name, self._settings = world, name, settings
        self._rng = world.rng(name)
        self._positions: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """Read until everything up to `world.ends` is read."""
        history, before = self._world.history, None
        for number in itertools.count():
            stretch = f"{self._name}-{number}"
            history.reads[stretch] = []
            if self._settings.get("isolation_level") == "read_committed":
                history.committed_only.add(stretch)
            if before is not None:
                history.resumed[stretch] = before
            before = stretch
            consumer = self._world.consumer(stretch, **self._settings)
            try:
                if await self._read(consumer, stretch):
                    history.read_to_end[stretch] = list(self._world.ends)
                    return
            finally:
                await self._world.close(stretch, consumer.close(1), 1)

    async def _read(self, consumer: AsyncConsumer, stretch: str) -> bool:
        """Read for a while; return whether everything was read."""
        await self._assign(consumer)
        world, rng, since = self._world, self._rng, None
        while True:
            timeout = rng.choice([0.0, 0.1, 1.0])
            with suppress(KafkaError):
                batches = await world.call(f"{stretch}: poll", consumer.poll(timeout), timeout)
                for tp, batch in batches.items():
                    world.history.reads[stretch] += [(tp, record.offset, record.value) for record in batch]
                if rng.random() < 0.1:
                    await asyncio.sleep(rng.uniform(0, 0.5))  # a slow reader
                if rng.random() < 0.3:
                    await self._save(consumer)
                    if rng.random() < 0.1 and not world.ends:
                        return False
            if not consumer.assignment():
                continue
            if world.ends:
                if since is None:
                    since = world.now_s
                    consumer.assign(world.ends)  # partitions may have been added
                done = all(self._positions.get(tp, 0) >= end for tp, end in world.ends.items())
                if done or world.now_s - since > CATCH_UP_S:
                    return True
                with suppress(KafkaError):
                    await self._save(consumer)
            elif not timeout:
                await asyncio.sleep(0.02)

    async def _assign(self, consumer: AsyncConsumer) -> None:
        while not consumer.assignment():
            with suppress(KafkaError):
                consumer.assign(await self._world.call("partitions_for", consumer.partitions_for(TOPIC, 2), 2))
                break
            await asyncio.sleep(0.2)
        for tp, offset in self._positions.items():
            consumer.seek(tp, offset)

    async def _save(self, consumer: AsyncConsumer) -> None:
        for tp in consumer.assignment():
            self._positions[tp] = await self._world.call("position", consumer.position(tp, 1.0), 1.0)


SEGMENT_BYTES = 500


async def create_small_segments(world: World) -> None:
    """Create the topic with small segments, so that logs are rolled all the time."""
    async with world.admin("creator") as admin:
        configs = {"internal.segment.bytes": str(SEGMENT_BYTES)}
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, configs=configs)], timeout=10)


async def administer(world: World) -> None:
    """Make admin calls, which create and delete a topic while other clients use it."""
    rng = world.rng("admin")
    async with world.admin("admin") as admin:
        calls: dict[str, Callable[[float], Awaitable[object]]] = {
            "list_topics": lambda timeout: admin.list_topics(timeout=timeout),
            "describe_topics": lambda timeout: admin.describe_topics([TOPIC], timeout=timeout),
            "create_topics": lambda timeout: admin.create_topics([NewTopic("passing", 2)], timeout=timeout),
            "delete_topics": lambda timeout: admin.delete_topics(["passing"], timeout=timeout),
            "create_partitions": lambda timeout: admin.create_partitions({TOPIC: PARTITIONS + 1}, timeout=timeout),
            "delete_records": lambda timeout: admin.delete_records(_below(world, rng.randrange(12)), timeout=timeout),
        }
        while not world.over:
            await asyncio.sleep(rng.uniform(0, 0.5))
            name, timeout = rng.choice(list(calls)), rng.choice([0.3, 1.0, 5.0])
            with suppress(KafkaError):
                await world.call(name, calls[name](timeout), timeout)


def _below(world: World, offset: int) -> dict[TopicPartition, int]:
    """Return the argument of `delete_records`; from now on, no client may rely on the records below the offset."""
    tp = TopicPartition(TOPIC, 0)
    world.history.deleted_before[tp] = max(offset, world.history.deleted_before.get(tp, 0))
    return {tp: offset}


async def use_recreated_topic(world: World) -> None:
    """Write and read a topic that is deleted and created again: calls end in time, and work once it stays."""
    rng = world.rng("passing")
    producer = world.producer("passing", delivery_timeout_ms=1500, max_block_ms=1000, buffer_memory=1_000_000)
    consumer = world.consumer("passing")
    consumer.assign([TopicPartition("passing", 0)])
    while not world.over:
        await asyncio.sleep(rng.uniform(0, 0.3))
        with suppress(KafkaError):
            ticket = await world.call("send", producer.send("passing", b"x", partition=0), 1.0)
            watch(world, "ticket to a recreated topic", ticket, 1.6)
        timeout = rng.choice([0.0, 0.2])
        with suppress(KafkaError):
            await world.call("poll of a recreated topic", consumer.poll(timeout), timeout)
    if not await _works_again(world, producer, consumer):
        world.history.left_over.append("a recreated topic that cannot be used")
    with suppress(KafkaError):
        await world.close("passing", producer.close(3), 3)
    await world.close("passing", consumer.close(1), 1)


async def _works_again(world: World, producer: AsyncProducer, consumer: AsyncConsumer) -> bool:
    """Return whether a record is written and read within `CATCH_UP_S`, now that there are no more faults."""
    began, number = world.now_s, 0
    while world.now_s - began < CATCH_UP_S:
        number += 1
        with suppress(KafkaError):
            ticket = await producer.send("passing", b"last %d" % number, partition=0)
            await ticket
            for _ in range(10):
                for batch in (await consumer.poll(1)).values():
                    if b"last %d" % number in batch.values():
                        return True
    return False


async def read_everything(world: World) -> None:
    """After the faults, read all topics from the first record to the last."""
    history = world.history
    world.ends, history.final = await _read_to_the_end(world, "last reader")


async def read_committed(world: World) -> None:
    """After the faults, read all topics with `read_committed`."""
    name = "last committed reader"
    ends, world.history.final_committed = await _read_to_the_end(world, name, isolation_level="read_committed")
    if ends != world.ends:
        world.history.left_over.append(f"an open transaction: read_committed ends at {ends}, the log at {world.ends}")


async def _read_to_the_end(
    world: World, name: str, **settings: object
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, list[tuple[int, bytes]]]]:
    """Return the end offsets, and all records up to them."""
    async with world.consumer(name, max_poll_records=None, **settings) as consumer:
        partitions: list[TopicPartition] = []
        for topic in world.topics:
            partitions += await world.call("partitions_for", consumer.partitions_for(topic, 20), 20)
        consumer.assign(partitions)
        ends = await world.call("end_offsets", consumer.end_offsets(partitions, 20), 20)
        give_up_s = world.now_s + CATCH_UP_S
        final: dict[TopicPartition, list[tuple[int, bytes]]] = {tp: [] for tp in partitions}
        while [tp for tp, end in ends.items() if await consumer.position(tp, 10) < end]:
            batches = await world.call("poll", consumer.poll(1), 1)
            if world.now_s > give_up_s:
                world.history.left_over.append(f"records that cannot be read: {ends}")
                break
            for tp, batch in batches.items():
                final[tp] += [(record.offset, record.value) for record in batch]
                give_up_s = world.now_s + CATCH_UP_S  # thousands of small batches take long, too
    return ends, final
