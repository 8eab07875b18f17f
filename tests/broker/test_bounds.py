"""Peers that misbehave: each costs the broker a bounded amount and disturbs no other. Real sockets where it matters."""

from __future__ import annotations

import asyncio
import contextlib
import random
import resource
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw import Consumer, Producer, TopicPartition
from kafkaraw.broker import BrokerConfig, BrokerNode, EmbeddedBroker
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.protocol import RequestHeader, encode_request
from kafkaraw.protocol.apis import api_of
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.testing.virtual import Simulation, run_virtual

CONNECTIONS = 1000
IMPATIENT = {"request_timeout_ms": 300, "retry_backoff_ms": 10, "socket_connection_setup_timeout_ms": 2000}


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def dial(broker: EmbeddedBroker, receive_buffer: int | None = None) -> socket.socket:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    sock = socket.socket()
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(20)
    sock.connect((host, int(port)))
    return sock


def framed(message: object, version: int, correlation_id: int = 1) -> bytes:
    frame = encode_request(RequestHeader(api_of(message).key, version, correlation_id, "test"), message)
    return struct.pack(">i", len(frame)) + frame


def receive(sock: socket.socket) -> bytes:
    return exactly(sock, struct.unpack(">i", exactly(sock, 4))[0])


def exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(size - len(data))
        assert piece, f"the broker closed the connection after {len(data)} of {size} bytes"
        data += piece
    return bytes(data)


def assert_serves(broker: EmbeddedBroker) -> None:
    with dial(broker) as sock:
        sock.sendall(framed(ApiVersionsRequest(), 0, 42))
        assert receive(sock)[:4] == struct.pack(">i", 42)


def resident_bytes(process_id: int) -> int:
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_a_thousand_connections_are_each_answered(broker: EmbeddedBroker):
    with many_sockets(broker) as socks:
        for number, sock in enumerate(socks):
            sock.sendall(framed(ApiVersionsRequest(), 0, number))
        for number, sock in enumerate(socks):
            assert receive(sock)[:4] == struct.pack(">i", number)
        assert_serves(broker)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory of another process is read from /proc")
def test_a_connection_costs_little_memory():
    with EmbeddedBroker(process=True) as broker:
        assert_serves(broker)
        before = resident_bytes(broker.process_id)
        with many_sockets(broker) as socks:
            for sock in socks:
                sock.sendall(framed(ApiVersionsRequest(), 0, 1))
            for sock in socks:
                assert receive(sock)
            each = (resident_bytes(broker.process_id) - before) / CONNECTIONS
            assert each < 64 * 1024


@contextlib.contextmanager
def many_sockets(broker: EmbeddedBroker) -> Iterator[list[socket.socket]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3 * CONNECTIONS:
        pytest.skip(f"only {hard} files may be open, {3 * CONNECTIONS} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3 * CONNECTIONS), hard))
    try:
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(dial(broker)) for _ in range(CONNECTIONS)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("size", [0x7FFFFFFF, 0x7FFFFFFE, 104_857_601, -1, -0x80000000])
def test_a_size_that_no_request_has_closes_the_connection_before_anything_is_kept(broker: EmbeddedBroker, size: int):
    with dial(broker) as sock:
        sock.sendall(struct.pack(">i", size))
        assert sock.recv(1) == b""
    assert_serves(broker)


def test_a_peer_that_has_said_all_it_will_say_is_let_go(broker: EmbeddedBroker):
    with dial(broker) as sock:
        sock.sendall(framed(ApiVersionsRequest(), 0))
        assert receive(sock)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""
    with dial(broker) as sock:
        sock.sendall(framed(ApiVersionsRequest(), 0)[:7])
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""
    assert_serves(broker)


def test_a_peer_that_reads_nothing_is_not_answered_without_end(broker: EmbeddedBroker):
    """It asks for a megabyte a hundred times and reads none: its requests stay in the network, unread by the broker."""
    with Producer(bootstrap_servers=broker.bootstrap_servers, max_request_size=2 << 20) as producer:
        producer.send("big", bytes(1_000_000)).result(20)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=2 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=2 << 20, topics=[FetchTopic(topic="big", partitions=[partition])]
    )
    with dial(broker, receive_buffer=4096) as sock:
        for number in range(100):
            sock.sendall(framed(request, 11, number))
        assert_serves(broker)
        node = broker._node
        assert node is not None
        unsent = [_unsent_bytes(connection) for connection in node._connections]
        assert max(unsent) < 4 << 20
        for number in range(100):
            assert receive(sock)[:4] == struct.pack(">i", number)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted in /proc")
def test_a_fetch_that_is_not_read_takes_no_descriptor_for_its_parts(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path, properties={"connections.max.idle.ms": "1000"}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for value in (bytes(17_000), bytes(900_000)):
                producer.send("t", value, partition=0).result(20)
        parts = [FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)] * 3
        parts += [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=18_000)] * 400
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 30, topics=[FetchTopic(topic="t", partitions=parts)]
        )
        before = descriptors()
        with contextlib.ExitStack() as stack:
            socks = [stack.enter_context(dial(broker, receive_buffer=4096)) for _ in range(10)]
            for sock in socks:
                for number in range(20):
                    sock.sendall(framed(request, 11, number))
            assert_serves(broker)
            assert descriptors() - before <= 2 * len(socks) + 1  # and the log, which is open while it is sent
            deadline = time.monotonic() + 10
            while descriptors() - before > len(socks) + 1:  # those of the broker's ends are aborted at the idle limit
                assert time.monotonic() < deadline
                time.sleep(0.05)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory of another process is read from /proc")
@pytest.mark.parametrize("size", [0, 4, 8, 12])
def test_tiny_frames_behind_a_long_poll_cost_bounded_memory(size: int):
    """They are refused when they are too short for a request, and left in the network when too many wait."""
    with EmbeddedBroker(process=True) as broker, Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("t", b"x").result(20)
        partition = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1000)
        long_poll = FetchRequest(
            max_wait_ms=60_000, min_bytes=1, max_bytes=1000, topics=[FetchTopic(topic="t", partitions=[partition])]
        )
        frames = struct.pack(">i", size) + bytes(size)
        with dial(broker) as sock:
            sock.sendall(framed(long_poll, 11))
            before = resident_bytes(broker.process_id)
            sock.settimeout(1)
            with pytest.raises(OSError):  # the connection is closed, or nothing more is taken
                for _ in range(100):
                    sock.sendall(frames * (1 << 18))
            assert resident_bytes(broker.process_id) - before < 8 << 20
        assert_serves(broker)


def _unsent_bytes(connection: object) -> int:
    link = connection._link
    if link is None or link._transport is None:
        return 0
    return link._transport.get_write_buffer_size() + link._writer._queued_bytes


def test_a_peer_that_sends_one_byte_a_second_is_answered_and_disturbs_no_other():
    """Virtual time: half a minute for one request, while another peer is served all along."""

    class Peer:
        def __init__(self) -> None:
            self.frames: list[bytes] = []

        def link_made(self, link: object) -> None:
            self.link = link

        def frame_received(self, frame: memoryview) -> None:
            self.frames.append(bytes(frame))

        def link_lost(self, error: object) -> None:
            self.error = error

        def writing_paused(self, paused: bool) -> None:
            pass

    async def main(simulation: Simulation) -> None:
        node = BrokerNode(
            BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:9092"}),
            network=simulation.network,
            storage=MemoryStorage(),
            clock=simulation.clock,
            rng=random.Random(1),
        )
        async with node:
            slow, quick = Peer(), Peer()
            for peer in (slow, quick):
                await simulation.network.dial("127.0.0.1", 9092, peer, timeout=1, frame_size_max=1 << 20)
            request = framed(ApiVersionsRequest(), 0)
            for byte in request:
                slow.link.send_raw(bytes([byte]))
                quick.link.send_raw(request)
                await asyncio.sleep(1)
            assert len(slow.frames) == 1
            assert len(quick.frames) == len(request)
            assert simulation.loop.time() >= len(request)

    run_virtual(main, 1)


VERBS = {
    "delay": lambda on: on.delay(0.05),
    "close": lambda on: on.close(),
    "close when handled": lambda on: on.close(handled=True),
    "swallow": lambda on: on.swallow(),
    "swallow when handled": lambda on: on.swallow(handled=True),
    "cut": lambda on: on.cut(at=7),
    "answer": lambda on: on.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER),
}


@pytest.mark.parametrize("verb", VERBS)
def test_over_real_sockets_a_fault_loses_and_doubles_nothing(broker: EmbeddedBroker, verb: str):
    faults = [VERBS[verb](broker.faults.on("Produce", nth=2)), VERBS[verb](broker.faults.on("Fetch", nth=2))]
    values = [b"%d" % number for number in range(30)]
    servers = {"bootstrap_servers": broker.bootstrap_servers}
    with Producer(linger_ms=0, batch_size=100, **servers, **IMPATIENT) as producer:
        for value in values[:3]:
            producer.send("t", value).result(20)
        tickets = [producer.send("t", value) for value in values[3:]]
        assert [ticket.result(20).offset for ticket in tickets] == list(range(3, 30))
    read: list[bytes] = []
    with Consumer(auto_offset_reset="earliest", max_partition_fetch_bytes=200, **servers, **IMPATIENT) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        while len(read) < len(values):
            read += [record.value for batch in consumer.poll(20).values() for record in batch]
    assert read == values
    for fault in faults:
        fault.wait_until_consumed(20)


def test_over_real_sockets_what_is_held_goes_on_when_another_thread_releases_it(broker: EmbeddedBroker):
    held = broker.faults.on("Produce").hold()
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        ticket = producer.send("t", b"x")
        held.wait_until_consumed(20)
        assert not ticket.done
        held.release()
        assert ticket.result(20).offset == 0
    broker.faults.assert_all_consumed()
