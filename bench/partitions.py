"""`python -m bench.partitions`: what a consumer costs by the number of partitions that it reads, ours and theirs.

The same batches lie in one partition, or spread over thousands. Besides: a trickle of single records into one of them,
and silence. Every measurement is a fresh process (`--work`), readers take turns, numbers
are medians of the CPU time of the consumer's process; the broker has one of its own, whose CPU is shown, too. Start at
`READERS`.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bench.consume.readers import FETCH_QUEUE_BACKOFF_MS, SILENCE_SECONDS_MAX
from bench.topics import new_topic
from bench.worker import measured_by
from kafkaraw import Admin

if TYPE_CHECKING:
    import kafkaraw

COUNTS: Final = (1, 10, 100, 1000, 5000)
BATCH_RECORDS: Final = 400
VALUE: Final = b"v" * 100
TRICKLE_RECORDS_PER_SECOND: Final = 500
TRICKLE_PARTITIONS: Final = 1000
WHAT: Final = ("spread", "silence", "trickle")
CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is to do.

    Attributes:
        bootstrap_servers: where.
        topic: from its beginning.
        partitions: how many it has, all of them are read.
        records: how many there are to read; 0 is to read for so many seconds, whatever comes.
        seconds: how long, without a number of records.
        group: subscribe as the only member of a group, instead of assigning by hand.
    """

    bootstrap_servers: str
    topic: str
    partitions: int
    records: int = 0
    seconds: float = 0.0
    group: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took.

    Attributes:
        begin_s: from making the consumer to the end of its first call, which gives records when there are any.
        begin_cpu_s: CPU of that.
        cpu_s: CPU of the consumer's process, of what came then.
        records: how many were read then.
        answers: to Fetch requests, in all; 0 where that is not told.
        broker_cpu_s: CPU of the broker's process, in all.
    """

    begin_s: float
    begin_cpu_s: float
    cpu_s: float
    records: int
    answers: int = 0
    broker_cpu_s: float = 0.0


Read = Callable[[float], int]
"""Reads some of what comes within so many seconds, and looks at the values; says how many records."""


def _ours(job: Job) -> kafkaraw.Consumer:
    from kafkaraw import Consumer, TopicPartition

    group_id = uuid.uuid4().hex if job.group else None
    consumer = Consumer(bootstrap_servers=job.bootstrap_servers, auto_offset_reset="earliest", group_id=group_id)
    if job.group:
        consumer.subscribe([job.topic])
    else:
        consumer.assign([TopicPartition(job.topic, index) for index in range(job.partitions)])
    return consumer


def _answers(consumer: kafkaraw.Consumer | kafkaraw.AsyncConsumer) -> int:
    return int(consumer.metrics()["consumer"]["fetch_total"])  # type: ignore[arg-type]  # is a number


def batches(job: Job) -> tuple[Read, Callable[[], int]]:
    """Ours: batches, and each record's value."""
    consumer = _ours(job)

    def read(timeout: float) -> int:
        count = 0
        for batch in consumer.batches(timeout=timeout):
            for record in batch:
                assert record.value
                count += 1
            break
        return count

    return read, lambda: _answers(consumer)


def arrow(job: Job) -> tuple[Read, Callable[[], int]]:
    """Ours: columns."""
    consumer = _ours(job)
    columns = ("offset", "timestamp", "key", "value")
    return (
        lambda timeout: consumer.poll_arrow(timeout=timeout, columns=columns).num_rows,
        lambda: _answers(consumer),
    )


def asynchronous(job: Job) -> tuple[Read, Callable[[], int]]:
    """Ours: `async for`, on an asyncio loop."""
    import asyncio

    from kafkaraw import AsyncConsumer, TopicPartition

    loop = asyncio.new_event_loop()
    consumer = AsyncConsumer(bootstrap_servers=job.bootstrap_servers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(job.topic, index) for index in range(job.partitions)])

    async def some(timeout: float) -> int:
        count = 0
        async with asyncio.timeout(timeout):
            async for record in consumer:
                assert record.value
                count += 1
                if count == BATCH_RECORDS or job.seconds:
                    break
        return count

    def read(timeout: float) -> int:
        try:
            return loop.run_until_complete(some(timeout))
        except TimeoutError:
            return 0

    return read, lambda: _answers(consumer)


def confluent(job: Job) -> tuple[Read, Callable[[], int]]:
    """Theirs: a thousand messages at a time, and each message's value."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": job.group,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "fetch.queue.backoff.ms": FETCH_QUEUE_BACKOFF_MS,
        }
    )
    if job.group:
        consumer.subscribe([job.topic])
    else:
        consumer.assign([TopicPartition(job.topic, index, OFFSET_BEGINNING) for index in range(job.partitions)])

    def read(timeout: float) -> int:
        # More than one would make it wait until all have come, in a trickle.
        messages = consumer.consume(1 if job.seconds else BATCH_RECORDS, timeout)
        for message in messages:
            assert message.value()
        return len(messages)

    return read, lambda: 0


READERS: Final = {"batches": batches, "arrow": arrow, "async for": asynchronous, "confluent": confluent}


def work(reader: str, job: Job) -> Cost:
    """Do the job."""
    import confluent_kafka  # noqa: F401 - imports are not measured
    import pyarrow.compute  # noqa: F401

    import kafkaraw.client.consumer  # noqa: F401

    wall, cpu = time.perf_counter(), time.process_time()
    read, answers = READERS[reader](job)
    first = read(job.seconds or SILENCE_SECONDS_MAX)
    begin_s, begin_cpu_s = time.perf_counter() - wall, time.process_time() - cpu
    cpu, until, count = time.process_time(), time.monotonic() + job.seconds, 0
    while count < job.records - first if job.records else time.monotonic() < until:
        got = read(SILENCE_SECONDS_MAX if job.records else max(0.0, until - time.monotonic()))
        assert got or not job.records, f"the broker fell silent after {count} records"
        count += got
    cpu_s = time.process_time() - cpu
    return Cost(begin_s, begin_cpu_s, cpu_s, count, answers())


def fill(servers: str, topic: str, partitions: int, records: int) -> None:
    """Write batches of the same size, whatever the number of partitions."""
    from confluent_kafka import Producer

    settings = {"batch.num.messages": BATCH_RECORDS, "linger.ms": 5, "queue.buffering.max.messages": 500_000}
    producer = Producer({"bootstrap.servers": servers, **settings})
    for number in range(records):
        while True:
            try:
                producer.produce(topic, VALUE, partition=number // BATCH_RECORDS % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


@contextlib.contextmanager
def trickle(servers: str, topic: str) -> Iterator[None]:
    """Write single records to one partition meanwhile, from a process of its own."""
    command = [sys.executable, "-m", "bench.partitions", "--work", "trickle", servers, topic]
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.terminate()


def _trickle(servers: str, topic: str) -> None:
    from confluent_kafka import Producer

    producer, began = Producer({"bootstrap.servers": servers, "linger.ms": 0}), time.monotonic()
    for number in range(sys.maxsize):
        producer.produce(topic, VALUE, partition=0)
        producer.flush()
        time.sleep(max(0.0, began + number / TRICKLE_RECORDS_PER_SECOND - time.monotonic()))


def _cpu_s(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def run(reader: str, job: Job, broker_id: int) -> Cost:
    """A fresh process does the job."""
    before = _cpu_s(broker_id)
    found = measured_by("bench.partitions", "--work", reader, json.dumps(asdict(job)), what=f"{reader} of {job}")
    return Cost(**{**found, "broker_cpu_s": _cpu_s(broker_id) - before})


def tell(what: str, reader: str, runs: list[Cost], unit: Callable[[Cost], float]) -> None:
    """One line: medians."""

    def median(of: Callable[[Cost], float]) -> float:
        return statistics.median(of(it) for it in runs)

    counted = f"{median(unit):>9.3f}{median(lambda it: it.answers):>9.0f}{median(lambda it: it.broker_cpu_s):>11.2f}"
    begin = f"{median(lambda it: it.begin_s) * 1000:>10.0f}{median(lambda it: it.begin_cpu_s) * 1000:>10.0f}"
    click.echo(f"{what:<36}{reader:<11}{counted}{begin}")


@click.command()
@click.option("--records", default=2_000_000, show_default=True, help="Records of 100 bytes to read.")
@click.option("--turns", default=3, show_default=True, type=click.IntRange(1), help="Runs of each; medians count.")
@click.option("--seconds", default=5.0, show_default=True, help="How long the trickle and the silence last.")
@click.option("--only", multiple=True, type=click.Choice(list(READERS)), help="These readers only.")
@click.option("--count", "counts", multiple=True, type=int, help="So many partitions.", default=COUNTS)
@click.option("--group", is_flag=True, help="As the only member of a group, which commits.")
@click.option("--what", multiple=True, type=click.Choice(WHAT), default=WHAT, help="These measurements only.")
def main(
    records: int,
    turns: int,
    seconds: float,
    only: tuple[str, ...],
    counts: tuple[int, ...],
    group: bool,
    what: tuple[str, ...],
) -> None:
    """Measure and show."""
    from kafkaraw.broker import EmbeddedBroker

    readers = only or tuple(READERS)
    click.echo(f"{'':<36}{'reader':<11}{'CPU':>9}{'answers':>9}{'broker s':>11}{'begin ms':>10}{'its CPU':>10}")
    with (
        EmbeddedBroker(process=True) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        servers = broker.bootstrap_servers

        def turned(name: str, job: Job, unit: Callable[[Cost], float]) -> None:
            runs: dict[str, list[Cost]] = {reader: [] for reader in readers}
            for turn in range(turns):
                for reader in readers if turn % 2 == 0 else reversed(readers):
                    runs[reader].append(run(reader, job, broker.process_id))
            for reader in readers:
                tell(name, reader, runs[reader], unit)

        for partitions in counts if "spread" in what else ():
            with new_topic(admin, partitions) as topic:
                fill(servers, topic, partitions, records)
                job = Job(servers, topic, partitions, records, group=group)
                turned(f"{partitions} partitions, µs a record", job, lambda it: it.cpu_s * 1e6 / max(1, it.records))
        if "silence" in what:
            with new_topic(admin, counts[-1]) as topic:
                job = Job(servers, topic, counts[-1], seconds=seconds, group=group)
                turned(f"{counts[-1]} silent ones, ms a second", job, lambda it: it.cpu_s * 1e3 / seconds)
        if "trickle" in what:
            with new_topic(admin, TRICKLE_PARTITIONS) as topic, trickle(servers, topic):
                job = Job(servers, topic, TRICKLE_PARTITIONS, seconds=seconds, group=group)
                name = f"{TRICKLE_PARTITIONS}, a trickle in one, ms a second"
                turned(name, job, lambda it: it.cpu_s * 1e3 / seconds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        if sys.argv[2] == "trickle":
            _trickle(*sys.argv[3:])
        print(json.dumps(asdict(work(sys.argv[2], Job(**json.loads(sys.argv[3]))))), flush=True)
        os._exit(0)
    main()
