"""Services that write records and commit offsets in transactions; they crash at every step, and are replaced.

A service is a transactional id, used by one producer after the other. If the environment says so, a producer crashes
in a step, or is replaced while it still runs (a zombie). The order of steps decides which outcomes are possible: a
transaction whose commit was not requested before the producer was replaced must never be visible.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import partial

from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.coordinator import Coordinator, CoordinatorKind
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.core.producer.batches import IN_FLIGHT_MAX, PartitionQueue
from kafkaraw.errors import KafkaError, ProducerFencedError, TransactionAbortableError
from kafkaraw.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafkaraw.records import Ticket, TopicPartition
from kafkaraw.testing.audit import Outcome, Position, Transaction
from kafkaraw.testing.discard import discard
from tests.simulation.environment import PARTITIONS, TOPIC
from tests.simulation.world import World

SERVICES = 3
TRANSACTIONS = 7
TRIES = 60
TIMEOUT_S = 2.0
SHORT_TIMEOUT_S = (0.0, 0.4)
"""The timeout of `send_offsets_to_transaction` for services that commit even if it fails."""
CALM_TIMEOUT_S = 30.0
ONE_GROUP_VERSION_MAX = 7


@contextmanager
def five_batches_in_flight_at_once() -> Iterator[None]:
    """In this context, producers send five batches before the first one is acknowledged, as Java's does."""
    may_send_to = PartitionQueue.may_send_to
    PartitionQueue.may_send_to = lambda self, node_id: len(self.in_flight) < IN_FLIGHT_MAX
    try:
        yield
    finally:
        PartitionQueue.may_send_to = may_send_to


class Step(StrEnum):
    """The steps of a transaction; the producer may crash in each of them."""

    INIT = "init"
    BEGIN = "begin"
    PRODUCE = "produce"
    OFFSETS = "offsets"
    COMMIT = "commit"
    ABORT = "abort"


class ProducerCrashedError(Exception):
    """The process of the producer has crashed."""


class Service:
    """One transactional id, and its present producer."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name
        self._rng = world.rng(name)
        self._short_timeouts = world.rng(f"{name}: patience")
        self._numbers = itertools.count()
        self._producer: AsyncProducer | None = None
        self._producer_name = ""
        self._crashes_at: Step | None = None
        self._sent: list[tuple[bytes, Ticket]] = []

    async def run(self) -> None:
        """Run the transactions, then close."""
        for number in range(TRANSACTIONS):
            crashes = self._rng.random() < self._world.environment.crash_probability
            self._crashes_at = self._rng.choice(list(Step)) if crashes else None
            transaction = self._world.history.transactions[f"{self._name}-{number}"]
            transaction.outcome = Outcome.ABORTED  # until the commit is requested
            try:
                await self._make(number, transaction)
            except ProducerCrashedError:
                continue
            except KafkaError as error:
                self._world.covered[f"{type(error).__name__} in a transaction"] += 1
                self._note_failure(number, error)
                await self._close()
        await self._close()

    def _note_failure(self, number: int, error: KafkaError) -> None:
        if self._world.environment.calm:
            self._world.history.left_over.append(f"transaction {number} of {self._name}, which failed: {error!r}")

    async def _make(self, number: int, transaction: Transaction) -> None:
        producer = self._producer
        if producer is None:
            producer = await self._new_producer()
        await self._step(Step.BEGIN, persist(producer.begin_transaction))
        await self._step(Step.PRODUCE, self._send(producer, number, transaction))
        if self._rng.random() < 0.6:
            await self._step(Step.OFFSETS, self._send_offsets(producer, number, transaction))
        if self._rng.random() < self._world.environment.crash_probability / 3:
            await self._replace_producer(producer, transaction)
            return
        if self._rng.random() < 0.75:
            try:
                await self._step(Step.COMMIT, self._commit(producer, transaction))
                return
            except TransactionAbortableError as error:
                self._note_failure(number, error)
                transaction.outcome = Outcome.ABORTED
        if self._world.environment.calm:  # so that records are refused while the previous transaction still ends
            await asyncio.sleep(self._rng.choice([0, self._rng.uniform(0, 0.03)]))
        await self._step(Step.ABORT, self._abort(producer))
        self._record_outcomes()

    async def _step(self, step: Step, work: Coroutine[object, object, object]) -> None:
        """Run a step, or crash in it."""
        if self._crashes_at is not step:
            await work
            return
        task = asyncio.create_task(work, name=f"{self._name}: {step}")
        await asyncio.wait([task], timeout=self._rng.choice([0, 0.002, 0.01, 0.1, 0.5]))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._crash()
        self._world.covered[f"crash in {step}"] += 1
        raise ProducerCrashedError

    # -- producers

    async def _new_producer(self) -> AsyncProducer:
        world, rng, calm = self._world, self._rng, self._world.environment.calm
        self._producer_name = f"{self._name} #{next(self._numbers)}"
        self._producer = producer = world.producer(
            self._producer_name,
            transactional_id=self._name,
            transaction_timeout_ms=60_000 if calm else rng.choice([1_500, 6_000]),
            request_timeout_ms=8_000 if calm else 400,  # a late request that has timed out may fence its producer
            linger_ms=rng.choice([0, 5]),
            batch_size=rng.choice([100, 16_384]),
            delivery_timeout_ms=30_000 if calm else rng.choice([800, 20_000]),
            retry_backoff_ms=10,
        )
        await self._step(Step.INIT, persist(self._timed("init_transactions", producer.init_transactions)))
        return producer

    async def _replace_producer(self, zombie: AsyncProducer, transaction: Transaction) -> None:
        """Replace a producer that still runs: from now on, it must not be able to write or commit."""
        self._sent.clear()
        try:
            await self._new_producer()
            self._world.covered["zombie"] += 1
            with suppress(KafkaError):
                value = b"%s: of a zombie" % self._producer_name.encode()
                transaction.values.append(value)
                await zombie.send(TOPIC, value, partition=self._rng.randrange(PARTITIONS))
            with suppress(KafkaError):
                await zombie.commit_transaction(TIMEOUT_S)
                self._world.history.zombies.append(f"a producer that {self._producer_name} had replaced")
        finally:
            await asyncio.gather(zombie.close(0), return_exceptions=True)

    async def _crash(self) -> None:
        """End the producer as if its process had crashed."""
        producer, self._producer = self._producer, None
        assert producer is not None
        self._sent.clear()
        await discard(producer)

    async def _close(self) -> None:
        producer, self._producer = self._producer, None
        self._sent.clear()
        if producer is not None:
            with suppress(KafkaError):
                await self._world.close(self._name, producer.close(10), 10)

    # -- steps

    async def _send(self, producer: AsyncProducer, number: int, transaction: Transaction) -> None:
        for index in range(self._rng.choice([1, 2, 4, 30])):
            value = f"{self._name}-{number}-{index}".encode()
            transaction.values.append(value)
            ticket = await producer.send(TOPIC, value, partition=self._rng.randrange(PARTITIONS))
            self._sent.append((value, ticket))
            if self._rng.random() < 0.1:
                await asyncio.sleep(self._rng.uniform(0, 0.05))
        if not self._world.environment.calm and self._rng.random() < 0.05:
            await asyncio.sleep(2.5)  # longer than some transaction timeouts

    async def _send_offsets(self, producer: AsyncProducer, number: int, transaction: Transaction) -> None:
        source = TopicPartition(TOPIC, 0)
        transaction.positions.append(Position(self._name, source, number + 1))
        offsets = partial(producer.send_offsets_to_transaction, {source: number + 1}, self._name)
        if not self._world.environment.calm and self._short_timeouts.random() < 0.3:
            await self._send_offsets_once(offsets)
            return
        await persist(self._timed("send_offsets_to_transaction", offsets))

    async def _send_offsets_once(self, offsets: Callable[..., Awaitable[None]]) -> None:
        """Call once with a short timeout, and go on even if it fails: no commit may succeed without the offsets."""
        timeout = self._short_timeouts.uniform(*SHORT_TIMEOUT_S)
        try:
            await self._world.call(f"{self._name}: send_offsets_to_transaction", offsets(timeout=timeout), timeout)
        except (TransactionAbortableError, ProducerFencedError):
            raise
        except KafkaError:
            self._world.covered["offsets in doubt"] += 1

    async def _commit(self, producer: AsyncProducer, transaction: Transaction) -> None:
        transaction.outcome = Outcome.UNKNOWN
        await persist(self._timed("commit_transaction", producer.commit_transaction))
        transaction.outcome = Outcome.COMMITTED
        self._record_outcomes()

    async def _abort(self, producer: AsyncProducer) -> None:
        await persist(self._timed("abort_transaction", producer.abort_transaction))

    def _timed(self, name: str, call: Callable[..., Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        timeout = CALM_TIMEOUT_S if self._world.environment.calm else TIMEOUT_S
        return lambda: self._world.call(f"{self._name}: {name}", call(timeout=timeout), timeout)

    def _record_outcomes(self) -> None:
        """After the end of a transaction, record the result of each of its records."""
        history = self._world.history
        for value, ticket in self._sent:
            history.sent[self._producer_name].append(value)
            if not ticket.done:
                continue
            error = ticket.exception()
            if error is not None:
                history.failed[value] = error
            else:
                history.acknowledged[value] = ticket.result(0)
        self._sent.clear()


async def persist(call: Callable[[], Awaitable[object]]) -> None:
    """Retry a call while its outcome is unknown, at most `TRIES` times."""
    for attempt in range(TRIES):
        try:
            await call()
            return
        except (TransactionAbortableError, ProducerFencedError):
            raise
        except KafkaError:
            if attempt == TRIES - 1:
                raise
            await asyncio.sleep(0.1)


async def read_group_offsets(world: World) -> None:
    """After the faults, look up the committed offsets of the services' groups."""
    source, history = TopicPartition(TOPIC, 0), world.history
    history.final_positions = {}
    async with world.admin("positions") as admin:
        for number in range(SERVICES):
            group = f"service{number}"
            coordinator = Coordinator(admin._engine, CoordinatorKind.GROUP, group)
            request = OffsetFetchRequest(
                group_id=group,
                topics=[OffsetFetchRequestTopic(name=source.topic, partition_indexes=[source.partition])],
                require_stable=True,
            )
            response = await coordinator.ask(
                request,
                lambda answer: answer.error_code or answer.topics[0].partitions[0].error_code,
                deadline=Deadline(20),
                version_max=ONE_GROUP_VERSION_MAX,
            )
            history.final_positions[group, source] = response.topics[0].partitions[0].committed_offset
