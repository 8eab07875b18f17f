"""Cut a stream of bytes into frames, into buffers that the network may write to directly.

Shaped for `asyncio.BufferedProtocol`: `get_buffer` returns the buffer for the next bytes, `buffer_updated` sets how
many were received, `next_frame` returns the frames that are whole. Between frames the buffer is a small one for
prefixes and short frames, several with one read; the rest of a long frame is read into the frame's own buffer. Each
frame has its own buffer, because records stay views into it; a large one is reused when no view is left. This module
must not do I/O. Start at `FrameReader`.
"""

from __future__ import annotations

import struct

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol.buffers import Memory, SpareBuffers

SIZE_PREFIX = struct.Struct(">i")
# A buffer grows towards the claimed size as bytes arrive: a claim alone allocates no more than this, or than a frame
# before it has had. So only the first large frame of a connection is copied as it grows, and a peer that claims much
# and sends nothing, on very many connections, costs little.
FIRST_BUFFER_SIZE = 1 << 16
# Bytes that can be read at once between frames. Each connection keeps this much: about as much as most requests need.
ENTRANCE_SIZE = 1 << 13
# And this much after the first longer frame, if several of that size fit: two reads for each cost more than a copy.
# Larger frames are better read into their own buffers.
LARGER_ENTRANCE_SIZE = 1 << 16
# First bytes of other protocols, read as a size: the usual result of a connection to a wrong port.
STRANGERS: dict[bytes, str] = {
    b"HTTP": "the other side speaks HTTP, not Kafka",
    b"GET ": "the other side sent an HTTP request, not a Kafka frame",
    b"POST": "the other side sent an HTTP request, not a Kafka frame",
    b"SSH-": "the other side speaks SSH, not Kafka",
    b"\x15\x03": "the other side speaks TLS and sent an alert: this port wants TLS (security_protocol SSL or SASL_SSL)",
    b"\x16\x03": "the other side sent a TLS handshake to a port without TLS",
}


class FrameReader:
    """Sans-I/O framing with Kafka's four-byte size prefix, which does not count itself.

    Args:
        limit: largest frame to accept, in bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entrance = memoryview(bytearray(ENTRANCE_SIZE))
        self._start = self._end = 0  # the bytes in the entrance that are not yet cut into frames
        self._frame: Memory | None = None
        self._size = 0
        self._filled = 0
        self._size_max = FIRST_BUFFER_SIZE  # size of the largest frame so far, if that is larger
        self._spares = SpareBuffers()

    @property
    def is_between_frames(self) -> bool:
        """Whether no byte of an unfinished frame has been read: only then a stream may end without an error."""
        return self._frame is None and self._start == self._end

    @property
    def progress(self) -> str:
        """How much of the unfinished frame was received, for error messages."""
        if self._frame is None:
            return f"{self._end - self._start} of {SIZE_PREFIX.size} bytes of a size prefix"
        return f"{self._filled} of {self._size} bytes of a frame"

    @property
    def missing(self) -> int:
        """How many bytes of an unfinished frame are missing, once its size is known; 0 between frames."""
        return 0 if self._frame is None else self._size - self._filled

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """Return the buffer for the next bytes; a memoryview, as a bytearray breaks asyncio's TLS (cpython 156275).

        Call it when `next_frame` has returned None.
        """
        if self._frame is not None:
            if self._filled == len(self._frame):
                self._grow()
            return memoryview(self._frame)[self._filled : self._size]
        if self._start:
            left = self._end - self._start
            self._entrance[:left] = self._entrance[self._start : self._end]
            self._start, self._end = 0, left
        return self._entrance[self._end :]

    def buffer_updated(self, count: int) -> None:
        """Register `count` new bytes in the buffer that `get_buffer` returned."""
        if self._frame is None:
            self._end += count
        else:
            self._filled += count

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame, without its size prefix; None if more bytes are needed.

        Raises:
            ProtocolError: the size is negative, above the limit, or the start of another protocol.
        """
        if self._frame is not None:
            if self._filled < self._size:
                return None
            frame, self._frame = self._frame, None
            self._size_max = max(self._size_max, self._size)
            return memoryview(frame)[: self._size]
        start, end = self._start + SIZE_PREFIX.size, self._end
        if end < start:
            return None
        size = self._claimed_size()
        if start + size <= end:
            self._start = start + size
            return memoryview(bytearray(self._entrance[start : start + size]))
        self._frame = self._spares.take(size) or self._spares.make(min(size, self._size_max))
        self._size, self._filled = size, end - start
        self._frame[: self._filled] = self._entrance[start:end]
        self._start = self._end = 0
        if size <= LARGER_ENTRANCE_SIZE // 2 and len(self._entrance) < LARGER_ENTRANCE_SIZE:
            self._entrance = memoryview(bytearray(LARGER_ENTRANCE_SIZE))
        return None

    def feed(self, data: bytes | memoryview) -> list[memoryview]:
        """Take bytes from another buffer; return every frame that is whole now.

        Raises:
            ProtocolError: as for `next_frame`.
        """
        frames = []
        view = memoryview(data)
        while len(view):
            buffer = self.get_buffer()
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            view = view[count:]
            self.buffer_updated(count)
            while (frame := self.next_frame()) is not None:
                frames.append(frame)
        return frames

    def _claimed_size(self) -> int:
        size: int = SIZE_PREFIX.unpack_from(self._entrance, self._start)[0]
        if not 0 <= size <= self.limit:
            prefix = bytes(self._entrance[self._start : self._start + SIZE_PREFIX.size])
            raise ProtocolError(_explain_size(prefix, size, self.limit), offset=0)
        return size

    def _grow(self) -> None:
        # A view on the old buffer may still be held by the event loop, which forbids resizing in place.
        assert self._frame is not None
        larger = self._spares.make(min(self._size, 4 * len(self._frame)))
        larger[: self._filled] = self._frame
        self._spares.forget(self._frame)
        self._frame = larger


def _explain_size(prefix: bytes, size: int, limit: int) -> str:
    for start, meaning in STRANGERS.items():
        if prefix.startswith(start):
            return meaning
    if size < 0:
        return f"negative frame size {size}: the other side does not speak Kafka, or the stream is out of step"
    return f"frame of {size} bytes, the limit is {limit}"
