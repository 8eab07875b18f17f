"""Bugs to plant in the Spark source and sink, one at a time; each must be found by an auditor.

The counterpart of `tests.simulation.plants`, for code that does not run on virtual time. A plant patches the running
program; its scenario then says which invariants were violated, and violates none without the plant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import UsageError
from kafkaraw.ranges import reading
from kafkaraw.ranges.reading import _GroupRead
from kafkaraw.records import Batch
from kafkaraw.spark.worker import ClientPool
from kafkaraw.spark.writing import exactly_once
from kafkaraw.spark.writing import task as writing
from kafkaraw.spark.writing.decisions import Decisions, Found
from kafkaraw.spark.writing.exactly_once import Written, commit_batch
from kafkaraw.spark.writing.outcomes import Outcome
from kafkaraw.testing.audit_spark import audit_exactly_once, audit_tasks
from kafkaraw.testing.invariants import Invariant, Violation
from kafkaraw.testing.partition_logs import open_transactions, read_logs
from kafkaraw.testing.sink_history import SinkHistory, SinkSlot, Skipped
from tests.spark.reading.test_slow_ranges import read_slow_partition
from tests.spark.writing.query import TOPIC, Query, Rows, forget_clients
from tests.spark.writing.reports import write_with_refused_rows


@dataclass(frozen=True)
class SparkPlant:
    """A bug: how to plant it, the scenario in which it shows, and the invariants by which it may be found."""

    plant: Callable[[pytest.MonkeyPatch], None]
    scenario: Callable[[], list[Violation]]
    invariants: frozenset[Invariant]

    @property
    def name(self) -> str:
        return self.plant.__name__


def read_slow_partitions() -> list[Violation]:
    """Tasks read partitions with long stretches without records."""
    return audit_tasks([read_slow_partition(seed) for seed in range(5)])


def task_counts_records_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(self: _GroupRead) -> Iterator[tuple[Batch, int]]:
        self._consumer.assign_ranges(self._ranges)
        self._waiting_since_s = read_time()
        while self._left:
            found = self._poll()
            if not found:
                self._advance_without_records()
                if self._left:
                    self._check_waiting()
                continue
            for of, batch in found.items():
                state = self._left[of]
                self._advance(state, batch.next_offset)
                yield batch, state.end
            self._waiting_since_s = read_time()

    def read_time() -> float:
        return reading.time.monotonic()

    monkeypatch.setattr(_GroupRead, "fetched", fetched)


# -- the sink


class AuditedQuery(Query):
    """A query whose auditor knows which rows its tasks have skipped."""

    def __init__(self, servers: str) -> None:
        super().__init__(servers)
        self._skipped: list[Skipped] = []

    def task(self, batch_id: int, number: int, rows: Rows | None = None) -> Written:
        written = super().task(batch_id, number, rows)
        if written.ended:
            value = str(10 * batch_id + number) if rows is None else rows(number)
            self._skipped.append(Skipped(SinkSlot(self.id, batch_id, number), (value.encode(),)))
        return written

    def violations(self, *, skips_count: bool = True) -> list[Violation]:
        """What the auditor finds; tasks whose batch was refused have skipped nothing."""
        history = SinkHistory.from_logs(read_logs(self.servers, [self.topic, TOPIC]), TOPIC)
        history.skipped = self._skipped if skips_count else []
        history.open_transactions = open_transactions(self.servers, f"kafkaraw-spark-{self.id}-")
        return audit_exactly_once(history)


@contextmanager
def _sink_query() -> Iterator[AuditedQuery]:
    with EmbeddedBroker() as broker:
        yield AuditedQuery(broker.bootstrap_servers)
        forget_clients()
        exactly_once._producers.close()


def repeat_with_other_rows() -> list[Violation]:
    """A batch that is committed is repeated with other rows, as by a copy of its checkpoint: refused."""
    with _sink_query() as query:
        query.run(0)
        try:
            query.run(0, rows=lambda number: f"{number} of a copy")
        except UsageError:
            return query.violations(skips_count=False)
        return query.violations()


def go_on_late() -> list[Violation]:
    """A task that has looked before there was a decision initialises its producer when its batch is committed."""
    with _sink_query() as query:
        look, late = Decisions.look, [True]

        def look_early(self: Decisions, *args: Any, **kwargs: Any) -> Found:  # those of `look`
            found = look(self, *args, **kwargs)
            if late:
                late.clear()
                query.run(0)
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Decisions, "look", look_early)
            query.task(0, 0)
        query.run(0)
        query.run(1)
        return query.violations()


def repeat_with_fewer_tasks() -> list[Violation]:
    """An attempt that was not decided is repeated with fewer tasks."""
    with _sink_query() as query:
        query.tasks(0)
        commit_batch(query.tasks(0, count=1), query.settings)
        return query.violations()


def sink_skips_without_comparing_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exactly_once, "_compare_rows", lambda *_: None)


def sink_takes_a_refusal_for_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    def aborted(
        self: Decisions, query_id: str, batch_id: int, transactions: Mapping[int, object]
    ) -> dict[int, Outcome]:
        return dict.fromkeys(transactions, Outcome.ABORTED)

    monkeypatch.setattr(Decisions, "outcomes", aborted)
    monkeypatch.setattr(exactly_once._Task, "_confirmed", lambda self, written, *_: written)


def sink_leaves_surplus_transactions_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Decisions, "abort_leftovers", lambda *_: None)


def sink_does_not_wait_for_what_becomes_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_producers", ClientPool(writing.make_producer))


PLANTS = {
    plant.name: plant
    for plant in (
        SparkPlant(task_counts_records_only, read_slow_partitions, frozenset({Invariant.GAVE_UP_WHILE_ADVANCING})),
        SparkPlant(
            sink_skips_without_comparing_rows, repeat_with_other_rows, frozenset({Invariant.SKIPPED_OTHER_ROWS})
        ),
        SparkPlant(sink_takes_a_refusal_for_aborted, go_on_late, frozenset({Invariant.SEVERAL_DECISIONS})),
        SparkPlant(
            sink_does_not_wait_for_what_becomes_of_its_rows, write_with_refused_rows, frozenset({Invariant.UNREPORTED})
        ),
        SparkPlant(sink_leaves_surplus_transactions_open, repeat_with_fewer_tasks, frozenset({Invariant.LEFT_OPEN})),
    )
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = PLANTS[name]
    assert plant.scenario() == []
    plant.plant(monkeypatch)
    found = {violation.invariant for violation in plant.scenario()}
    assert found & plant.invariants, f"only {found or 'nothing'} was found"
