"""How each client reads a topic as the only member of a group: the work of `bench.share`, and its worker process.

`python -m bench.share.readers READER JOB` prints one line of JSON. Imports, joining the group and the records of the
first poll come before the watch is started; it stops when the broker has the acknowledgements, or the offsets, of all
records. CPU is that of the whole process, all threads. Start at `READERS`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

SILENCE_SECONDS_MAX: Final = 30.0
JAVA_OPTIONS: Final = ("-Xmx1G", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_JAVA: Final = Path(__file__).with_name("ShareReader.java")


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is to read.

    Attributes:
        bootstrap_servers: where.
        topic: from its beginning.
        group: a new group.
        records: how many the topic has.
    """

    bootstrap_servers: str
    topic: str
    group: str
    records: int

    def to_json(self) -> str:
        """As text for a worker's command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Reader:
    """One way to read.

    Attributes:
        work: reads; prints what it measured.
        does: the code, in a few words.
    """

    work: Callable[[Job], None]
    does: str


class _Watch:
    """Counts records; runs from the end of the first batch on."""

    def __init__(self) -> None:
        self.count = self.size = self._first = 0
        self._wall = self._cpu = 0.0

    def counted(self, count: int, size: int) -> None:
        self.count += count
        self.size += size
        if not self._first:
            self._first, self._wall, self._cpu = count, time.perf_counter(), time.process_time()

    def report(self) -> None:
        measured = {
            "seconds": time.perf_counter() - self._wall,
            "cpu_seconds": time.process_time() - self._cpu,
            "records": self.count - self._first,
            "bytes": self.size,
        }
        print(json.dumps(measured), flush=True)


def share(job: Job) -> None:
    """Ours, in a share group: batches, and each record's value."""
    from kafkaraw import ShareConsumer

    watch = _Watch()
    with ShareConsumer(bootstrap_servers=job.bootstrap_servers, group_id=job.group) as consumer:
        consumer.subscribe([job.topic])
        for batch in consumer.batches(timeout=SILENCE_SECONDS_MAX):
            size = 0
            for record in batch:
                size += len(record.value)  # type: ignore[arg-type]  # none is null
            watch.counted(len(batch), size)
            if watch.count >= job.records:
                break
        consumer.commit()
        watch.report()


def classic(job: Job) -> None:
    """Ours, in a consumer group of the classic protocol: batches, and each record's value."""
    from kafkaraw import Consumer

    watch = _Watch()
    with Consumer(
        bootstrap_servers=job.bootstrap_servers,
        group_id=job.group,
        group_protocol="classic",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.subscribe([job.topic])
        for batch in consumer.batches(timeout=SILENCE_SECONDS_MAX):
            size = count = 0
            for record in batch:
                size += len(record.value)  # type: ignore[arg-type]  # none is null
                count += 1
            watch.counted(count, size)
            if watch.count >= job.records:
                break
        consumer.commit()
        watch.report()


def java(job: Job) -> None:
    """Theirs, in a share group: poll, and each record's value. This process becomes the JVM."""
    from tests.interop.apache_kafka import compile_java, fetch_jars, fetch_tools

    class_path = f"{fetch_jars()}/*:{fetch_tools()}/*:{compile_java(_JAVA)}"
    arguments = (job.bootstrap_servers, job.topic, job.group, str(job.records))
    os.execvp("java", ["java", *JAVA_OPTIONS, "-cp", class_path, _JAVA.stem, *arguments])


READERS: Final = {
    "share": Reader(share, "kafkaraw: for batch in ShareConsumer.batches(): for record in batch: record.value"),
    "java": Reader(java, f"KafkaShareConsumer: poll(1 s), value() of each; java {' '.join(JAVA_OPTIONS)}"),
    "classic": Reader(classic, "kafkaraw: for batch in Consumer.batches(): for record in batch: record.value"),
}


if __name__ == "__main__":
    READERS[sys.argv[1]].work(Job.from_json(sys.argv[2]))
