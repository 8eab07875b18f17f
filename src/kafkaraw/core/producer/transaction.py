"""Where a transactional producer stands: which calls are allowed now, and what a coordinator's refusal means.

Pure. `TransactionMachine` is one enum with its transitions in a table; `reaction_to` is a table of error codes. Asking
the coordinator, and asking again, is the business of `client.transactions`.
Source: KIP-98, KIP-588, KIP-691, KIP-890, KIP-1050; Kafka's TransactionManager.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final

from kafkaraw.errors import KafkaError, ProducerFencedError, TransactionAbortableError, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.error_codes import ErrorCode, is_retriable
from kafkaraw.records import TopicPartition

log: logging.Logger = logging.getLogger(__name__)

_NAMED_MAX: Final = 3


class Phase(Enum):
    """What a transactional producer is doing; the value ends the sentence "the producer ..."."""

    NEW = "has not been initialised: call init_transactions() first"
    READY = "has no open transaction: call begin_transaction() first"
    OPEN = "has an open transaction: commit or abort it first"
    SETTLING = "is ending its transaction, which accepts no more records: if that failed, call it again, or abort"
    MUST_ABORT = "has a transaction that failed: call abort_transaction()"
    COMMITTING = "is committing and does not know yet whether that succeeded: call commit_transaction() again"
    PREPARED = "has handed its transaction over: call init_transactions() to go on"
    ABORTING = "is aborting and does not know yet whether that succeeded: call abort_transaction() again"
    BROKEN = "can do nothing any more"


class Change(Enum):
    """What can happen to it."""

    INITIALISED = auto()
    BEGUN = auto()
    SETTLES = auto()
    """Commit or prepare was called: what was sent is settled first, and nothing more is taken."""
    FAILED = auto()
    COMMITS = auto()
    PREPARES = auto()
    ABORTS = auto()
    ENDED = auto()
    BROKE = auto()


TRANSITIONS: Final = {
    (Phase.NEW, Change.INITIALISED): Phase.READY,
    (Phase.PREPARED, Change.INITIALISED): Phase.READY,
    (Phase.READY, Change.BEGUN): Phase.OPEN,
    (Phase.OPEN, Change.FAILED): Phase.MUST_ABORT,
    (Phase.OPEN, Change.SETTLES): Phase.SETTLING,
    (Phase.OPEN, Change.ABORTS): Phase.ABORTING,
    (Phase.SETTLING, Change.SETTLES): Phase.SETTLING,
    (Phase.SETTLING, Change.FAILED): Phase.MUST_ABORT,
    (Phase.SETTLING, Change.COMMITS): Phase.COMMITTING,
    (Phase.SETTLING, Change.PREPARES): Phase.PREPARED,
    (Phase.SETTLING, Change.ABORTS): Phase.ABORTING,
    (Phase.MUST_ABORT, Change.FAILED): Phase.MUST_ABORT,
    (Phase.MUST_ABORT, Change.ABORTS): Phase.ABORTING,
    (Phase.COMMITTING, Change.COMMITS): Phase.COMMITTING,
    (Phase.COMMITTING, Change.FAILED): Phase.MUST_ABORT,
    (Phase.COMMITTING, Change.ENDED): Phase.READY,
    (Phase.ABORTING, Change.ABORTS): Phase.ABORTING,
    (Phase.ABORTING, Change.FAILED): Phase.ABORTING,
    (Phase.ABORTING, Change.ENDED): Phase.READY,
    **{(phase, Change.BROKE): Phase.BROKEN for phase in Phase},
}


class Reaction(Enum):
    """What a coordinator's error code means for the producer."""

    NONE = auto()
    AGAIN = auto()
    """The same request may succeed later."""
    ELSEWHERE = auto()
    """Another broker coordinates now."""
    ABORT = auto()
    """The transaction has to be aborted."""
    FENCED = auto()
    """Another producer has taken over."""
    FATAL = auto()
    """Nothing that this producer asks for will succeed."""


_REACTIONS: Final[dict[int, Reaction]] = {
    ErrorCode.NONE: Reaction.NONE,
    ErrorCode.NOT_COORDINATOR: Reaction.ELSEWHERE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.ELSEWHERE,
    ErrorCode.PRODUCER_FENCED: Reaction.FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH: Reaction.FENCED,  # what older coordinators say instead (KIP-588)
    ErrorCode.TRANSACTION_ABORTABLE: Reaction.ABORT,
    ErrorCode.UNKNOWN_PRODUCER_ID: Reaction.ABORT,
    ErrorCode.INVALID_TXN_STATE: Reaction.ABORT,  # as when the coordinator has aborted it because of its timeout
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Reaction.ABORT,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reaction.ABORT,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Reaction.ABORT,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.ABORT,
    ErrorCode.FENCED_INSTANCE_ID: Reaction.ABORT,
    ErrorCode.ILLEGAL_GENERATION: Reaction.ABORT,
    ErrorCode.STALE_MEMBER_EPOCH: Reaction.ABORT,
}


def reaction_to(code: int) -> Reaction:
    """What to do after a coordinator's answer; a code that is not known ends the producer."""
    listed = _REACTIONS.get(code)
    if listed is not None:
        return listed
    return Reaction.AGAIN if is_retriable(code) else Reaction.FATAL


_ONGOING: Final = frozenset({Phase.OPEN, Phase.SETTLING, Phase.MUST_ABORT})

_TAKES_OFFSETS: Final = frozenset({Change.COMMITS, Change.PREPARES})
"""Changes after which the offsets of the transaction count; refused while any are in doubt."""


@dataclass(frozen=True, eq=False, slots=True)
class OffsetsSent:
    """One attempt to make offsets of a group part of the transaction.

    Attributes:
        group_id: the group.
        partitions: whose offsets.
    """

    group_id: str
    partitions: frozenset[TopicPartition]


class TransactionMachine:
    """Which calls a transactional producer may make now.

    Offsets are in doubt from the moment they are sent until the group's coordinator confirms them. A transaction with
    offsets in doubt is not committed and not handed over: its records would count without them.

    Attributes:
        phase: where it stands.
        cause: what made the transaction fail, or the producer useless; None while all is well.
    """

    def __init__(self) -> None:
        self.phase: Phase = Phase.NEW
        self.cause: KafkaError | None = None
        self._in_doubt: dict[tuple[str, TopicPartition], OffsetsSent] = {}

    def change(self, change: Change) -> None:
        """Go on to the next phase.

        Raises:
            UsageError: the call is not allowed now; says which is.
            TransactionAbortableError: it is not allowed because the transaction has failed; the cause is its cause. Or
                its offsets are in doubt.
            ProducerFencedError: another producer has taken over.
            KafkaError: the producer broke before; the error is the one that broke it.
        """
        after = TRANSITIONS.get((self.phase, change))
        if after is None:
            raise self._state_error() from self.cause
        if change in _TAKES_OFFSETS and self._in_doubt:
            raise TransactionAbortableError(self._doubt())
        log.debug("transaction: %s -> %s", self.phase.name, after.name)  # first: a handler that raises changes nothing
        if change is Change.ENDED:
            self.cause = None
            self._in_doubt.clear()
        self.phase = after

    def fail(self, error: KafkaError) -> None:
        """Something in the open transaction failed; it can only be aborted. Without one, nothing changes."""
        if (self.phase, Change.FAILED) in TRANSITIONS:
            self.cause = self.cause or error
            self.change(Change.FAILED)

    def break_down(self, error: KafkaError) -> None:
        """Nothing will succeed any more."""
        if self.phase is not Phase.BROKEN:
            self.cause = error
            self.change(Change.BROKE)

    def check_open(self) -> None:
        """Refuse records, unless an open transaction takes them; raises as `change` does."""
        if self.phase is not Phase.OPEN:
            raise self._state_error() from self.cause

    @property
    def is_ongoing(self) -> bool:
        """Whether there is a transaction that no call has begun to end at the coordinator."""
        return self.phase in _ONGOING

    # -- offsets of consumer groups

    def offsets_sent(self, group_id: str, partitions: Iterable[TopicPartition]) -> OffsetsSent:
        """Offsets are about to be sent: they are in doubt until `offsets_stored`.

        Args:
            group_id: the group.
            partitions: whose offsets; an earlier attempt with one of them does not count for it any more.

        Returns:
            the attempt.

        Raises:
            KafkaError: no transaction is open, as `change`.
        """
        if self.phase is not Phase.SETTLING:  # a commit that offsets in doubt kept from going on is made possible
            self.check_open()
        attempt = OffsetsSent(group_id, frozenset(partitions))
        self._in_doubt |= {(group_id, partition): attempt for partition in attempt.partitions}
        return attempt

    def offsets_stored(self, attempt: OffsetsSent) -> None:
        """The coordinator has confirmed an attempt: its offsets are part of the transaction."""
        for partition in attempt.partitions:
            if self._in_doubt.get((attempt.group_id, partition)) is attempt:
                del self._in_doubt[attempt.group_id, partition]

    @property
    def has_offsets_in_doubt(self) -> bool:
        """Whether offsets were sent that no coordinator has confirmed."""
        return bool(self._in_doubt)

    def _doubt(self) -> str:
        (group_id, _), *_ = sorted(self._in_doubt)
        topics = sorted(f"{topic}-{number}" for group, (topic, number) in self._in_doubt if group == group_id)
        named = ", ".join(topics[:_NAMED_MAX]) + (f" and {more} more" if (more := len(topics) - _NAMED_MAX) > 0 else "")
        return (
            f"the offsets of group {group_id!r} for {named} are in doubt: send_offsets_to_transaction() has not "
            f"succeeded, so the transaction would commit without them; call it again, or call abort_transaction()"
        )

    def _state_error(self) -> KafkaError:
        if self.phase is Phase.BROKEN:
            if isinstance(self.cause, ProducerFencedError):
                return ProducerFencedError(str(self.cause))
            return UsageError(f"the producer {self.phase.value}, make a new one: {self.cause}")
        if self.phase is Phase.MUST_ABORT:
            return TransactionAbortableError(f"the producer {self.phase.value}; it failed because of: {self.cause}")
        return UsageError(f"the producer {self.phase.value}")
