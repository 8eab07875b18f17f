"""How each client reads a topic, written as its users would: the work of `bench.consume`, and its worker process.

`python -m bench.consume.readers READER JOB` prints one line of JSON. Imports, connecting and a first record come before
the watch is started; CPU is that of the whole process, all threads. Start at `READERS`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from bench.consume.bare import bare

if TYPE_CHECKING:
    import confluent_kafka

    import kafkaraw

SILENCE_SECONDS_MAX = 30.0
FETCH_QUEUE_BACKOFF_MS = 5
"""Confluent's `fetch.queue.backoff.ms`. Its default of 1000 makes the consumer pause for a second whenever its queue is
full, which would measure the pause."""
ARROW_COLUMNS = ("offset", "timestamp", "key", "value")


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is to read.

    Attributes:
        bootstrap_servers: where.
        topic: from its beginning.
        partitions: how many it has, all of them are read.
        records: how many there are to read.
        value_bytes: size of each value, which is checked.
    """

    bootstrap_servers: str
    topic: str
    partitions: int
    records: int
    value_bytes: int

    def to_json(self) -> str:
        """As text for a worker's command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`."""
        return cls(**json.loads(text))


Work = Callable[[], int]
"""Reads until the job is done; gives the sum of the sizes of the values."""


def _ours(job: Job) -> kafkaraw.Consumer:
    from kafkaraw import Consumer, TopicPartition

    consumer = Consumer(bootstrap_servers=job.bootstrap_servers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(job.topic, index) for index in range(job.partitions)])
    assert consumer.poll(timeout=SILENCE_SECONDS_MAX, max_records=1)
    return consumer


def iterate(job: Job) -> Work:
    """Ours: batches, and each record's value."""
    consumer, left = _ours(job), job.records - 1

    def work() -> int:
        count = size = 0
        for batch in consumer.batches(timeout=SILENCE_SECONDS_MAX):
            for record in batch:
                size += len(record.value)  # type: ignore[arg-type]  # none is null
                count += 1
            if count >= left:
                break
        return size

    return work


def arrow(job: Job) -> Work:
    """Ours: columns."""
    import pyarrow.compute

    consumer, left = _ours(job), job.records - 1

    def work() -> int:
        count = size = 0
        while count < left:
            table = consumer.poll_arrow(timeout=SILENCE_SECONDS_MAX, columns=ARROW_COLUMNS)
            assert table.num_rows, f"the broker fell silent after {count} records"
            size += pyarrow.compute.sum(pyarrow.compute.binary_length(table.column("value"))).as_py()
            count += table.num_rows
        return size

    return work


def _confluent(job: Job) -> confluent_kafka.Consumer:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "check.crcs": True,  # as ours
            "fetch.queue.backoff.ms": FETCH_QUEUE_BACKOFF_MS,
        }
    )
    consumer.assign([TopicPartition(job.topic, index, OFFSET_BEGINNING) for index in range(job.partitions)])
    assert consumer.poll(SILENCE_SECONDS_MAX) is not None
    return consumer


def confluent_consume(job: Job) -> Work:
    """Theirs: a thousand messages at a time, and each message's value."""
    consumer, left = _confluent(job), job.records - 1

    def work() -> int:
        count = size = 0
        while count < left:
            # Never asks for more than there is, or consume() would wait for the rest.
            messages = consumer.consume(min(1000, left - count), SILENCE_SECONDS_MAX)
            assert messages, f"the broker fell silent after {count} records"
            for message in messages:
                size += len(message.value())  # type: ignore[arg-type]  # none is null
            count += len(messages)
        return size

    return work


def confluent_poll(job: Job) -> Work:
    """Theirs: message by message."""
    consumer, left = _confluent(job), job.records - 1

    def work() -> int:
        size = 0
        poll = consumer.poll
        for _ in range(left):
            message = poll(SILENCE_SECONDS_MAX)
            assert message is not None, "the broker fell silent"
            size += len(message.value())  # type: ignore[arg-type]  # none is null
        return size

    return work


def confluent_arrow(job: Job) -> Work:
    """Theirs: a thousand messages at a time, their values into an array; the other columns would cost more."""
    import pyarrow
    import pyarrow.compute

    consumer, left = _confluent(job), job.records - 1

    def work() -> int:
        count = size = 0
        while count < left:
            messages = consumer.consume(min(1000, left - count), SILENCE_SECONDS_MAX)
            assert messages, f"the broker fell silent after {count} records"
            column = pyarrow.array([message.value() for message in messages], pyarrow.binary())
            size += pyarrow.compute.sum(pyarrow.compute.binary_length(column)).as_py()
            count += len(messages)
        return size

    return work


def kafka_python(job: Job) -> Work:
    """Theirs: poll() of kafka-python."""
    from kafka import KafkaConsumer, TopicPartition

    consumer: Any = KafkaConsumer(
        bootstrap_servers=job.bootstrap_servers, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.assign([TopicPartition(job.topic, index) for index in range(job.partitions)])
    left = job.records - sum(map(len, consumer.poll(timeout_ms=SILENCE_SECONDS_MAX * 1000, max_records=1).values()))

    def work() -> int:
        count = size = 0
        while count < left:
            found = consumer.poll(timeout_ms=SILENCE_SECONDS_MAX * 1000, max_records=min(1000, left - count))
            assert found, f"the broker fell silent after {count} records"
            for records in found.values():
                for record in records:
                    size += len(record.value)
                count += len(records)
        return size

    return work


def aiokafka(job: Job) -> Work:
    """Theirs: getmany()."""
    import asyncio

    from aiokafka import AIOKafkaConsumer, TopicPartition

    loop = asyncio.new_event_loop()

    async def started() -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=job.bootstrap_servers, auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        consumer.assign([TopicPartition(job.topic, index) for index in range(job.partitions)])
        assert await asyncio.wait_for(consumer.getone(), SILENCE_SECONDS_MAX)
        return consumer

    consumer, left = loop.run_until_complete(started()), job.records - 1

    async def read() -> int:
        count = size = 0
        while count < left:
            found = await consumer.getmany(
                timeout_ms=int(SILENCE_SECONDS_MAX * 1000), max_records=min(1000, left - count)
            )
            assert found, f"the broker fell silent after {count} records"
            for records in found.values():
                for record in records:
                    size += len(record.value)
                count += len(records)
        return size

    return lambda: loop.run_until_complete(read())


@dataclass(frozen=True, slots=True)
class Reader:
    """One way of reading.

    Attributes:
        begin: connects, reads the first record, and gives the work to be timed.
        does: for the reader of the result.
        implementation: KAFKARAW_IMPL of its process.
        records_share: it reads so much of what the others read, because it takes that much longer.
    """

    begin: Callable[[Job], Work]
    does: str
    implementation: str = ""
    records_share: float = 1.0


READERS = {
    "iterate": Reader(iterate, "kafkaraw: for batch in consumer.batches(): for record in batch: record.value"),
    "arrow": Reader(arrow, f"kafkaraw: poll_arrow(columns={', '.join(ARROW_COLUMNS)})"),
    "fallback": Reader(iterate, "kafkaraw in plain Python: as iterate", "python", 0.25),
    "confluent consume": Reader(confluent_consume, "confluent-kafka: consume(1000), value() of each"),
    "confluent poll": Reader(confluent_poll, "confluent-kafka: poll(), value()"),
    "confluent arrow": Reader(confluent_arrow, "confluent-kafka: consume(1000), the values into a pyarrow.array"),
    "aiokafka": Reader(aiokafka, "aiokafka: getmany(max_records=1000)", "", 0.25),
    "kafka-python": Reader(kafka_python, "kafka-python: poll(max_records=1000)", "", 0.1),
    "bare": Reader(bare, "a bare socket: the same bytes received into one buffer, nothing else"),
    "bare, copied": Reader(partial(bare, copied=True), "the same, checksums verified and each batch copied once"),
}
BARE = ("bare", "bare, copied")


def main(reader: str, job_json: str) -> None:
    """Run one measurement and print it; the process then ends without ado, for closing is not measured."""
    job = Job.from_json(job_json)
    work = READERS[reader].begin(job)
    wall, cpu = time.perf_counter(), time.process_time()
    size = work()
    measured = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu, "bytes": size}
    print(json.dumps(measured), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
