"""`Transactions`: the calls of a transactional producer.

`TransactionManager` has the state and asks the coordinators, the `Sender` sends the records; this module puts both into
the order that a transaction needs. Only a producer with a `transactional_id` imports it. Start at `Transactions.end`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kafkaraw.client.committed import GroupMetadata, PreparedTransaction
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.sending.sender import Sender
from kafkaraw.client.sending.transactions import Offsets, TransactionManager
from kafkaraw.core.producer.events import (
    ProducerIdentity,
    ProducerIdReceived,
    TransactionAborts,
    TransactionBegun,
    TransactionEnded,
    Unacknowledged,
)
from kafkaraw.core.producer.transaction import Change, Phase
from kafkaraw.errors import DeliveryError, KafkaError, KafkaTimeoutError, UsageError

log: logging.Logger = logging.getLogger(__name__)


class Transactions:
    """The calls of a transactional producer: in which order records, coordinator and machine are asked.

    One call at a time: a second one begins when the first is over. A late abort would otherwise end the next
    transaction, which its commit then takes for one without records.

    Args:
        manager: has the state, and asks the coordinator.
        sender: sends the records.
        engine: has the default timeout.
    """

    def __init__(self, manager: TransactionManager, sender: Sender, engine: Engine) -> None:
        self._manager = manager
        self._machine = manager.machine
        self._sender = sender
        self._engine = engine
        self._call = asyncio.Lock()
        self._ends = 0  # how many transactions have ended
        self._last_was_committed = False

    async def init(self, timeout: float | None) -> None:
        """Take over the transactional id; see `AsyncProducer.init_transactions`."""
        deadline = self._engine.deadline(timeout)
        async with self._alone(deadline, "init_transactions"):
            if self._machine.phase not in (Phase.NEW, Phase.PREPARED):
                raise UsageError("init_transactions() has been called already, once is enough")
            self._adopt(await self._manager.init_producer_id(deadline))
            self._machine.change(Change.INITIALISED)

    async def fence(self, timeout: float | None) -> ProducerIdentity:
        """Take over the transactional id for a producer of another process, which gets the identity.

        This producer makes no transactions. Each call fences the identity that the call before has returned.

        Raises:
            KafkaTimeoutError: the coordinator did not answer in time.
            BrokerError: the coordinator refuses.
        """
        deadline = self._engine.deadline(timeout)
        async with self._alone(deadline, "fence"):
            return await self._manager.init_producer_id(deadline)

    def continue_as(self, identity: ProducerIdentity) -> None:
        """Make transactions with the identity that another process got by `fence`, in place of `init`.

        An identity is for one producer: two of them would use the same sequence numbers.

        Raises:
            UsageError: the producer has an identity.
        """
        if self._machine.phase is not Phase.NEW:
            raise UsageError("continue_as() must be called before the first transaction, and instead of init()")
        self._adopt(identity)
        self._machine.change(Change.INITIALISED)

    async def begin(self) -> None:
        """Begin a transaction; see `AsyncProducer.begin_transaction`."""
        deadline = self._engine.deadline(None)
        async with self._alone(deadline, "begin_transaction"):
            if self._machine.phase is Phase.READY:
                await self._manager.learn_version(deadline)
            self._manager.begin()
            self._sender.receive(TransactionBegun(self._manager.implicit))
            self._manager.resume()

    async def send_offsets(self, offsets: Offsets, group: str | GroupMetadata, timeout: float | None) -> None:
        """Make offsets part of the transaction; see `AsyncProducer.send_offsets_to_transaction`."""
        deadline = self._engine.deadline(timeout)
        async with self._alone(deadline, "send_offsets_to_transaction"):
            await self._manager.send_offsets(offsets, group, deadline)

    async def end(self, *, commit: bool, timeout: float | None) -> None:
        """Commit or abort; see `AsyncProducer.commit_transaction` and `abort_transaction`."""
        deadline, ends = self._engine.deadline(timeout), self._ends
        what = "commit_transaction" if commit else "abort_transaction"
        async with self._alone(deadline, what):
            if self._ends == ends:
                await self._end(commit=commit, deadline=deadline)
            elif self._last_was_committed is not commit:
                raise UsageError(f"{what}: another call has ended the transaction meanwhile")

    @asynccontextmanager
    async def _alone(self, deadline: Deadline, what: str) -> AsyncIterator[None]:
        """Wait until the calls before this one are over.

        Raises:
            KafkaTimeoutError: one of them takes too long.
        """
        try:
            async with asyncio.timeout(deadline.remaining):
                await self._call.acquire()
        except TimeoutError:
            raise KafkaTimeoutError(f"{what}: an earlier call for the transaction has not returned yet") from None
        try:
            yield
        finally:
            self._call.release()

    async def _end(self, *, commit: bool, deadline: Deadline) -> None:
        if commit:
            await self._settle(deadline, "commit_transaction")
            self._machine.change(Change.COMMITS)
        else:
            self._machine.change(Change.ABORTS)
            self._manager.pause()
            self._sender.receive(TransactionAborts(_aborted))
            await self._sender.settle_all(deadline, "abort_transaction")
        identity = await self._manager.end(commit=commit, deadline=deadline)
        if identity is not None:
            self._adopt(identity)
        else:
            self._sender.receive(TransactionEnded())
        self._machine.change(Change.ENDED)
        self._ends, self._last_was_committed = self._ends + 1, commit

    async def prepare(self, timeout: float | None) -> PreparedTransaction | None:
        """Let another process end the transaction; see `AsyncProducer.prepare_transaction`."""
        deadline = self._engine.deadline(timeout)
        async with self._alone(deadline, "prepare_transaction"):
            await self._settle(deadline, "prepare_transaction")
            self._machine.change(Change.PREPARES)
            return self._manager.prepared

    async def roll_back(self, error: BaseException) -> None:
        """Abort because of an error that is on its way to the user, as far as there is anything to abort."""
        if self._machine.is_ongoing:
            try:
                await self.end(commit=False, timeout=None)
            except KafkaError as problem:
                error.add_note(f"while aborting the transaction: {problem}")

    async def abandon(self, timeout: float | None) -> None:
        """Abort what is open, because the producer is being closed; the coordinator does it later if this fails."""
        if self._machine.is_ongoing:
            transactional_id = self._manager.transactional_id
            log.info("aborting the open transaction of %r: the producer is closed", transactional_id)
            try:
                await self.end(commit=False, timeout=timeout)
            except KafkaError as error:
                log.warning("the transaction of %r was not aborted: %s", transactional_id, error)

    async def _settle(self, deadline: Deadline, what: str) -> None:
        """Take no more records, then wait until those that were taken have an outcome.

        In this order: a record that is taken meanwhile, as by a callback, would be sent behind the transaction's end.
        If the wait ends early, the transaction still takes no records: it is settled again, or aborted.
        """
        if self._machine.phase in (Phase.OPEN, Phase.SETTLING):
            self._machine.change(Change.SETTLES)
            self._manager.pause()
            await self._sender.settle_all(deadline, what)

    def _adopt(self, identity: ProducerIdentity) -> None:
        self._manager.adopt(identity)
        self._sender.receive(ProducerIdReceived(identity))
        self._sender.receive(TransactionEnded(identity))


def _aborted(entry: Unacknowledged) -> KafkaError:
    return DeliveryError(f"{entry}: the transaction was aborted before they were sent", unacknowledged=(entry,))
