"""Carries out what the producer machine wants done on the network; each thing done ends in one event for the machine.

Produce requests to one node reach the wire in the order in which they were given: they wait together for the
connection, and then start one after the other. Nothing here decides or retries. Start at `Outbox.send`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Final

from kafkaraw.client.config import ProducerConfig
from kafkaraw.client.network.connection import Connection
from kafkaraw.client.network.engine import Engine, reply
from kafkaraw.client.sending.transactions import PRODUCE_VERSION_EXPLICIT, Transactions
from kafkaraw.core.producer.events import (
    Answered,
    Event,
    MetadataRefreshed,
    ProducerIdentity,
    ProducerIdGiven,
    ProducerIdRefused,
    RequestLost,
    SendProduce,
)
from kafkaraw.core.producer.requests import outcomes_of, produce_request, unanswered
from kafkaraw.errors import (
    AuthorizationError,
    KafkaError,
    RetriableError,
    StaleMetadataError,
    UnsupportedVersionError,
)
from kafkaraw.protocol.error_codes import error_for, error_name
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkaraw.protocol.messages.produce import ProduceResponse
from kafkaraw.protocol.produce_frames import Produce, Written
from kafkaraw.records import TopicPartition

_PRODUCE_KEY: Final = 0


class Outbox:
    """The producer's hands on the network.

    Args:
        engine: the way to the brokers.
        config: for acks and timeouts.
        tell: takes the event with which each thing ends; called on the loop.
        give_up: takes an error that is none of Kafka's: a fault in this program, after which no event will come.

    Attributes:
        transactions: the producer's, when it is transactional.
    """

    def __init__(
        self,
        engine: Engine,
        config: ProducerConfig,
        tell: Callable[[Event], None],
        give_up: Callable[[BaseException], None],
    ) -> None:
        self._engine = engine
        self._acks = config.acks
        self._timeout_ms = config.request_timeout_ms
        self._timeout = config.request_timeout_ms / 1000
        self._tell = tell
        self._give_up = give_up
        self.transactions: Transactions | None = None
        self._waiting: dict[int, deque[SendProduce]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def send(self, action: SendProduce) -> None:
        """Send a produce request; ends in `Answered` or `RequestLost`."""
        waiting = self._waiting.get(action.node_id)
        if not waiting:
            connection = self._engine.open_connection(action.node_id)
            if connection is not None:
                self._exchange(connection, action)
                return
        if waiting is None:
            waiting = self._waiting[action.node_id] = deque()
        waiting.append(action)
        if len(waiting) == 1:
            self._spawn(self._send_waiting(action.node_id, waiting), f"produce to {action.node_id}")

    def ask_producer_id(self) -> None:
        """Get a producer id; ends in `ProducerIdGiven` or `ProducerIdRefused`."""
        self._spawn(self._ask_producer_id(), "producer id")

    def add_partitions(self, transactions: Transactions, partitions: frozenset[TopicPartition]) -> None:
        """Make partitions part of the transaction; ends in `PartitionsAdded`."""
        self._spawn(transactions.add_partitions(partitions), "partitions of the transaction")

    def refresh(self, topics: frozenset[str]) -> None:
        """Refresh metadata; ends in `MetadataRefreshed`."""
        self._spawn(self._refresh(topics), "producer metadata")

    async def close(self) -> None:
        """Drop everything under way, without events."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[object, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._give_up(error)

    async def _send_waiting(self, node_id: int, waiting: deque[SendProduce]) -> None:
        try:
            connection = await self._engine.connection(node_id, timeout=self._timeout)
        except KafkaError as error:
            while waiting:
                self._tell(_lost(waiting.popleft(), error, maybe_written=False))
            return
        while waiting:
            self._exchange(connection, waiting.popleft())

    def _exchange(self, connection: Connection, action: SendProduce) -> None:
        """Send one request; there is no task for it, because one for each batch costs as much as the batch."""
        try:
            self._submit(connection, action)
        except KafkaError as error:
            self._lost(action, error)
        except Exception as error:  # noqa: BLE001 - told to whoever gives up, who logs it
            self._give_up(error)

    def _submit(self, connection: Connection, action: SendProduce) -> None:
        transactions, version = self.transactions, None
        request = produce_request(
            action,
            self._engine.cluster,
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            transactional_id=None if transactions is None else transactions.transactional_id,
        )
        if transactions is not None and not transactions.implicit:
            version = min(PRODUCE_VERSION_EXPLICIT, connection.version_for(_PRODUCE_KEY))

        def answered(outcome: object) -> None:
            if not self._closed:
                self._answered(action, request, outcome)

        connection.submit(request, answered, version=version, timeout=self._timeout, oneway=self._acks == 0)

    def _answered(self, action: SendProduce, request: Produce, outcome: object) -> None:
        try:
            if isinstance(outcome, KafkaError):
                raise outcome
            if outcome is None:  # acks=0, and the bytes have left
                self._tell(Answered(action.request_id, unanswered(action)))
                return
            response = outcome if type(outcome) is Written else reply(outcome, ProduceResponse)
            outcomes = outcomes_of(request, response, self._engine.cluster, action.node_id)
            self._tell(Answered(action.request_id, outcomes))
        except KafkaError as error:
            self._lost(action, error)
        except Exception as error:  # noqa: BLE001 - told to whoever gives up, who logs it
            self._give_up(error)

    def _lost(self, action: SendProduce, error: KafkaError) -> None:
        self._tell(_lost(action, error, maybe_written=not isinstance(error, UnsupportedVersionError)))

    async def _ask_producer_id(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=self._timeout_ms, producer_id=-1, producer_epoch=-1
        )
        try:
            answer = reply(await self._engine.request_any(request, timeout=self._timeout), InitProducerIdResponse)
            if answer.error_code:
                raise error_for(
                    answer.error_code,
                    "no producer id (WRITE on any topic gives one, and enable_idempotence=False does without)",
                    operation="IDEMPOTENT_WRITE",
                )
        except KafkaError as error:
            self._tell(ProducerIdRefused(error, retriable=isinstance(error, RetriableError)))
        else:
            self._tell(ProducerIdGiven(ProducerIdentity(answer.producer_id, answer.producer_epoch)))

    async def _refresh(self, topics: frozenset[str]) -> None:
        problem: KafkaError | None = None
        refused: dict[str, KafkaError] = {}
        try:
            await self._engine.refresh(topics, timeout=self._timeout)
        except KafkaError as error:
            problem = error
        else:
            cluster = self._engine.cluster
            bad = {topic: error_name(cluster.error_of(topic)) for topic in sorted(topics) if cluster.error_of(topic)}
            if bad:
                problem = StaleMetadataError(f"metadata: {', '.join(f'topic {t!r} {name}' for t, name in bad.items())}")
            errors = {topic: _refusal(topic, cluster.error_of(topic)) for topic in bad}
            refused = {topic: error for topic, error in errors.items() if isinstance(error, AuthorizationError)}
        self._tell(MetadataRefreshed(problem, refused))


def _refusal(topic: str, code: int) -> KafkaError:
    return error_for(code, f"topic {topic!r}", resource=topic, operation="DESCRIBE")


def _lost(action: SendProduce, error: KafkaError, *, maybe_written: bool) -> RequestLost:
    return RequestLost(action.request_id, error, maybe_written, retriable=isinstance(error, RetriableError))
