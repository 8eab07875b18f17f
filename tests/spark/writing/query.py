"""A query without Spark: its tasks and its driver as functions, on a broker."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
import pytest

from kafkaraw import Admin, Consumer
from kafkaraw.client.admin import NewTopic
from kafkaraw.client.committed import PreparedTransaction
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.writing import decisions as decisions_module
from kafkaraw.spark.writing import exactly_once
from kafkaraw.spark.writing.decisions import Decisions, pooled
from kafkaraw.spark.writing.exactly_once import Slot, Written, commit_batch, write_slot
from kafkaraw.spark.writing.task import WriteSettings, write_settings
from tests.spark.spark_types import struct

TASKS = 3
TOPIC = "kafkaraw-spark-decisions"
Rows = Callable[[int], str]
_names = itertools.count()


class Query:
    """A streaming query that writes the numbers `10 * batch + task` of each batch, as Spark would have it."""

    def __init__(self, servers: str, query_id: str = "", **options: str) -> None:
        self.id = query_id or f"query-{next(_names)}"
        self.servers = servers
        self.topic = f"out-{self.id}"
        if not query_id:
            with Admin(bootstrap_servers=servers) as admin:
                admin.create_topics([NewTopic(self.topic, TASKS)])
        given = {"kafka.bootstrap.servers": servers, "topic": self.topic, "exactlyOnce": "true"} | options
        self.settings: WriteSettings = write_settings(parse_options(given), struct("value string"))

    def with_options(self, **options: str) -> Query:
        """The same query with other options."""
        return Query(self.servers, self.id, **options)

    def task(self, batch_id: int, number: int, rows: Rows | None = None) -> Written:
        value = str(10 * batch_id + number) if rows is None else rows(number)
        batch = pa.RecordBatch.from_pydict({"value": [value]})
        return write_slot([batch], self.settings, Slot(self.id, batch_id, number))

    def tasks(self, batch_id: int, count: int = TASKS, rows: Rows | None = None) -> list[Written]:
        return [self.task(batch_id, number, rows) for number in range(count)]

    def run(self, batch_id: int, rows: Rows | None = None) -> None:
        commit_batch(self.tasks(batch_id, rows=rows), self.settings)

    def decisions(self) -> AbstractContextManager[Decisions]:
        return pooled(self.settings.client, TOPIC)

    def decide_only(self, batch_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run a batch with a driver that dies before it ends the first transaction."""
        written = self.tasks(batch_id)
        with monkeypatch.context() as patch:
            patch.setattr(exactly_once, "_try_to_commit_all", dying)
            with pytest.raises(KeyboardInterrupt):
                commit_batch(written, self.settings)

    def last_decided(self) -> list[PreparedTransaction]:
        """The transactions of the newest decision."""
        with self.decisions() as decisions:
            last = decisions.look(self.id).last
        assert last is not None
        return [each for each in last.transactions if each is not None]

    def running_first(self, act: Callable[[], None]) -> Callable[..., tuple[Written, int]]:
        """A task's write before which other processes go on."""
        write, acts = exactly_once._write, [act]

        def late(*args: Any) -> tuple[Written, int]:  # those of `_write`
            if acts:
                acts.pop()()
            return write(*args)

        return late

    def open_transactions(self) -> list[str]:
        with Admin(bootstrap_servers=self.servers) as admin:
            found = admin.list_transactions(states=["Ongoing"])
        return [one.transactional_id for one in found if f"-{self.id}-" in one.transactional_id]

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


def dying(*_: object) -> None:
    raise KeyboardInterrupt


def forget_clients() -> None:
    """As in a new process."""
    decisions_module._pool.close()
    decisions_module._lost.clear()
