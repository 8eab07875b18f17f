"""Brokers that misbehave: each costs a client a bounded time and memory, and an error that says what is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from kafkaraw import Admin, Consumer, Producer, TopicPartition
from kafkaraw.client.admin import AsyncAdmin
from kafkaraw.errors import KafkaError, KafkaTimeoutError, NetworkError, Stage
from kafkaraw.net import Link
from kafkaraw.protocol import ResponseHeader, decode_request_header, encode_response
from kafkaraw.protocol.messages.metadata import MetadataResponse
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.client.scripted_cluster import runtime_of
from tests.client.stub_broker import api_versions

HOST, PORT = "broker1", 9092
API_VERSIONS, METADATA = 18, 3


class Dribbler:
    """Answers ApiVersions and Metadata, one byte a second from the chosen API on."""

    def __init__(self, slow_api: int) -> None:
        self._slow_api = slow_api

    def link_made(self, link: Link) -> None:
        self._link = link
        self._task: asyncio.Task[None] | None = None

    def frame_received(self, frame: memoryview) -> None:
        header, _ = decode_request_header(frame)
        metadata = MetadataResponse(brokers=[], topics=[], cluster_id="c" * 100)
        message = api_versions() if header.api_key == API_VERSIONS else metadata
        answer = encode_response(ResponseHeader(header.correlation_id), message, header.api_version)
        data = struct.pack(">i", len(answer)) + answer
        if header.api_key == self._slow_api:
            self._task = asyncio.create_task(self._dribble(data))
        else:
            self._link.send_raw(data)

    async def _dribble(self, data: bytes) -> None:
        for byte in data:
            self._link.send_raw(bytes([byte]))
            await asyncio.sleep(1)

    def link_lost(self, error: KafkaError | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def writing_paused(self, paused: bool) -> None:
        pass


@pytest.mark.parametrize(
    ("slow_api", "stage", "seconds"), [(API_VERSIONS, Stage.API_VERSIONS, 10), (METADATA, Stage.METADATA, 30)]
)
def test_a_broker_that_sends_one_byte_a_second_is_given_up_in_time(slow_api: int, stage: Stage, seconds: int) -> None:
    """No byte counts as a sign of life that would move a deadline: what is waited for is the answer."""

    async def main(simulation: Simulation) -> None:
        listener = await simulation.network.listen(HOST, PORT, lambda: Dribbler(slow_api), frame_size_max=1 << 20)
        async with AsyncAdmin(runtime=runtime_of(simulation), bootstrap_servers=f"{HOST}:{PORT}") as admin:
            began = simulation.loop.time()
            with pytest.raises(KafkaError) as caught:
                await admin.list_topics(timeout=60)
            assert simulation.loop.time() - began == pytest.approx(seconds, abs=1)
        assert f"{HOST}:{PORT}" in str(caught.value)
        if isinstance(caught.value, NetworkError):
            assert caught.value.stage in (stage, Stage.REQUEST)
        await listener.close()

    run_virtual(main, 1)


@contextlib.contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A listener on real sockets that hands each connection to `serve`, and closes it afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                with sock, contextlib.suppress(OSError):
                    sock.settimeout(20)
                    serve(sock)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def request(sock: socket.socket) -> bytes:
    prefix = sock.recv(4, socket.MSG_WAITALL)
    return sock.recv(int.from_bytes(prefix, "big"), socket.MSG_WAITALL)


def answer_api_versions(sock: socket.socket) -> None:
    header, _ = decode_request_header(request(sock))
    answer = encode_response(ResponseHeader(header.correlation_id), api_versions(), header.api_version)
    sock.sendall(struct.pack(">i", len(answer)) + answer)


def claims_two_gigabytes(sock: socket.socket) -> None:
    request(sock)
    sock.sendall(b"\x7f\xff\xff\xff" + bytes(1000))
    sock.recv(1)


def claims_two_gigabytes_later(sock: socket.socket) -> None:
    answer_api_versions(sock)
    claims_two_gigabytes(sock)


def half_closes(sock: socket.socket) -> None:
    answer_api_versions(sock)
    request(sock)
    sock.shutdown(socket.SHUT_WR)
    sock.recv(1)


def half_closes_in_the_middle(sock: socket.socket) -> None:
    answer_api_versions(sock)
    request(sock)
    sock.sendall(struct.pack(">i", 1000) + b"abc")
    sock.shutdown(socket.SHUT_WR)
    sock.recv(1)


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        (claims_two_gigabytes, "frame of 2147483647 bytes, the limit is"),
        (claims_two_gigabytes_later, "frame of 2147483647 bytes, the limit is"),
        (half_closes, "closed the connection"),
        (half_closes_in_the_middle, "closed the connection after 3 of 1000 bytes of a frame"),
        (lambda sock: sock.sendall(b"\x15\x03\x03\x00\x02\x02\x46"), "speaks TLS"),
        (lambda sock: sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "HTTP"),
    ],
)
def test_what_no_broker_sends_is_one_quick_error_that_keeps_no_memory(
    serve: Callable[[socket.socket], None], words: str
) -> None:
    with server(serve) as address:
        tracemalloc.start()
        try:
            began = time.monotonic()
            with Admin(bootstrap_servers=address) as admin, pytest.raises(KafkaError, match=words):
                admin.list_topics(timeout=20)
            assert time.monotonic() - began < 15
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 64 << 20


def black_hole(sock: socket.socket) -> None:
    with contextlib.suppress(TimeoutError):
        while sock.recv(1 << 16):
            pass


def test_both_faces_time_out_on_a_peer_that_never_answers() -> None:
    """Real sockets and real time, one short wait of each blocking client; all methods: see test_timeouts."""
    with server(black_hole) as address:
        calls: list[tuple[str, Callable[[], object]]] = []
        with (
            Admin(bootstrap_servers=address) as admin,
            Producer(bootstrap_servers=address, max_block_ms=300) as producer,
            Consumer(bootstrap_servers=address) as consumer,
        ):
            consumer.assign([TopicPartition("t", 0)])
            calls = [
                ("admin", lambda: admin.list_topics(timeout=0.3)),
                ("producer", lambda: producer.send("t", b"x")),
                ("consumer", lambda: consumer.position(TopicPartition("t", 0), timeout=0.3)),
            ]
            for name, call in calls:
                began = time.monotonic()
                with pytest.raises(KafkaTimeoutError):
                    call()
                assert time.monotonic() - began < 5, name
