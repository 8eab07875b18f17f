"""One direction of a tapped connection: where its bytes are read to, and which of them may be passed on.

Bytes are passed on from the buffer that they were read into, without a copy, and as they come: a frame is complete in
memory when its last byte leaves. Short frames are read several at once; a long one has a buffer of its own, which is
used again. Of a frame that is larger than what is kept, the rest goes through a small buffer. So a peer that claims
much, or sends much, costs bounded memory. What the stream passes on is decided by its `Receiver`.

Shaped for `asyncio.BufferedProtocol`. No I/O here. Start at `Stream.received`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol

from kafkaraw.inspect.exchanges import Frame, stranger_in
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.buffers import Memory, SpareBuffers
from kafkaraw.protocol.frames import SIZE_PREFIX

ENTRANCE_BYTES: Final = 1 << 16
REST_BYTES: Final = 1 << 18
LOOKED_AT_BYTES: Final = 8
"""So much of a long frame must be there before its plan is made: a correlation id, an API and a version."""


class Plan(NamedTuple):
    """What becomes of a long frame.

    Attributes:
        keep_bytes: how much of it is kept; all of it if it is held.
        hold_bytes: how much of its end is held back until it is complete.
        is_expected: whether its size can be relied on: it is a request of a known API, or answers one.
    """

    keep_bytes: int
    hold_bytes: int
    is_expected: bool = False


class Receiver(Protocol):
    """Decides what becomes of frames, and passes bytes on."""

    def plan(self, beginning: memoryview, size: int) -> Plan:
        """Return what becomes of a long frame of which the first bytes are there."""
        ...

    def short_frames(self, data: memoryview, sizes: list[int], at_s: float) -> None:
        """Take whole frames with their prefixes, which lie one after another, and pass them on."""
        ...

    def passing(self, data: memoryview) -> None:
        """Pass on bytes of a long frame that are not held back."""
        ...

    def long_frame(self, frame: Frame, held: memoryview) -> None:
        """Take a long frame that is complete; pass on its end, `held`, with its prefix if all of it was held."""
        ...

    def stranger(self, reason: str) -> None:
        """Note that the stream is not Kafka's protocol; its bytes come to `passing` from now on."""
        ...


class _Mode(Enum):
    SHORT = "short frames"
    LONG = "a long frame"
    RAW = "another protocol"


class Stream:
    """Cuts one direction into frames.

    Args:
        receiver: see there.
    """

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._mode = _Mode.SHORT
        self._is_first = True
        self._entrance = memoryview(bytearray(ENTRANCE_BYTES))
        self._start = self._end = 0
        self._began_s = 0.0
        self._spares = SpareBuffers()
        self._rest: memoryview | None = None
        # Of a long frame: its size, how many bytes were received, and how many were passed on.
        self._memory: Memory | None = None
        self._size = self._filled = self._passed = 0
        self._plan = Plan(0, 0)
        self._buffer = memoryview(b"")  # the last one that was given out

    @property
    def missing(self) -> int:
        """How many bytes are sure to come of a long frame; 0 between frames."""
        return self._size - self._filled if self._mode is _Mode.LONG and self._plan.is_expected else 0

    @property
    def leftover(self) -> memoryview:
        """Bytes of an unfinished frame that were not passed on: the peer has closed in the middle of it."""
        if self._mode is _Mode.LONG:
            kept = min(self._filled, self._plan.keep_bytes)
            prefix = SIZE_PREFIX.pack(self._size) if self._plan.hold_bytes >= self._size else b""
            return memoryview(prefix + bytes(memoryview(self._memory or b"")[self._passed : kept]))
        return self._entrance[self._start : self._end]

    def get_buffer(self) -> memoryview:
        """Return the buffer for the next bytes, which is never empty."""
        self._buffer = self._next_buffer()
        return self._buffer

    def _next_buffer(self) -> memoryview:
        if self._mode is _Mode.LONG:
            if self._filled < self._plan.keep_bytes:
                if self._memory is None or self._filled == len(self._memory):
                    self._grow()
                return memoryview(self._memory)[self._filled : self._plan.keep_bytes]  # type: ignore[arg-type]
            return self._rest_buffer()[: self._size - self._filled]
        if self._mode is _Mode.RAW:
            return self._rest_buffer()
        if self._start:
            left = self._end - self._start
            self._entrance[:left] = self._entrance[self._start : self._end]
            self._start, self._end = 0, left
        return self._entrance[self._end :]

    def _rest_buffer(self) -> memoryview:
        if self._rest is None:
            self._rest = memoryview(bytearray(REST_BYTES))
        return self._rest

    def received(self, count: int, at_s: float) -> None:
        """Take `count` bytes in the buffer that `get_buffer` returned.

        Args:
            count: how many.
            at_s: when they came, in seconds since 1970.
        """
        if self._mode is _Mode.LONG:
            self._received_long(self._buffer[:count], at_s)
        elif self._mode is _Mode.RAW:
            self._receiver.passing(self._buffer[:count])
        else:
            self._end += count
            self._cut(at_s)

    def become_raw(self) -> None:
        """Pass on everything as it comes, from now on."""
        leftover = bytes(self.leftover)
        self._mode, self._memory = _Mode.RAW, None
        self._start = self._end = 0
        if leftover:
            self._receiver.passing(memoryview(leftover))

    def _cut(self, at_s: float) -> None:
        """Hand over the whole frames in the entrance; begin with a long one behind them."""
        at = self._start
        sizes: list[int] = []
        while self._end - at >= SIZE_PREFIX.size:
            prefix = self._entrance[at : at + SIZE_PREFIX.size]
            reason = stranger_in(bytes(prefix), is_first=self._is_first)
            if reason:
                self._hand_over(at, sizes, at_s)
                self._receiver.stranger(reason)
                return
            (size,) = SIZE_PREFIX.unpack(prefix)
            self._is_first = False
            if at + SIZE_PREFIX.size + size > self._end:
                self._hand_over(at, sizes, at_s)
                self._begin(size, at_s)
                return
            sizes.append(size)
            at += SIZE_PREFIX.size + size
        self._hand_over(at, sizes, at_s)
        if self._start == self._end:
            self._start = self._end = 0

    def _hand_over(self, end: int, sizes: list[int], at_s: float) -> None:
        start, self._start = self._start, end
        if sizes:
            self._receiver.short_frames(self._entrance[start:end], sizes, at_s)

    def _begin(self, size: int, at_s: float) -> None:
        """Give a frame that is not complete a buffer of its own, once its plan can be made."""
        body = self._entrance[self._start + SIZE_PREFIX.size : self._end]
        if len(body) < LOOKED_AT_BYTES:
            return
        self._began_s = at_s
        plan = self._receiver.plan(body, size)
        self._plan = plan._replace(keep_bytes=min(plan.keep_bytes, size), hold_bytes=min(plan.hold_bytes, size))
        self._mode, self._size, self._filled, self._passed = _Mode.LONG, size, 0, 0
        self._memory = self._spares.take(self._plan.keep_bytes)
        if self._plan.hold_bytes < size:
            self._receiver.passing(self._entrance[self._start : self._start + SIZE_PREFIX.size])
        self._start = self._end = 0
        while len(body) and self._filled < size:
            self._buffer = self._next_buffer()
            count = min(len(body), len(self._buffer))
            self._buffer[:count] = body[:count]
            body = body[count:]
            self._received_long(self._buffer[:count], at_s)

    def _received_long(self, data: memoryview, at_s: float) -> None:
        before, self._filled = self._filled, self._filled + len(data)
        end = min(self._filled, self._size - self._plan.hold_bytes)
        if before >= self._plan.keep_bytes:
            self._receiver.passing(data)  # only a frame of which nothing is held has bytes that are not kept
            self._passed = self._filled
        elif end > self._passed:
            assert self._memory is not None
            passed, self._passed = self._passed, end
            self._receiver.passing(memoryview(self._memory)[passed:end])
        if self._filled == self._size and self._mode is _Mode.LONG:
            memory, self._memory, self._mode = self._memory, None, _Mode.SHORT
            kept = memoryview(memory or b"")[: self._plan.keep_bytes]
            frame = Frame(kept, self._size, self._began_s, at_s)
            self._receiver.long_frame(frame, kept[self._passed :] if self._plan.hold_bytes else kept[:0])

    def _grow(self) -> None:
        """Make room for more: a claim alone allocates little, and the memory grows as bytes come."""
        old = self._memory
        capacity = min(self._plan.keep_bytes, max(ENTRANCE_BYTES, 4 * len(old or b"")))
        larger = self._spares.make(capacity)
        if old is not None:
            larger[: self._filled] = memoryview(old)[: self._filled]
            self._spares.forget(old)
        self._memory = larger
