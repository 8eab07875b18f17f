"""The log of decisions: a compacted topic, written by drivers, read by drivers and tasks.

A decision says that a batch is to be committed, and by which transactions. It is durable before the first of them is
committed. From then on, any process that reads the decision commits them; to do so again changes nothing.

The same partition holds the markers of the tasks' transactions, so one log shows in one order which decisions count and
how each transaction ended. It is read whole, with control batches (`WholeLog`), up to the high watermark: the last
stable offset would stop at other queries' open transactions. What a read relies on:

- `look` reads up to the high watermark that the leader returns, and up to `past`. A writer that passes the offset of
  its own acknowledged record sees everything that was written before that record, even if a broker answers that is no
  longer the leader and does not know it: such a broker does not have the record.
- A decision counts when its transaction is committed. `decide` returns when the marker of that commit can be read, so
  that a transaction of a slot is never committed before its decision can be seen.
- A driver writes decisions under the transactional id of its query. `take_over` fences the drivers before it, and
  returns when their last transaction has ended. So between a look after `take_over` and `decide` no other decision
  about the query can appear, or `decide` fails.

This module must not decide: `exactly_once` does. Start at `Decisions.look` and `Decisions.decide`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from kafkaraw.client.blocking.admin import Admin
from kafkaraw.client.blocking.producer import Producer
from kafkaraw.client.bridge import Bridge
from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.client.config import AdminConfig, ConsumerConfig, ProducerConfig, parse
from kafkaraw.client.fetching.whole_log import LogSlice, TopicReplacedError, WholeLog
from kafkaraw.core.cluster import NO_EPOCH
from kafkaraw.errors import (
    BrokerError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    ProducerFencedError,
    TransactionError,
    UnsupportedVersionError,
)
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition
from kafkaraw.spark.options.client import Settings, settings_for, typed_settings
from kafkaraw.spark.worker import ClientPool
from kafkaraw.spark.writing.decision import (
    Decision,
    driver_transactional_id,
    is_of_decision,
    is_part,
    marker_key,
    marker_value,
    transactional_id,
)
from kafkaraw.spark.writing.decisions_topic import ensure_topic
from kafkaraw.spark.writing.outcomes import LogRecord, MarkerFold, Outcome, TransactionFold, owner_of
from kafkaraw.spark.writing.verdict import unknown_outcome

_log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 60.0
_WAIT_MS: Final = 500
"""How long a Fetch waits at the end of the log for a marker that is being written."""
_DRIVER_TRANSACTION_TIMEOUT_MS: Final = "60000"
_DRIVERS_MAX: Final = 16
_ONGOING: Final = "Ongoing"
_COMMITTING: Final = "PrepareCommit"
_COMMITTED: Final = "CompleteCommit"
_PAUSE_S: Final = 0.1
"""Pause between requests about a transaction that is being committed."""

# A refusal that retries do not change, and that does not show how the transaction ended.
_REFUSALS: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)


# The lost decisions of each query, by cluster and topic. Every error drops the clients of its task; a task that Spark
# runs again must be refused as well.
_lost: Final[dict[tuple[str, str], dict[str, tuple[LogRecord, ...]]]] = {}


class DriverFencedError(TransactionError):
    """Another driver of the same query writes decisions: this one must stop."""

    @classmethod
    def explained(cls, query_id: str) -> DriverFencedError:
        """Return the error, with a hint what to do."""
        return cls(
            f"another driver has taken over query {query_id} while this one was committing a batch: either this query "
            f"was started again elsewhere, or two queries run from copies of one checkpoint. Let only one of them run; "
            f"a copy needs a checkpoint of its own"
        )


class Found(NamedTuple):
    """The state of a query in the topic.

    Attributes:
        last: its newest decision.
        lost: a later decision that this process has read before, and that is no longer in the topic.
    """

    last: Decision | None
    lost: Decision | None = None

    @property
    def offset(self) -> int | None:
        """The offset of the newest decision."""
        return None if self.last is None else self.last.offset


class Decisions:
    """One topic of decisions, as this process has read it so far. For one thread at a time, apart from `end`.

    Args:
        settings: of the client, as text.
        topic: its name; created when it does not exist.
    """

    def __init__(self, settings: Settings, topic: str) -> None:
        self.topic = topic
        self._settings = settings
        self._admin = Admin(runtime=None, **typed_settings(AdminConfig, settings_for(AdminConfig, settings)))
        self._drivers: dict[str, Producer] = {}  # those that have prepared their decision, and may take over again
        self._driver: tuple[str, Producer] | None = None  # the driver that has taken over
        self._swept: dict[str, int] = {}
        self._lost = _lost.setdefault((settings["bootstrap_servers"], topic), {})
        self._reader: WholeLog | None = None
        self._bridge: Bridge | None = None
        self._fold = TransactionFold(is_of_decision)
        self._start_over()

    def close(self) -> None:
        """Close the clients, each of them even if another one raises; then raise the first error."""
        closing: list[Callable[[], None]] = [producer.close for producer in self._drivers.values()]
        closing += [self._close_driver, self._close_reader, self._admin.close]
        errors: list[KafkaError] = []
        for close in closing:
            try:
                close()
            except KafkaError as error:
                errors.append(error)
        self._drivers = {}
        if errors:
            raise errors[0]

    # -- reading decisions

    def look(self, query_id: str, *, past: int = 0) -> Found:
        """Read to the end of the topic, and return the query's newest decision.

        Args:
            query_id: the query.
            past: read at least up to this offset, at which the caller has written a record.

        Raises:
            KafkaTimeoutError: the end could not be reached.
            KafkaError: the topic cannot be read, or has the wrong configuration.
        """
        try:
            self._catch_up(past)
        except (TopicReplacedError, LogTruncationError) as error:
            _log.warning("the decisions of all queries are read again: %s", error)
            self._remember_lost()
            self._close_reader()
            self._start_over()
            self._catch_up(past)
        last = self._decision(query_id)
        lost = Decision.from_records(self._lost[query_id]) if query_id in self._lost else None
        if lost is not None and last is not None and (last.batch_id >= lost.batch_id or last.resolved):
            del self._lost[query_id]
            lost = None
        return Found(last, lost)

    def _catch_up(self, past: int) -> None:
        """Read up to the current high watermark, or further."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        end_offset: int | None = None
        waits = False
        while end_offset is None or self._next_offset < end_offset:
            piece = self._read(self._next_offset, deadline_s, wait=waits, last_epoch=self._last_epoch)
            waits = True
            if end_offset is None and piece.high_watermark >= self._next_offset:  # a new leader may not know it yet
                end_offset = max(piece.high_watermark, past)
            self._take(piece)

    def _take(self, piece: LogSlice) -> None:
        for batch in piece.batches:
            for outcome, records in self._fold.add(batch):
                if outcome is Outcome.COMMITTED:
                    self._note(records)
        self._next_offset, self._last_epoch = piece.next_offset, piece.last_epoch

    def _note(self, records: tuple[LogRecord, ...]) -> None:
        """Store a committed decision. It is decoded on demand.

        Parts without a head remain after compaction of a decision that had more parts than the next one.
        """
        head = records[-1]
        if is_part(head.key):
            return
        query_id = head.key.decode(errors="backslashreplace")
        self._decoded.pop(query_id, None)
        if head.value:
            self._records[query_id] = records
        else:  # a tombstone: the decision was deleted
            self._records.pop(query_id, None)

    def _decision(self, query_id: str) -> Decision | None:
        if query_id not in self._decoded and query_id in self._records:
            self._decoded[query_id] = Decision.from_records(self._records[query_id])
        return self._decoded.get(query_id)

    def _remember_lost(self) -> None:
        self._lost.update(self._records)

    def _start_over(self) -> None:
        self._next_offset, self._last_epoch = 0, NO_EPOCH
        self._fold = TransactionFold(is_of_decision)
        self._records: dict[str, tuple[LogRecord, ...]] = {}
        self._decoded: dict[str, Decision] = {}

    # -- reading outcomes

    def is_committed(self, query_id: str, batch_id: int, slot: int, transaction: PreparedTransaction) -> bool:
        """Commit a decided transaction. Returning proves that it is committed, now or earlier.

        Raises:
            KafkaError: it is not known how the transaction ended.
        """
        return self.try_to_commit(transaction) or (
            self.outcomes(query_id, batch_id, {slot: transaction})[slot] is Outcome.COMMITTED
        )

    def try_to_commit(self, transaction: PreparedTransaction) -> bool:
        """Commit a transaction. False means refused, which does not show how it ended: see `outcomes`.

        Raises:
            KafkaError: no answer in time, or an error that is not about the transaction.
        """
        try:
            self.end(transaction, commit=True)
        except ProducerFencedError:
            return False
        except BrokerError as error:
            if error.code in _REFUSALS:
                return False
            raise
        return True

    def outcomes(
        self, query_id: str, batch_id: int, transactions: Mapping[int, PreparedTransaction]
    ) -> dict[int, Outcome]:
        """Read from the markers how slots' transactions ended, after their coordinators have refused to commit them.

        A transaction that is still open after that is being aborted: the coordinator would have finished a commit
        before it let another producer take over the id. This method waits for the abort marker.

        Args:
            query_id: the query.
            batch_id: the micro-batch that the transactions belong to.
            transactions: the transaction of each slot.

        Returns:
            COMMITTED or ABORTED for each slot.

        Raises:
            KafkaTimeoutError: the log could not be read to its end, or a transaction is still open.
            UsageError: the log does not show how a transaction ended.
        """
        keys = {slot: marker_key(query_id, slot) for slot in transactions}
        fold = MarkerFold({keys[slot]: owner_of(transaction) for slot, transaction in transactions.items()})
        deadline_s = time.monotonic() + _TIMEOUT_S
        end_offset: int | None = None
        offset, last_epoch, start_offset = 0, NO_EPOCH, 0
        known_offset = self._next_offset  # a leader with a lower high watermark is outdated
        while True:
            piece = self._read(offset, deadline_s, wait=end_offset is not None, last_epoch=last_epoch)
            end_offset = max(piece.high_watermark, known_offset) if end_offset is None else end_offset
            start_offset = piece.log_start_offset
            for batch in piece.batches:
                fold.add(batch)
            offset, last_epoch = piece.next_offset, piece.last_epoch
            open_slots = [slot for slot, key in keys.items() if fold.outcome(key) is Outcome.OPEN]
            if offset >= end_offset and not open_slots:
                break
        return {slot: self._outcome(fold, query_id, slot, batch_id, start_offset) for slot in keys}

    def _outcome(self, fold: MarkerFold, query_id: str, slot: int, batch_id: int, log_start_offset: int) -> Outcome:
        key = marker_key(query_id, slot)
        found = fold.outcome(key)
        if found is not None:
            return found
        # The marker was written before the decision that names its transaction, and compaction keeps it if the
        # transaction was committed, until a later one of the slot is. So without it the transaction was aborted.
        other = fold.committed(key)
        if log_start_offset > 0 or (other is not None and other.value == marker_value(batch_id)):
            decided = self._decision(query_id)
            assert decided is not None
            raise unknown_outcome(decided, key.decode(), log_start_offset)
        return Outcome.ABORTED

    # -- ending transactions

    def end(self, transaction: PreparedTransaction, *, commit: bool) -> None:
        """End a transaction; see `Admin.end_transaction`. Safe for use by several threads."""
        self._admin.end_transaction(transaction, commit=commit, timeout=_TIMEOUT_S)

    def abort(self, transaction: PreparedTransaction) -> None:
        """Abort a transaction that will never be decided. If its id was taken over, it is aborted already.

        Raises:
            KafkaError: no answer in time, or an error that is not about the transaction.
        """
        try:
            self.end(transaction, commit=False)
        except ProducerFencedError:
            return
        except BrokerError as error:
            if error.code not in _REFUSALS:
                raise

    def abort_leftovers(self, prefix: str, query_id: str, tasks_count: int, tasks_count_before: int) -> None:
        """Abort the query's transactions that are still open after all transactions of its batch were committed.

        They belong to slots that the batch does not have, because it was repeated with fewer tasks, or to abandoned
        attempts. Called when this process commits a batch of the query for the first time, and when there are
        fewer tasks than before. It is no error if the cluster does not permit it: a warning says how long readers wait.
        """
        if query_id in self._swept and tasks_count >= max(tasks_count_before, self._swept[query_id]):
            self._swept[query_id] = tasks_count
            return
        begin = transactional_id(prefix, query_id, 0).removesuffix("0")
        try:
            open_now = self._admin.list_transactions(states=[_ONGOING], timeout=_TIMEOUT_S)
            ids = [one.transactional_id for one in open_now if one.transactional_id.startswith(begin)]
            surplus = [each for each in ids if each.removeprefix(begin).isdecimal()]
            if surplus:
                _log.info("aborting transactions that no task of query %s has any more: %s", query_id, surplus)
                self._admin.fence_producers(surplus, timeout=_TIMEOUT_S)
        except KafkaError as error:
            _log.warning(
                "open transactions of query %s were not aborted: %s. If an earlier attempt had more tasks, readers of "
                "committed records wait until the coordinator aborts what these left open "
                "(kafka.transaction.timeout.ms)",
                query_id,
                error,
            )
        self._swept[query_id] = tasks_count

    def expect_leftovers(self, query_id: str) -> None:
        """Note that an attempt of the query has failed, so that the next commit aborts its open transactions."""
        self._swept.pop(query_id, None)

    # -- writing decisions

    def has_decided(self, prefix: str, query_id: str) -> bool:
        """Return whether the last transaction of the query's drivers is committed, so that there was a decision.

        If it is being committed, wait: its decision cannot be read before that. The coordinator forgets the
        transaction a week after the last decision, and when a driver takes over. It is no error if the cluster does not
        permit the request: a warning is logged.

        Raises:
            KafkaError: no answer in time, or the transaction is not committed in time.
        """
        name = driver_transactional_id(prefix, query_id)
        deadline_s = time.monotonic() + _TIMEOUT_S
        try:
            while (state := self._committed_state(name, deadline_s)) == _COMMITTING:
                time.sleep(_PAUSE_S)
        except (BrokerError, UnsupportedVersionError) as error:
            _log.warning(
                "it was not looked whether the first batch of query %s was decided before: %s. Do not delete the topic "
                "of decisions before that batch is over",
                query_id,
                error,
            )
            return False
        return state == _COMMITTED

    def _committed_state(self, name: str, deadline_s: float) -> str | None:
        """Return whether the last transaction of an id is committed or being committed; None if it is neither."""
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise KafkaTimeoutError(f"the transaction of {name!r} was not committed within {_TIMEOUT_S:g} s")
        found = self._admin.list_transactions(states=[_COMMITTING, _COMMITTED], timeout=left_s)
        return next((one.state for one in found if one.transactional_id == name), None)

    def take_over(self, prefix: str, query_id: str) -> None:
        """Become the query's driver. Earlier drivers are fenced, and their last transaction has ended.

        Raises:
            KafkaError: the coordinator could not be reached, or refuses.
        """
        self._close_driver()
        name = driver_transactional_id(prefix, query_id)
        self._driver = name, self._drivers.pop(name, None) or self._new_producer(name)
        self._driver[1].init_transactions(_TIMEOUT_S)

    def decide(self, decision: Decision, base: Found, prefix: str) -> None:
        """Write a decision; return when it is committed and readable. Call `take_over` first.

        Args:
            decision: the decision to write.
            base: the state that the caller has read; if there is another decision by now, nothing is decided.
            prefix: prefix of the transactional ids.

        Raises:
            DriverFencedError: another driver has taken over.
            KafkaError: it is not known whether the decision is committed; the next `look` shows it.
        """
        try:
            self._write(decision, base, prefix)
        except TransactionError as error:
            if isinstance(error, DriverFencedError) or not _says_fenced(error):
                raise
            raise DriverFencedError.explained(decision.query_id) from error

    def _write(self, decision: Decision, base: Found, prefix: str) -> None:
        name = driver_transactional_id(prefix, decision.query_id)
        assert self._driver is not None
        assert self._driver[0] == name
        producer = self._driver[1]
        producer.begin_transaction()
        tickets = [producer.send(self.topic, value, key, partition=0) for key, value in decision.to_records()]
        prepared = producer.prepare_transaction(_TIMEOUT_S)
        assert prepared is not None
        self._driver = None
        self._drivers[name] = producer
        while len(self._drivers) > _DRIVERS_MAX:
            self._drivers.pop(next(iter(self._drivers))).close()
        offset = tickets[-1].result(_TIMEOUT_S).offset
        if self.look(decision.query_id, past=offset + 1).offset != base.offset:
            self.abort(prepared)
            raise DriverFencedError.explained(decision.query_id)
        if not self.try_to_commit(prepared):
            raise DriverFencedError.explained(decision.query_id)
        self._wait_for(decision.query_id, offset)

    def _wait_for(self, query_id: str, offset: int) -> None:
        """Read until the decision at an offset is committed: its COMMIT marker follows it in the log."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while (decision := self._decision(query_id)) is None or decision.offset < offset:
            self._take(self._read(self._next_offset, deadline_s, wait=True, last_epoch=self._last_epoch))

    # -- clients

    def _read(self, offset: int, deadline_s: float, *, wait: bool, last_epoch: int = NO_EPOCH) -> LogSlice:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise KafkaTimeoutError(f"{self.topic} could not be read as far as needed within {_TIMEOUT_S:g} s")
        if self._reader is None:
            ensure_topic(self._admin, self.topic)
            settings = settings_for(ConsumerConfig, self._settings)
            reader = WholeLog(TopicPartition(self.topic, 0), parse(ConsumerConfig, settings, from_text=True))
            self._reader, self._bridge = reader, Bridge("reader of decisions", reader)
            self._bridge.run(reader.open(left_s))
        assert self._bridge is not None
        wait_ms = _WAIT_MS if wait else 0
        return self._bridge.run(self._reader.read(offset, wait_ms=wait_ms, timeout=left_s, last_epoch=last_epoch))

    def _close_driver(self) -> None:
        """Close a driver that has taken over and has not decided."""
        driver, self._driver = self._driver, None
        if driver is not None:
            driver[1].close()

    def _close_reader(self) -> None:
        if self._reader is not None and self._bridge is not None:
            self._bridge.run(self._reader.close())
        self._reader = self._bridge = None

    def _new_producer(self, name: str) -> Producer:
        ours = {
            "acks": "all",
            "enable_idempotence": "true",
            "linger_ms": "0",
            "transactional_id": name,
            "transaction_timeout_ms": _DRIVER_TRANSACTION_TIMEOUT_MS,
        }
        settings = settings_for(ProducerConfig, self._settings) | ours
        return Producer(runtime=None, **typed_settings(ProducerConfig, settings))


def _says_fenced(error: TransactionError) -> bool:
    """Return whether a producer's error means that another one has taken over the transactional id."""
    cause = error.__cause__
    return isinstance(error, ProducerFencedError) or (isinstance(cause, BrokerError) and cause.code in _REFUSALS)


def _open(settings: Settings) -> Decisions:
    clients = Settings(settings)
    return Decisions(clients, clients.pop("decisions_topic"))


_pool: ClientPool[Decisions] = ClientPool(_open, idle_max=4)


def pooled(settings: Settings, topic: str) -> AbstractContextManager[Decisions]:
    """Return the decisions of a topic, kept in this process between tasks and batches."""
    return _pool.borrow(settings | {"decisions_topic": topic})
