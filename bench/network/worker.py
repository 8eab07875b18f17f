"""One measurement in a process of its own: `python -m bench.network.worker WORK SETTINGS HOST:PORT`.

Prints one line of JSON: how many, in how many seconds, with how much CPU. A worker warms up before its watch starts.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from collections.abc import Callable
from typing import Final

from bench.network.cores import ANY, FIRST, run_on
from bench.network.messages import (
    API_VERSIONS_VERSION,
    FETCH_VERSION,
    METADATA_VERSION,
    api_versions_request,
    fetch_answer,
    fetch_request,
    framed,
    metadata_request,
)
from bench.network.settings import Settings
from kafkaraw.client.network.connection import Connection
from kafkaraw.errors import KafkaError
from kafkaraw.net import AsyncioNetwork, Link
from kafkaraw.net.loop_thread import client_loop_thread

Address = tuple[str, int]
TIMEOUT_S: Final = 30.0


class Watch:
    """Wall clock and CPU of this process, from when it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def result(self, count: int, **more: int) -> dict[str, float]:
        """What has passed since."""
        return {
            "count": count,
            "seconds": time.perf_counter() - self._wall,
            "cpu_seconds": time.process_time() - self._cpu,
            **more,
        }


def dial(address: Address) -> socket.socket:
    """A bare connection."""
    sock = socket.create_connection(address, TIMEOUT_S)
    sock.settimeout(None)  # a timeout would cost each call a poll() of its own
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def receive(sock: socket.socket, buffer: memoryview) -> int:
    """Read one frame; returns its size."""
    got = 0
    while got < 4:
        got += sock.recv_into(buffer[got:])
    size = 4 + int.from_bytes(buffer[:4], "big")
    while got < size:
        got += sock.recv_into(buffer[got:size])
    return size


async def connect(address: Address, in_flight: int = 5) -> Connection:
    """A connection of ours."""
    return await Connection.open(
        AsyncioNetwork(), *address, client_id="bench", connect_timeout=TIMEOUT_S, max_in_flight=in_flight
    )


def bare_round_trips(settings: Settings, address: Address) -> dict[str, float]:
    """A blocking socket, and the same bytes each time."""
    request, buffer = framed(api_versions_request(), API_VERSIONS_VERSION), memoryview(bytearray(1 << 16))
    with dial(address) as sock:
        for _ in range(settings.round_trips // 10):
            sock.sendall(request)
            receive(sock, buffer)
        watch = Watch()
        for _ in range(settings.round_trips):
            sock.sendall(request)
            receive(sock, buffer)
        return watch.result(settings.round_trips)


class BareAnswers(asyncio.BufferedProtocol):
    """Settles a future for each answer ; what asyncio itself costs."""

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(1 << 16))
        self._filled = 0
        self.answer: asyncio.Future[None] | None = None

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the answer goes."""
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Count."""
        self._filled += nbytes
        if self._filled == 4 + int.from_bytes(self._buffer[:4], "big") and self.answer is not None:
            self._filled = 0
            self.answer.set_result(None)


def asyncio_round_trips(settings: Settings, address: Address) -> dict[str, float]:
    """A BufferedProtocol of asyncio with a future for each answer, and the same bytes each time."""

    async def main() -> dict[str, float]:
        loop, request = asyncio.get_running_loop(), framed(api_versions_request(), API_VERSIONS_VERSION)
        transport, protocol = await loop.create_connection(BareAnswers, *address)
        for count in (settings.round_trips // 10, settings.round_trips):
            watch = Watch()
            for _ in range(count):
                protocol.answer = loop.create_future()
                transport.write(request)
                await protocol.answer
        result = watch.result(settings.round_trips)
        transport.close()
        return result

    return asyncio.run(main())


def async_round_trips(settings: Settings, address: Address) -> dict[str, float]:
    """Our connection, awaited on its loop."""

    async def main() -> dict[str, float]:
        connection, request = await connect(address), api_versions_request()
        for _ in range(settings.round_trips // 10):
            await connection.request(request, timeout=TIMEOUT_S)
        watch = Watch()
        for _ in range(settings.round_trips):
            await connection.request(request, timeout=TIMEOUT_S)
        result = watch.result(settings.round_trips)
        await connection.close()
        return result

    return asyncio.run(main())


def blocking_round_trips(settings: Settings, address: Address) -> dict[str, float]:
    """Our connection, on the loop thread that the blocking clients share."""
    loop_thread, request = client_loop_thread(), api_versions_request()
    connection = loop_thread.run(connect(address))
    for _ in range(settings.round_trips // 10):
        loop_thread.run(connection.request(request, timeout=TIMEOUT_S))
    watch = Watch()
    for _ in range(settings.round_trips):
        loop_thread.run(connection.request(request, timeout=TIMEOUT_S))
    result = watch.result(settings.round_trips)
    loop_thread.run(connection.close())
    return result


class BareReader(asyncio.BufferedProtocol):
    """Counts answers of one known size and asks for the next; looks at nothing."""

    def __init__(self, request: bytes, size: int, settings: Settings, done: asyncio.Future[None]) -> None:
        self._request, self._size, self._done = request, size, done
        self._buffer = memoryview(bytearray(size))
        self._filled = self._answers = 0
        self._frames, self._unasked = settings.frames, settings.frames - settings.in_flight
        self._in_flight = settings.in_flight

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the first answers."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        for _ in range(self._in_flight):
            transport.write(self._request)

    def get_buffer(self, sizehint: int) -> memoryview:
        """What is left of the answer."""
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Count."""
        self._filled += nbytes
        if self._filled < self._size:
            return
        self._filled = 0
        self._answers += 1
        if self._answers == self._frames:
            self._done.set_result(None)
        elif self._unasked:
            self._unasked -= 1
            self._transport.write(self._request)


def bare_large_reads(settings: Settings, address: Address) -> dict[str, float]:
    """A BufferedProtocol of asyncio with one buffer for all answers."""

    async def main() -> dict[str, float]:
        loop = asyncio.get_running_loop()
        size = len(fetch_answer(settings.frame_bytes)) + 4
        request = framed(fetch_request(settings.frame_bytes), FETCH_VERSION)
        done: asyncio.Future[None] = loop.create_future()
        watch = Watch()
        transport, _ = await loop.create_connection(lambda: BareReader(request, size, settings, done), *address)
        await done
        transport.close()
        return watch.result(settings.frames, bytes=size * settings.frames)

    return asyncio.run(main())


class LinkReader:
    """Counts answers on a link of ours, and asks for the next."""

    def __init__(self, request: bytes, settings: Settings, done: asyncio.Future[None]) -> None:
        self._request, self._done = request, done
        self._unanswered, self._unasked = settings.frames, settings.frames - settings.in_flight
        self._in_flight = settings.in_flight

    def link_made(self, link: Link) -> None:
        """Ask for the first answers."""
        self._link = link
        for _ in range(self._in_flight):
            link.send_raw(self._request)

    def frame_received(self, frame: memoryview) -> None:
        """Count."""
        self._unanswered -= 1
        if not self._unanswered:
            self._done.set_result(None)
        elif self._unasked:
            self._unasked -= 1
            self._link.send_raw(self._request)

    def link_lost(self, error: KafkaError | None) -> None:
        """The end."""

    def writing_paused(self, paused: bool) -> None:
        """Requests are short."""


def link_large_reads(settings: Settings, address: Address) -> dict[str, float]:
    """A link of ours: frames found, a buffer for each."""

    async def main() -> dict[str, float]:
        size = len(fetch_answer(settings.frame_bytes)) + 4
        request = framed(fetch_request(settings.frame_bytes), FETCH_VERSION)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reader = LinkReader(request, settings, done)
        watch = Watch()
        link = await AsyncioNetwork().dial(*address, reader, timeout=TIMEOUT_S, frame_size_max=1 << 30)
        await done
        link.close()
        return watch.result(settings.frames, bytes=size * settings.frames)

    return asyncio.run(main())


def our_large_reads(settings: Settings, address: Address) -> dict[str, float]:
    """Our connection: framing, matching, decoding, a buffer for each answer."""

    async def main() -> dict[str, float]:
        connection = await connect(address, settings.in_flight)
        size = len(fetch_answer(settings.frame_bytes)) + 4
        request = fetch_request(settings.frame_bytes)
        left = iter(range(settings.frames))

        async def ask() -> None:
            for _ in left:
                await connection.request(request, timeout=TIMEOUT_S)

        watch = Watch()
        await asyncio.gather(*(ask() for _ in range(settings.in_flight)))
        result = watch.result(settings.frames, bytes=size * settings.frames)
        await connection.close()
        return result

    return asyncio.run(main())


def connections(settings: Settings, address: Address) -> dict[str, float]:
    """Connect, ask for the versions, close; one after the other, by bare sockets."""
    request, buffer = framed(api_versions_request(), API_VERSIONS_VERSION), memoryview(bytearray(1 << 16))
    watch = Watch()
    for _ in range(settings.connections):
        with dial(address) as sock:
            sock.sendall(request)
            receive(sock, buffer)
    return watch.result(settings.connections)


def metadata(settings: Settings, address: Address) -> dict[str, float]:
    """Ask for the metadata of all topics, by a bare socket."""
    request, buffer = framed(metadata_request(), METADATA_VERSION), memoryview(bytearray(1 << 22))
    with dial(address) as sock:
        sock.sendall(request)
        size = receive(sock, buffer)
        watch = Watch()
        for _ in range(settings.requests):
            sock.sendall(request)
            receive(sock, buffer)
        return watch.result(settings.requests, bytes=size * settings.requests)


def pipelined(settings: Settings, address: Address) -> dict[str, float]:
    """Send a window of requests at once, read all answers, and so on, by a bare socket."""
    window = framed(api_versions_request(), API_VERSIONS_VERSION) * settings.window
    buffer, rounds = memoryview(bytearray(1 << 20)), settings.pipelined // settings.window
    with dial(address) as sock:
        sock.sendall(window[: len(window) // settings.window])
        expected = receive(sock, buffer) * settings.window
        watch = Watch()
        for _ in range(rounds):
            sock.sendall(window)
            left = expected
            while left:
                left -= sock.recv_into(buffer)
        return watch.result(rounds * settings.window)


WORK: Final[dict[str, Callable[[Settings, Address], dict[str, float]]]] = {
    "bare": bare_round_trips,
    "bare-asyncio": asyncio_round_trips,
    "async": async_round_trips,
    "blocking": blocking_round_trips,
    "bare-reads": bare_large_reads,
    "link-reads": link_large_reads,
    "our-reads": our_large_reads,
    "connections": connections,
    "metadata": metadata,
    "pipelined": pipelined,
}


def main(work: str, settings_json: str, address: str) -> None:
    """Run one measurement and print it."""
    settings = Settings.from_json(settings_json)
    if settings.cores != ANY:
        run_on(FIRST)
    host, _, port = address.rpartition(":")
    print(json.dumps(WORK[work](settings, (host, int(port)))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
