"""The transaction coordinator: decides which producer is fenced, which state is written, and when markers are sent.

Pure: it has no clock, loop or log of its own. It acts through two ports, `StateLog` (store a state) and `Markers` (end
a transaction in its partitions), which call back when they are done. Responses are callbacks, too. While a state of a
transactional id is being written, other requests for that id are answered with CONCURRENT_TRANSACTIONS, which clients
retry.

One object coordinates the ids of one partition of `__transaction_state`, while this node is its leader. Start at
`init_producer_id`, `add_partitions` and `end`; `load` restores the states from the log after a change of leader.
Source: kafka.coordinator.transaction.TransactionCoordinator; KIP-98, KIP-360, KIP-588, KIP-890.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from kafkaraw.broker.transactions.states import (
    AT_REST,
    ENDING,
    EPOCH_BUMP_VERSION,
    EPOCH_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
    is_exhausted,
)
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition

_logger = logging.getLogger("kafkaraw.broker")

_S = TransactionState


class ProducerIdAndEpoch(NamedTuple):
    """A producer id with its epoch; -1 and -1 for none."""

    producer_id: int
    epoch: int


NO_PRODUCER: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_EPOCH)
_DECIDED_BY: Final = {_S.COMPLETE_COMMIT: _S.PREPARE_COMMIT, _S.COMPLETE_ABORT: _S.PREPARE_ABORT}


class Outcome(NamedTuple):
    """The result of a request: an error code and, on success, the producer's new identity."""

    code: ErrorCode
    identity: ProducerIdAndEpoch = NO_PRODUCER


Answer = Callable[[Outcome], None]
Done = Callable[[ErrorCode], None]


class StateLog(Protocol):
    """Stores states."""

    def append(self, transaction: Transaction, done: Done) -> None:
        """Write a state; call `done` with NONE once it is replicated, or with the code of the failure."""
        ...

    def forget(self, transactional_id: str, done: Done) -> None:
        """Write a tombstone for a transactional id."""
        ...


class Markers(Protocol):
    """Ends transactions in their partitions."""

    def later(self, act: Callable[[], None]) -> None:
        """Call a function after a delay, for example to retry a failed write."""
        ...

    def write(self, ending: Transaction, done: Callable[[], None]) -> None:
        """Write a marker to each partition of the transaction, with retries until all are written; then call `done`."""
        ...


@dataclass(slots=True)
class _Entry:
    """One transactional id: its current state, and the state that is being written."""

    current: Transaction
    pending: Transaction | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The broker's settings; Kafka's names are in the comments."""

    timeout_max_ms: int = 900_000  # transaction.max.timeout.ms
    expiration_ms: int = 604_800_000  # transactional.id.expiration.ms


class TransactionCoordinator:
    """Coordinates the transactional ids of one partition of `__transaction_state`.

    Args:
        log: stores states.
        markers: ends transactions in their partitions.
        take_producer_id: allocates an unused producer id; may raise OSError.
        now_ms: wall clock, in milliseconds since 1970.
        limits: the settings.
    """

    def __init__(
        self,
        log: StateLog,
        markers: Markers,
        take_producer_id: Callable[[], int],
        now_ms: Callable[[], int],
        limits: Limits,
    ) -> None:
        self._log = log
        self._markers = markers
        self._take_producer_id = take_producer_id
        self._now_ms = now_ms
        self._limits = limits
        self._entries: dict[str, _Entry] = {}
        self._resigned = False

    # ---- a change of leader

    def load(self, transactions: Iterable[Transaction]) -> None:
        """Load the states from the log, and complete the transactions whose outcome is already decided."""
        for transaction in transactions:
            entry = self._entries[transaction.transactional_id] = _Entry(transaction)
            if transaction.state in ENDING:
                self._complete(entry)

    def resign(self) -> None:
        """Stop, because another node leads the partition: requests in progress end without effect."""
        self._resigned = True
        self._entries.clear()

    # ---- requests

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None, answer: Answer
    ) -> None:
        """Give a producer an identity that fences all earlier producers with the same transactional id.

        Args:
            transactional_id: the producer's transactional id.
            timeout_ms: time after which the coordinator aborts an open transaction of the producer.
            expected: the identity that the producer had so far; None for a new producer.
            answer: called with the identity, or the error.
        """
        if not transactional_id:
            answer(Outcome(ErrorCode.INVALID_REQUEST))
            return
        if not 0 < timeout_ms <= self._limits.timeout_max_ms:
            answer(Outcome(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return
        try:
            entry = self._entry_for(transactional_id, timeout_ms)
            started = self._started_anew(entry, timeout_ms, expected)
        except OSError as error:
            _logger.error("cannot reserve producer ids: %s", error)
            answer(Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        if isinstance(started, ErrorCode):
            answer(Outcome(started))
        elif started.state is _S.PREPARE_ABORT:
            self._end(
                entry, started, lambda outcome: answer(Outcome(outcome.code or ErrorCode.CONCURRENT_TRANSACTIONS))
            )
        else:
            identity = ProducerIdAndEpoch(started.producer_id, started.producer_epoch)
            self._write(entry, started, lambda code: answer(Outcome(code, identity if not code else NO_PRODUCER)))

    def _entry_for(self, transactional_id: str, timeout_ms: int) -> _Entry:
        entry = self._entries.get(transactional_id)
        if entry is None:
            made = Transaction(
                transactional_id, self._take_producer_id(), timeout_ms=timeout_ms, updated_ms=self._now_ms()
            )
            entry = self._entries[transactional_id] = _Entry(made)
        return entry

    def _started_anew(
        self, entry: _Entry, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> Transaction | ErrorCode:
        """Return the state to write for a producer that starts or restarts, or an error code."""
        current, now_ms = entry.current, self._now_ms()
        if entry.pending is not None or current.state in ENDING:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if expected is not None and not _is_known(expected, current):
            return ErrorCode.PRODUCER_FENCED
        if current.state is _S.ONGOING:
            return current.fencing_abort(now_ms)  # aborts the earlier producer's transaction; the new one retries
        if current.epoch_exhausted and (expected is None or expected.epoch == current.producer_epoch):
            last_epoch = NO_EPOCH if expected is None else current.producer_epoch
            return current.with_new_producer_id(self._take_producer_id(), last_epoch, timeout_ms, now_ms)
        if expected is None:
            return current.with_next_epoch(NO_EPOCH, timeout_ms, now_ms)
        if current.producer_epoch in (NO_EPOCH, expected.epoch):
            return current.with_next_epoch(current.producer_epoch, timeout_ms, now_ms)
        if expected.epoch == current.last_producer_epoch:
            return current.again(timeout_ms, now_ms)
        return ErrorCode.PRODUCER_FENCED

    def add_partitions(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        version: int,
        done: Done,
    ) -> None:
        """Add partitions to a transaction.

        Args:
            transactional_id: transactional id of the producer.
            identity: identity in the request.
            partitions: the partitions to add.
            version: the `transaction.version` of the producer.
            done: called with NONE once they are added, or with the error code.
        """
        entry = self._entries.get(transactional_id)
        code = self._may_add(entry, transactional_id, identity)
        if code or entry is None:
            done(code)
        elif entry.current.state is _S.ONGOING and partitions <= entry.current.partitions:
            done(ErrorCode.NONE)
        else:
            self._write(entry, entry.current.with_partitions(partitions, self._now_ms(), version), done)

    def verify_partitions(
        self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Check whether partitions belong to an open transaction, for a broker that will append to them.

        This does not wait for a state that is being written, because partitions are never removed from a transaction.
        """
        entry = self._entries.get(transactional_id)
        code = self._code_for(entry, transactional_id, identity)
        if code or entry is None:
            return dict.fromkeys(partitions, code)
        known = entry.current.partitions if entry.current.state is _S.ONGOING else frozenset()
        return {each: ErrorCode.NONE if each in known else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}

    def _may_add(self, entry: _Entry | None, transactional_id: str, identity: ProducerIdAndEpoch) -> ErrorCode:
        code = self._code_for(entry, transactional_id, identity)
        if not code and entry is not None and entry.pending is not None:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return code

    def _code_for(self, entry: _Entry | None, transactional_id: str, identity: ProducerIdAndEpoch) -> ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if entry is None or entry.current.producer_id != identity.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if entry.current.producer_epoch != identity.epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if entry.current.state in ENDING else ErrorCode.NONE

    def end(
        self, transactional_id: str, identity: ProducerIdAndEpoch, *, commit: bool, version: int, answer: Answer
    ) -> None:
        """Commit or abort a transaction.

        Args:
            transactional_id: transactional id of the producer.
            identity: identity in the request.
            commit: commit the transaction; else abort it.
            version: the `transaction.version` of the producer.
            answer: called with the result once the outcome is replicated; the markers are written afterwards.
        """
        entry = self._entries.get(transactional_id)
        if not transactional_id:
            answer(Outcome(ErrorCode.INVALID_REQUEST))
        elif entry is None:
            answer(Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        else:
            wanted = _S.PREPARE_COMMIT if commit else _S.PREPARE_ABORT
            try:
                ending = self._ended(entry, identity, wanted, version)
            except OSError as error:
                _logger.error("cannot reserve producer ids: %s", error)
                ending = Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if isinstance(ending, Outcome):
                answer(ending)
            else:
                self._end(entry, ending, answer)

    def _ended(
        self, entry: _Entry, identity: ProducerIdAndEpoch, wanted: TransactionState, version: int
    ) -> Transaction | Outcome:
        """Return the state to write for the end of a transaction, or the result if there is nothing to write."""
        current = entry.current
        bumps = version >= EPOCH_BUMP_VERSION
        # As in Kafka, a transaction that is being completed counts as busy. With epoch bumps this is checked before the
        # epoch: the next epoch is already in use, and an abort of an empty transaction with it must not fence the
        # producer (KAFKA-18464).
        busy = entry.pending is not None or current.state in ENDING
        if busy and bumps:
            return Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
        repeated = bumps and _is_repeated_end(identity, current)
        if identity.producer_id != current.producer_id and not repeated:
            return Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if identity.epoch != current.producer_epoch and not repeated:
            return Outcome(ErrorCode.PRODUCER_FENCED)
        if busy:
            return Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
        if current.state is _S.ONGOING:
            return self._ending(current, wanted, version)
        return self._end_of_rest(current, wanted, version, repeated=repeated)

    def _ending(self, current: Transaction, wanted: TransactionState, version: int) -> Transaction:
        rotates = version >= EPOCH_BUMP_VERSION and current.epoch_exhausted
        next_id = self._take_producer_id() if rotates else NO_PRODUCER_ID
        return current.ending(wanted, version, self._now_ms(), next_producer_id=next_id)

    def _end_of_rest(
        self, current: Transaction, wanted: TransactionState, version: int, *, repeated: bool
    ) -> Transaction | Outcome:
        """Handle EndTxn without an open transaction: a retry, an error, or an empty abort (KIP-890)."""
        bumps = version >= EPOCH_BUMP_VERSION
        if _DECIDED_BY.get(current.state) is wanted and (repeated or not bumps):
            return Outcome(ErrorCode.NONE, ProducerIdAndEpoch(current.producer_id, current.producer_epoch))
        if bumps and wanted is _S.PREPARE_ABORT and not repeated:
            return self._ending(current, wanted, version)
        return Outcome(ErrorCode.INVALID_TXN_STATE)

    # ---- carrying out

    def _write(self, entry: _Entry, state: Transaction, done: Done) -> None:
        """Write a state; it becomes the current state once it is replicated."""
        entry.pending = state

        def written(code: ErrorCode) -> None:
            if self._resigned:
                done(ErrorCode.NOT_COORDINATOR)
                return
            entry.pending = None
            if not code:
                entry.current = state
            done(code)

        self._log.append(state, written)

    def _end(self, entry: _Entry, ending: Transaction, answer: Answer) -> None:
        """Write the outcome; once it is replicated, call `answer`, then complete the transaction."""

        def written(code: ErrorCode) -> None:
            if code:
                answer(Outcome(code))
                return
            after = ending.completed(ending.updated_ms)
            answer(Outcome(ErrorCode.NONE, ProducerIdAndEpoch(after.producer_id, after.producer_epoch)))
            self._complete(entry)

        self._write(entry, ending, written)

    def _complete(self, entry: _Entry) -> None:
        """Send the markers of a decided transaction, then write its completed state."""
        ending = entry.current

        def marked_all() -> None:
            if not self._resigned:
                self._write(entry, ending.completed(self._now_ms()), completed)

        def completed(code: ErrorCode) -> None:
            if code and not self._resigned:
                _logger.info("%r: %s; trying again", ending.transactional_id, code.name)
                self._markers.later(marked_all)

        self._markers.write(ending, marked_all)

    # ---- time

    def abort_overdue(self) -> None:
        """Abort the transactions that have been open for longer than their timeout.

        This fences the producer, which gets the error in the response to its next request.
        """
        now_ms = self._now_ms()
        for entry in list(self._entries.values()):
            current = entry.current
            overdue = current.state is _S.ONGOING and now_ms > current.started_ms + current.timeout_ms
            if overdue and entry.pending is None:
                _logger.info("aborting the transaction of %r: it timed out", current.transactional_id)
                self._end(entry, current.fencing_abort(now_ms), _ignored)

    def forget_unused(self) -> None:
        """Remove the transactional ids that have been unused for transactional.id.expiration.ms."""
        oldest = self._now_ms() - self._limits.expiration_ms
        for transactional_id, entry in list(self._entries.items()):
            if entry.pending is None and entry.current.state in AT_REST and entry.current.updated_ms <= oldest:
                self._forget(transactional_id, entry)

    def _forget(self, transactional_id: str, entry: _Entry) -> None:
        entry.pending = entry.current.dead()

        def forgotten(code: ErrorCode) -> None:
            if self._resigned:
                return
            entry.pending = None
            if not code:
                del self._entries[transactional_id]

        self._log.forget(transactional_id, forgotten)

    # ---- questions

    def transaction(self, transactional_id: str) -> Transaction | None:
        """Return the current state of a transactional id; None if the id does not exist."""
        entry = self._entries.get(transactional_id)
        return None if entry is None else entry.current

    def transactions(self) -> list[Transaction]:
        """Return all current states, by transactional id."""
        return [self._entries[transactional_id].current for transactional_id in sorted(self._entries)]


def _is_known(expected: ProducerIdAndEpoch, current: Transaction) -> bool:
    """Return whether an identity in a request belongs, or may belong, to the current producer."""
    return (
        current.producer_epoch == NO_EPOCH
        or expected.producer_id == current.producer_id
        or (expected.producer_id == current.previous_producer_id and is_exhausted(expected.epoch))
    )


def _is_repeated_end(identity: ProducerIdAndEpoch, current: Transaction) -> bool:
    """Return whether an EndTxn is a retry of a completed one, whose response may have been lost (KIP-890)."""
    if current.state not in _DECIDED_BY:
        return False
    if identity.producer_id == current.producer_id:
        return current.producer_epoch == identity.epoch + 1
    rotated = current.previous_producer_id == identity.producer_id and current.producer_epoch == 0
    return rotated and identity.epoch == EPOCH_MAX - 1


def _ignored(outcome: Outcome) -> None:
    """Ignore the result of an abort after a timeout: no client waits for it."""
