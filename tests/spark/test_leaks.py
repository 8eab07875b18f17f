"""Nothing is left behind by a micro-batch: no memory, no connection, no thread, no process, no file.

A query runs many micro-batches; what all of Spark's processes hold is looked at after the first of them, when each
worker has what it keeps, and at the end. What a micro-batch leaves behind would be there hundreds of times, far beyond
the limits here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.footprint import IS_LINUX, ConnectionCount, Footprint, family, footprint

pytestmark = pytest.mark.skipif(not IS_LINUX, reason="what processes hold is read from Linux's /proc")

SINKS: dict[str, dict[str, str] | None] = {"noop": None, "at least once": {}, "exactly once": {"exactlyOnce": "true"}}
ROWS_PER_BATCH = 10
FEEDING = 100  # micro-batches

# What may come on top, however many micro-batches there are: Spark starts another worker now and then, and each worker
# has connections of its own.
MEMORY_KB = 4 << 10
JVM_HEAP_KB = 32 << 10
JVM_THREADS = 60
WORKERS = 4
SOCKETS = 4
FILES = 30
CONNECTIONS = 6 * WORKERS


@dataclass(frozen=True)
class Holdings:
    """What there is at one moment.

    Attributes:
        batches: micro-batches so far.
        connections: to the broker, so far.
        broker: the broker's process.
        processes: Spark's processes that run Python, and this one, by process id.
        jvm: the driver's Java process.
        heap_kb: what is on its heap and in use.
        files: what is in the checkpoint, and in Java's folder for temporary files.
    """

    batches: int
    connections: int
    broker: Footprint
    processes: dict[int, Footprint]
    jvm: Footprint
    heap_kb: int
    files: dict[str, int]

    def __str__(self) -> str:
        """A table, for people."""
        lines = [
            f"after {self.batches} micro-batches: {self.connections} connections so far, {self.heap_kb} kB of heap",
            f"{self.files}",
            *(f"{self._name(each):60} {each}" for each in (self.broker, self.jvm, *self.processes.values())),
        ]
        return "\n".join(lines)

    def _name(self, process: Footprint) -> str:
        forked = "fork of " if process.parent in self.processes and "-m pyspark" in process.command else ""
        return forked + process.command.rpartition("-m ")[2][:52]


class Run:
    """One query that goes from a topic with two partitions to a sink, ten rows at a time."""

    def __init__(self, spark, kafka, broker, folder: Path, sink: str) -> None:
        self._kafka, self._broker = kafka, broker
        self._java = spark._jvm.java.lang
        self._checkpoint = folder / "checkpoint"
        self._topic = kafka.new_topic(partitions=2)
        self._fed = 0
        options = {"subscribe": self._topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(ROWS_PER_BATCH)}
        rows = kafka.stream(spark, **options).load().select("key", "value")
        writer = rows.writeStream.option("checkpointLocation", str(self._checkpoint))
        chosen = SINKS[sink]
        if chosen is None:
            writer = writer.format("noop")
        else:
            target = kafka.new_topic(partitions=2)
            writer = writer.format("kafkaraw").options(**kafka.options(topic=target, **chosen))
        self._query = writer.start()

    def up_to(self, batches: int, count: ConnectionCount) -> Holdings:
        """Run until there have been so many micro-batches; tells what is held then."""
        while self._fed < batches:
            more = min(FEEDING, batches - self._fed)
            for partition in range(2):
                self._kafka.produce(self._topic, range(more * ROWS_PER_BATCH // 2), partition)
            self._fed += more
            self._query.processAllAvailable()
        return self._holdings(count)

    def stop(self) -> None:
        self._query.stop()

    def _holdings(self, count: ConnectionCount) -> Holdings:
        memory = self._java.management.ManagementFactory.getMemoryMXBean()
        memory.gc()
        broker = footprint(self._broker.process_id)
        everyone = family()
        everyone.pop(self._broker.process_id, None)
        jvms = [number for number, each in everyone.items() if "SparkSubmit" in each.command]
        assert broker is not None and len(jvms) == 1
        temporary = Path(self._java.System.getProperty("java.io.tmpdir"))
        return Holdings(
            batches=json.loads(self._query.lastProgress.json)["batchId"] + 1,
            connections=count.look(),
            broker=broker,
            jvm=everyone.pop(jvms[0]),
            processes=everyone,
            heap_kb=memory.getHeapMemoryUsage().getUsed() >> 10,
            files={
                "checkpoint": sum(1 for _ in self._checkpoint.rglob("*")),
                "temporary": sum(1 for _ in temporary.iterdir()),
            },
        )


def assert_nothing_grew(before: Holdings, after: Holdings) -> None:
    assert len(after.processes) <= len(before.processes) + WORKERS
    for number, then in before.processes.items():
        now = after.processes.get(number)
        if now is not None:  # Spark ends workers that nobody needs
            assert_as_before(then, now)
    assert after.broker.sockets <= before.broker.sockets + CONNECTIONS
    assert after.connections <= before.connections + CONNECTIONS
    assert after.jvm.threads <= before.jvm.threads + JVM_THREADS
    assert after.jvm.files <= before.jvm.files + FILES
    assert after.jvm.sockets <= before.jvm.sockets + 2 * WORKERS
    assert after.heap_kb <= before.heap_kb + JVM_HEAP_KB
    assert after.files == {name: pytest.approx(files, abs=FILES) for name, files in before.files.items()}


def assert_as_before(then: Footprint, now: Footprint) -> None:
    assert now.memory_kb <= then.memory_kb + MEMORY_KB, now
    assert now.sockets <= then.sockets + SOCKETS, now
    assert now.files <= then.files + SOCKETS, now
    assert now.threads <= then.threads + 1, now


@pytest.fixture
def count(broker) -> Iterator[ConnectionCount]:
    with ConnectionCount(int(broker.bootstrap_servers.rpartition(":")[2])).running() as counting:
        yield counting


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sink", SINKS)
def test_a_thousand_micro_batches_leave_nothing_behind(spark, kafka, broker, tmp_path, count, sink):
    run = Run(spark, kafka, broker, tmp_path, sink)
    try:
        before, after = run.up_to(100, count), run.up_to(1000, count)
    finally:
        run.stop()
    print(before, after, sep="\n")
    assert after.batches >= 1000
    assert_nothing_grew(before, after)
