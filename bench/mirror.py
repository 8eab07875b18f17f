"""Mirroring between two Apache Kafka clusters: with kafkaraw, and with MirrorMaker 2 and tuned settings.

    .venv/bin/python -m bench.mirror --records 3000000

Two clusters of one node each run in processes of their own, on the same machine. Each turn fills a topic of the source,
starts a mirror in a fresh process, and watches the copy: the time until readers see the first record; rate and CPU time
from the first write to the copy until all records are there and, for ours, the positions are committed. So starting (15
s of CPU for Connect) does not count. Another topic is copied before, since the clusters are slow at first. Afterwards
the copy is deleted, and all that a mirror keeps in both clusters: MirrorMaker would continue at its positions, and copy
nothing. A mirror that fails, or takes longer than `SECONDS_MAX`, is tried once more, and the table says so. Factors are
medians over the turns. Start at `main`.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from bench.report import Goal, Line, Report, environment, output_options
from bench.worker import BenchError
from kafkaraw import Admin, Consumer, NewTopic, Producer
from kafkaraw.records import TopicPartition

MIRROR_MAKER_POM: Final = Path(__file__).with_name("mirror_maker.xml")
PARTITIONS: Final = 4
WARM_UP: Final = 1_000_000
SECONDS_MAX: Final = 180.0
"""Of one copy; MirrorMaker 2 takes 20 to 60 s for 3,000,000 records."""
TRIES: Final = 2
"""Of one copy, if a mirror fails or is too slow."""
LOOK_S: Final = 0.02
OURS: Final = "kafkaraw"
AT_LEAST_ONCE: Final = "kafkaraw, at least once"
MIRROR_MAKER: Final = "MirrorMaker 2"
KINDS: Final = (OURS, AT_LEAST_ONCE, MIRROR_MAKER)
GROUP: Final = "kafkaraw-mirror.a->b"
OWN_TOPICS: Final = ("a.", "heartbeats", "mm2-")
TUNED: Final = {
    "tasks.max": "2",
    "b.producer.batch.size": "262144",
    "b.producer.linger.ms": "20",
    "a.consumer.max.poll.records": "20000",
    "a.consumer.fetch.max.bytes": "52428800",
    "refresh.topics.interval.seconds": "5",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "dedicated.mode.enable.internal.rest": "false",
}
"""Of MirrorMaker 2, found by trying; with its defaults it is 1.8 to 2.5 times slower."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What the source's topic holds.

    Attributes:
        name: of the workload.
        codec: compression of the source's batches.
        size_bytes: of a record's value.
        share: of the number of records that the command names.
        goal: the factor of the rates.
    """

    name: str
    codec: str
    size_bytes: int
    share: float
    goal: Goal


WORKLOADS: Final = (
    Workload("100 bytes, lz4", "lz4", 100, 1.0, Goal(6, 12)),
    Workload("100 bytes, uncompressed", "none", 100, 1.0, Goal(5, 10)),
    Workload("1 KiB, uncompressed", "none", 1024, 0.1, Goal(3, 5)),
)
CPU_GOAL: Final = Goal(0.06, 0.02, less_is_better=True)
DELIVERY_GOAL: Final = Goal(0.85, 0.95)
MEMORY_GOAL: Final = Goal(150, 100, less_is_better=True, unit=" MB")
START_GOAL: Final = Goal(1.0, 0.3, less_is_better=True, unit=" s")


@dataclass(frozen=True, slots=True)
class Failure:
    """A mirror that did not copy a topic.

    Attributes:
        kind: one of `KINDS`.
        workload: name of the workload.
        turn: the turn, from 0.
        attempt: of this turn, from 1.
        why: what was seen.
    """

    kind: str
    workload: str
    turn: int
    attempt: int
    why: str

    def __str__(self) -> str:
        return f"attempt {self.attempt} of {TRIES} has failed: {self.why}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One mirror of one turn.

    Attributes:
        kind: one of `KINDS`.
        workload: name of the workload.
        turn: the turn, from 0.
        records: that were copied.
        first_s: from the start of the process to the first record of the copy that readers see.
        seconds: from the first write to the copy until all records are there.
        cpu_seconds: of the mirror's process in that time.
        start_cpu_seconds: of the mirror's process before.
        memory_mb: the largest resident size of the process.
        megabytes: of keys and values.
    """

    kind: str
    workload: str
    turn: int
    records: int
    first_s: float
    seconds: float
    cpu_seconds: float
    start_cpu_seconds: float
    memory_mb: float
    megabytes: float

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    @property
    def cpu_per_mb(self) -> float:
        """Milliseconds of CPU time for a megabyte."""
        return 1000 * max(self.cpu_seconds, 1 / os.sysconf("SC_CLK_TCK")) / self.megabytes

    def __str__(self) -> str:
        return (
            f"first record after {self.first_s:.2f} s, then {self.rate:,.0f} records/s, "
            f"{self.cpu_per_mb:.1f} ms of CPU per MB, {self.memory_mb:.0f} MB"
        )


def fill(servers: str, topic: str, workload: Workload, count: int) -> None:
    """Create a topic and write its records, with keys, in batches of 64 KiB before compression."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS)])
    settings = {"compression_type": workload.codec, "batch_size": 65_536, "linger_ms": 20}
    text = b"%012d the quick brown fox jumps over the lazy dog; "
    with Producer(bootstrap_servers=servers, **settings) as producer:
        for number in range(count):
            value = (text % number * (workload.size_bytes // 40 + 1))[: workload.size_bytes]
            producer.send(topic, value, b"%d" % (number % 10_000), partition=number % PARTITIONS)


# -- the mirrors


def properties_of(kind: str, source: str, target: str, topic: str) -> dict[str, str]:
    """Return the configuration of a mirror."""
    shared = {
        "clusters": "a, b",
        "a.bootstrap.servers": source,
        "b.bootstrap.servers": target,
        "a->b.enabled": "true",
        "a->b.topics": topic,
        "replication.factor": "1",
        "heartbeats.replication.enabled": "false",
    }
    if kind == MIRROR_MAKER:
        internal = ("offset-syncs", "checkpoints", "heartbeats")
        factors = {f"{name}.topic.replication.factor": "1" for name in internal}
        storage = {f"{name}.storage.replication.factor": "1" for name in ("offset", "status", "config")}
        return shared | factors | storage | TUNED
    return shared | {"delivery": "exactly-once" if kind == OURS else "at-least-once"}


def command_of(kind: str, file: Path) -> list[str]:
    """Return the command line of a mirror."""
    if kind != MIRROR_MAKER:
        return [sys.executable, "-m", "kafkaraw", "mirror", "run", "--quiet", str(file)]
    from tests.interop.apache_kafka import fetch_dependencies

    jars = fetch_dependencies(MIRROR_MAKER_POM, "mirror-maker")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return ["java", "-Xmx2G", quiet, "-cp", f"{jars}/*", "org.apache.kafka.connect.mirror.MirrorMaker", str(file)]


@contextmanager
def running(kind: str, file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a mirror while the block runs."""
    process = subprocess.Popen(command_of(kind, file), stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Return the largest resident size of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


class MirrorError(BenchError):
    """A mirror did not copy the topic."""


class Copy:
    """The copy, watched from outside.

    Args:
        servers: of the target.
        topic: the copy.
        isolation_level: whether records of an open transaction count.
    """

    def __init__(self, servers: str, topic: str, isolation_level: str) -> None:
        self._topic = topic
        self._partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        self._consumer = Consumer(
            bootstrap_servers=servers,
            isolation_level=isolation_level,
            auto_offset_reset="none",
            allow_auto_create_topics=False,
        )
        self._exists = False

    def seen(self) -> int:
        """Return the number of offsets that readers may read; with transactions, markers count, too."""
        # A look-up of offsets waits for a topic that does not exist, and looks again at growing intervals.
        self._exists = self._exists or len(self._consumer.list_topics().get(self._topic, ())) == PARTITIONS
        return sum(self._consumer.end_offsets(self._partitions).values()) if self._exists else 0

    def wait(self, offsets: int, process: subprocess.Popen[bytes], deadline: float) -> None:
        """Wait until the partitions have this number of offsets."""
        while self.seen() < offsets:
            if process.poll() is not None:
                raise MirrorError(f"the mirror has ended with {process.returncode}")
            if time.monotonic() > deadline:
                raise MirrorError(f"the copy has {self.seen():,} of {offsets:,} offsets after {SECONDS_MAX:.0f} s")
            time.sleep(LOOK_S)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def tried(
    kind: str, workload: Workload, turn: int, servers: Sequence[str], topic: str, count: int
) -> Iterator[Measurement | Failure]:
    """Copy a topic with one mirror, again if that fails; yield what failed, and what was measured."""
    for number in range(1, TRIES + 1):
        try:
            yield measure(kind, workload, turn, servers, topic, count)
            return
        except MirrorError as error:
            yield Failure(kind, workload.name, turn, number, str(error))
        finally:
            forget(servers)


def forget(servers: Sequence[str]) -> None:
    """Delete what mirrors have in both clusters: the copies, their positions and their own topics."""
    for each in servers:
        with Admin(bootstrap_servers=each) as admin:
            names = [topic.name for topic in admin.list_topics()]
            own = [name for name in names if name.startswith(OWN_TOPICS) or name.endswith(".internal")]
            if own:
                admin.delete_topics(own)
            groups = {group.group_id for group in admin.list_groups()}
            if GROUP in groups:
                admin.delete_groups([GROUP])


def measure(kind: str, workload: Workload, turn: int, servers: Sequence[str], topic: str, count: int) -> Measurement:
    """Copy a topic with one mirror.

    Raises:
        MirrorError: the mirror has ended, or takes too long.
    """
    source, target = servers
    written, readable = (Copy(target, f"a.{topic}", f"read_{level}") for level in ("uncommitted", "committed"))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.callback(written.close)
        stack.callback(readable.close)
        file = Path(folder) / "mirror.properties"
        properties = properties_of(kind, source, target, topic)
        file.write_text("".join(f"{name} = {value}\n" for name, value in properties.items()))
        began = time.monotonic()
        process = stack.enter_context(running(kind, file))
        deadline = began + SECONDS_MAX
        written.wait(1, process, deadline)
        first_written, cpu_before, seen_first = time.monotonic(), cpu_seconds(process.pid), written.seen()
        readable.wait(1, process, deadline)
        first = time.monotonic()
        wait_for_all(kind, readable, process, target, count, deadline)
        ended, cpu_after = time.monotonic(), cpu_seconds(process.pid)
        memory = memory_mb(process.pid)
    records = max(1, count - min(seen_first, count))
    megabytes = records * (workload.size_bytes + 4) / 1e6
    return Measurement(
        kind,
        workload.name,
        turn,
        records,
        first - began,
        max(ended - first_written, LOOK_S),
        cpu_after - cpu_before,
        cpu_before,
        memory,
        megabytes,
    )


def wait_for_all(
    kind: str, copy: Copy, process: subprocess.Popen[bytes], target: str, count: int, deadline: float
) -> None:
    """Wait until the copy is complete: by its end offsets, and for ours by the positions, because of markers."""
    copy.wait(count, process, deadline)
    if kind == MIRROR_MAKER:
        return
    with Admin(bootstrap_servers=target) as admin:
        while True:
            found = admin.list_group_offsets([GROUP])[GROUP]
            if sum(at.offset for at in found.values() if at is not None) >= count:
                return
            if time.monotonic() > deadline or process.poll() is not None:
                raise MirrorError("the mirror's positions do not reach the end of the source")
            time.sleep(LOOK_S)


# -- the result


def median(found: Sequence[Measurement], kind: str, workload: str, name: str) -> float:
    """Return the median of a number over the turns."""
    return statistics.median(getattr(each, name) for each in found if each.kind == kind and each.workload == workload)


def lines_of(
    found: Sequence[Measurement], failed: Sequence[Failure], workloads: Sequence[Workload], kinds: Sequence[str]
) -> list[Line]:
    """Return the medians, held against the goals.

    Args:
        found: what was measured.
        failed: what was not.
        workloads: all that were copied.
        kinds: all mirrors that were tried.

    Raises:
        BenchError: a mirror of ours did not copy a workload.
    """
    lines: list[Line] = []
    for workload in workloads:
        name = workload.name
        missing = {kind for kind in kinds if not any((each.kind, each.workload) == (kind, name) for each in found)}
        if missing - {MIRROR_MAKER}:
            raise BenchError(f"{name}: not copied by {', '.join(sorted(missing))}")
        if MIRROR_MAKER in kinds:
            failures = [each for each in failed if (each.kind, each.workload) == (MIRROR_MAKER, name)]
            lines += against_mirror_maker(found, workload, len(failures), is_missing=MIRROR_MAKER in missing)
        if AT_LEAST_ONCE in kinds:
            rates = {kind: median(found, kind, name, "rate") for kind in (OURS, AT_LEAST_ONCE)}
            factor = rates[OURS] / rates[AT_LEAST_ONCE]
            lines.append(
                Line(f"{name}: exactly once", "records/s", rates[OURS], DELIVERY_GOAL, factor, "at least once",
                     rates[AT_LEAST_ONCE])
            )  # fmt: skip
        memory, first = (median(found, OURS, name, each) for each in ("memory_mb", "first_s"))
        lines.append(Line(f"{name}: memory", "MB", memory, MEMORY_GOAL, memory))
        lines.append(Line(f"{name}: first record", "s", first, START_GOAL, first, digits=".2f"))
    return lines


def against_mirror_maker(
    found: Sequence[Measurement], workload: Workload, failures_count: int, *, is_missing: bool
) -> list[Line]:
    """Return rate and CPU time beside MirrorMaker's."""
    name = workload.name
    rate, cpu = (median(found, OURS, name, each) for each in ("rate", "cpu_per_mb"))
    if is_missing:
        against = f"{MIRROR_MAKER}, which did not finish"
        return [Line(name, "records/s", rate, workload.goal, 0.0, against)]
    against = f"{MIRROR_MAKER}, after {failures_count} failures" if failures_count else MIRROR_MAKER
    their_rate, their_cpu = (median(found, MIRROR_MAKER, name, each) for each in ("rate", "cpu_per_mb"))
    return [
        Line(name, "records/s", rate, workload.goal, rate / their_rate, against, their_rate,
             cpu_factor=their_cpu / cpu),
        Line(f"{name}: CPU", "ms/MB", cpu, CPU_GOAL, cpu / their_cpu, against, their_cpu, digits=",.1f"),
    ]  # fmt: skip


@click.command()
@click.option("--records", default=3_000_000, show_default=True, type=click.IntRange(1_000))
@click.option("--turns", default=3, show_default=True, type=click.IntRange(1), help="Runs of each; medians are shown.")
@click.option("--only", multiple=True, type=click.Choice([each.name for each in WORKLOADS]), help="These workloads.")
@click.option("--without-mirror-maker", is_flag=True, help="Measure kafkaraw only.")
@output_options
def main(
    records: int,
    turns: int,
    only: tuple[str, ...],
    without_mirror_maker: bool,
    output: Path | None,
    picture: Path | None,
) -> None:
    """Copy topics between two Apache Kafka clusters, and compare the factors with the minimum."""
    from tests.interop.apache_kafka import ApacheKafka, kafka_version, why_missing

    missing = why_missing()
    if missing is not None:
        raise BenchError(missing)
    report = Report("mirror", output, picture)
    workloads = [each for each in WORKLOADS if not only or each.name in only]
    kinds = KINDS[:-1] if without_mirror_maker else KINDS
    found: list[Measurement] = []
    failed: list[Failure] = []
    with ApacheKafka(optimize=True) as a, ApacheKafka(optimize=True) as b:
        report.begin(
            environment(f"two of Apache Kafka {kafka_version()}, one node each, in processes of their own"),
            {"records": f"{records:,}", "partitions": PARTITIONS, "turns": turns, "MirrorMaker 2": TUNED},
        )
        servers = (a.bootstrap_servers, b.bootstrap_servers)
        fill(servers[0], "first", WORKLOADS[0], WARM_UP)
        for kind in (OURS, AT_LEAST_ONCE):
            measure(kind, WORKLOADS[0], 0, servers, "first", WARM_UP)
            forget(servers)
        for workload in workloads:
            topic, count = f"bench{WORKLOADS.index(workload)}", max(1, int(records * workload.share))
            fill(servers[0], topic, workload, count)
            for turn in range(turns):
                for kind in kinds if turn % 2 == 0 else reversed(kinds):
                    for each in tried(kind, workload, turn, servers, topic, count):
                        report.say(f"{workload.name}, turn {turn}, {kind}: {each}")
                        if isinstance(each, Failure):
                            failed.append(each)
                        else:
                            found.append(each)
    lines = lines_of(found, failed, workloads, kinds)
    raise SystemExit(0 if report.publish(lines, [*found, *failed]) else 1)


if __name__ == "__main__":
    main()
