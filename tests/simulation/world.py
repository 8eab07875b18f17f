"""A small world in virtual time: a broker that dies and comes back, links that break and fall silent, and clients."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial

from kafkaraw.broker import BrokerConfig, BrokerNode
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.runtime import Runtime
from kafkaraw.errors import KafkaError
from kafkaraw.records import Ticket
from kafkaraw.testing.audit import History
from kafkaraw.testing.virtual import Simulation

HOST, PORT = "127.0.0.1", 9092
TOPIC = "flights"
PARTITIONS = 3
SEEDS = 50
"""Seeds of a normal run."""


class World:
    """One broker on port 9092, and what goes wrong with it."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.rng = simulation.rng
        self.storage = MemoryStorage()
        self.node = self._new_node()
        self.faults: list[str] = []

    def _new_node(self) -> BrokerNode:
        properties = {
            "listeners": f"PLAINTEXT://{HOST}:{PORT}",
            "num.partitions": PARTITIONS,
            "auto.create.topics.enable": True,
        }
        simulation = self.simulation
        return BrokerNode(
            BrokerConfig.parse(properties),
            network=simulation.network,
            storage=self.storage,
            clock=simulation.clock,
            rng=random.Random(self.rng.random()),
        )

    def runtime(self) -> Runtime:
        return Runtime(self.simulation.network, self.simulation.clock, random.Random(self.rng.random()))

    def producer(self, **settings: object) -> AsyncProducer:
        rng = self.rng
        given: dict[str, object] = {
            "linger_ms": rng.choice([0, 1, 5, 20]),
            "batch_size": rng.choice([200, 1000, 16384]),
            "buffer_memory": rng.choice([2000, 10_000, 1_000_000]),
            "compression_type": rng.choice(["none", "none", "gzip", "lz4"]),
            "max_in_flight_requests_per_connection": rng.choice([1, 2, 5]),
            "request_timeout_ms": 400,
            "delivery_timeout_ms": rng.choice([600, 2_000, 30_000]),
            "retry_backoff_ms": rng.choice([5, 50]),
            "max_block_ms": 60_000,
            "socket_connection_setup_timeout_ms": 300,
            **settings,
        }
        return AsyncProducer(bootstrap_servers=f"{HOST}:{PORT}", runtime=self.runtime(), **given)

    def consumer(self, **settings: object) -> AsyncConsumer:
        given = {
            "auto_offset_reset": "earliest",
            "request_timeout_ms": 400,
            "socket_connection_setup_timeout_ms": 300,
            "fetch_max_wait_ms": 100,
            **settings,
        }
        return AsyncConsumer(bootstrap_servers=f"{HOST}:{PORT}", runtime=self.runtime(), **given)

    async def trouble(self) -> None:
        """One fault after the other, until cancelled."""
        while True:
            await asyncio.sleep(self.rng.uniform(0.005, 0.4))
            fault = self.rng.choice(["cut", "cut", "cut", "silence", "kill"])
            self.faults.append(f"{self.simulation.loop.time():.6f} {fault}")
            if fault == "cut":
                self.simulation.network.cut(HOST, PORT)
            elif fault == "silence":
                await self._silence(self.rng.uniform(0.05, 1.5))
            else:
                await self._kill(self.rng.uniform(0.01, 0.6))

    async def _silence(self, seconds: float) -> None:
        self.simulation.network.silence(HOST, PORT)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.simulation.network.silence(HOST, PORT, False)

    async def _kill(self, seconds: float) -> None:
        """The process dies; what it had written to its files is there when the next one starts."""
        await self.node.kill()
        try:
            await asyncio.sleep(seconds)
        finally:
            self.node = self._new_node()
            await self.node.start()


async def send_all(world: World, name: str, count: int, history: History, **settings: object) -> None:
    """A producer's life: send, note what becomes of each record, close."""
    producer = world.producer(**settings)
    rng = random.Random(world.rng.random())
    tickets: list[tuple[bytes, Ticket]] = []
    for number in range(count):
        value = b"%s-%d" % (name.encode(), number)
        where = rng.choice([{"key": b"%d" % rng.randrange(5)}, {"partition": rng.randrange(PARTITIONS)}, {}])
        ticket = await persist(partial(producer.send, TOPIC, value, **where))
        history.sent[name].append(value)
        tickets.append((value, ticket))
        if rng.random() < 0.2:
            await asyncio.sleep(rng.uniform(0, 0.1))
        if rng.random() < 0.01:
            await asyncio.gather(producer.flush(rng.uniform(0.01, 2)), return_exceptions=True)
    await asyncio.gather(producer.close(100), return_exceptions=True)
    for value, ticket in tickets:
        if not ticket.done:
            continue
        error = ticket.exception()
        if error is None:
            history.acknowledged[value] = await ticket
        else:
            history.failed[value] = error


async def persist(send: Callable[[], Awaitable[Ticket]]) -> Ticket:
    """Send until it is taken: a record that was not taken is nowhere, so trying again is safe."""
    while True:
        try:
            return await send()
        except KafkaError:
            await asyncio.sleep(0.2)


async def read_along(world: World, name: str, history: History) -> None:
    """A consumer that reads for as long as it is let, whatever goes wrong."""
    consumer = world.consumer()
    try:
        while not consumer.assignment():
            try:
                consumer.assign(await consumer.partitions_for(TOPIC, 5))
            except KafkaError:
                await asyncio.sleep(0.2)
        while True:
            try:
                batches = await consumer.poll(1.0)
            except KafkaError:
                await asyncio.sleep(0.2)
                continue
            for tp, batch in batches.items():
                history.reads[name] += [(tp, record.offset, record.value) for record in batch]
    finally:
        await consumer.close()


async def read_everything(world: World, history: History) -> None:
    """After all is over: what is in the topic, from the first record to the last."""
    async with world.consumer() as consumer:
        partitions = await consumer.partitions_for(TOPIC, 10)
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions, 10)
        history.final.update({tp: [] for tp in partitions})
        while [tp for tp, end in ends.items() if await consumer.position(tp, 10) < end]:
            for tp, batch in (await consumer.poll(10)).items():
                history.final[tp] += [(record.offset, record.value) for record in batch]


async def life(simulation: Simulation, **settings: object) -> tuple[History, World, str]:
    """Two producers and a consumer while the broker is killed and cut off; then everything is read again."""
    world, history = World(simulation), History()
    await world.node.start()
    trouble = asyncio.create_task(world.trouble())
    reader = asyncio.create_task(read_along(world, "reader", history))
    await asyncio.gather(*(send_all(world, name, 200, history, **settings) for name in ("a", "b")))
    for task in (trouble, reader):
        task.cancel()
    await asyncio.gather(trouble, reader, return_exceptions=True)
    await read_everything(world, history)
    await world.node.stop()
    return history, world, simulation.network.digest()
