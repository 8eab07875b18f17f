"""Load that costs less than the tap: frames that are made before, over plain sockets, between a client and a broker.

The client writes nothing into a frame but its correlation id, and keeps `IN_FLIGHT` requests without an answer. The
broker reads requests without looking at them, and answers with bytes that are ready. Neither decodes a frame, so of
the three processes the tap between them is the slowest one. Frames have one batch of records of 1 KB, as those of
real clients.

    python -m bench.tap.raw broker FRAME_BYTES
    python -m bench.tap.raw produce|fetch ADDRESS FRAME_BYTES WARMUP NUMBER

The first one prints its port and serves until it is killed; the second one prints one line of JSON: frames, bytes and
seconds. Start at `load` and `serve`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Final

from bench.network.messages import framed
from bench.tap.worker import VALUE_BYTES, values
from kafkaraw.protocol import ResponseHeader, encode_response
from kafkaraw.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkaraw.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkaraw.records import encode_batch

PRODUCE, FETCH = 0, 1
VERSIONS: Final = {PRODUCE: 10, FETCH: 16}
"""Those that librdkafka uses; their answers may have addresses of new leaders at their end."""
KEYS: Final = {"produce": PRODUCE, "fetch": FETCH}
IN_FLIGHT: Final = 5
TOPIC: Final = "orders"
TOPIC_ID: Final = (7).to_bytes(16)
HEAD: Final = struct.Struct(">i4si")
"""Of a request: size, API key and version, correlation id. An answer has none of the second."""
PREFIX_BYTES: Final = 4
CORRELATION_BYTES: Final = 4
CONNECT_TIMEOUT_S: Final = 10.0


def batch_of(frame_bytes: int) -> bytes:
    """Return a batch of records of 1 KB that fills a frame."""
    made = values()
    rows = [(0, None, made[number % len(made)], []) for number in range(max(frame_bytes // (VALUE_BYTES + 10), 1))]
    return bytes(encode_batch(rows))


def request_of(workload: str, frame_bytes: int) -> bytearray:
    """Return the request of a workload, with its size prefix."""
    key = KEYS[workload]
    if key == PRODUCE:
        partition = PartitionProduceData(index=0, records=batch_of(frame_bytes))
        topics = [TopicProduceData(name=TOPIC, partition_data=[partition])]
        message: object = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=topics)
    else:
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=frame_bytes)
        message = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=frame_bytes,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])],
        )
    return bytearray(framed(message, VERSIONS[key]))


def answer_of(key: int, frame_bytes: int) -> bytearray:
    """Return the answer to a request, with its size prefix."""
    if key == PRODUCE:
        written = PartitionProduceResponse(index=0, error_code=0, base_offset=0)
        message: object = ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=[written])])
    else:
        read = PartitionData(partition_index=0, error_code=0, high_watermark=1, records=batch_of(frame_bytes))
        message = FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[read])])
    body = encode_response(ResponseHeader(0), message, VERSIONS[key])
    return bytearray(len(body).to_bytes(PREFIX_BYTES) + body)


def _fill(sock: socket.socket, wanted: memoryview) -> bool:
    """Read as many bytes as fit; False if the peer has closed before the first one."""
    filled = 0
    while filled < len(wanted):
        count = sock.recv_into(wanted[filled:], 0, socket.MSG_WAITALL)
        if not count:
            if filled:
                raise ConnectionError("the peer has closed within a frame")
            return False
        filled += count
    return True


def _skip(sock: socket.socket, count: int, scratch: memoryview) -> None:
    while count:
        piece = scratch[: min(count, len(scratch))]
        if not _fill(sock, piece):
            raise ConnectionError("the peer has closed within a frame")
        count -= len(piece)


def serve(sock: socket.socket, answers: dict[int, bytearray]) -> None:
    """Answer the requests of one connection."""
    head, scratch = memoryview(bytearray(HEAD.size)), memoryview(bytearray(1 << 20))
    with sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while _fill(sock, head):
            size = int.from_bytes(head[:PREFIX_BYTES])
            _skip(sock, size + PREFIX_BYTES - HEAD.size, scratch)
            answer = answers[int.from_bytes(head[PREFIX_BYTES : PREFIX_BYTES + 2])]
            answer[PREFIX_BYTES : PREFIX_BYTES + CORRELATION_BYTES] = head[-CORRELATION_BYTES:]
            sock.sendall(answer)


def serve_until_killed(frame_bytes: int) -> None:
    """Listen on a free port, and print it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            sock, _ = listener.accept()
            answers = {key: answer_of(key, frame_bytes) for key in KEYS.values()}  # each is changed by its thread
            threading.Thread(target=serve, args=(sock, answers), daemon=True).start()


@contextlib.contextmanager
def raw_broker(frame_bytes: int) -> Iterator[str]:
    """A broker in a process of its own: its address."""
    command = [sys.executable, "-m", "bench.tap.raw", "broker", str(frame_bytes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def load(workload: str, address: str, frame_bytes: int, warmup: int, number: int) -> dict[str, float]:
    """Send `warmup` requests, then measure `number` of them with their answers; bytes are those of the long frames."""
    host, _, port = address.rpartition(":")
    request, scratch = request_of(workload, frame_bytes), memoryview(bytearray(1 << 20))
    with socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S) as sock:
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _exchange(sock, request, warmup, scratch)
        began = time.perf_counter()
        received = _exchange(sock, request, number, scratch)
        seconds = time.perf_counter() - began
    return {"records": number, "bytes": max(received, number * len(request)), "seconds": seconds}


def _exchange(sock: socket.socket, request: bytearray, number: int, scratch: memoryview) -> int:
    """Send a request that many times; return how many bytes came back."""
    head = scratch[: PREFIX_BYTES + CORRELATION_BYTES]
    received = 0
    for index in range(number + IN_FLIGHT):
        if index >= IN_FLIGHT:
            if not _fill(sock, head):
                raise SystemExit("the connection was closed")
            if int.from_bytes(head[PREFIX_BYTES:]) != index - IN_FLIGHT:
                raise SystemExit("an answer came out of order")
            size = int.from_bytes(head[:PREFIX_BYTES])
            _skip(sock, size - CORRELATION_BYTES, scratch)
            received += PREFIX_BYTES + size
        if index < number:
            request[HEAD.size - CORRELATION_BYTES : HEAD.size] = index.to_bytes(CORRELATION_BYTES)
            sock.sendall(request)
    return received


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "broker":
        serve_until_killed(int(arguments[0]))
    else:
        print(json.dumps(load(what, arguments[0], *map(int, arguments[1:]))))
