"""`python -m bench.broker_log`: the embedded broker's log on disk: appends, look-ups by time, starts and recovery.

Part of `make bench-log`. Appends come from a socket, in batches of 230 KB. Look-ups by time (ListOffsets, and a Fetch
at what it found) go to one partition of 10 GB. Starts are measured from the start of the process until Metadata names a
leader for each of 5,000 partitions, after a clean stop and after SIGKILL, beside Apache Kafka with the same partitions
and bytes. The recovery's speed is what a start after SIGKILL takes longer than a clean one, with 1 GB beyond the
recovery point in one partition. Start at `ROWS`.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

import click

from bench.broker import (
    FETCH_KEY,
    FETCH_VERSION,
    PARTITIONS,
    PRODUCE_KEY,
    PRODUCE_VERSION,
    Line,
    framed,
    produce_frame,
    pump,
)
from bench.report import Goal, Report, environment, output_options
from bench.report import Line as ResultLine
from bench.topics import BenchError
from kafkaraw import Admin, NewTopic
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.protocol import decode_response
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.records import encode_batch
from kafkaraw.records.header import stamp_crc
from tests.interop.apache_kafka import ApacheKafka, why_missing

BATCH_RECORDS: Final = 2000
"""Records of 100 bytes: 230 KB."""
FILL_RECORDS: Final = 1740
"""200 KB."""
FILL_PARTITIONS: Final = 50
"""Partitions in one Produce request."""
LIST_OFFSETS_KEY, LIST_OFFSETS_VERSION = 2, 6
METADATA_KEY, METADATA_VERSION = 3, 9
TOPIC: Final = "bench"
BEGIN_MS: Final = 1_700_000_000_000
MEGA: Final = 1_000_000
LOOKUPS: Final = 500
READY_SECONDS_MAX: Final = 180.0
_TIMESTAMPS_AT: Final = 27
_TIMESTAMPS: Final = struct.Struct(">qq")


class Server(Protocol):
    """A broker that can be stopped, killed and started again on its data."""

    name: str

    def start(self) -> str:
        """Start it; return its address."""
        ...

    def stop(self) -> None:
        """Stop it cleanly."""
        ...

    def kill(self) -> None:
        """End it by SIGKILL."""
        ...


class OurServer:
    """The embedded broker in a process of its own, on a data directory."""

    name = "kafkaraw"

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._broker: EmbeddedBroker | None = None

    def start(self) -> str:
        """Start it; return its address."""
        self._broker = EmbeddedBroker(data_dir=self._data_dir, process=True)
        self._broker.start()
        return self._broker.bootstrap_servers

    def stop(self) -> None:
        """Stop it cleanly."""
        if self._broker is not None:
            self._broker.stop()

    def kill(self) -> None:
        """End it by SIGKILL."""
        if self._broker is not None:
            os.kill(self._broker.process_id, signal.SIGKILL)
            self._broker.stop()


class KafkaServer:
    """Apache Kafka, one node, with Java's options as its users have them."""

    name = "Apache Kafka"

    def __init__(self, data_dir: Path) -> None:
        self._kafka = ApacheKafka(data_dir=data_dir, optimize=True)

    def start(self) -> str:
        """Start it; return its address."""
        return self._kafka.start().bootstrap_servers

    def stop(self) -> None:
        """Stop it cleanly."""
        self._kafka.stop()

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._kafka.kill()


@dataclass(frozen=True, slots=True)
class Measurement:
    """One number, measured once."""

    row: str
    server: str
    turn: int
    number: float


@dataclass
class Run:
    """Settings of a run, and what it has measured."""

    report: Report
    scratch: Path
    turns: int
    gigabytes: float
    partitions: int
    with_kafka: bool
    found: list[Measurement] = field(default_factory=list)

    def add(self, row: str, server: str, turn: int, number: float) -> None:
        """Store a measurement."""
        self.found.append(Measurement(row, server, turn, number))
        self.report.say(f"  {row}, {server}: {number:,.2f}")

    def median(self, row: str, server: str) -> float | None:
        """The median of what was measured; None without measurements."""
        numbers = [each.number for each in self.found if (each.row, each.server) == (row, server)]
        return statistics.median(numbers) if numbers else None


@contextlib.contextmanager
def connected(address: str) -> Iterator[Line]:
    """A connection that is closed at the end."""
    with contextlib.closing(Line(address)) as line:
        yield line


def batches_over_time(partitions: int, step_ms: int) -> Iterator[bytes]:
    """Produce requests whose batches have later timestamps each time."""
    records = ((BEGIN_MS + n * step_ms // BATCH_RECORDS, None, b"%0100d" % n, None) for n in range(BATCH_RECORDS))
    batch = bytearray(encode_batch(records))
    first, last = _TIMESTAMPS.unpack_from(batch, _TIMESTAMPS_AT)
    while True:
        data = [PartitionProduceData(index=index, records=memoryview(batch)) for index in range(partitions)]
        request = ProduceRequest(
            acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)]
        )
        yield framed(PRODUCE_KEY, PRODUCE_VERSION, request)
        first, last = first + step_ms, last + step_ms
        _TIMESTAMPS.pack_into(batch, _TIMESTAMPS_AT, first, last)
        stamp_crc(batch)


def create_topic(address: str, partitions: int) -> None:
    """Create the topic of a row."""
    with Admin(bootstrap_servers=address, request_timeout_ms=120_000, default_api_timeout_ms=120_000) as admin:
        admin.create_topics([NewTopic(TOPIC, partitions, 1)])


def wait_until_led(address: str, partitions: int) -> None:
    """Ask for Metadata until each partition has a leader.

    Raises:
        BenchError: that took longer than READY_SECONDS_MAX.
    """
    frame = framed(METADATA_KEY, METADATA_VERSION, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]))
    until = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < until:
        with connected(address) as line:
            line.send(frame)
            _, response = decode_response(line.receive(), METADATA_KEY, METADATA_VERSION)
        assert isinstance(response, MetadataResponse)
        led = [each for topic in response.topics for each in topic.partitions if each.error_code == 0]
        if len(led) == partitions:
            return
        time.sleep(0.02)
    raise BenchError(f"{partitions} partitions had no leaders after {READY_SECONDS_MAX:g} s")


def appends(run: Run) -> None:
    """Megabytes per second from a socket into files."""
    frame = produce_frame(TOPIC, BATCH_RECORDS, PARTITIONS)
    for turn in range(run.turns):
        with TemporaryDirectory(dir=run.scratch) as folder:
            server = OurServer(Path(folder))
            address = server.start()
            create_topic(address, PARTITIONS)
            with connected(address) as line:
                pump(line, frame, 20, 5)
                count, began = 1_000_000_000 // len(frame), time.perf_counter()
                pump(line, frame, count, 5)
                seconds = time.perf_counter() - began
            server.stop()
        run.add(APPENDS, server.name, turn, count * len(frame) / seconds / MEGA)


def lookups_by_time(run: Run) -> None:
    """Milliseconds of ListOffsets by time and a Fetch at the offset: the 99th of 100."""
    with TemporaryDirectory(dir=run.scratch) as folder:
        server = OurServer(Path(folder))
        address = server.start()
        create_topic(address, 1)
        frames, step_ms = batches_over_time(1, 1000), 1000
        first = next(frames)
        count = int(run.gigabytes * 1e9 / len(first))
        with connected(address) as line:
            pump(line, first, 1, 1)
            for frame in frames:
                pump(line, frame, 1, 1)
                count -= 1
                if count <= 1:
                    break
        server.stop()
        for turn in range(run.turns):
            address = server.start()
            wait_until_led(address, 1)
            rng, milliseconds = random.Random(turn), []
            total = int(run.gigabytes * 1e9 / len(first))
            with connected(address) as line:
                for _ in range(LOOKUPS):
                    wanted = BEGIN_MS + rng.randrange(total * step_ms - step_ms)
                    began = time.perf_counter()
                    _fetch(line, _look_up(line, wanted))
                    milliseconds.append((time.perf_counter() - began) * 1000)
            server.stop()
            run.add(LOOKUP, server.name, turn, statistics.quantiles(milliseconds, n=100)[98])


def _look_up(line: Line, timestamp_ms: int) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp_ms)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[partition])])
    line.send(framed(LIST_OFFSETS_KEY, LIST_OFFSETS_VERSION, request))
    _, response = decode_response(line.receive(), LIST_OFFSETS_KEY, LIST_OFFSETS_VERSION)
    assert isinstance(response, ListOffsetsResponse)
    found = response.topics[0].partitions[0]
    if found.error_code or found.timestamp < timestamp_ms:
        raise BenchError(f"no record at or after {timestamp_ms}: {found}")
    return found.offset


def _fetch(line: Line, offset: int) -> None:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=TOPIC, partitions=[partition])
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[topic], forgotten_topics_data=[])
    line.send(framed(FETCH_KEY, FETCH_VERSION, request))
    if len(line.receive()) < BATCH_RECORDS * 100:
        raise BenchError(f"a Fetch at {offset} gave no batch")


def starts(run: Run) -> None:
    """Seconds until 5,000 partitions have leaders, after a clean stop and after SIGKILL, beside Apache Kafka."""
    servers: list[Callable[[Path], Server]] = [OurServer, *([KafkaServer] if run.with_kafka else [])]
    for turn in range(run.turns):
        for make in servers:
            with TemporaryDirectory(dir=run.scratch) as folder, contextlib.ExitStack() as stack:
                server = make(Path(folder))
                stack.callback(server.stop)
                _fill_partitions(server.start(), run.partitions)
                for row, end in ((START_KILLED, server.kill), (START_CLEAN, server.stop)):
                    end()
                    began = time.perf_counter()
                    wait_until_led(server.start(), run.partitions)
                    run.add(row, server.name, turn, time.perf_counter() - began)


def _fill_partitions(address: str, partitions: int) -> None:
    """Create the topic, and write a gigabyte, 200 KB into each of 5,000 partitions."""
    create_topic(address, partitions)
    wait_until_led(address, partitions)
    batch = memoryview(encode_batch((BEGIN_MS, None, b"%0100d" % n, None) for n in range(FILL_RECORDS)))
    with connected(address) as line:
        for first in range(0, partitions, FILL_PARTITIONS):
            indexes = range(first, min(first + FILL_PARTITIONS, partitions))
            data = [PartitionProduceData(index=index, records=batch) for index in indexes]
            request = ProduceRequest(
                acks=-1, timeout_ms=60_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)]
            )
            _until_led(line, framed(PRODUCE_KEY, PRODUCE_VERSION, request))


def _until_led(line: Line, frame: bytes) -> None:
    """Produce; again while Apache Kafka, which names leaders before they are ready, refuses it."""
    until = time.monotonic() + READY_SECONDS_MAX
    while True:
        try:
            return pump(line, frame, 1, 1)
        except BenchError:
            if time.monotonic() > until:
                raise
        time.sleep(0.1)


def recovery(run: Run) -> None:
    """Megabytes per second of what a start after SIGKILL reads beyond the recovery point."""
    size = 1_000_000_000
    for turn in range(run.turns):
        with TemporaryDirectory(dir=run.scratch) as folder:
            server = OurServer(Path(folder))
            address = server.start()
            create_topic(address, 1)
            server.stop()
            began = time.perf_counter()
            address = server.start()
            wait_until_led(address, 1)
            clean = time.perf_counter() - began
            frame = produce_frame(TOPIC, BATCH_RECORDS, 1)
            with connected(address) as line:
                pump(line, frame, size // len(frame), 5)
            server.kill()
            began = time.perf_counter()
            wait_until_led(server.start(), 1)
            run.add(RECOVERY, server.name, turn, size / (time.perf_counter() - began - clean) / MEGA)
            server.stop()


APPENDS: Final = "append from a socket, files, 230 KB batches"
LOOKUP: Final = "fetch by timestamp, p99"
START_CLEAN: Final = "start, clean"
START_KILLED: Final = "start, after SIGKILL"
RECOVERY: Final = "recovery scan"

ROWS: Final[dict[str, Callable[[Run], None]]] = {
    "appends": appends,
    "lookups": lookups_by_time,
    "starts": starts,
    "recovery": recovery,
}


def result_lines(run: Run) -> Iterator[ResultLine]:
    """The table: ours against goals, and against Apache Kafka where it has the same work."""
    for row, judged, goal in (
        (APPENDS, "MB/s", Goal(1000, 1500, unit="")),
        (LOOKUP, f"ms, log of {run.gigabytes:g} GB", Goal(5, 2, less_is_better=True, unit="")),
        (RECOVERY, "MB/s", Goal(500, 1000, unit="")),
    ):
        ours = run.median(row, OurServer.name)
        if ours is not None:
            yield ResultLine(row, judged, ours, goal, ours, digits=",.2f")
    for row in (START_CLEAN, START_KILLED):
        ours, theirs = run.median(row, OurServer.name), run.median(row, KafkaServer.name)
        if ours is not None and theirs is not None:
            goal, judged = Goal(1, 0.3, less_is_better=True), f"s, {run.partitions:,} partitions"
            yield ResultLine(row, judged, ours, goal, ours / theirs, KafkaServer.name, theirs, digits=",.2f")


@click.command(help=__doc__)
@click.option("--turns", type=click.IntRange(1), default=3, show_default=True, help="Runs of each; medians count.")
@click.option("--gigabytes", type=float, default=10.0, show_default=True, help="Size of the log for look-ups.")
@click.option("--partitions", type=click.IntRange(1), default=5000, show_default=True, help="Of the starts.")
@click.option("--only", multiple=True, type=click.Choice(list(ROWS)), help="These rows only.")
@click.option("--scratch", type=click.Path(file_okay=False, path_type=Path), help="Where the logs go.")
@output_options
def main(
    turns: int,
    gigabytes: float,
    partitions: int,
    only: tuple[str, ...],
    scratch: Path | None,
    output: Path | None,
    picture: Path | None,
) -> None:
    """Measure and print the table."""
    report = Report("log", output, picture)
    missing = why_missing()
    if missing:
        report.say(f"Apache Kafka is left out: {missing}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # Kafka keeps a file open for each index
    settings = {"turns": turns, "gigabytes": gigabytes, "partitions": partitions, "descriptors": f"{soft} -> {hard}"}
    with TemporaryDirectory(prefix="bench-log-", dir=scratch) as folder:
        run = Run(report, Path(folder), turns, gigabytes, partitions, with_kafka=not missing)
        report.begin(environment("kafkaraw's embedded broker, with a data directory"), settings)
        for name in only or ROWS:
            ROWS[name](run)
    report.publish(list(result_lines(run)), run.found)


if __name__ == "__main__":
    main()
