"""A producer's transactions: the calls of its users, carried out with the coordinator.

Which call is allowed when is decided in `core.producer.transaction`; records are delivered by `delivery` as always. In
between stands this: it begins, ends, and adds partitions and offsets. Start at `init`, `begin` and `end`.

Two generations of the protocol (KIP-890), chosen by the cluster's feature `transaction.version` at each `begin`: with
the first, partitions are added before they are written to and the epoch stays; with the second, brokers add them by
themselves and every transaction ends with a new epoch.
Source: KIP-98, KIP-360, KIP-447, KIP-588, KIP-890.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from typing import Final, Protocol

from kafkaraw.client.arguments import positions_of
from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata, PreparedTransaction
from kafkaraw.client.config import ProducerConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.coordinator import Coordinator, CoordinatorKind
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.security import with_principal
from kafkaraw.core.producer.events import (
    Event,
    PartitionsAdded,
    ProducerIdentity,
    ProducerIdGiven,
    TransactionAborts,
    TransactionBegun,
    TransactionEnded,
)
from kafkaraw.core.producer.report import Unacknowledged
from kafkaraw.core.producer.transaction import Change, Phase, Reaction, TransactionMachine, reaction_to
from kafkaraw.errors import (
    DeliveryError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationError,
    UsageError,
)
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkaraw.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kafkaraw.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kafkaraw.records import TopicPartition

log = logging.getLogger(__name__)

FEATURE: Final = "transaction.version"
IMPLICIT_FROM_LEVEL: Final = 2
# The last version of each API that belongs to the first generation.
PRODUCE_VERSION_EXPLICIT: Final = 11
_END_TXN_VERSION_EXPLICIT: Final = 4
_TXN_OFFSET_COMMIT_VERSION_EXPLICIT: Final = 4
_ADD_PARTITIONS_VERSION_MAX: Final = 3  # later ones are for brokers
NO_ID: Final = -1
NOBODY: Final = ProducerIdentity(NO_ID, NO_ID)

GROUPS_MAX: Final = 100
"""Of so many consumer groups a producer remembers the coordinator."""

Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]


class RecordDelivery(Protocol):
    """What transactions ask of the delivery of records."""

    def take_records(self, taken: bool) -> None:
        """Whether `send` takes records from now on."""
        ...

    def receive(self, event: Event) -> None:
        """Tell the producer machine."""
        ...

    def settle_all(self, deadline: Deadline, what: str) -> Awaitable[None]:
        """Send everything, and wait until nothing is queued or in flight."""
        ...


class Transactions:
    """The transactions of one producer.

    Args:
        engine: the way to the cluster.
        config: with a `transactional_id`.
        delivery: of the producer's records.

    Attributes:
        implicit: brokers add partitions by themselves (KIP-890).
        transactional_id: the producer's.
    """

    def __init__(self, engine: Engine, config: ProducerConfig, delivery: RecordDelivery) -> None:
        assert config.transactional_id is not None
        self.transactional_id = config.transactional_id
        self.implicit = False
        self._engine = engine
        self._config = config
        self._delivery = delivery
        self._machine = TransactionMachine()
        self._coordinator = Coordinator(engine, CoordinatorKind.TRANSACTION, self.transactional_id)
        self._groups: dict[str, Coordinator] = {}
        self._identity = NOBODY
        self._used = False

    # ---- calls of the user

    async def init(self, timeout: float | None) -> None:
        """Take over the transactional id; see `AsyncProducer.init_transactions`."""
        if self._machine.phase not in (Phase.NEW, Phase.PREPARED):
            raise UsageError("init_transactions() has been called already, once is enough")
        self._identity = NOBODY
        self._adopt(await self._ask_identity(self._identity, self._engine.deadline(timeout)))
        self._machine.change(Change.INITIALISED)

    async def begin(self) -> None:
        """Begin a transaction; see `AsyncProducer.begin_transaction`."""
        if self._machine.phase is Phase.READY:
            timeout = self._config.request_timeout_ms / 1000
            node_id = await self._coordinator.node_id(timeout)
            connection = await self._engine.connection(node_id, timeout=timeout)
            self.implicit = connection.api_versions.features.get(FEATURE, 0) >= IMPLICIT_FROM_LEVEL
        self._machine.change(Change.BEGUN)
        self._used = False
        self._delivery.receive(TransactionBegun(self.implicit))
        self._delivery.take_records(True)

    async def end(self, *, commit: bool, timeout: float | None) -> None:
        """Commit or abort; see `AsyncProducer.commit_transaction` and `abort_transaction`."""
        deadline = self._engine.deadline(timeout)
        if commit:
            await self._settle(deadline, "commit_transaction")
            self._machine.change(Change.COMMITS)
        else:
            self._machine.change(Change.ABORTS)
            self._delivery.take_records(False)
            self._delivery.receive(TransactionAborts(_aborted))
            await self._delivery.settle_all(deadline, "abort_transaction")
        identity: ProducerIdentity | None = None
        if self._used:
            identity = await self._end_txn(commit=commit, deadline=deadline)
            self._used = False  # should the next step not succeed in time: its epoch may be in force by the next call
        if identity is None and (self._machine.cause is not None or self._machine.has_offsets_in_doubt):
            # What was written under this epoch is not known for certain, and requests of it may still arrive: the next
            # epoch fences them (KIP-360).
            identity = await self._ask_identity(self._identity, deadline)
        self._machine.change(Change.ENDED)
        if identity is not None:
            self._adopt(identity)
        else:
            self._delivery.receive(TransactionEnded())

    async def prepare(self, timeout: float | None) -> PreparedTransaction | None:
        """Leave it to somebody else to end the transaction; see `AsyncProducer.prepare_transaction`."""
        await self._settle(self._engine.deadline(timeout), "prepare_transaction")
        self._machine.change(Change.PREPARES)
        if not self._used:
            return None
        return PreparedTransaction(
            self.transactional_id, self._identity.producer_id, self._identity.epoch, self.implicit
        )

    async def _settle(self, deadline: Deadline, what: str) -> None:
        """Take no more records, then wait until those that were taken have an outcome.

        In this order: a record that is taken meanwhile, as by a callback, would be sent behind the transaction's end.
        If the wait ends early, the transaction still takes no records: it is settled again, or aborted.
        """
        if self._machine.phase in (Phase.OPEN, Phase.SETTLING):
            self._machine.change(Change.SETTLES)
            self._delivery.take_records(False)
            await self._delivery.settle_all(deadline, what)

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
            log.info("aborting the open transaction of %r: the producer is closed", self.transactional_id)
            try:
                await self.end(commit=False, timeout=timeout)
            except KafkaError as error:
                log.warning("the transaction of %r was not aborted: %s", self.transactional_id, error)

    async def send_offsets(self, offsets: Offsets, group: str | GroupMetadata, timeout: float | None) -> None:
        """Make positions part of the transaction; see `AsyncProducer.send_offsets_to_transaction`."""
        positions = positions_of(offsets, "send_offsets_to_transaction")
        who = GroupMetadata(group) if isinstance(group, str) and group else group
        if not isinstance(who, GroupMetadata):
            raise UsageError(
                f"send_offsets_to_transaction: group {who!r:.80} must be a group id, or what consumer.group_metadata() "
                f"gives"
            )
        deadline = self._engine.deadline(timeout)
        topics = _offset_topics(positions)
        attempt = self._machine.offsets_sent(who.group_id, positions)
        if not positions:
            return
        self._used = True
        if not self.implicit:
            await self._add_group(who.group_id, deadline)
        await self._commit_offsets(topics, who, deadline)
        self._machine.offsets_stored(attempt)

    # ---- what the delivery tells

    def check_open(self) -> None:
        """Refuse a record outside of a transaction; raises as `TransactionMachine.change`."""
        self._machine.check_open()

    def note_sent(self) -> None:
        """Records are on their way to a broker: from here on there is something to end."""
        self._used = True

    def note_failure(self, error: KafkaError) -> None:
        """Records of the transaction were given up."""
        if isinstance(error, ProducerFencedError | TransactionalIdAuthorizationError):
            self._machine.break_down(error)
        else:
            self._machine.fail(error)
        self._delivery.take_records(False)

    def note_break(self, error: KafkaError) -> None:
        """The producer stopped working: what became of the open transaction's records is unknown, so nothing ends it.

        The coordinator aborts it: after its timeout, or when another producer takes the transactional id over.
        """
        self._machine.break_down(error)

    async def add_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """Make partitions part of the transaction, for as long as records may wait for that."""
        self._used = True
        problem: KafkaError | None = None
        try:
            await self._add_partitions(partitions, Deadline(self._config.delivery_timeout_ms / 1000))
        except KafkaError as error:
            problem = error
            self.note_failure(error)
        self._delivery.receive(PartitionsAdded(partitions, problem))

    # ---- requests

    def _adopt(self, identity: ProducerIdentity) -> None:
        self._identity = identity
        self._delivery.receive(ProducerIdGiven(identity))
        self._delivery.receive(TransactionEnded(identity))

    async def _ask_identity(self, current: ProducerIdentity, deadline: Deadline) -> ProducerIdentity:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
            producer_id=current.producer_id,
            producer_epoch=current.epoch,
        )
        response = await self._coordinator.ask(request, lambda answer: answer.error_code, deadline=deadline)
        self._check(response.error_code, "init_transactions")
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    async def _end_txn(self, *, commit: bool, deadline: Deadline) -> ProducerIdentity | None:
        response = await ask_to_end(
            self._coordinator,
            PreparedTransaction(self.transactional_id, *self._identity, self.implicit),
            commit=commit,
            deadline=deadline,
        )
        if not commit and response.error_code == ErrorCode.INVALID_TXN_STATE:
            return None  # nothing had reached the coordinator: there is nothing to abort
        self._check(response.error_code, "commit_transaction" if commit else "abort_transaction")
        if response.producer_id == NO_ID:
            return None
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    async def _add_partitions(self, partitions: frozenset[TopicPartition], deadline: Deadline) -> None:
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(partitions):
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=them) for name, them in topics.items()],
        )
        response = await self._coordinator.ask(
            request,
            _code_of_partitions,
            deadline=deadline,
            version_max=_ADD_PARTITIONS_VERSION_MAX,
        )
        names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions))
        self._check(_code_of_partitions(response), f"adding {names} to the transaction")

    async def _add_group(self, group_id: str, deadline: Deadline) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            group_id=group_id,
        )
        response = await self._coordinator.ask(request, lambda answer: answer.error_code, deadline=deadline)
        self._check(response.error_code, f"adding group {group_id!r} to the transaction")

    def _coordinator_of_group(self, group_id: str) -> Coordinator:
        """The group's coordinator, which knows its broker from the last call; the group used last stays longest."""
        coordinator = self._groups.pop(group_id, None) or Coordinator(self._engine, CoordinatorKind.GROUP, group_id)
        self._groups[group_id] = coordinator
        if len(self._groups) > GROUPS_MAX:
            del self._groups[next(iter(self._groups))]
        return coordinator

    async def _commit_offsets(
        self, topics: list[TxnOffsetCommitRequestTopic], who: GroupMetadata, deadline: Deadline
    ) -> None:
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=who.group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            generation_id=who.generation_id,
            member_id=who.member_id,
            group_instance_id=who.group_instance_id,
            topics=topics,
        )
        response = await self._coordinator_of_group(who.group_id).ask(
            request,
            _code_of_offsets,
            deadline=deadline,
            version_max=None if self.implicit else _TXN_OFFSET_COMMIT_VERSION_EXPLICIT,
        )
        self._check(_code_of_offsets(response), f"committing offsets of group {who.group_id!r} in the transaction")

    def _check(self, code: int, what: str) -> None:
        """Turn a coordinator's refusal into the error that says what to do: abort, or make a new producer.

        Raises:
            ProducerFencedError: another producer has taken over.
            TransactionAbortableError: the transaction has to be aborted.
            KafkaError: nothing will succeed any more.
        """
        reaction = reaction_to(code)
        if reaction is Reaction.NONE:
            return
        of_id = code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        advice = "; this producer can do nothing any more, make a new one" if reaction is Reaction.FATAL else ""
        if code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            advice += f" with less than transaction_timeout_ms={self._config.transaction_timeout_ms}"
        cause = with_principal(
            error_for(
                code,
                f"{what}: transactional id {self.transactional_id!r}{advice}",
                resource=self.transactional_id if of_id else "",
                operation="WRITE" if of_id else "",
            ),
            self._config,
        )
        if reaction is Reaction.ABORT:
            self._machine.fail(cause)
            self._delivery.take_records(False)
            hint = self._timeout_hint if code == ErrorCode.INVALID_TXN_STATE else ""
            raise TransactionAbortableError(f"call abort_transaction(): {cause}{hint}") from cause
        error: KafkaError = cause
        if reaction is Reaction.FENCED:
            error = ProducerFencedError(
                f"another producer has taken over the transactional id {self.transactional_id!r}{self._timeout_hint}; "
                f"make a new one if this is the one that should go on: {cause}"
            )
        self._machine.break_down(error)
        self._delivery.take_records(False)
        raise error from cause

    @property
    def _timeout_hint(self) -> str:
        return (
            f", or the transaction was open for too long (transaction_timeout_ms={self._config.transaction_timeout_ms})"
        )


async def ask_to_end(
    coordinator: Coordinator, transaction: PreparedTransaction, *, commit: bool, deadline: Deadline
) -> EndTxnResponse:
    """Have a transaction ended; the answer's code is none that asking again would change."""
    request = EndTxnRequest(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        committed=commit,
    )
    return await coordinator.ask(
        request,
        lambda answer: answer.error_code,
        deadline=deadline,
        version_max=None if transaction.bumps_epochs else _END_TXN_VERSION_EXPLICIT,
    )


def _code_of_partitions(response: AddPartitionsToTxnResponse) -> int:
    codes = [
        result.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    ]
    return _worst(codes)


def _code_of_offsets(response: TxnOffsetCommitResponse) -> int:
    return _worst([partition.error_code for topic in response.topics for partition in topic.partitions])


def _worst(codes: list[int]) -> int:
    """The code that says why; "not attempted" is said of those that another one kept from being done."""
    return next((code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)), 0)


def _offset_topics(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[TxnOffsetCommitRequestTopic]:
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, partition), position in sorted(offsets.items()):
        topics.setdefault(topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    return [TxnOffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()]


def _aborted(entry: Unacknowledged) -> KafkaError:
    return DeliveryError(f"{entry}: the transaction was aborted before they were sent", unacknowledged=(entry,))
