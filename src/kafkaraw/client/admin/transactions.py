"""Transactions for the admin client: list and describe them, end those that producers have prepared, fence producers.

`producers` has the producer states of partitions, and ends transactions that no coordinator ends.
Source: KIP-664, KIP-994, KIP-1152; Kafka's Admin.listTransactions, describeTransactions and fenceProducers.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from kafkaraw.client.admin.calls import Calls, failure, names_of
from kafkaraw.client.admin.producers import OpenTransaction, ProducerAdmin
from kafkaraw.client.arguments import instance_of, list_of
from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.client.network.coordinator import Coordinator, CoordinatorKind
from kafkaraw.errors import KafkaError, ProducerFencedError, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.list_transactions import ListTransactionsRequest
from kafkaraw.records import TopicPartition

_NO_DURATION: Final = -1
_FENCING_TIMEOUT_MS: Final = 60_000
"""The transaction timeout that a fenced id keeps; it begins no transaction."""


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id at its coordinator.

    Attributes:
        transactional_id: the id.
        coordinator: the broker that coordinates it.
        state: Kafka's name of the state, such as "Ongoing" or "CompleteCommit".
        producer_id: the id of its producer.
        producer_epoch: the epoch of that producer.
        timeout_ms: the coordinator aborts a transaction that is open for longer, in milliseconds.
        start_time_ms: when the open transaction began, in milliseconds since 1970; None if there is none.
        partitions: the partitions of the open transaction.
    """

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id and its state at the transaction coordinator.

    Attributes:
        transactional_id: the id.
        producer_id: the id of its producer.
        state: Kafka's name of the state, such as "Ongoing" or "CompleteCommit".
    """

    transactional_id: str
    producer_id: int
    state: str


class TransactionAdmin:
    """The operations on transactions.

    Args:
        calls: sends the requests to the cluster.
        producers: asks partitions for their producers.
    """

    def __init__(self, calls: Calls, producers: ProducerAdmin) -> None:
        self._calls = calls
        self._producers = producers

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
        timeout: float | None = None,
    ) -> list[TransactionListing]:
        deadline = self._calls.deadline(timeout)
        request = ListTransactionsRequest(
            state_filters=names_of(states),
            producer_id_filters=list_of(producer_ids, int, "list_transactions", "1000"),
            duration_filter=_NO_DURATION if longer_than_ms is None else longer_than_ms,
            transactional_id_pattern=pattern,
        )
        found: dict[str, TransactionListing] = {}

        async def ask(node_id: int) -> KafkaError | None:
            answer = await self._calls.ask_node(node_id, request, deadline)
            if answer.unknown_state_filters:
                unknown = ", ".join(map(repr, answer.unknown_state_filters))
                return UsageError(
                    f"list_transactions: broker {node_id} knows no state {unknown}; states are those of Kafka, as "
                    f"'Ongoing', 'PrepareCommit' and 'CompleteAbort'"
                )
            if answer.error_code:
                return failure(answer.error_code, None, f"list the transactions of broker {node_id}")
            for one in answer.transaction_states:
                found[one.transactional_id] = TransactionListing(
                    one.transactional_id, one.producer_id, one.transaction_state
                )
            return None

        await self._calls.each_broker(ask, deadline)
        return [one for _, one in sorted(found.items())]

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        names, deadline = names_of(transactional_ids), self._calls.deadline(timeout)
        found: dict[str, TransactionDescription] = {}

        async def describe(transactional_id: str) -> KafkaError | None:
            coordinator = Coordinator(self._calls.engine, CoordinatorKind.TRANSACTION, transactional_id)
            request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
            try:
                answer = await coordinator.ask(request, _only_code, deadline=deadline)
                node_id = await coordinator.node_id(deadline.remaining)
            except KafkaError as error:
                return error
            code = _only_code(answer)
            if code:
                what = f"describe the transaction of {transactional_id!r}"
                return failure(code, None, what, resource=transactional_id, operation="DESCRIBE")
            found[transactional_id] = _description(answer.transaction_states[0], node_id)
            return None

        async def once(ids: Sequence[str]) -> dict[str, KafkaError]:
            outcomes = await asyncio.gather(*map(describe, ids))
            return {each: error for each, error in zip(ids, outcomes, strict=True) if error is not None}

        await self._calls.each(names, once, deadline)
        return {name: found[name] for name in names}

    async def list_open_transactions(
        self, partitions: Iterable[TopicPartition], *, before_ms: int | None = None, timeout: float | None = None
    ) -> list[OpenTransaction]:
        deadline = self._calls.deadline(timeout)
        states = await self._producers.describe_producers(partitions, timeout=deadline.remaining)
        opened = [
            (key, each)
            for key, producers in sorted(states.items())
            for each in producers
            if each.transaction_start_offset is not None and (before_ms is None or each.last_timestamp_ms <= before_ms)
        ]
        ids = sorted({each.producer_id for _, each in opened})
        listed = await self.list_transactions(producer_ids=ids, timeout=deadline.remaining) if ids else []
        known = await self.describe_transactions([each.transactional_id for each in listed], timeout=deadline.remaining)
        names: dict[int, list[str]] = {}
        for each in listed:
            names.setdefault(each.producer_id, []).append(each.transactional_id)
        found = []
        for key, producer in opened:
            of_producer = names.get(producer.producer_id, [])
            owner = next((name for name in of_producer if key in known[name].partitions), None)
            first = of_producer[0] if of_producer else None
            found.append(OpenTransaction(key, producer, owner or first, is_hanging=owner is None))
        return found

    async def fence_producers(self, transactional_ids: Iterable[str], *, timeout: float | None = None) -> None:
        deadline = self._calls.deadline(timeout)

        async def fence(transactional_id: str) -> KafkaError | None:
            request = InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=_FENCING_TIMEOUT_MS
            )
            coordinator = Coordinator(self._calls.engine, CoordinatorKind.TRANSACTION, transactional_id)
            try:
                answer = await coordinator.ask(request, lambda each: each.error_code, deadline=deadline)
            except KafkaError as error:
                return error
            if answer.error_code:
                what = f"fence the producer of {transactional_id!r}"
                return failure(answer.error_code, None, what, resource=transactional_id, operation="WRITE")
            return None

        async def once(ids: Sequence[str]) -> dict[str, KafkaError]:
            outcomes = await asyncio.gather(*map(fence, ids))
            return {each: error for each, error in zip(ids, outcomes, strict=True) if error is not None}

        await self._calls.each(names_of(transactional_ids), once, deadline)

    async def end_transaction(
        self, prepared: PreparedTransaction, *, commit: bool, timeout: float | None = None
    ) -> None:
        # Only here: with the messages of transactions, which few programs need.
        from kafkaraw.client.sending.transactions import ask_to_end
        from kafkaraw.core.producer.transaction import Reaction, reaction_to

        instance_of(prepared, PreparedTransaction, "end_transaction", "what producer.prepare_transaction() gave")
        who = prepared.transactional_id
        coordinator = Coordinator(self._calls.engine, CoordinatorKind.TRANSACTION, who)
        deadline = self._calls.deadline(timeout)
        code = (await ask_to_end(coordinator, prepared, commit=commit, deadline=deadline)).error_code
        what = f"{'commit' if commit else 'abort'} the transaction of {who!r}"
        if reaction_to(code) is Reaction.FENCED:
            raise ProducerFencedError(
                f"{what}: the coordinator refuses, because it was open for too long (transaction_timeout_ms) or "
                f"because "
                "another producer has taken over its transactional id; it may have been committed before that"
            )
        if code:
            raise failure(code, None, what, operation="WRITE")


def _only_code(answer: DescribeTransactionsResponse) -> int:
    """Return the error code of the only transaction in a response."""
    states = answer.transaction_states
    return states[0].error_code if states else ErrorCode.UNKNOWN_SERVER_ERROR


def _description(one: TransactionState, node_id: int) -> TransactionDescription:
    return TransactionDescription(
        one.transactional_id,
        node_id,
        one.transaction_state,
        one.producer_id,
        one.producer_epoch,
        one.transaction_timeout_ms,
        one.transaction_start_time_ms if one.transaction_start_time_ms >= 0 else None,
        frozenset(TopicPartition(topic.topic, number) for topic in one.topics for number in topic.partitions),
    )
