"""Bugs to plant in the Spark source and sink, one at a time; each must be found by an auditor.

The counterpart of `tests.simulation.plants`, for code that does not run on virtual time. A plant patches the running
program; its scenario then says which invariants were violated, and violates none without the plant.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from kafkaraw import Admin, Consumer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import NewTopic
from kafkaraw.errors import UsageError
from kafkaraw.records import Batch
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.reading import task as reading
from kafkaraw.spark.reading.task import _RangeRead
from kafkaraw.spark.worker import ClientPool
from kafkaraw.spark.writing import decisions, exactly_once
from kafkaraw.spark.writing.decisions import Decisions, Found
from kafkaraw.spark.writing.exactly_once import Slot, Written, commit_batch, write_slot
from kafkaraw.spark.writing.outcomes import Outcome
from kafkaraw.spark.writing.task import write_settings
from kafkaraw.testing.audit_exactly_once import audit_exactly_once
from kafkaraw.testing.audit_reading import audit_tasks
from kafkaraw.testing.invariants import Invariant, Violation
from kafkaraw.testing.partition_logs import open_transactions, read_logs
from kafkaraw.testing.sink_history import SinkHistory, SinkSlot, Skipped
from tests.spark.reading.ranges import read_slow_partition
from tests.spark.spark_types import struct

SLOTS = 2
_names = itertools.count()


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
    def fetched(self: _RangeRead) -> Iterator[Batch]:
        self._seek(self._work.start)
        waiting_since_s = read_time()
        while self._position < self._work.end:
            found = self._poll()
            if found is None:
                self._check_waiting(waiting_since_s)
                continue
            self._position = found.next_offset
            yield found
            waiting_since_s = read_time()

    def read_time() -> float:
        return reading.time.monotonic()

    monkeypatch.setattr(_RangeRead, "_fetched", fetched)


# -- the sink


class SinkQuery:
    """A query that writes one row in each of its slots, called as Spark calls it, and what its auditor finds.

    Args:
        servers: of the cluster.
    """

    def __init__(self, servers: str) -> None:
        name = next(_names)
        self.servers, self.id = servers, f"planted-{name}"
        self._topic, self.decisions = f"planted-out-{name}", f"planted-decisions-{name}"
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(self._topic, SLOTS)])
        given = {"kafka.bootstrap.servers": servers, "topic": self._topic, "exactlyOnce": "true"}
        given["decisionsTopic"] = self.decisions
        self._settings = write_settings(parse_options(given), struct("value string"))
        self._skipped: list[Skipped] = []

    def tasks(self, batch_id: int, count: int = SLOTS, said: str = "") -> list[Written]:
        """Run the tasks of a batch; `said` makes their rows other ones."""
        return [self.task(batch_id, number, said) for number in range(count)]

    def task(self, batch_id: int, number: int, said: str = "") -> Written:
        value = f"{batch_id}-{number}{said}"
        rows = pa.RecordBatch.from_pydict({"value": [value]})
        written = write_slot([rows], self._settings, Slot(self.id, batch_id, number))
        if written.ended:
            self._skipped.append(Skipped(SinkSlot(self.id, batch_id, number), (value.encode(),)))
        return written

    def commit(self, written: list[Written]) -> None:
        commit_batch(written, self._settings)

    def run(self, batch_id: int, said: str = "") -> None:
        self.commit(self.tasks(batch_id, said=said))

    def committed(self) -> dict[str, int]:
        """How often each row is committed."""
        reading = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
        with Consumer(bootstrap_servers=self.servers, **reading) as consumer:
            ends = consumer.end_offsets(consumer.partitions_for(self._topic))
            consumer.assign(list(ends))
            found: Counter[str] = Counter()
            while any(consumer.position(each) < end for each, end in ends.items()):
                for batch in consumer.poll(0.01).values():
                    found.update((record.value or b"").decode() for record in batch)
        return dict(found)

    def violations(self, *, skips_count: bool = True) -> list[Violation]:
        """What the auditor finds; tasks whose batch was refused have skipped nothing."""
        logs = read_logs(self.servers, [self._topic, self.decisions])
        history = SinkHistory.from_logs(logs, self.decisions)
        history.skipped = self._skipped if skips_count else []
        history.open_transactions = open_transactions(self.servers, f"kafkaraw-spark-{self.id}-")
        return audit_exactly_once(history)


@contextmanager
def _sink_query() -> Iterator[SinkQuery]:
    with EmbeddedBroker() as broker:
        yield SinkQuery(broker.bootstrap_servers)
        close_pools()


def close_pools() -> None:
    """Close the clients that tasks and drivers have kept."""
    for module in (decisions, exactly_once):
        for value in vars(module).values():
            if isinstance(value, ClientPool):
                value.close()


def repeat_with_other_rows() -> list[Violation]:
    """A batch that is committed is repeated with other rows, as by a copy of its checkpoint: refused."""
    with _sink_query() as query:
        query.run(0)
        try:
            query.run(0, said=" of a copy")
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
        query.commit(query.tasks(0, count=1))
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


PLANTS = {
    plant.name: plant
    for plant in (
        SparkPlant(task_counts_records_only, read_slow_partitions, frozenset({Invariant.GAVE_UP_WHILE_ADVANCING})),
        SparkPlant(
            sink_skips_without_comparing_rows, repeat_with_other_rows, frozenset({Invariant.SKIPPED_OTHER_ROWS})
        ),
        SparkPlant(sink_takes_a_refusal_for_aborted, go_on_late, frozenset({Invariant.SEVERAL_DECISIONS})),
        SparkPlant(sink_leaves_surplus_transactions_open, repeat_with_fewer_tasks, frozenset({Invariant.LEFT_OPEN})),
    )
}
