"""The auditors of the Spark sink and source accept correct histories, and find each violation."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import NewTopic
from kafkaraw.records import TopicPartition
from kafkaraw.testing.audit_spark import ReadTask, audit_exactly_once, audit_tasks
from kafkaraw.testing.history import Outcome
from kafkaraw.testing.invariants import Invariant
from kafkaraw.testing.partition_logs import open_transactions, read_logs
from kafkaraw.testing.sink_history import ProducerIdentity, SinkHistory, SinkSlot, Skipped

QUERY, TARGET, DECISIONS = "query", "target", "decisions"


class Sink:
    """Writes what a sink writes, with plain clients, in any order."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(TARGET, 2), NewTopic(DECISIONS, 1)])
        self._producers: list[Producer] = []

    def prepare(self, batch_id: int, number: int, *values: bytes) -> tuple[object, ...]:
        producer = Producer(bootstrap_servers=self.servers, transactional_id=f"prefix-{QUERY}-{number}")
        self._producers.append(producer)
        producer.init_transactions()
        producer.begin_transaction()
        for value in values:
            producer.send(TARGET, value, partition=number)
        producer.send(DECISIONS, b"%d" % batch_id, f"{QUERY}/{number}".encode(), partition=0)
        return producer.prepare_transaction()

    def decide(self, batch_id: int, *transactions: tuple[object, ...]) -> None:
        with Producer(bootstrap_servers=self.servers) as producer:
            value = json.dumps({"batch": batch_id, "transactions": transactions}).encode()
            producer.send(DECISIONS, value, QUERY.encode(), partition=0).result(10)

    def end(self, *transactions: tuple[object, ...], commit: bool = True) -> None:
        with Admin(bootstrap_servers=self.servers) as admin:
            for each in transactions:
                admin.end_transaction(each, commit=commit)

    def run(self, batch_id: int, *values: bytes) -> None:
        prepared = [self.prepare(batch_id, number, value) for number, value in enumerate(values)]
        self.decide(batch_id, *prepared)
        self.end(*prepared)

    def history(self, *wanted: bytes) -> SinkHistory:
        history = SinkHistory.from_logs(read_logs(self.servers, [TARGET, DECISIONS]), DECISIONS)
        history.open_transactions = open_transactions(self.servers, f"prefix-{QUERY}-")
        history.wanted = {QUERY: list(wanted)}
        return history

    def close(self) -> None:
        for producer in self._producers:
            producer.close(0)


@pytest.fixture(params=[0, 2])
def sink(request: pytest.FixtureRequest) -> Iterator[Sink]:
    with EmbeddedBroker(properties={"transaction.version": request.param}) as broker:
        sink = Sink(broker.bootstrap_servers)
        yield sink
        sink.close()


def invariants(history: SinkHistory) -> set[Invariant]:
    return {violation.invariant for violation in audit_exactly_once(history)}


def test_a_sink_that_commits_each_row_once_passes(sink: Sink) -> None:
    sink.run(0, b"a", b"b")
    sink.end(sink.prepare(1, 0, b"c"), commit=False)
    sink.run(1, b"c", b"d")
    history = sink.history(b"a", b"b", b"c", b"d")
    history.skipped = [Skipped(SinkSlot(QUERY, 1, 0), (b"c",))]
    assert audit_exactly_once(history) == []
    aborted = [each for each in history.transactions.values() if not each.is_committed]
    assert [each.values for each in aborted] == [[b"c"]]
    assert [(each.batch_id, len(each.producers)) for each in history.decisions] == [(0, 2), (1, 2)]


def test_a_row_that_is_committed_twice_or_never_is_found(sink: Sink) -> None:
    sink.run(0, b"a", b"a")
    assert audit_exactly_once(sink.history(b"a", b"b"))[0].what == "b'a' of query query is committed 2 times, and not 1"
    assert invariants(sink.history(b"a", b"b")) == {Invariant.DUPLICATE, Invariant.UNSEEN}


def test_rows_that_are_skipped_and_not_committed_are_found(sink: Sink) -> None:
    sink.run(0, b"a", b"b")
    history = sink.history(b"a", b"b")
    history.skipped = [Skipped(SinkSlot(QUERY, 0, 1), (b"c",))]
    assert invariants(history) == {Invariant.SKIPPED_OTHER_ROWS}
    history.skipped = [Skipped(SinkSlot(QUERY, 1, 0), (b"a",))]
    assert invariants(history) == {Invariant.SKIPPED_OTHER_ROWS}


def test_commits_by_two_decisions_of_a_batch_are_found(sink: Sink) -> None:
    first, second = sink.prepare(0, 0, b"a"), sink.prepare(0, 1, b"b")
    sink.decide(0, first, None)
    sink.decide(0, None, second)
    sink.end(first, second)
    assert invariants(sink.history(b"a", b"b")) == {Invariant.SEVERAL_DECISIONS}


def test_a_decision_that_goes_on_from_an_earlier_one_passes(sink: Sink) -> None:
    first, second = sink.prepare(0, 0, b"a"), sink.prepare(0, 1, b"b")
    sink.decide(0, first, second)
    sink.end(first)
    sink.end(second, commit=False)
    again = sink.prepare(0, 1, b"b")
    sink.decide(0, first, again)
    sink.end(again)
    assert audit_exactly_once(sink.history(b"a", b"b")) == []


def test_a_commit_without_a_decision_is_found_unless_the_decision_is_gone(sink: Sink) -> None:
    sink.end(sink.prepare(0, 0, b"a"))
    history = sink.history(b"a")
    assert invariants(history) == {Invariant.SEVERAL_DECISIONS}
    history.undecided_until = {QUERY: 0}
    assert audit_exactly_once(history) == []


def test_a_log_whose_first_records_are_deleted_is_read_from_what_is_left(sink: Sink) -> None:
    sink.run(0, b"a")
    sink.run(1, b"b")
    first = TopicPartition(TARGET, 0)
    with Admin(bootstrap_servers=sink.servers) as admin:
        admin.delete_records({first: 2})
    wires = read_logs(sink.servers, [TARGET])[first]
    assert [header.base_offset for header, _ in wires] == [2, 3]


def test_a_transaction_that_stays_open_is_found(sink: Sink) -> None:
    sink.prepare(0, 1, b"b")
    sink.run(0, b"a")
    history = sink.history(b"a")
    assert history.open_transactions == [f"prefix-{QUERY}-1"]
    assert invariants(history) == {Invariant.LEFT_OPEN}


def test_a_transaction_that_is_committed_in_one_partition_only_is_found(sink: Sink) -> None:
    sink.run(0, b"a")
    history = sink.history(b"a")
    (transaction,) = history.transactions.values()
    assert isinstance(transaction.producer, ProducerIdentity)
    transaction.outcomes[TopicPartition(TARGET, 0)] = Outcome.ABORTED
    assert invariants(history) == {Invariant.TORN_TRANSACTION}


# -- tasks of the source


def test_a_task_may_time_out_if_its_position_has_not_advanced() -> None:
    assert audit_tasks([ReadTask("task", 30, advanced_s=[1, 20], gave_up_s=50)]) == []
    assert audit_tasks([ReadTask("task", 30, gave_up_s=30)]) == []


def test_a_task_that_gives_up_while_its_position_advances_is_found() -> None:
    (violation,) = audit_tasks([ReadTask("task", 30, advanced_s=[1, 20], gave_up_s=49)])
    assert violation.invariant is Invariant.GAVE_UP_WHILE_ADVANCING
    assert violation.what == "task gave up at 49.000 s, its position had advanced at 20.000 s, its patience is 30 s"


def test_a_task_that_never_ends_is_found() -> None:
    (violation,) = audit_tasks([ReadTask("task", 30, deadline_s=100)])
    assert violation.invariant is Invariant.OVERDUE
