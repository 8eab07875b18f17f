"""The exactly-once sink: each task writes one transaction, and the driver commits those of a micro-batch.

Theory of operation. A task takes over the transactional id of its slot (query and partition), which aborts the open
transaction of an earlier attempt, writes its rows and a marker, and prepares the transaction: every record is
acknowledged, none can be read. When all tasks are done, the driver decides: it writes a record that the batch is
committed, with all its transactions and the count and checksum of their rows. Only then does it have the coordinators
commit the transactions.

The steps. A process may crash after each of them, or be delayed while other processes continue:

    task:   look, take over the slot's id, write and prepare, look again
    driver: take over the query's id, look, decide, end all transactions, abort leftovers

Why each row is committed at most once:

- A transaction is committed only after a decision that names it can be read. A task that takes over the slot's id after
  that finds the decision when it looks again, and the marker proves whether the transaction is committed. If it is, the
  task aborts what it has written. If it is not, it never will be: taking over its id has aborted it.
- A decision replaces another one about the same batch only for slots whose decided transactions are proven aborted.
- Decisions about a query are written by one driver at a time, and never about an older batch than the last one.

Why at least once: a batch is complete for Spark when `commit_batch` returns, and then each transaction is committed:
its coordinator has confirmed it, or the marker proves it. "Not committed" is then an error, and the batch is repeated.

The refusal of a coordinator never counts as "not committed" by itself, and an unknown outcome is an error; see
`outcomes` and `decisions`. Batches that do not fit the last decision are refused; see `verdict`. A repetition that
finds slots committed compares count and checksum of their rows with the decision's: rows may come in another order, but
they must be the same ones. A decision is for a number of slots. If a repetition has another number of them, rows are in
other slots than before; the batch is refused, because nothing shows which of them are written already.

Slots become readable one after the other, within the time that it takes to end their transactions.
Why the driver commits, and not each task: docs/decisions. Start at `write_slot` and `commit_batch`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeVar, cast

from kafkaraw.client.blocking.producer import Producer
from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.errors import KafkaError, KafkaTimeoutError, ProducerFencedError, UsageError
from kafkaraw.spark.options.parsing import ExactlyOnce
from kafkaraw.spark.worker import ClientPool, freeze_modules_once
from kafkaraw.spark.writing.decision import (
    NO_ROWS,
    Decision,
    RowSum,
    SlotDecision,
    marker_key,
    marker_value,
    transactional_id,
)
from kafkaraw.spark.writing.decisions import Decisions, Found, pooled
from kafkaraw.spark.writing.outcomes import Outcome
from kafkaraw.spark.writing.task import Summed, WriteSettings, make_producer, send_rows, sum_rows
from kafkaraw.spark.writing.verdict import Verdict, changed_plan, judge, lost_decision, other_rows, resolution_of

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

T = TypeVar("T")

_ENDING_AT_ONCE: Final = 8
_NAMED_MAX: Final = 10


@dataclass(frozen=True)
class Slot:
    """One task of one micro-batch.

    Attributes:
        query_id: id of the query, which its checkpoint keeps.
        batch_id: the micro-batch; None for a batch write, which Spark never repeats.
        number: the task's partition.
    """

    query_id: str
    batch_id: int | None
    number: int


@dataclass(frozen=True)
class Written:
    """What a task reports to the driver.

    Attributes:
        slot: the task.
        transaction: the transaction that holds its rows; None if there are none.
        records_count: number of records that it was given.
        checksum: the sum of the checksums of their rows.
        ended: an earlier attempt wrote the rows, and they are committed; or they are to be skipped.
    """

    slot: Slot
    transaction: PreparedTransaction | None
    records_count: int = 0
    checksum: int = 0
    ended: bool = False

    @property
    def rows(self) -> RowSum:
        """Count and checksum of the rows."""
        return RowSum(self.records_count, self.checksum)


_producers: ClientPool[Producer] = ClientPool(make_producer, idle_max=1)


# -- tasks


def write_slot(batches: Iterable[pa.RecordBatch], settings: WriteSettings, slot: Slot) -> Written:
    """Write the rows of a task in one transaction and leave it open; skip rows that are committed already.

    Raises:
        UsageError: the batch does not fit the query's last decision, or its plan has changed.
        KafkaError: some records could not be written; none of them will be readable.
    """
    once = settings.exactly_once
    assert once is not None
    freeze_modules_once()
    if slot.batch_id is None:
        return _write(batches, settings, once, slot)[0]
    with pooled(settings.client, once.topic) as decisions:
        task = _Task(decisions, settings, once, slot, slot.batch_id)
        return task.run(batches)


def _write(
    batches: Iterable[pa.RecordBatch], settings: WriteSettings, once: ExactlyOnce, slot: Slot
) -> tuple[Written, int]:
    """Take over the slot's id, write the rows and prepare the transaction; return the offset of the marker, too."""
    named = settings.producer | {"transactional_id": transactional_id(once.prefix, slot.query_id, slot.number)}
    with _producers.borrow(named, keep=slot.batch_id is not None) as producer:  # a batch write's id is never used again
        producer.init_transactions()
        producer.begin_transaction()
        if slot.batch_id is None:
            count = send_rows(producer, batches, settings)
            return Written(slot, producer.prepare_transaction(), count), -1
        summed = Summed(batches, settings)
        send_rows(producer, summed, settings)
        key, value = marker_key(slot.query_id, slot.number), marker_value(slot.batch_id)
        ticket = producer.send(once.topic, value, key, partition=0)
        transaction = producer.prepare_transaction()
        return Written(slot, transaction, *summed.total), ticket.result().offset


class _Task:
    """One task of a micro-batch.

    Args:
        decisions: the log of decisions.
        settings: how to write.
        once: how to write exactly once.
        slot: the task.
        batch_id: the micro-batch.
    """

    def __init__(
        self, decisions: Decisions, settings: WriteSettings, once: ExactlyOnce, slot: Slot, batch_id: int
    ) -> None:
        self._decisions = decisions
        self._settings = settings
        self._once = once
        self._slot = slot
        self._batch_id = batch_id

    def run(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Write the rows of a task in one transaction and leave it open; skip rows that are committed already."""
        found = self._decisions.look(self._slot.query_id)
        done = self._done_before(found)
        if done is not None:
            return replace(done, **sum_rows(batches, self._settings)._asdict()) if done.transaction else done
        written, marker_offset = _write(batches, self._settings, self._once, self._slot)
        try:
            return self._confirmed(written, found, marker_offset)
        except KafkaError as error:
            _give_up([written], self._decisions, error)
            raise

    def _confirmed(self, written: Written, found: Found, marker_offset: int) -> Written:
        """Look again, up to the marker: another attempt may have been decided before this one took over."""
        again = self._decisions.look(self._slot.query_id, past=marker_offset + 1)
        if again.offset == found.offset:
            return written
        done = self._done_before(again)
        if done is None:
            return written
        _abort_all([written.transaction], self._decisions)
        return replace(done, records_count=written.records_count, checksum=written.checksum)

    def _done_before(self, found: Found) -> Written | None:
        """Commit the transaction of a decided batch; None if the rows must be written."""
        query_id, number = self._slot.query_id, self._slot.number
        verdict = judge(query_id, self._batch_id, found.last, found.lost, self._once.resolutions)
        if verdict is Verdict.WRITE:
            return None
        if verdict is Verdict.SKIP:
            return Written(self._slot, None, ended=True)
        decided = found.last
        assert decided is not None
        if number >= len(decided.slots):
            raise changed_plan(decided, f"a task {number}")
        transaction = decided.slots[number].transaction
        if transaction is None or self._decisions.is_committed(query_id, self._batch_id, number, transaction):
            return Written(self._slot, transaction, ended=True)
        return None


# -- the driver


def commit_batch(written: Sequence[Written], settings: WriteSettings) -> None:
    """Decide that the transactions of all tasks are to be committed, and commit them.

    Raises:
        UsageError: the batch does not fit the query's last decision: its plan or its rows have changed.
        KafkaError: not all are committed. Spark must repeat the micro-batch, which skips the committed ones.
    """
    once = settings.exactly_once
    assert once is not None
    if not written:
        return
    slot = written[0].slot
    with pooled(settings.client, once.topic) as decisions:
        if slot.batch_id is None:
            _commit_write([each.transaction for each in written], decisions)
        else:
            in_order = sorted(written, key=lambda each: each.slot.number)
            numbers = [each.slot.number for each in in_order]
            if numbers != list(range(len(numbers))):
                raise UsageError(f"batch {slot.batch_id} of query {slot.query_id}: Spark reports the tasks {numbers}")
            _Commit(decisions, once, slot.query_id, slot.batch_id).run(in_order)


def abort_batch(written: Sequence[Written], settings: WriteSettings) -> None:
    """Abort the transactions that the tasks of a batch have prepared, because another task has failed.

    Must not be called for a batch whose commit has failed: some of its transactions may be committed.
    """
    once = settings.exactly_once
    assert once is not None
    with pooled(settings.client, once.topic) as decisions:
        for query_id in {each.slot.query_id for each in written}:
            decisions.expect_leftovers(query_id)
        _abort_all([each.transaction for each in written if not each.ended], decisions)


class _Commit:
    """The driver's part of one micro-batch.

    Args:
        decisions: the log of decisions.
        once: how to write exactly once.
        query_id: the query.
        batch_id: the micro-batch.
    """

    def __init__(self, decisions: Decisions, once: ExactlyOnce, query_id: str, batch_id: int) -> None:
        self._decisions = decisions
        self._once = once
        self._query_id = query_id
        self._batch_id = batch_id

    def run(self, written: Sequence[Written]) -> None:
        """Decide that the transactions of all tasks are to be committed, and commit them."""
        try:
            if self._batch_id == 0:
                self._check_first()
            self._decisions.take_over(self._once.prefix, self._query_id)
            found = self._decisions.look(self._query_id)
            verdict = judge(self._query_id, self._batch_id, found.last, found.lost, self._once.resolutions)
            wanted = self._wanted(verdict, written, found)
        except KafkaError as error:  # no decision names the transactions of the tasks, and none ever will
            _give_up(written, self._decisions, error)
            raise
        stands = set(wanted.transactions)
        unneeded = [each.transaction for each in written if not each.ended and each.transaction not in stands]
        _abort_all(unneeded, self._decisions)
        if wanted is not found.last:
            self._decisions.decide(wanted, found, self._once.prefix)
        if wanted.batch_id == self._batch_id:
            self._end(wanted, written, may_be_incomplete=verdict is Verdict.SKIP)
            before = 0 if found.last is None else len(found.last.slots)
            self._decisions.abort_leftovers(self._once.prefix, self._query_id, len(written), before)

    def _check_first(self) -> None:
        """Refuse a first batch that was decided before, if that decision is no longer in the topic.

        If there is no decision, the query is new, or its topic was deleted: the coordinator of its driver knows which.
        """
        if resolution_of(self._batch_id, None, self._once.resolutions) is not None:
            return
        if self._decisions.look(self._query_id).last is None:
            has_decided = self._decisions.has_decided(self._once.prefix, self._query_id)
            if has_decided and self._decisions.look(self._query_id).last is None:
                raise lost_decision(self._query_id, self._batch_id)

    def _wanted(self, verdict: Verdict, written: Sequence[Written], found: Found) -> Decision:
        """Return the decision to keep: the last one as it is, or a new one."""
        resolved = resolution_of(self._batch_id, found.last, self._once.resolutions) is not None
        last = found.last
        if verdict is Verdict.SKIP:
            if last is not None and last.batch_id >= self._batch_id:
                return last
            return Decision(self._query_id, self._batch_id, (), skipped=True, resolved=resolved)
        if verdict is Verdict.REPEAT:
            assert last is not None
            return self._repeated(written, last)
        if any(each.ended for each in written):
            raise UsageError(
                f"batch {self._batch_id} of query {self._query_id}: tasks have found a decision about it that is not "
                f"there any more. Start the query again"
            )
        slots = tuple(SlotDecision(each.transaction, each.rows) for each in written)
        return Decision(self._query_id, self._batch_id, slots, resolved=resolved)

    def _repeated(self, written: Sequence[Written], decided: Decision) -> Decision:
        """Keep the decided transactions, except those that are proven aborted: tasks wrote their rows again."""
        if len(decided.slots) != len(written):
            raise changed_plan(decided, f"{len(written)} tasks")
        refused = {
            number: slot.transaction
            for number, (slot, ours) in enumerate(zip(decided.slots, written, strict=True))
            if slot.transaction is not None
            and ours.transaction != slot.transaction
            and not self._decisions.try_to_commit(slot.transaction)
        }
        outcomes = self._decisions.outcomes(self._query_id, self._batch_id, refused) if refused else {}
        anew = {number for number, outcome in outcomes.items() if outcome is Outcome.ABORTED}
        if any(written[number].ended for number in anew):
            raise UsageError(
                f"batch {self._batch_id} of query {self._query_id}: another driver has decided it meanwhile. Let only "
                f"one driver run this query, and start it again"
            )
        _compare_rows(written, decided, anew)
        if not anew:
            return decided
        slots = tuple(
            SlotDecision(ours.transaction, ours.rows) if number in anew else slot
            for number, (slot, ours) in enumerate(zip(decided.slots, written, strict=True))
        )
        return Decision(self._query_id, self._batch_id, slots, resolved=decided.resolved)

    def _end(self, decision: Decision, written: Sequence[Written], *, may_be_incomplete: bool) -> None:
        """Commit all transactions of the decision that tasks have not found committed.

        If the user declared the batch as written, some may be aborted: the user has accepted that rows may be missing.
        """
        known = {each.transaction for each in written if each.ended}
        open_slots = {
            number: slot.transaction
            for number, slot in enumerate(decision.slots)
            if slot.transaction is not None and slot.transaction not in known
        }
        refused = _try_to_commit_all(open_slots, self._decisions)
        if not refused:
            return
        which = f"batch {self._batch_id} of query {self._query_id}: the transactions of tasks"
        if may_be_incomplete:
            _log.warning("%s %s cannot be committed; resolveBatches takes it as written", which, _listed(list(refused)))
            return
        outcomes = self._decisions.outcomes(self._query_id, self._batch_id, refused)
        aborted = [number for number, outcome in outcomes.items() if outcome is Outcome.ABORTED]
        if aborted:
            error = ProducerFencedError(
                f"{which} {_listed(aborted)} are aborted: their ids were taken over, or they were open for too long "
                f"(kafka.transaction.timeout.ms)"
            )
            error.add_note(_TAKEN_OVER)
            raise error


_TAKEN_OVER: Final = (
    "a second attempt of a task may have taken its transaction over: switch spark.speculation off. A query writes the "
    "batch again when it is started again; a batch write may be there in part"
)


def _compare_rows(written: Sequence[Written], decided: Decision, anew: set[int]) -> None:
    """Refuse a repetition if its rows in committed slots differ from the rows that were written there."""
    committed = [number for number in range(len(written)) if number not in anew]
    if not committed:
        return
    before = [decided.slots[number].rows for number in committed]
    if None in before:
        _log.warning(
            "batch %d of query %s was decided by an earlier version of kafkaraw, which did not keep what its rows "
            "were: they cannot be compared",
            decided.batch_id,
            decided.query_id,
        )
        return
    then = reduce(RowSum.plus, [rows for rows in before if rows is not None], NO_ROWS)
    now = reduce(RowSum.plus, [written[number].rows for number in committed], NO_ROWS)
    if then != now:
        raise other_rows(decided, _described(then, len(committed)), _described(now, len(committed)))


def _listed(numbers: Sequence[int]) -> str:
    named = ", ".join(map(str, numbers[:_NAMED_MAX]))
    return named if len(numbers) <= _NAMED_MAX else f"{named} and {len(numbers) - _NAMED_MAX} more"


def _described(rows: RowSum, tasks_count: int) -> str:
    return f"{rows.records_count} rows with checksum {rows.checksum:016x} in {tasks_count} tasks"


def _try_to_commit_all(
    transactions: Mapping[int, PreparedTransaction], decisions: Decisions
) -> dict[int, PreparedTransaction]:
    """Commit transactions; return those that their coordinators refuse to commit."""
    results = _side_by_side(decisions.try_to_commit, transactions.values())
    return {number: transactions[number] for number, done in zip(transactions, results, strict=True) if not done}


def _commit_write(transactions: Sequence[PreparedTransaction | None], decisions: Decisions) -> None:
    """Commit the transactions of a batch write."""
    prepared = [each for each in transactions if each is not None]
    try:
        _side_by_side(lambda each: decisions.end(each, commit=True), prepared)
    except ProducerFencedError as error:
        error.add_note(_TAKEN_OVER)
        raise


def _abort_all(transactions: Sequence[PreparedTransaction | None], decisions: Decisions) -> None:
    """Abort transactions; if an id was taken over, its transaction is aborted already."""
    _side_by_side(decisions.abort, [each for each in transactions if each is not None])


def _give_up(written: Sequence[Written], decisions: Decisions, error: KafkaError) -> None:
    """Abort the transactions of tasks after an error, which the caller raises."""
    try:
        _abort_all([each.transaction for each in written if not each.ended], decisions)
    except KafkaError as problem:
        error.add_note(f"while aborting what was written: {problem}")


def _side_by_side(act: Callable[[PreparedTransaction], T], transactions: Iterable[PreparedTransaction]) -> list[T]:
    """End several transactions at once; raise the first error.

    All are tried, so that as many as possible are ended, until one of them has run into its timeout: if a coordinator
    cannot be reached, each further one would wait for that timeout as well.
    """
    errors: list[KafkaError] = []

    def tried(transaction: PreparedTransaction) -> T | None:
        if any(isinstance(error, KafkaTimeoutError) for error in errors):
            return None
        try:
            return act(transaction)
        except KafkaError as error:
            errors.append(error)
            return None

    with ThreadPoolExecutor(_ENDING_AT_ONCE, "kafkaraw-ending") as threads:
        results = list(threads.map(tried, transactions))
    if errors:
        raise errors[0]
    return cast(list[T], results)
