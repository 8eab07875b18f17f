"""`make bench-broker`: bytes in, bytes out and requests per second of the embedded broker, in a process of its own.

The client does next to nothing: its requests are encoded before, and of the answers it looks at error codes only. So
the numbers are the broker's, as far as one core of the same machine can feed it. A bare process (`bench.bare`), which
only moves the bytes, takes turns with ours, and another broker (`--other`) may. Start at `WORKLOADS`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click

from bench.topics import BenchError
from kafkaraw import Admin, NewTopic
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.protocol import RequestHeader, decode_response, encode_request
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkaraw.records import encode_batch

TIMEOUT_SECONDS: Final = 60.0
PRODUCE_KEY, PRODUCE_VERSION = (
    0,
    12,
)  # the last versions that name topics, which Apache Kafka 4 answers, too
FETCH_KEY, FETCH_VERSION = 1, 12
PARTITIONS: Final = 4
BATCH_RECORDS: Final = 2300
"""A batch of 256 KB, as our producer makes them."""
VALUE_BYTES: Final = 100
FETCH_BYTES: Final = 4 * 1024 * 1024
"""Of each partition in one answer."""
IN_FLIGHT: Final = 5
MEGA: Final = 1_000_000
CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One workload on one broker, once."""

    workload: str
    broker: str
    turn: int
    requests: int
    bytes: int
    seconds: float
    broker_cpu_seconds: float | None

    @property
    def number(self) -> float:
        """What the workload is judged by: MB/s, or requests/s."""
        return (
            self.bytes / self.seconds / MEGA
            if WORKLOADS[self.workload].unit == "MB/s"
            else self.requests / self.seconds
        )


@dataclass(frozen=True, slots=True)
class Workload:
    """What is measured.

    Attributes:
        unit: "MB/s" or "requests/s".
        aim: on a quiet machine; None when there is none.
        act: does it; gives the number of requests and of bytes.
    """

    unit: str
    aim: float | None
    act: Callable[[Line, str, int], tuple[int, int]]


class Line:
    """A connection that sends requests made before, and reads answers into one buffer."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(64 * 1024 * 1024))

    def send(self, frame: bytes) -> None:
        """Send a whole frame."""
        self._socket.sendall(frame)

    def receive(self) -> memoryview:
        """Read a whole answer, without its size; valid until the next one."""
        self._fill(4)
        (size,) = struct.unpack(">i", self._buffer[:4])
        self._fill(size)
        return self._buffer[:size]

    def _fill(self, size: int) -> None:
        at = 0
        while at < size:
            more = self._socket.recv_into(self._buffer[at:size])
            if not more:
                raise BenchError("the broker closed the connection")
            at += more

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def framed(key: int, version: int, request: object) -> bytes:
    """Return a request as a frame, with its size in front."""
    frame = encode_request(RequestHeader(key, version, 7, "bench"), request)
    return struct.pack(">i", len(frame)) + frame


def produce_frame(topic: str, records: int, partitions: int) -> bytes:
    """A request with one batch for each partition."""
    batch = encode_batch((1_700_000_000_000, None, b"%0*d" % (VALUE_BYTES, number), None) for number in range(records))
    data = [PartitionProduceData(index=index, records=memoryview(batch)) for index in range(partitions)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return framed(
        PRODUCE_KEY,
        PRODUCE_VERSION,
        ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics),
    )


def fetch_frame(topic: str, partitions: int) -> bytes:
    """A request for the beginning of every partition."""
    wanted = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=FETCH_BYTES) for n in range(partitions)]
    topics = [FetchTopic(topic=topic, partitions=wanted)]
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=partitions * FETCH_BYTES,
        topics=topics,
        forgotten_topics_data=[],
    )
    return framed(FETCH_KEY, FETCH_VERSION, request)


def _check_produced(answer: memoryview) -> None:
    _, response = decode_response(answer, PRODUCE_KEY, PRODUCE_VERSION)
    assert isinstance(response, ProduceResponse)
    codes = {part.error_code for topic in response.responses for part in topic.partition_responses}
    if codes != {0}:
        raise BenchError(f"the broker refused the records: error codes {sorted(codes)}")


def pump(line: Line, frame: bytes, count: int, in_flight: int) -> None:
    """Send a produce request over and over, some at a time."""
    sent = 0
    for done in range(count):
        while sent < min(count, done + in_flight):
            line.send(frame)
            sent += 1
        _check_produced(line.receive())


def bytes_in(line: Line, topic: str, megabytes: int) -> tuple[int, int]:
    """Large produce requests, five in flight."""
    frame = produce_frame(topic, BATCH_RECORDS, PARTITIONS)
    count = max(IN_FLIGHT, megabytes * MEGA // len(frame))
    pump(line, frame, count, IN_FLIGHT)
    return count, count * len(frame)


def bytes_out(line: Line, topic: str, megabytes: int) -> tuple[int, int]:
    """Large fetches of what is in the caches, two in flight; from memory we give a piece of it, from a file all."""
    frame = fetch_frame(topic, PARTITIONS)
    line.send(frame)
    requests = received = 0
    while received < megabytes * MEGA:
        line.send(frame)
        answer = line.receive()
        if len(answer) < PARTITIONS * BATCH_RECORDS * VALUE_BYTES:
            _, response = decode_response(answer, FETCH_KEY, FETCH_VERSION)
            raise BenchError(f"the broker gave {len(answer)} bytes: {response!r:.300}")
        requests += 1
        received += len(answer)
    line.receive()
    return requests, received


def _requests(in_flight: int) -> Callable[[Line, str, int], tuple[int, int]]:
    def act(line: Line, topic: str, megabytes: int) -> tuple[int, int]:
        frame = produce_frame(topic, 1, 1)
        count = max(in_flight, megabytes * 20)
        pump(line, frame, count, in_flight)
        return count, count * len(frame)

    return act


WORKLOADS: Final = {
    "in": Workload("MB/s", 1200, bytes_in),
    "out": Workload("MB/s", 1800, bytes_out),
    "requests, one at a time": Workload("requests/s", None, _requests(1)),
    "requests, five in flight": Workload("requests/s", None, _requests(IN_FLIGHT)),
}


@dataclass(frozen=True, slots=True)
class Server:
    """A broker to measure; `process_id` when its CPU time can be told; a bare one knows no topics."""

    name: str
    bootstrap_servers: str
    process_id: int | None = None
    has_topics: bool = True

    def cpu_seconds(self) -> float | None:
        """User and system time so far."""
        if self.process_id is None:
            return None
        fields = Path(f"/proc/{self.process_id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


@contextlib.contextmanager
def servers(other: str | None) -> Iterator[list[Server]]:
    """Our broker with topics in memory, our broker with topics in files, the bare process, and the other broker."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        memory = stack.enter_context(EmbeddedBroker(process=True))
        files = stack.enter_context(EmbeddedBroker(data_dir=folder, process=True))
        found = [
            Server("memory", memory.bootstrap_servers, memory.process_id),
            Server("files", files.bootstrap_servers, files.process_id),
            stack.enter_context(_bare_server()),
        ]
        yield [*found, *([Server("other", other)] if other else [])]


@contextlib.contextmanager
def _bare_server() -> Iterator[Server]:
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen([sys.executable, "-m", "bench.bare", folder], stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            if not port:
                raise BenchError("the bare process has ended at once")
            yield Server("bare", f"127.0.0.1:{port}", process.pid, has_topics=False)
        finally:
            process.terminate()


@contextlib.contextmanager
def _topic(server: Server) -> Iterator[str]:
    name = f"bench-{uuid.uuid4().hex[:12]}"
    if not server.has_topics:
        yield name
        return
    with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])
        try:
            yield name
        finally:
            admin.delete_topics([name])


def measure(workload: str, server: Server, turn: int, megabytes: int) -> Measurement:
    """Measure once, on a topic of its own."""
    with _topic(server) as topic, contextlib.closing(Line(server.bootstrap_servers)) as line:
        frame = produce_frame(topic, BATCH_RECORDS, PARTITIONS)
        fill = 2 * FETCH_BYTES * PARTITIONS // len(frame) if workload == "out" else 1
        pump(line, frame, fill, 1)  # so that nobody's first time is measured
        before, began = server.cpu_seconds(), time.perf_counter()
        requests, size = WORKLOADS[workload].act(line, topic, megabytes)
        seconds, after = time.perf_counter() - began, server.cpu_seconds()
    cpu = None if before is None or after is None else after - before
    return Measurement(workload, server.name, turn, requests, size, seconds, cpu)


def _rotated(measured: list[Server], turn: int) -> list[Server]:
    """Everybody comes first once: who writes right after somebody's files were deleted gets memory that is at hand.

    That matters on virtual machines, which lend what they do not use to others after two seconds; the first touch of
    memory that was lent costs ten times as much as any other.
    """
    first = turn % len(measured)
    return [*measured[first:], *measured[:first]]


def describe(workload: str, server: Server, found: list[Measurement]) -> str:
    """One line of the result: medians."""
    of = WORKLOADS[workload]
    mine = [it for it in found if it.workload == workload and it.broker == server.name]
    number = statistics.median(it.number for it in mine)
    cpu = [
        it.broker_cpu_seconds / (it.bytes if of.unit == "MB/s" else it.requests) for it in mine if it.broker_cpu_seconds
    ]
    per = "ns per byte" if of.unit == "MB/s" else "µs per request"
    spent = (
        f"  CPU of the broker {statistics.median(cpu) * (1e9 if of.unit == 'MB/s' else 1e6):7.2f} {per}" if cpu else ""
    )
    aim = "" if of.aim is None or server.name in ("other", "bare") else f"  (aim {of.aim:,.0f})"
    return f"{workload:<26}{server.name:<8}{number:>10,.0f} {of.unit}{spent}{aim}"


@click.command(help=__doc__, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--other",
    metavar="HOST:PORT",
    help="A broker to take turns with, such as Apache Kafka; one node.",
)
@click.option(
    "--megabytes",
    default=600,
    show_default=True,
    type=click.IntRange(1),
    help="Sent or read each time.",
)
@click.option(
    "--turns",
    default=3,
    show_default=True,
    type=click.IntRange(1),
    help="Runs of each; medians are shown.",
)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(list(WORKLOADS)),
    help="These workloads only.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Result file (JSON).",
)
def main(
    other: str | None,
    megabytes: int,
    turns: int,
    only: tuple[str, ...],
    output: Path | None,
) -> None:
    """Measure and show."""
    chosen = only or tuple(WORKLOADS)
    found: list[Measurement] = []
    with servers(other) as measured:
        for turn in range(turns):
            for workload in chosen:
                found += [measure(workload, server, turn, megabytes) for server in _rotated(measured, turn)]
        click.echo(
            f"{PARTITIONS} partitions, batches of {BATCH_RECORDS} records of 100 bytes, acks=all, one connection, "
            f"{megabytes} MB each, {turns} turns, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        )
        for workload in chosen:
            for server in measured:
                click.echo(describe(workload, server, found))
    if output is not None:
        output.write_text(json.dumps([asdict(it) for it in found], indent=1))


if __name__ == "__main__":
    main()
