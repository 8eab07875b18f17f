"""Transactions on several nodes: coordinators and leaders move and die, links break, producers are fenced.

What a reader of committed records sees in the end is judged by the auditor: all of a committed transaction, nothing of
an aborted one, and of those whose outcome nobody knows all or nothing.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial

from kafkaraw import KafkaError, ProducerFenced, TopicPartition, TransactionMustAbort
from kafkaraw.broker import BrokerConfig, Cluster, Surroundings
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.client.admin import AsyncAdmin, NewTopic
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.runtime import Runtime
from kafkaraw.testing.audit import History, Outcome, audit
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.simulation.seeds import every_seed

HOST, PORT, NODES, TOPIC, PARTITIONS = "127.0.0.1", 9092, 3, "orders", 3
SERVERS = ",".join(f"{HOST}:{PORT + node}" for node in range(NODES))
ALL_PARTITIONS = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]


class World:
    """A cluster, and what goes wrong with it."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.rng = rng = simulation.rng
        self.storages: dict[int, MemoryStorage] = {}
        self.over = False
        self.level = rng.choice([0, 2])
        self.names = iter(range(1_000_000))
        around = Surroundings(
            network=simulation.network,
            storage_of=lambda node_id: self.storages.setdefault(node_id, MemoryStorage()),
            facts=MemoryStorage(),
            clock=simulation.clock,
            rng=random.Random(rng.random()),
            replication_delay_s=lambda: rng.uniform(0.0005, 0.02),
        )
        self.cluster = Cluster(NODES, self.config_of, around)

    def config_of(self, node_id: int) -> BrokerConfig:
        properties = {
            "node.id": node_id,
            "listeners": f"PLAINTEXT://{HOST}:{PORT + node_id}",
            "transaction.version": self.level,
            "transaction.state.log.num.partitions": 3,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
            "min.insync.replicas": 2,
        }
        return BrokerConfig.parse(properties)

    def runtime(self) -> Runtime:
        return Runtime(self.simulation.network, self.simulation.clock, random.Random(self.rng.random()))

    def producer(self, transactional_id: str) -> AsyncProducer:
        rng = self.rng
        return AsyncProducer(
            bootstrap_servers=SERVERS,
            runtime=self.runtime(),
            transactional_id=transactional_id,
            transaction_timeout_ms=rng.choice([1_500, 60_000]),
            linger_ms=rng.choice([0, 5]),
            batch_size=rng.choice([100, 16_384]),
            request_timeout_ms=400,
            delivery_timeout_ms=rng.choice([800, 20_000]),
            retry_backoff_ms=10,
            max_block_ms=20_000,
            socket_connection_setup_timeout_ms=300,
        )

    def consumer(self) -> AsyncConsumer:
        return AsyncConsumer(
            bootstrap_servers=SERVERS,
            runtime=self.runtime(),
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            request_timeout_ms=400,
            socket_connection_setup_timeout_ms=300,
            fetch_max_wait_ms=50,
        )

    async def trouble(self) -> None:
        """One fault after the other, until it is over; never two nodes down at once."""
        while not self.over:
            await asyncio.sleep(self.rng.uniform(0.01, 0.5))
            node = self.rng.randrange(NODES)
            act = self.rng.choice([self._cut, self._cut, self._silence, self._move, self._down, self._down])
            await act(node)

    async def _cut(self, node: int) -> None:
        self.simulation.network.cut(HOST, PORT + node)

    async def _silence(self, node: int) -> None:
        self.simulation.network.silence(HOST, PORT + node)
        await asyncio.sleep(self.rng.uniform(0.05, 1.0))
        self.simulation.network.silence(HOST, PORT + node, False)

    async def _move(self, node: int) -> None:
        topics = [topic for topic in self.cluster.controller.catalog.topics()]
        topic = self.rng.choice(topics)
        index = self.rng.randrange(topic.partitions_count)
        if node in self.cluster.isr_of(topic.name, index) and node in self.cluster.nodes:
            self.cluster.move_leader(topic.name, index, node)

    async def _down(self, node: int) -> None:
        end = self.rng.choice([self.cluster.kill_node, self.cluster.stop_node])
        await end(node)
        await asyncio.sleep(self.rng.uniform(0.01, 0.8))
        await self.cluster.start_node(node)
        await self.cluster.wait_until_in_sync(60)


async def make_transactions(world: World, name: str, count: int, history: History) -> None:
    """A service's life: transactions, one after the other, by one producer after the other."""
    rng = random.Random(world.rng.random())
    producer: AsyncProducer | None = None
    for number in range(count):
        transaction = history.transactions[f"{name}-{number}"]
        try:
            if producer is None:
                producer = world.producer(name)
                await persist(partial(producer.init_transactions, 2))
            await persist(producer.begin_transaction)
            await fill(producer, rng, f"{name}-{number}", transaction.values)
            await end(producer, rng, transaction)
        except (KafkaError, asyncio.CancelledError) as error:
            # Fenced, or out of time: what the outcome is nobody knows, and the successor begins anew.
            if producer is not None:
                await asyncio.gather(producer.close(0), return_exceptions=True)
            producer = None
            if isinstance(error, asyncio.CancelledError):
                raise
        if producer is not None and rng.random() < 0.15:  # the process dies, and another one takes over
            await asyncio.gather(producer.close(0), return_exceptions=True)
            producer = None
    if producer is not None:
        await asyncio.gather(producer.close(30), return_exceptions=True)


async def fill(producer: AsyncProducer, rng: random.Random, name: str, values: list[bytes]) -> None:
    for number in range(rng.randrange(1, 5)):
        value = f"{name}-{number}".encode()
        values.append(value)
        await producer.send(TOPIC, value, partition=rng.randrange(PARTITIONS))
        if rng.random() < 0.3:
            await asyncio.sleep(rng.uniform(0, 0.05))
    if rng.random() < 0.1:
        await asyncio.sleep(2.5)  # longer than some transactions may take


async def end(producer: AsyncProducer, rng: random.Random, transaction: object) -> None:
    try:
        if rng.random() < 0.7:
            await persist(partial(producer.commit_transaction, 2))
            transaction.outcome = Outcome.COMMITTED
            return
    except TransactionMustAbort:
        pass
    await persist(partial(producer.abort_transaction, 2))
    transaction.outcome = Outcome.ABORTED


async def persist(call) -> None:
    """Call again as long as the outcome is not known, but not for ever."""
    for _ in range(60):
        try:
            return await call()
        except (TransactionMustAbort, ProducerFenced):
            raise
        except KafkaError as error:
            last = error
            await asyncio.sleep(0.1)
    raise last


async def read_everything(world: World) -> dict[TopicPartition, list[tuple[int, bytes]]]:
    found: dict[TopicPartition, list[tuple[int, bytes]]] = {each: [] for each in ALL_PARTITIONS}
    async with world.consumer() as consumer:
        consumer.assign(ALL_PARTITIONS)
        ends = await consumer.end_offsets(ALL_PARTITIONS, 30)
        while any([await consumer.position(each) < ends[each] for each in ALL_PARTITIONS]):
            for each, batch in (await consumer.poll(1)).items():
                found[each] += [(record.offset, record.value) for record in batch]
    return found


async def life(simulation: Simulation) -> History:
    world, history = World(simulation), History()
    await world.cluster.start()
    async with AsyncAdmin(bootstrap_servers=SERVERS, runtime=world.runtime()) as admin:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
    trouble = asyncio.create_task(world.trouble())
    await asyncio.gather(*(make_transactions(world, f"service{which}", 6, history) for which in range(3)))
    world.over = True
    await trouble
    await world.cluster.wait_until_in_sync(60)
    await asyncio.sleep(70)  # what is still open is over its time, and aborted
    history.final_committed = await read_everything(world)
    await world.cluster.kill()
    return history


@every_seed("transactions", normal=20, soak=1_000)
def test_readers_see_all_of_a_transaction_or_nothing(seed: int) -> None:
    history = run_virtual(life, seed)
    assert audit(history) == []
    assert history.transactions, "nothing happened, so nothing was tested"
