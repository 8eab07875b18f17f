"""What the coordinator knows of one transactional id, as a value, and every way in which that may change.

Each function gives the state that is to be written next; nothing here is changed in place, so what is in force and
what is still being written can stand side by side. Who may ask for a change is decided in `coordinator`.
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
"""From this `transaction.version` on, every transaction ends with a new epoch (KIP-890)."""


class TransactionState(IntEnum):
    """The life of a transaction; the numbers are those in `__transaction_state`.

    PREPARE_EPOCH_FENCE is Kafka's name for a moment in its memory; it is never written.
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
        """Kafka's name for it, such as PrepareCommit."""
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


class IllegalTransition(Exception):
    """A state was to follow one that it cannot follow: a fault in the coordinator, never a client's."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transactional id.

    Attributes:
        producer_id: whose records are in the transaction.
        previous_producer_id: the id before, whose last epochs were used up; -1 for none.
        next_producer_id: the id that takes over when this transaction has ended; -1 for none.
        producer_epoch: the newest epoch; older ones are fenced.
        last_producer_epoch: the epoch before, for telling a repeated request from a fenced producer; -1 for none.
        timeout_ms: after which an open transaction is aborted.
        partitions: where its records are.
        started_ms: when its first partition was added, in milliseconds since 1970; -1 before.
        updated_ms: when anything changed last, in milliseconds since 1970.
        client_version: the `transaction.version` that the producer works by.
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
        """Whether no further epoch may be given to the producer; the last one is kept for fencing it."""
        return is_exhausted(self.producer_epoch)

    @property
    def bumps_epochs(self) -> bool:
        """Whether every transaction of this producer ends with a new epoch."""
        return self.client_version >= EPOCH_BUMP_VERSION

    def _to(self, state: TransactionState, **changes: object) -> Transaction:
        if self.state not in MAY_FOLLOW[state]:
            raise IllegalTransition(f"{self.transactional_id}: {self.state.label} cannot become {state.label}")
        return replace(self, state=state, **changes)  # type: ignore[arg-type]  # names and types are ours

    def with_next_epoch(self, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """The producer starts anew, under the next epoch."""
        return self._fresh(now_ms, timeout_ms, producer_epoch=self.producer_epoch + 1, last_producer_epoch=last_epoch)

    def again(self, timeout_ms: int, now_ms: int) -> Transaction:
        """The producer asks a second time for what it was given: the same again."""
        return self._fresh(now_ms, timeout_ms)

    def with_new_producer_id(self, producer_id: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """The producer starts anew, under a new id, because the old one's epochs are used up."""
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
        """Partitions become part of the transaction, which begins with the first."""
        return self._to(
            TransactionState.ONGOING,
            partitions=self.partitions | added,
            started_ms=now_ms if self.state in AT_REST else self.started_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def fencing_abort(self, now_ms: int) -> Transaction:
        """An open transaction is aborted over its producer's head, which is shut out by the next epoch.

        A producer that works with epoch bumps may ask for that epoch, and go on; an older one has to start anew.
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
        """The outcome is decided; with epoch bumps the next epoch is in force from here on.

        Args:
            state: PREPARE_COMMIT or PREPARE_ABORT.
            client_version: the `transaction.version` of the request that ends it.
            now_ms: wall clock.
            next_producer_id: who takes over, when the epochs are used up.
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
        """All markers are written."""
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
        """The transactional id has not been used for long and is forgotten."""
        return self._to(TransactionState.DEAD, partitions=frozenset())


def is_exhausted(epoch: int) -> bool:
    """Whether `epoch` is the last that a producer may use, or beyond."""
    return epoch >= EPOCH_MAX - 1
