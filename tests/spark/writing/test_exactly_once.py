"""The exactly-once sink without Spark: tasks and driver as functions, on a broker, dying at every step."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pytest

from kafkaraw import Admin, Consumer, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import ConfigResource, NewTopic
from kafkaraw.errors import ClosedError, KafkaError, ProducerFenced, UsageError
from kafkaraw.records import TopicPartition
from kafkaraw.spark.options.client import Settings
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.worker import ClientPool
from kafkaraw.spark.writing import exactly_once
from kafkaraw.spark.writing.decisions import Decision, Decisions
from kafkaraw.spark.writing.exactly_once import Slot, Written, abort_batch, commit_batch, write_slot
from kafkaraw.spark.writing.task import WriteSettings, make_producer, write_settings
from tests.spark.spark_types import struct

TASKS = 3
_names = itertools.count()


class Query:
    """A streaming query that writes the numbers `10 * batch + task` of each batch, as Spark would have it."""

    def __init__(self, servers: str) -> None:
        self.id = f"query-{next(_names)}"
        self.servers = servers
        self.topic = f"out-{self.id}"
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(self.topic, TASKS)])
        given = {"kafka.bootstrap.servers": servers, "topic": self.topic, "exactlyOnce": "true"}
        self.settings: WriteSettings = write_settings(parse_options(given), struct("value string"))

    def task(self, batch_id: int, number: int) -> Written:
        rows = pa.RecordBatch.from_pydict({"value": [str(10 * batch_id + number)]})
        return write_slot([rows], self.settings, Slot(self.id, batch_id, number))

    def tasks(self, batch_id: int, count: int = TASKS) -> list[Written]:
        return [self.task(batch_id, number) for number in range(count)]

    def run(self, batch_id: int) -> None:
        commit_batch(self.tasks(batch_id), self.settings)

    def read(self) -> list[int]:
        """What a reader of committed records finds; it waits for open transactions to end."""
        settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
        with Consumer(bootstrap_servers=self.servers, **settings) as consumer:
            partitions = consumer.partitions_for(self.topic)
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            found: list[int] = []
            while any(consumer.position(each) < ends[each] for each in partitions):
                found += [int(record.value or b"") for batch in consumer.poll(0.01).values() for record in batch]
        return sorted(found)


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


def test_an_attempt_that_was_not_decided_is_given_up_by_the_next(query: Query) -> None:
    query.tasks(0, count=2)  # the driver dies before the third
    query.run(0)
    assert query.read() == BATCH


@pytest.mark.parametrize("ended", range(TASKS + 1))
def test_a_driver_that_dies_while_it_ends_transactions_leaves_the_rest_to_the_next(
    query: Query, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(transactions: list[object], decisions: Decisions, *, commit: bool) -> None:
        for each in transactions[:ended]:
            decisions.end(each, commit=commit)
        raise KeyboardInterrupt

    written = query.tasks(0)
    with monkeypatch.context() as patch:
        patch.setattr(exactly_once, "_end_all", die)
        with pytest.raises(KeyboardInterrupt):
            commit_batch(written, query.settings)
    assert len(query.read()) == ended
    query.run(0)
    assert query.read() == BATCH


def test_a_decided_transaction_that_was_aborted_meanwhile_is_written_again(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = query.tasks(0)
    with monkeypatch.context() as patch:
        patch.setattr(exactly_once, "_end_all", lambda *_, **__: None)
        commit_batch(written, query.settings)  # decided, and dead before the first is ended
    with exactly_once.pooled(query.settings.client, "kafkaraw-spark-decisions") as decisions:
        assert written[1].transaction is not None
        decisions.end(written[1].transaction, commit=False)
    again = query.tasks(0)
    assert [each.ended for each in again] == [True, False, True]
    commit_batch(again, query.settings)
    assert query.read() == BATCH
    assert all(each.ended for each in query.tasks(0))


def test_a_second_attempt_of_a_task_takes_over_and_the_first_cannot_be_committed(query: Query) -> None:
    first = query.tasks(0)
    query.task(0, 1)
    with pytest.raises(ProducerFenced) as error:
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


def test_when_a_task_fails_what_the_others_have_prepared_is_aborted(query: Query) -> None:
    abort_batch(query.tasks(0, count=2), query.settings)
    assert query.read() == []
    query.run(0)
    assert query.read() == BATCH


def test_an_older_checkpoint_repeats_nothing(query: Query) -> None:
    query.run(0)
    query.run(1)
    again = query.tasks(0)
    assert all(each.ended for each in again)
    commit_batch(again, query.settings)
    query.run(2)
    assert query.read() == [*BATCH, 10, 11, 12, 20, 21, 22]


def test_decisions_are_found_behind_records_that_are_gone(query: Query) -> None:
    query.run(0)
    topic = "kafkaraw-spark-decisions"
    with (
        exactly_once.pooled(query.settings.client, topic) as decisions,
        Admin(bootstrap_servers=query.servers) as admin,
    ):
        known = decisions.last(query.id)
        admin.alter_configs({ConfigResource.topic(topic): {"cleanup.policy": "delete"}})
        admin.delete_records({TopicPartition(topic, 0): 1})
        fresh = Decisions(query.settings.client, topic)
        assert known is not None
        assert fresh.last(query.id) == known
        fresh.close()
        admin.alter_configs({ConfigResource.topic(topic): {"cleanup.policy": "compact"}})


class Forgetful(Decisions):
    """A cluster whose coordinators have forgotten their transactional ids, as they do after a week."""

    def end(self, transaction: object, *, commit: bool) -> None:
        from kafkaraw.protocol.error_codes import ErrorCode, error_for

        raise error_for(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "end")


@pytest.mark.parametrize("ended", [True, False])
def test_when_the_coordinator_has_forgotten_it_the_marker_tells_how_a_transaction_ended(
    query: Query, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.run(0)
    written = query.tasks(1)
    with exactly_once.pooled(query.settings.client, "kafkaraw-spark-decisions") as decisions:
        transactions = tuple(each.transaction for each in written)
        decisions.write(Decision(query.id, 1, transactions))
        for each in transactions:
            assert each is not None
            decisions.end(each, commit=ended)
        monkeypatch.setattr(decisions, "__class__", Forgetful)
        assert decisions.marked(query.id, 0) == int(ended)
        forgotten = Slot(query.id, 1, 0)
        assert written[0].transaction is not None
        assert exactly_once._is_committed(written[0].transaction, forgotten, 1, decisions) is ended
        monkeypatch.undo()


def test_a_batch_write_is_committed_whole_and_writes_nothing_down(query: Query) -> None:
    def write(number: int) -> Written:
        rows = pa.RecordBatch.from_pydict({"value": [str(number)]})
        return write_slot([rows], query.settings, Slot("write", None, number))

    written = [write(0), write(1), write_slot([], query.settings, Slot("write", None, 2))]
    assert query.read() == []
    commit_batch(written, query.settings)
    assert query.read() == [0, 1]
    with exactly_once.pooled(query.settings.client, "kafkaraw-spark-decisions") as decisions:
        assert decisions.last("write") is None


def test_the_producer_of_a_batch_write_is_let_go_with_its_id_and_that_of_a_query_is_kept(
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
