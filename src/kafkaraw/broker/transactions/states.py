"""The state of one transactional id, as an immutable value, and all transitions between states.

Each method returns the state to write next. States are never changed in place, so the current state and the one that is
being written exist side by side. `coordinator` decides which requests may change a state.
Source: org.apache.kafka.coordinator.transaction.TransactionMetadata, TransactionState.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from kafkaraw.light_classes import dataclass, replace
from kafkaraw.records import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
EPOCH_MAX: Final = 32_767
EPOCH_BUMP_VERSION: Final = 2
"""Since this `transaction.version`, each transaction ends with an epoch bump (KIP-890)."""


class TransactionState(IntEnum):
    """The states of a transaction; the numbers are those in `__transaction_state`.

    Kafka uses PREPARE_EPOCH_FENCE in memory only; it is never written.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """Kafka's name of the state, such as PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))


_S = TransactionState
MAY_FOLLOW: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: frozenset({_S.ONGOING, _S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT, _S.DEAD}),
}
"""State -> the states that it may follow."""
AT_REST: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
ENDING: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})


class IllegalTransitionError(Exception):
    """A transition that is not in the table: an error in the coordinator, never in a client."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transactional id.

    Attributes:
        producer_id: the current producer id.
        previous_producer_id: the previous producer id, whose epochs are exhausted; -1 for none.
        next_producer_id: the producer id after this transaction; -1 for none.
        producer_epoch: the newest epoch; older epochs are fenced.
        last_producer_epoch: the previous epoch, which distinguishes a retry from a fenced producer; -1 for none.
        timeout_ms: time after which an open transaction is aborted.
        partitions: the partitions of the transaction.
        started_ms: when the first partition was added, in milliseconds since 1970; -1 before that.
        updated_ms: time of the last change, in milliseconds since 1970.
        client_version: the `transaction.version` of the producer.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_EPOCH
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    client_version: int = 0

    @property
    def epoch_exhausted(self) -> bool:
        """Whether the producer can get no further epoch; the last one is reserved for fencing it."""
        return is_exhausted(self.producer_epoch)

    @property
    def bumps_epochs(self) -> bool:
        """Whether each transaction of this producer ends with an epoch bump."""
        return self.client_version >= EPOCH_BUMP_VERSION

    def _to(self, state: TransactionState, **changes: object) -> Transaction:
        if self.state not in MAY_FOLLOW[state]:
            raise IllegalTransitionError(f"{self.transactional_id}: {self.state.label} cannot become {state.label}")
        return replace(self, state=state, **changes)  # type: ignore[arg-type]  # names and types are ours

    def with_next_epoch(self, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """Return the state of a producer that restarts with the next epoch."""
        return self._fresh(now_ms, timeout_ms, producer_epoch=self.producer_epoch + 1, last_producer_epoch=last_epoch)

    def again(self, timeout_ms: int, now_ms: int) -> Transaction:
        """Return the state for a retried InitProducerId: the producer keeps its id and epoch."""
        return self._fresh(now_ms, timeout_ms)

    def with_new_producer_id(self, producer_id: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """Return the state of a producer that restarts with a new id, because its epochs are exhausted."""
        return self._fresh(
            now_ms,
            timeout_ms,
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            producer_epoch=0,
            last_producer_epoch=last_epoch,
        )

    def _fresh(self, now_ms: int, timeout_ms: int, **changes: int) -> Transaction:
        return self._to(
            TransactionState.EMPTY,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIME,
            updated_ms=now_ms,
            **changes,
        )

    def with_partitions(self, added: frozenset[TopicPartition], now_ms: int, client_version: int) -> Transaction:
        """Return the state with added partitions; the first ones begin the transaction."""
        return self._to(
            TransactionState.ONGOING,
            partitions=self.partitions | added,
            started_ms=now_ms if self.state in AT_REST else self.started_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def fencing_abort(self, now_ms: int) -> Transaction:
        """Return the state of an open transaction that the coordinator aborts; the next epoch fences its producer.

        A producer that uses epoch bumps may request that epoch and continue; an older producer must restart.
        """
        return self._to(
            TransactionState.PREPARE_ABORT,
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=self.producer_epoch if self.bumps_epochs else NO_EPOCH,
            updated_ms=now_ms,
        )

    def ending(
        self, state: TransactionState, client_version: int, now_ms: int, *, next_producer_id: int = NO_PRODUCER_ID
    ) -> Transaction:
        """Return the state with a decided outcome; with epoch bumps, it already has the next epoch.

        Args:
            state: PREPARE_COMMIT or PREPARE_ABORT.
            client_version: the `transaction.version` of the EndTxn request.
            now_ms: wall clock, in milliseconds since 1970.
            next_producer_id: the next producer id, if the epochs are exhausted.
        """
        bump = client_version >= EPOCH_BUMP_VERSION
        return self._to(
            state,
            producer_epoch=self.producer_epoch + 1 if bump else self.producer_epoch,
            last_producer_epoch=self.producer_epoch if bump else self.last_producer_epoch,
            next_producer_id=next_producer_id,
            started_ms=now_ms if self.state in AT_REST else self.started_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> Transaction:
        """Return the state after all markers are written."""
        committed = self.state is TransactionState.PREPARE_COMMIT
        rotates = self.bumps_epochs and self.next_producer_id != NO_PRODUCER_ID
        return self._to(
            TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=0 if rotates else self.producer_epoch,
            previous_producer_id=self.producer_id if rotates else self.previous_producer_id,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
        )

    def dead(self) -> Transaction:
        """Return the state of an expired transactional id that is being removed."""
        return self._to(TransactionState.DEAD, partitions=frozenset())


def is_exhausted(epoch: int) -> bool:
    """Return whether `epoch` is the last one that a producer may use, or later."""
    return epoch >= EPOCH_MAX - 1
