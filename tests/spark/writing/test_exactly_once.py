"""The exactly-once sink without Spark: tasks and driver as functions, on a broker, dying at every step."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.client.fetching.whole_log import LogSlice
from kafkaraw.errors import ClosedError, KafkaError, KafkaTimeoutError, ProducerFencedError, UsageError
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.spark.options.client import Settings
from kafkaraw.spark.worker import ClientPool
from kafkaraw.spark.writing import decisions as decisions_module
from kafkaraw.spark.writing import exactly_once
from kafkaraw.spark.writing.decision import Decision, SlotDecision
from kafkaraw.spark.writing.decisions import Decisions, DriverFencedError
from kafkaraw.spark.writing.exactly_once import Slot, Written, abort_batch, commit_batch, write_slot
from kafkaraw.spark.writing.task import make_producer
from tests.spark.writing.query import TASKS, TOPIC, Query, forget_clients


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def servers_of_the_first_generation() -> Iterator[str]:
    with EmbeddedBroker(properties={"transaction.version": 0}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(params=["servers", "servers_of_the_first_generation"])
def query(request: pytest.FixtureRequest) -> Query:
    return Query(request.getfixturevalue(request.param))


BATCH = [0, 1, 2]


def test_a_batch_is_read_when_the_driver_has_committed_it_and_not_before(query: Query) -> None:
    written = query.tasks(0)
    assert query.read() == []
    commit_batch(written, query.settings)
    assert query.read() == BATCH
    query.run(1)
    assert query.read() == [*BATCH, 10, 11, 12]


def test_a_batch_that_is_repeated_after_its_commit_is_not_written_again(query: Query) -> None:
    query.run(0)
    again = query.tasks(0)
    assert all(each.ended for each in again)
    commit_batch(again, query.settings)
    assert query.read() == BATCH


def test_an_undecided_attempt_is_aborted_by_the_next(query: Query) -> None:
    query.tasks(0, count=2)  # the driver dies before the third
    query.run(0)
    assert query.read() == BATCH


@pytest.mark.parametrize("ended", range(TASKS + 1))
def test_a_driver_that_dies_while_it_ends_transactions_leaves_the_rest_to_the_next(
    query: Query, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(transactions: dict[int, PreparedTransaction], decisions: Decisions) -> None:
        for number in range(ended):
            decisions.end(transactions[number], commit=True)
        raise KeyboardInterrupt

    written = query.tasks(0)
    with monkeypatch.context() as patch:
        patch.setattr(exactly_once, "_try_to_commit_all", die)
        with pytest.raises(KeyboardInterrupt):
            commit_batch(written, query.settings)
    assert len(query.read()) == ended
    query.run(0)
    assert query.read() == BATCH


def test_a_decided_transaction_that_was_aborted_meanwhile_is_written_again(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.decide_only(0, monkeypatch)
    with query.decisions() as decisions:
        decisions.end(query.last_decided()[1], commit=False)
    again = query.tasks(0)
    assert [each.ended for each in again] == [True, False, True]
    commit_batch(again, query.settings)
    assert query.read() == BATCH
    assert all(each.ended for each in query.tasks(0))


def test_a_second_attempt_of_a_task_takes_over_and_the_first_cannot_be_committed(query: Query) -> None:
    first = query.tasks(0)
    query.task(0, 1)
    with pytest.raises(ProducerFencedError) as error:
        commit_batch(first, query.settings)
    assert "spark.speculation" in error.value.__notes__[0]
    query.run(0)
    assert query.read() == BATCH


def test_a_plan_with_another_number_of_tasks_is_refused_for_a_batch_that_was_decided(query: Query) -> None:
    query.run(0)
    with pytest.raises(UsageError, match="was written by 3 tasks before and has a task 3 now: the plan has changed"):
        query.task(0, 3)
    with pytest.raises(UsageError, match="was written by 3 tasks before and has 2 tasks now"):
        commit_batch(query.tasks(0, count=2), query.settings)
    assert query.read() == BATCH
    commit_batch(query.tasks(1, count=2), query.settings)
    assert query.read() == [*BATCH, 10, 11]


def test_a_failed_task_aborts_the_prepared_transactions_of_the_others(query: Query) -> None:
    abort_batch(query.tasks(0, count=2), query.settings)
    assert query.read() == []
    query.run(0)
    assert query.read() == BATCH


def test_an_older_checkpoint_is_refused(query: Query) -> None:
    query.run(0)
    query.run(1)
    with pytest.raises(UsageError, match=r"a later one, batch 1, is decided: the checkpoint is an older one"):
        query.task(0, 0)
    query.run(2)
    assert query.read() == [*BATCH, 10, 11, 12, 20, 21, 22]


def test_rows_of_a_restored_checkpoint_are_not_lost_silently(query: Query) -> None:
    for batch_id in range(4):
        query.run(batch_id)
    for batch_id in (1, 2, 3):  # the checkpoint of batch 0 is back: Spark plans these anew, with other rows
        with pytest.raises(UsageError, match=r"is decided|has other rows"):
            query.run(batch_id, rows=lambda number: str(1000 + number))


def test_a_repetition_with_other_rows_is_refused(query: Query) -> None:
    query.run(0)
    with pytest.raises(UsageError, match=r"batch 0 of query .* has other rows than when it was written: then 3 rows"):
        query.run(0, rows=lambda number: "777")
    assert query.read() == BATCH


def test_a_repetition_may_have_the_rows_of_committed_slots_in_another_order_and_other_batches(query: Query) -> None:
    slot = Slot(query.id, 0, 0)
    rows = pa.RecordBatch.from_pydict({"value": ["0", "1", "2"]})
    commit_batch([write_slot([rows], query.settings, slot)], query.settings)
    again = write_slot([rows.slice(2), rows.slice(1, 1), rows.slice(0, 1)], query.settings, slot)
    commit_batch([again], query.settings)
    assert query.read() == BATCH


def test_a_repetition_may_have_other_rows_when_none_of_its_slots_is_committed(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.decide_only(0, monkeypatch)
    with query.decisions() as decisions:
        for transaction in query.last_decided():
            decisions.end(transaction, commit=False)
    query.run(0, rows=lambda number: str(100 + number))
    assert query.read() == [100, 101, 102]


def test_refused_rows_leave_no_open_transaction(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.decide_only(0, monkeypatch)
    with query.decisions() as decisions:
        decisions.end(query.last_decided()[0], commit=False)
    with pytest.raises(UsageError, match="has other rows"):
        query.run(0, rows=lambda number: str(100 + number))
    assert query.open_transactions() == []
    assert query.read() == [1, 2]


# -- how a transaction ended is proven


def test_a_stalled_attempt_that_takes_over_after_the_commit_writes_nothing(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(exactly_once, "_write", query.running_first(lambda: query.run(0)))
        stalled = query.task(0, 0)  # it has looked before there was a decision, and goes on now
    assert stalled.ended
    query.run(0)
    assert query.read() == BATCH
    assert query.open_transactions() == []


def test_a_batch_is_committed_if_the_next_one_has_taken_its_ids_over(query: Query) -> None:
    query.run(0)
    query.tasks(1)  # under way; then the log of Spark's commits is lost
    again = query.tasks(0)
    assert all(each.ended for each in again)
    commit_batch(again, query.settings)
    assert query.read() == BATCH
    query.run(1)
    assert query.read() == [*BATCH, 10, 11, 12]


def test_a_decision_of_a_driver_that_was_taken_over_does_not_count(query: Query) -> None:
    late = query.tasks(0)  # of a driver that is stuck before it decides
    with query.decisions() as stuck:
        stuck.take_over("kafkaraw-spark", query.id)
        base = stuck.look(query.id)
        query.run(0)
        slots = tuple(SlotDecision(each.transaction, each.rows) for each in late)
        with pytest.raises(DriverFencedError, match="another driver has taken over query"):
            stuck.decide(Decision(query.id, 0, slots), base, "kafkaraw-spark")
    query.run(0)
    assert query.read() == BATCH


def test_a_decision_that_lands_before_the_next_driver_takes_over_is_replaced_where_it_was_aborted(query: Query) -> None:
    late = query.tasks(0)
    current = query.tasks(0)  # these have aborted the transactions of the others
    with pytest.raises(ProducerFencedError):
        commit_batch(late, query.settings)
    commit_batch(current, query.settings)
    assert query.read() == BATCH
    query.run(0)
    assert query.read() == BATCH


def test_a_driver_whose_tasks_were_taken_over_leaves_the_decision_of_the_other_one(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = query.tasks(0)
    query.decide_only(0, monkeypatch)
    commit_batch(late, query.settings)  # it brings the decided transactions to their end, and aborts its own
    assert query.read() == BATCH


def test_a_marker_behind_the_open_transaction_of_another_query_is_found(query: Query) -> None:
    other = Query(query.servers)
    other.task(0, 0)
    query.run(0)
    query.tasks(1)
    again = query.tasks(0)
    assert all(each.ended for each in again)
    assert other.open_transactions() != []


def test_a_time_out_while_outcomes_are_read_is_an_error(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.run(0)
    query.tasks(1)
    with query.decisions() as decisions:
        known = decisions.look(query.id).last
        assert known is not None
        transaction = known.transactions[0]
        assert transaction is not None
        unknown_end = decisions._read(0, time.monotonic() + 10, wait=False)
        monkeypatch.setattr(decisions_module, "_TIMEOUT_S", 0.2)
        far = dataclasses.replace(unknown_end, next_offset=0, batches=(), high_watermark=10**6)
        monkeypatch.setattr(decisions, "_read", stalling(far))
        with pytest.raises(KafkaTimeoutError, match="could not be read"):
            decisions.is_committed(query.id, 0, 0, transaction)
        monkeypatch.undo()
        assert decisions.is_committed(query.id, 0, 0, transaction)


def stalling(piece: LogSlice) -> Callable[..., LogSlice]:
    """A log that does not come to its end, until the time is up."""

    def read(offset: int, deadline_s: float, *, wait: bool, last_epoch: int) -> LogSlice:
        if time.monotonic() > deadline_s:
            raise KafkaTimeoutError("the log could not be read")
        time.sleep(0.02)
        return piece

    return read


class Forgetful(Decisions):
    """A cluster whose coordinators have forgotten their transactional ids, as they do after a week."""

    def end(self, transaction: PreparedTransaction, *, commit: bool) -> None:
        raise error_for(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "end")


@pytest.mark.parametrize("ended", [True, False])
def test_the_marker_shows_the_outcome_of_a_transaction_that_the_coordinator_has_forgotten(
    query: Query, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.run(0)
    query.decide_only(1, monkeypatch)
    with query.decisions() as decisions:
        transactions = query.last_decided()
        for each in transactions:
            decisions.end(each, commit=ended)
        monkeypatch.setattr(decisions, "__class__", Forgetful)
        assert decisions.is_committed(query.id, 1, 0, transactions[0]) is ended
        monkeypatch.undo()


# -- decisions that do not fit


def test_a_batch_without_the_decision_before_it_is_refused(query: Query) -> None:
    with pytest.raises(UsageError, match=r"has no decision about this query, and should have one about batch 0"):
        query.task(1, 0)
    query.run(0)
    with pytest.raises(UsageError, match=r"the newest decision is about batch 0 and should be about batch 1"):
        query.task(2, 0)


def test_an_older_batch_is_never_decided(query: Query) -> None:
    old = query.tasks(0)
    query.run(0)
    query.run(1)
    with pytest.raises(UsageError, match="a later one, batch 1, is decided"):
        commit_batch(old, query.settings)
    assert query.read() == [*BATCH, 10, 11, 12]
    assert query.open_transactions() == []


def resolving(query: Query, text: str) -> Query:
    """The same query with the option `resolveBatches`."""
    return query.with_options(resolveBatches=text)


def advice(error: pytest.ExceptionInfo[UsageError], what: str) -> str:
    """The value for `resolveBatches` that a refusal names."""
    found = re.search(rf"[\d-]+@(?:none|\d+)={what}", str(error.value))
    assert found is not None
    return found[0]


def test_resolve_batches_writes_a_refused_batch_once(query: Query) -> None:
    for batch_id in range(3):
        query.run(batch_id)
    with pytest.raises(UsageError) as refusal:
        query.run(1, rows=lambda number: str(100 + number))
    resolved = resolving(query, advice(refusal, "write"))
    resolved.run(1, rows=lambda number: str(100 + number))
    resolved.run(1, rows=lambda number: str(100 + number))  # repeated by Spark, with the option still set
    resolved.run(2, rows=lambda number: str(200 + number))
    assert resolved.read() == [0, 1, 2, 10, 11, 12, 20, 21, 22, 100, 101, 102, 200, 201, 202]
    with pytest.raises(UsageError, match="a later one, batch 2, is decided"):
        resolved.run(1)  # the checkpoint is restored once more: another decision is the newest


def test_resolve_batches_skips_refused_batches(query: Query) -> None:
    for batch_id in range(3):
        query.run(batch_id)
    with pytest.raises(UsageError) as refusal:
        query.run(1)
    resolved = resolving(query, advice(refusal, "skip"))
    resolved.run(1, rows=lambda number: "1000")
    resolved.run(2, rows=lambda number: "1000")
    resolved.run(3)
    resolved.run(4)
    assert resolved.read() == [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42]


@pytest.mark.parametrize(("what", "expected"), [("write", [50, 51, 52, 60, 61, 62]), ("skip", [60, 61, 62])])
def test_a_batch_whose_decisions_are_gone_is_resolved(query: Query, what: str, expected: list[int]) -> None:
    with pytest.raises(UsageError) as refusal:
        query.run(5)
    assert advice(refusal, what) == f"5@none={what}"
    resolved = resolving(query, advice(refusal, what))
    resolved.run(5)
    resolved.run(5)
    resolved.run(6)
    assert resolved.read() == expected


def test_rows_that_differ_are_resolved(query: Query) -> None:
    query.run(0)
    with pytest.raises(UsageError) as refusal:
        query.run(0, rows=lambda number: str(100 + number))
    resolving(query, advice(refusal, "skip")).run(0, rows=lambda number: "1000")
    assert query.read() == BATCH
    resolved = resolving(query, advice(refusal, "write"))
    resolved.run(0, rows=lambda number: str(100 + number))
    resolved.run(0, rows=lambda number: str(100 + number))
    assert query.read() == [*BATCH, 100, 101, 102]


def test_another_number_of_tasks_is_resolved(query: Query) -> None:
    query.run(0)
    with pytest.raises(UsageError) as refusal:
        commit_batch(query.tasks(0, count=2), query.settings)
    resolved = resolving(query, advice(refusal, "write"))
    commit_batch(resolved.tasks(0, count=2), resolved.settings)
    assert query.read() == [0, 0, 1, 1, 2]


def test_resolve_batches_skips_a_decided_batch_with_an_aborted_transaction(
    query: Query, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    query.decide_only(0, monkeypatch)
    with query.decisions() as decisions, Admin(bootstrap_servers=query.servers) as admin:
        first, second, _ = query.last_decided()
        decisions.end(first, commit=True)
        admin.fence_producers([second.transactional_id])
    with pytest.raises(UsageError, match="has other rows") as refusal:
        query.run(0, rows=lambda number: str(100 + number))
    resolved = resolving(query, advice(refusal, "skip"))
    resolved.run(0, rows=lambda number: str(100 + number))
    resolved.run(1)
    assert query.read() == [0, 2, 10, 11, 12]
    assert "the transactions of tasks 1 cannot be committed; resolveBatches takes it as written" in caplog.text


def test_a_decision_may_name_transactions_with_several_prefixes(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.decide_only(0, monkeypatch)
    with Admin(bootstrap_servers=query.servers) as admin:
        admin.fence_producers([query.last_decided()[1].transactional_id])
    other = query.with_options(transactionalIdPrefix="other")
    other.decide_only(0, monkeypatch)  # slot 1 is written anew
    names = [each.transactional_id for each in other.last_decided()]
    assert [each.split(query.id)[0] for each in names] == ["kafkaraw-spark-", "other-", "kafkaraw-spark-"]
    other.run(0)
    assert query.read() == BATCH


def test_a_coordinator_that_cannot_be_reached_is_waited_for_once(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    written, asked = query.tasks(0, count=3 * exactly_once._ENDING_AT_ONCE), list[PreparedTransaction]()

    def unreachable(_: Decisions, transaction: PreparedTransaction) -> None:
        asked.append(transaction)
        time.sleep(0.05)
        raise KafkaTimeoutError("no coordinator")

    with monkeypatch.context() as patch:
        patch.setattr(Decisions, "abort", unreachable)
        with pytest.raises(KafkaTimeoutError, match="no coordinator"):
            abort_batch(written, query.settings)
    assert len(asked) <= exactly_once._ENDING_AT_ONCE


# -- what an earlier attempt leaves open


def test_a_repetition_with_fewer_tasks_aborts_what_the_others_left_open(query: Query) -> None:
    query.run(0)
    query.tasks(1)
    forget_clients()  # another driver
    commit_batch(query.tasks(1, count=1), query.settings)
    assert query.open_transactions() == []
    assert query.read() == [*BATCH, 10]


def test_a_failed_attempt_with_more_tasks_leaves_nothing_open(query: Query) -> None:
    commit_batch(query.tasks(0, count=1), query.settings)
    attempt = query.tasks(1)
    abort_batch(attempt[:1], query.settings)  # Spark knows of one; the others were not done
    commit_batch(query.tasks(1, count=1), query.settings)
    assert query.open_transactions() == []


def test_transactions_that_may_not_be_listed_are_a_warning(
    query: Query, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise error_for(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "list transactions")

    forget_clients()
    monkeypatch.setattr(Admin, "list_transactions", refused)
    query.run(0)
    assert query.read() == BATCH
    assert f"open transactions of query {query.id} were not aborted" in caplog.text


# -- decisions of earlier versions


def test_a_decision_of_the_first_format_is_read_and_said_to_be_incomparable(
    query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    written = query.tasks(0)
    value = json.dumps({"batch": 0, "transactions": [each.transaction for each in written]}).encode()
    with Producer(bootstrap_servers=query.servers) as producer:
        producer.send(TOPIC, value, query.id.encode(), partition=0).result(10)
    query.run(0, rows=lambda number: "1000")
    assert query.read() == BATCH
    assert caplog.text.count("was decided by an earlier version of kafkaraw") == 1
    query.run(1)
    assert query.read() == [*BATCH, 10, 11, 12]


def test_a_batch_write_is_committed_without_a_decision(query: Query) -> None:
    def write(number: int) -> Written:
        rows = pa.RecordBatch.from_pydict({"value": [str(number)]})
        return write_slot([rows], query.settings, Slot("write", None, number))

    written = [write(0), write(1), write_slot([], query.settings, Slot("write", None, 2))]
    assert query.read() == []
    commit_batch(written, query.settings)
    assert query.read() == [0, 1]
    with query.decisions() as decisions:
        assert decisions.look("write").last is None


def test_the_producer_of_a_batch_write_is_closed_and_that_of_a_query_is_kept(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Producer] = []

    def make(settings: Settings) -> Producer:
        made.append(make_producer(settings))
        return made[-1]

    pool = ClientPool(make)
    monkeypatch.setattr(exactly_once, "_producers", pool)
    rows = pa.RecordBatch.from_pydict({"value": ["1"]})
    commit_batch([write_slot([rows], query.settings, Slot("write", None, 0))], query.settings)
    with pytest.raises(ClosedError):
        made[0].partitions_for(query.topic)
    query.run(0)
    query.run(1)
    pool.close()
    assert len(made) == 1 + TASKS


def test_a_row_that_cannot_be_written_leaves_nothing_to_read(query: Query) -> None:
    rows = pa.RecordBatch.from_pydict({"value": ["1", "x" * 2_000_000]})
    with pytest.raises(KafkaError, match="max_request_size"):
        write_slot([rows], query.settings, Slot(query.id, 0, 0))
    query.run(0)
    assert query.read() == BATCH
