"""Hostile peers of a tap, many at once: each `KINDS` entry is one way to cost memory, or to stop the traffic of others.

Runs as a process of its own, so that what it costs is not measured with the tap:

    python -m tests.inspect.tap.attack CLIENTS HOST PORT [KIND...]

It prints the address of a broker that treats clients by their id, and names HOST:PORT as broker 1. It reads the address
of a tap in front of it, prints how many clients are connected, and goes on until its input ends. Start at `KINDS`.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress

from kafkaraw.errors import KafkaError
from kafkaraw.protocol import ResponseHeader, encode_response
from kafkaraw.protocol.messages import fetch, heartbeat, produce
from kafkaraw.protocol.messages.metadata import MetadataRequest
from tests.inspect.tap.peers import Answer, asked, metadata_of, sized

METADATA = 3
ANSWER_BYTES = 4 << 20
FRAME_BYTES_MAX = 300 << 20
FETCHES_UNREAD = 20
UNANSWERED = 12_000
TURNS_MAX = 20
GREETINGS = (b"\x16\x03\x01\x02\x00\x01\x00" * 100, b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", b"\xff\xff\xff\xff" * 9)

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def metadata_of_client(client_id: str, correlation_id: int = 1) -> bytes:
    return asked(MetadataRequest(topics=[]), 9, correlation_id, client_id)


def fetch_of_client(client_id: str, correlation_id: int = 1) -> bytes:
    request = fetch.FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], forgotten_topics_data=[])
    return asked(request, 17, correlation_id, client_id)


def claiming(size: int, frame: bytes) -> bytes:
    """A frame with another size in front of it."""
    return struct.pack(">i", size) + frame[4:]


def produce_of_client(client_id: str) -> bytes:
    part = produce.PartitionProduceData(index=0, records=b"r" * 100)
    topics = [produce.TopicProduceData(name="t", partition_data=[part])]
    return asked(produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9, 1, client_id)


# -- clients -------------------------------------------------------------------------------------------------------


async def says_nothing(peer: Peer, rng: random.Random) -> None:
    await peer[0].read()


async def begins_a_frame(peer: Peer, rng: random.Random) -> None:
    peer[1].write(metadata_of_client("x")[: rng.randrange(1, 15)])
    await peer[0].read()


async def sends_noise(peer: Peer, rng: random.Random) -> None:
    peer[1].write(rng.randbytes(rng.randrange(1 << 17)))
    await peer[0].read()


async def claims_two_gigabytes(peer: Peer, rng: random.Random) -> None:
    peer[1].write(claiming(0x7FFF_FFFF, produce_of_client("x")) + bytes(1 << 20))
    await peer[0].read()


async def sends_a_part_of_a_large_frame(peer: Peer, rng: random.Random) -> None:
    peer[1].write(claiming(200 << 20, produce_of_client("x")) + bytes(3 << 20))
    await peer[0].read()


async def sends_a_part_of_a_frame_that_is_kept(peer: Peer, rng: random.Random) -> None:
    frame = metadata_of_client("x" * 30_000)
    peer[1].write(claiming(250_000, frame) + bytes(200_000))
    await peer[0].read()


async def never_reads(peer: Peer, rng: random.Random) -> None:
    peer[1].transport.pause_reading()  # type: ignore[attr-defined]
    for number in range(FETCHES_UNREAD):
        peer[1].write(fetch_of_client("reader", number))
    await asyncio.Event().wait()


async def asks_without_end(peer: Peer, rng: random.Random) -> None:
    request = heartbeat.HeartbeatRequest(group_id="g" * 200, generation_id=1, member_id="m")
    for number in range(UNANSWERED):
        peer[1].write(asked(request, 4, number, "mute"))
        if number % 100 == 0:
            await peer[1].drain()
    await peer[0].read()


async def asks_much_without_end(peer: Peer, rng: random.Random) -> None:
    """Requests that are kept whole, and not answered."""
    for number in range(100):
        peer[1].write(metadata_of_client("mute" + "x" * 30_000, number))
        await peer[1].drain()
    await peer[0].read()


async def asks_a_broker_that_disappears(peer: Peer, rng: random.Random) -> None:
    peer[1].write(fetch_of_client("vanish"))
    await peer[0].read()


async def reads_slowly(peer: Peer, rng: random.Random) -> None:
    peer[1].write(fetch_of_client("reader"))
    while await peer[0].read(1 << 12):
        await asyncio.sleep(0.1)


async def speaks_another_protocol(peer: Peer, rng: random.Random) -> None:
    peer[1].write(rng.choice(GREETINGS))
    await peer[0].read()


async def breaks_off(peer: Peer, rng: random.Random) -> None:
    peer[1].write(fetch_of_client("reader")[: rng.randrange(60)])
    await asyncio.sleep(rng.random() / 10)
    reset = peer[1].get_extra_info("socket")
    reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer[1].transport.abort()


KINDS: list[Callable[[Peer, random.Random], Coroutine[None, None, None]]] = [
    says_nothing,
    begins_a_frame,
    sends_noise,
    claims_two_gigabytes,
    sends_a_part_of_a_large_frame,
    sends_a_part_of_a_frame_that_is_kept,
    never_reads,
    asks_without_end,
    asks_much_without_end,
    asks_a_broker_that_disappears,
    reads_slowly,
    speaks_another_protocol,
    breaks_off,
]


class Attack:
    """Clients of all kinds.

    Args:
        servers: the address.
        clients: how many at once.
        kinds: what they do, in turn.
    """

    def __init__(
        self, servers: str, clients: int, kinds: list[Callable[[Peer, random.Random], Coroutine[None, None, None]]]
    ) -> None:
        host, _, port = servers.rpartition(":")
        self._address = host, int(port)
        self._clients = clients
        self._kinds = kinds
        self._tasks: set[asyncio.Task[None]] = set()
        self.begun: int = 0

    async def __aenter__(self) -> Attack:
        kinds = itertools.islice(itertools.cycle(self._kinds), self._clients)
        self._tasks = {asyncio.ensure_future(self._one(kind, seed)) for seed, kind in enumerate(kinds)}
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _one(self, kind: Callable[[Peer, random.Random], Coroutine[None, None, None]], seed: int) -> None:
        rng = random.Random(seed)
        for turn in range(TURNS_MAX):
            peer = None
            try:
                peer = await asyncio.open_connection(*self._address)
                self.begun += turn == 0
                await kind(peer, rng)
            except OSError:
                pass
            finally:
                if peer is not None:
                    peer[1].transport.abort()
            await asyncio.sleep(0.2)


# -- the broker ----------------------------------------------------------------------------------------------------


def fetch_answer(correlation_id: int) -> bytes:
    part = fetch.PartitionData(partition_index=0, error_code=0, high_watermark=1, records=bytes(ANSWER_BYTES))
    topics = [fetch.FetchableTopicResponse(topic_id=bytes(range(16)), partitions=[part])]
    ends = [fetch.NodeEndpoint(node_id=2, host="two.example", port=9092)]
    response = fetch.FetchResponse(responses=topics, node_endpoints=ends)
    return sized(encode_response(ResponseHeader(correlation_id), response, 17))


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, whole: bytes, other: Answer) -> None:
    while True:
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        if not 0 < size <= FRAME_BYTES_MAX:
            return
        frame = await reader.readexactly(min(size, 1 << 16))
        left = size - len(frame)
        while left:
            data = await reader.read(min(left, 1 << 16))
            if not data:
                return
            left -= len(data)
        if b"mute" in frame:
            continue
        if b"vanish" in frame:
            writer.write(whole[: 1 << 20])
            await writer.drain()
            writer.transport.abort()
            return
        if b"reader" in frame:
            writer.write(whole[:4] + frame[4:8] + whole[8:])
        elif int.from_bytes(frame[:2]) == METADATA:
            found = other(frame)
            if found is None:
                return
            writer.write(sized(found))
        else:
            return
        await writer.drain()


@asynccontextmanager
async def broker(other_host: str, other_port: int) -> AsyncIterator[str]:
    """A broker that treats clients by their id, and names another one as broker 1: its address."""
    whole = fetch_answer(0)
    other = metadata_of((1, other_host, other_port))
    writers: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        try:
            with suppress(asyncio.IncompleteReadError, OSError, KafkaError):
                await _serve(reader, writer, whole, other)
        finally:
            writers.discard(writer)
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1000)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in list(writers):
            writer.transport.abort()


async def main(clients: int, other_host: str, other_port: int, names: list[str]) -> None:
    """Attack a tap until the input ends."""
    kinds = [kind for kind in KINDS if not names or kind.__name__ in names]
    async with broker(other_host, other_port) as address:
        print(address, flush=True)
        servers = (await asyncio.to_thread(sys.stdin.readline)).strip()
        async with Attack(servers, clients, kinds) as attack:
            while attack.begun < clients:
                await asyncio.sleep(0.1)
            print(attack.begun, flush=True)
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
