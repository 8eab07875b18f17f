"""Sends what handlers return, copies for retry topics and dead letters, and commits offsets.

Two ways: `Sender` sends at once, and a record is done when all is acknowledged; then its offset may be committed
(`CommittingSender`), or the record acknowledged to its share group.
`TransactionalSender` keeps what is to be sent until the offset may be committed, and does both in one transaction. An
error that retries may fix is not raised: the call sends again until it succeeds or is cancelled, because the offset
must not pass a record whose results are not in the log. Start at `Sender.send` and `TransactionalSender.commit`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.client.interceptors import ProducerRecord
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import (
    BrokerError,
    ClosedError,
    DeliveryError,
    KafkaError,
    ProducerFencedError,
    RetriableError,
    TransactionAbortableError,
    TransactionError,
    UnknownTopicError,
    UsageError,
)
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import Ticket

if TYPE_CHECKING:
    from kafkaraw.client.committed import GroupMetadata
    from kafkaraw.client.consumer import AsyncConsumer
    from kafkaraw.worker.schedule import CommitPlan, WorkItem

log: logging.Logger = logging.getLogger("kafkaraw.worker")

_BACKOFF: Final = Backoff(100, 5_000)
"""Between two tries to send; each one has taken `delivery_timeout_ms` already."""


_REFUSES_RECORD: Final = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
    }
)


_OF_TRANSACTION: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
"""Errors of records whose transaction is over, for example because it has timed out: the next one may succeed."""


class RefusedError(Exception):
    """A record can never be sent: it is too large, or has a field of the wrong type.

    Args:
        cause: the error of the producer or the broker.
        item: in a transaction: the record whose handler returned it.
    """

    def __init__(self, cause: KafkaError, item: WorkItem | None = None) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.item = item


class Sender:
    """Sends records until they are acknowledged.

    Args:
        producer: sends them.

    Attributes:
        failing: the number of calls whose last try has failed.
    """

    def __init__(self, producer: AsyncProducer) -> None:
        self.failing: int = 0
        self._producer = producer

    async def send(self, records: Sequence[ProducerRecord]) -> None:
        """Send records in order, and wait until all of them are acknowledged.

        Raises:
            RefusedError: one of them can never be sent; others may be in the log.
            KafkaError: the broker refuses one for good: no such topic, no permission.
        """
        left, tries, is_failing = list(records), 0, False
        try:
            while left:
                error, left = await self._try(left)
                if error is None:
                    continue
                self.failing += not is_failing
                is_failing = True
                log.warning("%d records for %s are not sent yet: %s", len(left), left[0].topic, error)
                await asyncio.sleep(_BACKOFF.delay_ms(tries, _NO_JITTER) / 1000)
                tries += 1
        finally:
            self.failing -= is_failing

    async def _try(self, records: list[ProducerRecord]) -> tuple[RetriableError | None, list[ProducerRecord]]:
        """Send once; return the error and the records to send again: from the first one that failed, in order."""
        tickets: list[Ticket] = []
        problem: BaseException | None = None
        for record in records:
            try:
                tickets.append(await send(self._producer, record))
            except KafkaError as error:
                problem = error
                break
        failed_from = len(tickets)
        for number, ticket in enumerate(tickets):
            try:
                await ticket
            except KafkaError as error:
                if number < failed_from:
                    failed_from, problem = number, error
        if problem is None:
            return None, []
        if isinstance(problem, RetriableError):
            return problem, records[failed_from:]
        if isinstance(problem, KafkaError) and _is_about_the_record(problem):
            raise RefusedError(problem) from problem
        raise problem


class CommittingSender(Sender):
    """Sends records until they are acknowledged, and commits offsets.

    Args:
        producer: sends them.
        consumer: commits offsets.
        commit_timeout_s: the longest commit, in seconds.
    """

    def __init__(self, producer: AsyncProducer, consumer: AsyncConsumer, commit_timeout_s: float) -> None:
        super().__init__(producer)
        self._consumer = consumer
        self._commit_timeout_s = commit_timeout_s

    async def commit(self, plan: CommitPlan, _member: GroupMetadata) -> None:
        """Commit offsets.

        Raises:
            KafkaError: nothing was committed, or it is not known.
        """
        if plan.offsets:
            await self._consumer.commit(plan.offsets, self._commit_timeout_s)

    def nothing_to_commit(self) -> None:
        """All that is done is committed: nothing to do here."""


class TransactionalSender:
    """Sends results, and commits offsets, in one transaction at a time.

    Args:
        producer: with a `transactional_id`.

    Attributes:
        failing: 1 if the last transaction was aborted, else 0.
    """

    def __init__(self, producer: AsyncProducer) -> None:
        self.failing: int = 0
        self._producer = producer
        self._is_open = False

    async def commit(self, plan: CommitPlan, member: GroupMetadata) -> None:
        """Send the results of the plan's records, and commit its offsets.

        Args:
            plan: what to commit.
            member: the consumer when the plan was made: a member that has lost its partitions since is fenced.

        Raises:
            RefusedError: a result can never be sent; nothing was committed.
            TransactionAbortableError: it was aborted, the next one may succeed; nothing was committed.
            ProducerFencedError: a newer producer has the transactional id.
            KafkaError: nothing was committed.
        """
        if not plan.offsets:
            return
        sent: list[tuple[WorkItem, Ticket]] = []
        try:
            await self._abort()  # a transaction whose abort has failed
            await self._producer.begin_transaction()
            self._is_open = True
            await self._fill(plan.items, sent)
            await self._producer.send_offsets_to_transaction(plan.offsets, member)
            await self._end()
            self._is_open = False
        except ProducerFencedError:
            raise
        except (KafkaError, RefusedError) as error:
            self.failing = 1
            permanent = _permanent(sent)  # before the abort, which fails records that are not sent yet
            await self._abort()
            if permanent is not None:
                raise permanent from error
            if isinstance(error, DeliveryError) or (isinstance(error, BrokerError) and error.code in _OF_TRANSACTION):
                raise TransactionAbortableError(f"the transaction was aborted: {error}") from error
            raise
        self.failing = 0

    def nothing_to_commit(self) -> None:
        """All that is done is committed, or its partitions were revoked: the last failure is over."""
        self.failing = 0

    async def _fill(self, items: Sequence[WorkItem], sent: list[tuple[WorkItem, Ticket]]) -> None:
        for item in items:
            for record in item.results:
                try:
                    sent.append((item, await send(self._producer, record)))
                except KafkaError as error:
                    if not _is_about_the_record(error):
                        raise
                    raise RefusedError(error, item) from error

    async def _end(self) -> None:
        """Commit; while the outcome is not known, ask again: an abort might contradict it."""
        while True:
            try:
                await self._producer.commit_transaction()
                return
            except TransactionError:
                raise
            except RetriableError as error:
                self.failing = 1
                log.warning("the outcome of a transaction is not known yet: %s", error)

    async def _abort(self) -> None:
        if self._is_open:
            await self._producer.abort_transaction()
            self._is_open = False


def _is_about_the_record(error: KafkaError) -> bool:
    """Whether an error says that the record itself can never be sent, to this topic with its configuration."""
    if isinstance(error, BrokerError):
        return error.code in _REFUSES_RECORD
    return isinstance(error, UsageError) and not isinstance(error, ClosedError)


def _permanent(sent: Sequence[tuple[WorkItem, Ticket]]) -> Exception | None:
    """Return the error of a record that the broker refuses for good, which has made the transaction fail."""
    for item, ticket in sent:
        problem = ticket.exception() if ticket.done else None
        if isinstance(problem, KafkaError) and _is_about_the_record(problem):
            return RefusedError(problem, item)
        is_of_transaction = isinstance(problem, BrokerError) and problem.code in _OF_TRANSACTION
        if isinstance(problem, BrokerError | UnknownTopicError) and not (
            is_of_transaction or isinstance(problem, RetriableError)
        ):
            return problem
    return None


async def send(producer: AsyncProducer, record: ProducerRecord) -> Ticket:
    """Send a record."""
    return await producer.send(
        record.topic,
        record.value,
        record.key,
        headers=record.headers,
        partition=record.partition,
        timestamp_ms=record.timestamp_ms,
    )


class _NoJitter:
    """Waits of exactly the nominal time: one worker retries, not many."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


_NO_JITTER: Final = _NoJitter()
