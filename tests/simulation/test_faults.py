"""Every kind of fault against every client, on virtual time: each call ends by its deadline, with the right result.

The faults affect some requests of each API in turn; after them, all calls must succeed. Each commit has a third.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable, Iterable
from functools import partial

import pytest
from _pytest.mark import ParameterSet

from kafkaraw.broker import BrokerConfig, BrokerNode, Fault
from kafkaraw.broker.faults import Trigger
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.client.admin import AsyncAdmin, NewTopic
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.runtime import Runtime
from kafkaraw.errors import BrokerError, KafkaError, RetriableError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.rotation import rotating

HOST, PORT = "127.0.0.1", 9092
TOPIC = "flights"
P0 = TopicPartition(TOPIC, 0)
COUNT = 60
DEADLINE_S = 30.0
GRACE_S = 0.5
"""How far a call may exceed its deadline: one step of the network."""

KINDS: dict[str, Callable[[Trigger], Fault]] = {
    "delay": lambda on: on.delay(0.3),
    "delay beyond the request's deadline": lambda on: on.delay(3),
    "close": lambda on: on.close(),
    "close when handled": lambda on: on.close(handled=True),
    "swallow": lambda on: on.swallow(),
    "swallow when handled": lambda on: on.swallow(handled=True),
    "cut in the size": lambda on: on.cut(at=3),
    "cut in the body": lambda on: on.cut(at=11),
    "cut before the first byte": lambda on: on.cut(at=0),
    "hold forever": lambda on: on.hold(),
}
CODES = {
    "Produce": (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NETWORK_EXCEPTION,
    ),
    "Fetch": (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ),
    "ListOffsets": (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ),
    "Metadata": (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "InitProducerId": (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ),
    "CreateTopics": (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT),
    "DeleteTopics": (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT),
}
APIS = ("ApiVersions", "Metadata", "InitProducerId", "Produce", "ListOffsets", "Fetch")


def third(*values: Iterable[object]) -> list[ParameterSet]:
    """Return each combination of an API and a fault; a third of them is this commit's."""
    combinations = list(itertools.product(*values))
    return rotating(combinations, -(-len(combinations) // 3))


class World:
    """One node, and settings of clients with short timeouts."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.settings = {
            "bootstrap_servers": f"{HOST}:{PORT}",
            "request_timeout_ms": 1000,
            "retry_backoff_ms": 20,
            "socket_connection_setup_timeout_ms": 1000,
            "runtime": Runtime(simulation.network, simulation.clock, random.Random(simulation.seed)),
        }
        self.node = BrokerNode(
            BrokerConfig.parse({"listeners": f"PLAINTEXT://{HOST}:{PORT}"}),
            network=simulation.network,
            storage=MemoryStorage(),
            clock=simulation.clock,
            rng=random.Random(simulation.seed),
        )
        self.faults = self.node.faults

    async def in_time(self, call: object, seconds: float = DEADLINE_S) -> object:
        """Return the result of a call, which must return or raise by its deadline."""
        loop = self.simulation.loop
        began = loop.time()
        try:
            return await asyncio.wait_for(call, seconds + 100)
        finally:
            assert loop.time() - began <= seconds + GRACE_S, "a call exceeded its deadline"

    async def until_done(self, call: Callable[[], object]) -> object:
        """Call until it succeeds: the bootstrap is tried once only, so that a wrong address is reported at once."""
        while True:
            try:
                return await self.in_time(call())
            except RetriableError:
                await asyncio.sleep(0.1)

    async def settle(self, call: object, seconds: float) -> None:
        """Wait for a call that may fail, but only with a KafkaError."""
        with contextlib.suppress(KafkaError):
            await self.in_time(call, seconds)

    async def write(self, count: int = COUNT) -> list[bytes]:
        """Send records one after the other; each must be acknowledged."""
        producer = AsyncProducer(
            linger_ms=0, batch_size=100, delivery_timeout_ms=20_000, max_block_ms=20_000, **self.settings
        )
        values = [b"%d" % number for number in range(count)]
        tickets = []
        for value in values:
            tickets.append(await self.until_done(partial(producer.send, TOPIC, value)))
            await asyncio.sleep(0.01)
        await self.in_time(producer.flush(DEADLINE_S))
        assert all(ticket.done for ticket in tickets)
        offsets = [(await ticket).offset for ticket in tickets]
        assert offsets == list(range(count)), "an acknowledged record has another offset"
        await self.in_time(producer.close(DEADLINE_S))
        return values

    async def read(self, count: int = COUNT) -> list[bytes]:
        """Read from the beginning until there is nothing more."""
        consumer = AsyncConsumer(auto_offset_reset="earliest", fetch_max_wait_ms=100, **self.settings)
        consumer.assign([P0])
        values: list[bytes] = []
        deadline = self.simulation.loop.time() + DEADLINE_S
        while len(values) < count and self.simulation.loop.time() < deadline:
            try:
                batches = await self.in_time(consumer.poll(2.0), 2.0)
            except KafkaError as error:
                assert isinstance(error, BrokerError) is False or error.retriable, error
                continue
            values += [record.value for batch in batches.values() for record in batch]
        assert (await self.until_done(partial(consumer.end_offsets, [P0], DEADLINE_S)))[P0] == count
        await self.in_time(consumer.close())
        return values


def simulate(body: Callable[[World], object], seed: int = 1) -> None:
    async def main(simulation: Simulation) -> None:
        world = World(simulation)
        async with world.node, AsyncAdmin(**world.settings) as admin:
            await admin.create_topics([NewTopic(TOPIC)], timeout=10)
            await body(world)

    run_virtual(main, seed)


@pytest.mark.parametrize(("api", "kind"), third(APIS, KINDS))
def test_all_records_are_written_and_read_once_despite_a_fault(api: str, kind: str):
    async def body(world: World) -> None:
        for nth in (1, 2, 5):
            KINDS[kind](world.faults.on(api, nth=nth))
        written = await world.write()
        assert await world.read() == written

    simulate(body)


RETRIABLE = [(api, code) for api in APIS if api in CODES for code in CODES[api]]


@pytest.mark.parametrize(("api", "code"), rotating(RETRIABLE, -(-len(RETRIABLE) // 3)))
def test_retriable_errors_are_retried_without_loss_or_duplicates(api: str, code: ErrorCode):
    async def body(world: World) -> None:
        world.faults.on(api, times=3).answer(code)
        written = await world.write()
        assert await world.read() == written

    simulate(body)


@pytest.mark.parametrize(("api", "kind"), third(["CreateTopics", "DeleteTopics", "Metadata", "ApiVersions"], KINDS))
def test_an_admin_call_ends_by_its_deadline(api: str, kind: str):
    async def body(world: World) -> None:
        async with AsyncAdmin(**world.settings) as admin:
            KINDS[kind](world.faults.on(api, times=2))
            await world.until_done(partial(admin.list_topics, timeout=8))
            for call in (partial(admin.create_topics, [NewTopic("t", 2)]), partial(admin.delete_topics, ["t"])):
                try:
                    await world.in_time(call(timeout=8), 8)
                except BrokerError as error:  # done by the attempt whose response was lost
                    assert error.code in (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            assert TOPIC in {topic.name for topic in await world.in_time(admin.list_topics(timeout=8), 8)}

    simulate(body)


@pytest.mark.parametrize(
    ("api", "code"), [(api, code) for api in ("CreateTopics", "DeleteTopics") for code in CODES[api]]
)
def test_an_admin_call_retries_retriable_errors(api: str, code: ErrorCode):
    async def body(world: World) -> None:
        async with AsyncAdmin(**world.settings) as admin:
            world.faults.on(api, times=2).answer(code)
            await world.in_time(admin.create_topics([NewTopic("t", 2)], timeout=8), 8)
            await world.in_time(admin.delete_topics(["t"], timeout=8), 8)
            world.faults.assert_all_consumed()

    simulate(body)


@pytest.mark.parametrize(("api", "kind"), third(APIS, [*KINDS, "corrupt"]))
def test_no_call_exceeds_its_deadline_when_every_request_fails(api: str, kind: str):
    """With the same fault on every request of an API, calls may fail, but by their deadlines."""

    async def body(world: World) -> None:
        on = world.faults.on(api, times=None)
        (KINDS.get(kind) or (lambda trigger: trigger.corrupt(seed=7)))(on)
        producer = AsyncProducer(linger_ms=0, delivery_timeout_ms=4000, max_block_ms=3000, **world.settings)
        consumer = AsyncConsumer(auto_offset_reset="earliest", **world.settings)
        admin = AsyncAdmin(**world.settings)
        consumer.assign([P0])

        async def send() -> None:
            ticket = await world.in_time(producer.send(TOPIC, b"x"), 3)
            await world.in_time(ticket, 4)

        calls = {
            "send": (send(), 7),
            "poll": (consumer.poll(3.0), 3),
            "position": (consumer.position(P0, 3.0), 3),
            "end_offsets": (consumer.end_offsets([P0], 3.0), 3),
            "create": (admin.create_topics([NewTopic("t")], timeout=3), 3),
            "list": (admin.list_topics(timeout=3), 3),
            "delete": (admin.delete_topics(["t"], timeout=3), 3),
        }
        await asyncio.gather(*(world.settle(call, seconds) for call, seconds in calls.values()))
        await world.settle(producer.flush(3), 5)
        for client in (producer.close(3), consumer.close(), admin.close()):
            await world.settle(client, 5)

    simulate(body)
