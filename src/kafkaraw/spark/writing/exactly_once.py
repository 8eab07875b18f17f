"""The exactly-once sink: each task writes one transaction, and the driver commits those of a micro-batch.

Theory of operation. A task takes over the transactional id of its slot (query and partition), which aborts what an
earlier attempt has left open, writes its rows and a marker, and prepares the transaction: every record is acknowledged,
none can be read. When all tasks are done, the driver writes down that the batch is decided, with all its transactions,
and only then has the coordinators end them. What happens when somebody dies:

- before the decision: nothing can be read. The batch is written again; taking over the ids aborts the first attempt.
- after the decision: whoever writes the batch again finds it, and in place of writing has the transaction of its slot
  committed, which does no harm when it is committed already. One that was aborted meanwhile, because it was open for
  too long, is written again. Each record can be read once.

A decision is for a number of slots. When the plan has another number of them on the second attempt, rows are in other
slots than before; the batch is refused, as there is no way to tell which of them are written already.

Slots become readable one after the other, within the time that it takes to end their transactions.
Why the driver commits, and not each task: docs/decisions. Start at `write_slot` and `commit_batch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkaraw.client.blocking.producer import Producer
from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.errors import BrokerError, KafkaError, ProducerFenced, UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.spark.options.client import Settings
from kafkaraw.spark.options.parsing import ExactlyOnce
from kafkaraw.spark.worker import ClientPool, freeze_modules_once
from kafkaraw.spark.writing.decisions import Decision, Decisions, marker_key, marker_value, pooled
from kafkaraw.spark.writing.task import WriteSettings, make_producer, send_rows

if TYPE_CHECKING:
    import pyarrow as pa

_ENDING_AT_ONCE: Final = 8


@dataclass(frozen=True)
class Slot:
    """One task of one micro-batch.

    Attributes:
        query_id: id of the query, which its checkpoint keeps.
        batch_id: the micro-batch; None for a batch write, which nobody repeats.
        number: the task's partition.
    """

    query_id: str
    batch_id: int | None
    number: int


@dataclass(frozen=True)
class Written:
    """What a task reports to the driver.

    Attributes:
        slot: which task.
        transaction: what holds its rows; None when there are none.
        records_count: records it wrote.
        ended: an earlier attempt wrote the rows, and they are committed.
    """

    slot: Slot
    transaction: PreparedTransaction | None
    records_count: int = 0
    ended: bool = False


_producers: ClientPool[Producer] = ClientPool(make_producer, idle_max=1)


def write_slot(batches: Iterable[pa.RecordBatch], settings: WriteSettings, slot: Slot) -> Written:
    """Write the rows of a task in one transaction that is left open, unless they are written already.

    Raises:
        UsageError: the plan has changed since the batch was written the first time.
        KafkaError: some records could not be written; none of them will be read.
    """
    once = settings.exactly_once
    assert once is not None
    freeze_modules_once()
    if slot.batch_id is not None:
        done = _written_before(settings.client, once, slot, slot.batch_id)
        if done is not None:
            return done
    named = settings.producer | {"transactional_id": f"{once.prefix}-{slot.query_id}-{slot.number}"}
    with _producers.borrow(named, keep=slot.batch_id is not None) as producer:  # a batch write's id is never used again
        producer.init_transactions()
        producer.begin_transaction()
        count = send_rows(producer, batches, settings)
        if slot.batch_id is not None:
            key, value = marker_key(slot.query_id, slot.number), marker_value(slot.batch_id)
            producer.send(once.topic, value, key, partition=0)
        return Written(slot, producer.prepare_transaction(), count)


def _written_before(client: Settings, once: ExactlyOnce, slot: Slot, batch_id: int) -> Written | None:
    """Bring the transaction of a decided batch to its end; None when there is none, or it is lost."""
    with pooled(client, once.topic) as decisions:
        decided = decisions.last(slot.query_id)
        if decided is None or decided.batch_id < batch_id:
            return None
        if slot.number >= len(decided.transactions):
            raise UsageError(_changed_plan(decided, f"a task {slot.number}"))
        transaction = decided.transactions[slot.number]
        # With a later batch decided, an older checkpoint was put back: this batch was done with long ago.
        if transaction is None or decided.batch_id > batch_id or _is_committed(transaction, slot, batch_id, decisions):
            return Written(slot, transaction, ended=True)
        return None


def _is_committed(transaction: PreparedTransaction, slot: Slot, batch_id: int, decisions: Decisions) -> bool:
    """Have a decided transaction committed; whether that succeeded, now or earlier."""
    try:
        decisions.end(transaction, commit=True)
    except ProducerFenced:
        return False
    except BrokerError as error:
        if error.code == ErrorCode.INVALID_TXN_STATE:  # it was aborted
            return False
        if error.code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:  # nobody used the id for a week
            return decisions.marked(slot.query_id, slot.number) >= batch_id
        raise
    return True


def _changed_plan(decided: Decision, now: str) -> str:
    return (
        f"batch {decided.batch_id} of query {decided.query_id} was written by {len(decided.transactions)} tasks before "
        f"and has {now} now: the plan has changed, so that it is not known which rows are written already. Run this "
        "one batch with the plan, the number of partitions and the options that it had at first"
    )


def commit_batch(written: Sequence[Written], settings: WriteSettings) -> None:
    """Decide that the transactions of all tasks are to be committed, and commit them.

    Raises:
        UsageError: the plan has changed since the batch was decided first.
        KafkaError: not all are committed; a micro-batch has to be written again, which will not repeat those that are.
    """
    once = settings.exactly_once
    assert once is not None
    if not written:
        return
    slot = written[0].slot
    with pooled(settings.client, once.topic) as decisions:
        if slot.batch_id is not None:
            transactions = tuple(each.transaction for each in sorted(written, key=lambda one: one.slot.number))
            _decide(Decision(slot.query_id, slot.batch_id, transactions), decisions)
        _end_all([each.transaction for each in written if not each.ended], decisions, commit=True)


def _decide(wanted: Decision, decisions: Decisions) -> None:
    decided = decisions.last(wanted.query_id)
    if decided is not None and decided.batch_id >= wanted.batch_id:
        if decided.batch_id > wanted.batch_id or decided == wanted:
            return
        if len(decided.transactions) != len(wanted.transactions):
            raise UsageError(_changed_plan(decided, f"{len(wanted.transactions)} tasks"))
    decisions.write(wanted)


def abort_batch(written: Sequence[Written], settings: WriteSettings) -> None:
    """Abort what the tasks of a batch have prepared, which failed in another task.

    A batch whose commit has failed must not be given here: some of it may be committed.
    """
    once = settings.exactly_once
    assert once is not None
    with pooled(settings.client, once.topic) as decisions:
        _end_all([each.transaction for each in written if not each.ended], decisions, commit=False)


def _end_all(transactions: Sequence[PreparedTransaction | None], decisions: Decisions, *, commit: bool) -> None:
    """End several transactions side by side; raises the first error once all have been tried."""

    def end(transaction: PreparedTransaction) -> KafkaError | None:
        try:
            decisions.end(transaction, commit=commit)
        except KafkaError as error:
            return error
        return None

    with ThreadPoolExecutor(_ENDING_AT_ONCE, "kafkaraw-ending") as threads:
        results = list(threads.map(end, [each for each in transactions if each is not None]))
    errors = [error for error in results if error is not None]
    if any(isinstance(error, ProducerFenced) for error in errors):
        errors[0].add_note(
            "a second attempt of a task may have taken its transaction over: switch spark.speculation off. A query "
            "writes the batch again when it is started again; a batch write may be there in part"
        )
    if errors:
        raise errors[0]
