"""`TransactionManager`: the state of a producer's transactions, and the requests to the coordinators.

`core/producer/transaction.py` decides which call is allowed when. The calls themselves, which also have to wait for
records, are `Transactions` in `transaction_calls.py`. Start at `TransactionManager.end` and `add_partitions`.

Two generations of the protocol (KIP-890), chosen by the cluster's feature `transaction.version` at each `begin`: with
the first, partitions are added before they are written to and the epoch stays; with the second, brokers add them by
themselves and every transaction ends with a new epoch.
Source: KIP-98, KIP-360, KIP-447, KIP-588, KIP-890; Kafka's TransactionManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn

from kafkaraw.client.arguments import positions_of
from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata, PreparedTransaction
from kafkaraw.client.config import ProducerConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.coordinator import Coordinator, CoordinatorKind
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.security import with_principal
from kafkaraw.core.producer.events import ProducerIdentity
from kafkaraw.core.producer.transaction import Change, Reaction, TransactionMachine, reaction_to
from kafkaraw.errors import (
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationError,
    UsageError,
    cause_of,
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

if TYPE_CHECKING:
    from kafkaraw.client.sending.accumulator import RecordAccumulator  # not loaded for admin clients


FEATURE: Final = "transaction.version"
IMPLICIT_FROM_LEVEL: Final = 2
# The last version of each API that belongs to the first generation.
_PRODUCE_VERSION_EXPLICIT: Final = 11
_END_TXN_VERSION_EXPLICIT: Final = 4
_TXN_OFFSET_COMMIT_VERSION_EXPLICIT: Final = 4
_ADD_PARTITIONS_VERSION_MAX: Final = 3  # later ones are for brokers
NO_ID: Final = -1
_NAMED_MAX: Final = 5
NO_PRODUCER: Final = ProducerIdentity(NO_ID, NO_ID)

GROUPS_MAX: Final = 100
"""The number of consumer groups of which a producer remembers the coordinator."""

Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]


class TransactionManager:
    """The state of one producer's transactions, and the requests to their coordinators.

    It neither sends nor waits for records: `transaction_calls.Transactions`, which does, calls it in the order that a
    transaction needs, and the sender asks it what a Produce request of the transaction carries.

    Args:
        engine: connections and metadata.
        config: with a `transactional_id`.
        accumulator: is paused while there is no transaction that takes records.

    Attributes:
        machine: which calls are allowed now.
        implicit: brokers add partitions by themselves (KIP-890).
        transactional_id: the producer's.
    """

    def __init__(self, engine: Engine, config: ProducerConfig, accumulator: RecordAccumulator) -> None:
        assert config.transactional_id is not None
        self.transactional_id: str = config.transactional_id
        self.implicit: bool = False
        self.machine: TransactionMachine = TransactionMachine()
        self._engine = engine
        self._config = config
        self._accumulator = accumulator
        self._coordinator = Coordinator(engine, CoordinatorKind.TRANSACTION, self.transactional_id)
        self._groups: dict[str, Coordinator] = {}
        self._identity = NO_PRODUCER
        self._has_writes = False
        self.pause()

    @property
    def produce_version_max(self) -> int | None:
        """The highest version of Produce in this transaction; None for any."""
        return None if self.implicit else _PRODUCE_VERSION_EXPLICIT

    # ---- which records are taken

    def pause(self) -> None:
        """Take no records."""
        self._accumulator.pause(self._refuse_record)

    def resume(self) -> None:
        """Take records: a transaction is open."""
        self._accumulator.resume()

    def _refuse_record(self) -> NoReturn:
        self.machine.check_open()
        raise UsageError("the transaction accepts no more records")

    # ---- the life of a transaction

    async def learn_version(self, deadline: Deadline) -> None:
        """Ask the coordinator's broker which generation of the protocol the next transaction follows."""
        connection = await self._coordinator.connection(deadline)
        self.implicit = connection.api_versions.features.get(FEATURE, 0) >= IMPLICIT_FROM_LEVEL

    async def init_producer_id(self, deadline: Deadline) -> ProducerIdentity:
        """Take over the transactional id; returns the identity, which counts once it is adopted."""
        self._identity = NO_PRODUCER
        return await self._request_identity(deadline)

    def adopt(self, identity: ProducerIdentity) -> None:
        """Make requests with this identity from now on."""
        self._identity = identity

    def begin(self) -> None:
        """Begin a transaction; nothing of it is known to any broker yet."""
        self.machine.change(Change.BEGUN)
        self._has_writes = False

    async def end(self, *, commit: bool, deadline: Deadline) -> ProducerIdentity | None:
        """Have the coordinator end the transaction; returns the next one's identity, None if it stays the same."""
        identity: ProducerIdentity | None = None
        if self._has_writes:
            identity = await self._end_txn(commit=commit, deadline=deadline)
            self._has_writes = False  # if the next step times out: its epoch may be in force by the next call
        if identity is None and (self.machine.cause is not None or self.machine.has_offsets_in_doubt):
            # It is not certain what was written under this epoch, and requests of it may still arrive: the next epoch
            # fences them (KIP-360).
            identity = await self._request_identity(deadline)
        return identity

    @property
    def prepared(self) -> PreparedTransaction | None:
        """What ends the transaction elsewhere; None if nothing was written."""
        if not self._has_writes:
            return None
        return PreparedTransaction(
            self.transactional_id, self._identity.producer_id, self._identity.epoch, self.implicit
        )

    async def send_offsets(self, offsets: Offsets, group: str | GroupMetadata, deadline: Deadline) -> None:
        """Make offsets part of the transaction; see `AsyncProducer.send_offsets_to_transaction`."""
        positions = positions_of(offsets, "send_offsets_to_transaction")
        who = GroupMetadata(group) if isinstance(group, str) and group else group
        if not isinstance(who, GroupMetadata):
            raise UsageError(
                f"send_offsets_to_transaction: group {who!r:.80} must be a group id, or what consumer.group_metadata() "
                f"gives"
            )
        topics = _offset_topics(positions)
        attempt = self.machine.offsets_sent(who.group_id, positions)
        if not positions:
            return
        self._has_writes = True
        if not self.implicit:
            await self._add_group(who.group_id, deadline)
        await self._commit_offsets(topics, who, deadline)
        self.machine.offsets_stored(attempt)

    # ---- what the sender notes and asks

    def note_sent(self) -> None:
        """Note that records are on their way to a broker: from here on the coordinator has something to end."""
        self._has_writes = True

    def note_failure(self, error: KafkaError) -> None:
        """Note that records of the transaction failed: it can only be aborted, and takes no more records."""
        if isinstance(error, ProducerFencedError | TransactionalIdAuthorizationError):
            self.machine.break_down(error)
        else:
            self.machine.fail(error)
        self.pause()

    def note_break(self, error: KafkaError) -> None:
        """Note that the producer stopped working: the outcome of the transaction's records is unknown.

        The coordinator aborts it: after its timeout, or when another producer takes the transactional id over.
        """
        self.machine.break_down(error)

    async def add_partitions(self, partitions: frozenset[TopicPartition]) -> KafkaError | None:
        """Make partitions part of the transaction, within the delivery timeout; returns the error if that failed."""
        self._has_writes = True
        try:
            await self._add_partitions(partitions, Deadline(self._config.delivery_timeout_ms / 1000))
        except KafkaError as error:
            self.note_failure(error)
            return error
        return None

    # ---- requests

    async def _request_identity(self, deadline: Deadline) -> ProducerIdentity:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
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
            lambda answer: _worst(_codes_of_partitions(answer)),
            deadline=deadline,
            version_max=_ADD_PARTITIONS_VERSION_MAX,
        )
        self._check_partitions(_codes_of_partitions(response), lambda named: f"adding {named} to the transaction")

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
            lambda answer: _worst(_codes_of_offsets(answer)),
            deadline=deadline,
            version_max=None if self.implicit else _TXN_OFFSET_COMMIT_VERSION_EXPLICIT,
        )
        self._check_partitions(
            _codes_of_offsets(response),
            lambda named: f"committing offsets of group {who.group_id!r} for {named} in the transaction",
        )

    def _check_partitions(self, codes: Mapping[TopicPartition, int], what: Callable[[str], str]) -> None:
        """Raise as `_check`; the error names the partitions that are its cause, and has them as its `failures`."""
        code = _worst(codes)
        culprits = sorted(partition for partition, each in codes.items() if each == code)
        named = ", ".join(f"{topic}-{number}" for topic, number in culprits[:_NAMED_MAX])
        more = len(culprits) - _NAMED_MAX
        try:
            self._check(code, what(named + (f" and {more} more" if more > 0 else "")))
        except TransactionAbortableError as error:
            assert isinstance(error.__cause__, KafkaError)
            failures = MappingProxyType(dict[object, KafkaError](dict.fromkeys(culprits, error.__cause__)))
            error.failures = error.__cause__.failures = failures
            raise

    def _check(self, code: int, what: str) -> None:
        """Raise the error of a coordinator's refusal, which says what to do: abort, or make a new producer.

        Raises:
            ProducerFencedError: a newer producer has the same transactional id.
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
            self.machine.fail(cause)
            self.pause()
            hint = self._timeout_hint if code == ErrorCode.INVALID_TXN_STATE else ""
            raise TransactionAbortableError(f"call abort_transaction(): {cause}{hint}") from cause
        error: KafkaError = cause
        if reaction is Reaction.FENCED:
            error = ProducerFencedError(
                f"another producer has taken over the transactional id {self.transactional_id!r}{self._timeout_hint}; "
                f"make a new one if this one should continue: {cause}"
            )
        self.machine.break_down(error)
        self.pause()
        raise error from cause_of(error, cause)

    @property
    def _timeout_hint(self) -> str:
        return (
            f", or the transaction was open for too long (transaction_timeout_ms={self._config.transaction_timeout_ms})"
        )


async def ask_to_end(
    coordinator: Coordinator, transaction: PreparedTransaction, *, commit: bool, deadline: Deadline
) -> EndTxnResponse:
    """Have a transaction ended; the error code of the response is not retriable."""
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


def _codes_of_partitions(response: AddPartitionsToTxnResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, result.partition_index): result.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    }


def _codes_of_offsets(response: TxnOffsetCommitResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }


def _worst(codes: Mapping[TopicPartition, int]) -> int:
    """Return the code that is the cause; "not attempted" stands where the failure of another one is the cause."""
    return next((code for code in codes.values() if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)), 0)


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
