"""Transactions, seen by an administrator: ending those that producers have prepared."""

from __future__ import annotations

from kafkaraw.client.admin.calls import Calls, failure
from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.client.network.coordinator import Coordinator, CoordinatorKind
from kafkaraw.client.sending.transactions import ask_to_end
from kafkaraw.core.producer.transaction import Reaction, reaction_to
from kafkaraw.errors import ProducerFenced


class TransactionAdmin:
    """The operations on transactions.

    Args:
        calls: the way to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def end_transaction(
        self, prepared: PreparedTransaction, *, commit: bool, timeout: float | None = None
    ) -> None:
        """Commit or abort a transaction that a producer has prepared; asking for the same again does no harm.

        Args:
            prepared: what `prepare_transaction` gave.
            commit: whether its records are to be read.
            timeout: seconds; None is `default_api_timeout_ms`.

        Raises:
            ProducerFenced: it was aborted meanwhile: it took too long, or another producer has taken over its id.
            BrokerError: the coordinator refuses, as when it was ended the other way.
            KafkaError: no coordinator gave an answer in time.
        """
        who = prepared.transactional_id
        coordinator = Coordinator(self._calls.engine, CoordinatorKind.TRANSACTION, who)
        deadline = self._calls.deadline(timeout)
        code = (await ask_to_end(coordinator, prepared, commit=commit, deadline=deadline)).error_code
        what = f"{'commit' if commit else 'abort'} the transaction of {who!r}"
        if reaction_to(code) is Reaction.FENCED:
            raise ProducerFenced(
                f"{what}: it was aborted already, because it was open for too long (transaction_timeout_ms) or "
                "because another producer has taken over its transactional id"
            )
        if code:
            raise failure(code, None, what, operation="WRITE")
