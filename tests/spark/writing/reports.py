"""Spark tasks that write at least once with producers of one pool; some of their rows are refused by the broker.

What `write_rows` tells is judged as what `flush` tells is in the simulation: the rows of a task that returned are in
the log, and rows that are not there belong to a task that raised. See `kafkaraw.testing.audit_producers`.
"""

from __future__ import annotations

import random
import threading
from itertools import count

import pyarrow as pa

from kafkaraw import Admin, Consumer, KafkaError, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import NewTopic
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.writing import task
from kafkaraw.spark.writing.task import write_rows, write_settings
from kafkaraw.testing.audit_producers import unreported
from kafkaraw.testing.history import History, Reports
from kafkaraw.testing.invariants import Violation
from tests.spark.spark_types import struct

TOPIC = "rows"
LARGEST, TOO_LARGE = 1_000, 3_000
TASKS = 12


def write_with_refused_rows(seed: int = 1) -> list[Violation]:
    """Tasks of two threads, one after the other and side by side."""
    history, numbers = History(), count()
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, configs={"max.message.bytes": str(LARGEST)})])
        try:
            rngs = [random.Random(f"{seed} {number}") for number in range(2)]
            threads = [threading.Thread(target=_work, args=(rng, servers, history.reports, numbers)) for rng in rngs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            task._producers.close()
        history.final = _final(servers)
    return list(unreported(history))


def _work(rng: random.Random, servers: str, reports: Reports, numbers: count[int]) -> None:
    options = {"kafka.bootstrap.servers": servers, "topic": TOPIC, "kafka.linger.ms": "20"}
    settings = write_settings(parse_options(options), struct("value string"))
    for number in range(TASKS):
        values = [b"%d" % next(numbers) for _ in range(rng.randrange(1, 6))]
        if rng.random() < 0.4:
            values.append(b"%d" % next(numbers) + b"x" * TOO_LARGE)
        rows = pa.RecordBatch.from_pydict({"value": [value.decode() for value in values]})
        reports.accepted.update(values)
        try:
            write_rows([rows], settings)
        except KafkaError:
            reports.reported.update(values)
        else:
            reports.confirmed |= dict.fromkeys(values, f"write_rows of task {number}")


def _final(servers: str) -> dict[TopicPartition, list[tuple[int, bytes]]]:
    partition, found = TopicPartition(TOPIC, 0), list[tuple[int, bytes]]()
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            for batch in consumer.poll(1).values():
                found += [(record.offset, record.value or b"") for record in batch]
    return {partition: found}
