"""What no reader can beat: a blocking socket that fetches the same records into one buffer, and decodes none.

With `copied` it also checks the checksum of each batch and copies it once, as columns need at least. No client's worth:
one broker, known offsets, nothing may go wrong. Start at `bare`.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from kafkaraw.protocol import RequestHeader, decode_response, encode_request
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkaraw.records import Wire, batches_of, verify_crc

if TYPE_CHECKING:
    from bench.consume.readers import Job

FETCH_KEY: Final = 1
FETCH_VERSION: Final = 11  # the last but one that goes by names
ANSWER_BYTES_MAX: Final = 52_428_800  # as all clients ask for, with a megabyte of a partition
PARTITION_BYTES_MAX: Final = 1 << 20
PIECE_BYTES: Final = 1 << 20
SILENCE_MS_MAX: Final = 30_000


class _Socket:
    """Asks, and receives answers into one buffer; woken once for a megabyte, which takes the least CPU."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._buffer = memoryview(bytearray(ANSWER_BYTES_MAX))
        self._asked = 0

    def ask(self, request: FetchRequest) -> FetchResponse:
        """The answer, as views of the buffer."""
        self._asked += 1
        frame = encode_request(RequestHeader(FETCH_KEY, FETCH_VERSION, self._asked, "bare"), request)
        self._socket.sendall(len(frame).to_bytes(4) + frame)
        size = int.from_bytes(self._received(4))
        _, response = decode_response(self._received(size), FETCH_KEY, FETCH_VERSION)
        assert isinstance(response, FetchResponse)
        return response

    def _received(self, size: int) -> memoryview:
        at = 0
        while at < size:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, min(size - at, PIECE_BYTES))
            assert self._poll.poll(SILENCE_MS_MAX), "the broker fell silent"
            count = self._socket.recv_into(self._buffer[at:size], 0, socket.MSG_DONTWAIT)
            assert count, "the broker hung up"
            at += count
        return self._buffer[:size]


def _fetched(sock: _Socket, job: Job) -> Iterator[list[Wire]]:
    """The batches of each partition of each answer, from the beginning on."""
    offsets = [0] * job.partitions
    while True:
        partitions = [
            FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES_MAX)
            for partition, offset in enumerate(offsets)
        ]
        topics = [FetchTopic(topic=job.topic, partitions=partitions)]
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=ANSWER_BYTES_MAX, topics=topics)
        for part in sock.ask(request).responses[0].partitions:
            assert not part.error_code, part
            wires = batches_of(part.records) if isinstance(part.records, memoryview) else []
            if wires:
                offsets[part.partition_index] = wires[-1][0].next_offset
                yield wires


def bare(job: Job, *, copied: bool = False) -> Callable[[], int]:
    """The work of a bare socket; `readers.Work`."""
    sock, target = _Socket(job.bootstrap_servers), bytearray(PARTITION_BYTES_MAX)

    def work() -> int:
        count = 0
        for wires in _fetched(sock, job):
            for header, wire in wires:
                if copied:
                    verify_crc(wire)
                    target[: len(wire)] = wire
                count += header.records_count
            if count >= job.records:
                break
        return count * job.value_bytes

    return work
