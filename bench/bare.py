"""What a broker cannot beat: a process that does with the bytes what a broker must do with them, and nothing else.

It receives the requests of `bench.broker`, appends their bytes to files without looking at them, gives answers that
were made before, and sends the files' content by sendfile. One connection at a time, blocking. Started by
`bench.broker` as a process of its own: `python -m bench.bare FOLDER` prints the port.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.broker import FETCH_BYTES, FETCH_KEY, PARTITIONS, PRODUCE_VERSION
from kafkaraw.protocol import ResponseHeader, encode_response
from kafkaraw.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

FRAME_BYTES_MAX: Final = 1 << 26
PIECE_BYTES_MIN: Final = 1 << 14
"""Shorter requests are for one partition."""


def _written() -> bytes:
    parts = [PartitionProduceResponse(index=index, error_code=0, base_offset=0) for index in range(PARTITIONS)]
    response = ProduceResponse(responses=[TopicProduceResponse(name="bare", partition_responses=parts)])
    frame = encode_response(ResponseHeader(7), response, PRODUCE_VERSION)
    return struct.pack(">i", len(frame)) + frame


class _Session:
    """One connection, with files of its own."""

    def __init__(self, sock: socket.socket, files: list[int]) -> None:
        self._socket = sock
        self._files = files
        self._sizes = [0] * len(files)
        self._buffer = memoryview(bytearray(FRAME_BYTES_MAX))
        self._answer = _written()

    def serve(self) -> None:
        """Answer until the other side hangs up."""
        while self._fill(4):
            (size,) = struct.unpack_from(">i", self._buffer)
            self._fill(size)
            if struct.unpack_from(">h", self._buffer)[0] == FETCH_KEY:
                self._send_files()
            else:
                self._append(self._buffer[:size])
                self._socket.sendall(self._answer)

    def _fill(self, size: int) -> bool:
        at = 0
        while at < size:
            more = self._socket.recv_into(self._buffer[at:size])
            if not more:
                return False
            at += more
        return True

    def _append(self, frame: memoryview) -> None:
        piece = max(PIECE_BYTES_MIN, -(-len(frame) // PARTITIONS))
        for index, at in enumerate(range(0, len(frame), piece)):
            self._sizes[index] += os.pwrite(self._files[index], frame[at : at + piece], self._sizes[index])

    def _send_files(self) -> None:
        sizes = [min(size, FETCH_BYTES) for size in self._sizes]
        self._socket.sendall(struct.pack(">i", sum(sizes)), socket.MSG_MORE)
        for file, size in zip(self._files, sizes, strict=True):
            at = 0
            while at < size:
                at += os.sendfile(self._socket.fileno(), file, at, size - at)


@contextlib.contextmanager
def _files(folder: Path) -> Iterator[list[int]]:
    paths = [folder / f"{index}.log" for index in range(PARTITIONS)]
    files = [os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC) for path in paths]
    try:
        yield files
    finally:
        for path, file in zip(paths, files, strict=True):
            os.close(file)
            path.unlink()


def main() -> None:
    """Serve one connection after the other, until the process is ended."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            sock, _ = listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with sock, _files(Path(sys.argv[1])) as files, contextlib.suppress(ConnectionError):
                _Session(sock, files).serve()


if __name__ == "__main__":
    main()
