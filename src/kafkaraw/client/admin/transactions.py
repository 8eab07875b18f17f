"""Transactions for the admin client: list them, end those that producers have prepared, fence producers.

Source: KIP-664 (ListTransactions); Kafka's Admin.listTransactions and Admin.fenceProducers.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from kafkaraw.client.admin.calls import Calls, failure, names_of
from kafkaraw.client.arguments import instance_of
from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.client.network.coordinator import Coordinator, CoordinatorKind
from kafkaraw.errors import (
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    ProducerFencedError,
    StaleMetadataError,
    UsageError,
)
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.list_transactions import ListTransactionsRequest

_FENCING_TIMEOUT_MS: Final = 60_000
"""The transaction timeout that a fenced id keeps; it begins no transaction."""


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
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def list_transactions(
        self, *, states: Iterable[str] = (), timeout: float | None = None
    ) -> list[TransactionListing]:
        engine, deadline = self._calls.engine, self._calls.deadline(timeout)
        request = ListTransactionsRequest(state_filters=names_of(states), producer_id_filters=[])
        found: dict[str, TransactionListing] = {}

        async def ask(node_id: int) -> KafkaError | None:
            if node_id not in engine.cluster.brokers:
                return None  # it has left the cluster, and other brokers coordinate its transactions
            seconds = deadline.at_most(engine.config.request_timeout_ms / 1000)
            try:
                answer = await engine.request(node_id, request, timeout=seconds)
            except (NetworkError, KafkaTimeoutError, StaleMetadataError) as error:
                return error
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

        async def once(nodes: Sequence[int]) -> dict[int, KafkaError]:
            outcomes = await asyncio.gather(*map(ask, nodes))
            return {node_id: error for node_id, error in zip(nodes, outcomes, strict=True) if error is not None}

        await engine.refresh((), timeout=deadline.remaining)
        await self._calls.each(sorted(engine.cluster.brokers), once, deadline)
        return [one for _, one in sorted(found.items())]

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
