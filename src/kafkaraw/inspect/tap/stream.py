"""One direction of a tapped connection: where its bytes are read to, and which of them may be passed on.

Bytes are passed on from the buffer that they were read into, without a copy, and as they come. Short frames are read
several at once. Of a long one the beginning is kept in a buffer of its own, as much as its `Plan` says; the rest goes
through a buffer that all streams share, and that stays in the processor's cache. So a peer that claims much, or sends
much, costs bounded memory, and a connection between frames costs none. What all streams keep together is bounded, too:
beyond that, frames pass with little of them kept. What the stream passes on is decided by its `Receiver`.

Shaped for `asyncio.BufferedProtocol`: the bytes of a buffer that was asked for come before any stream asks for the next
one. No I/O here. Start at `Stream.received`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol

from kafkaraw.inspect.exchanges import Frame, stranger_in
from kafkaraw.inspect.tap.outline import Outline
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.buffers import Memory, SpareBuffers
from kafkaraw.protocol.frames import SIZE_PREFIX

FIRST_BYTES: Final = 1 << 16
"""So much is read at once between frames; and of a long frame that is kept whole, so much memory is taken first."""
ENTRANCE_BYTES: Final = 1 << 18
"""The same if the last frames were large: several of them. A thousand small ones would keep other connections back."""
LARGE_BYTES: Final = 1 << 14
PIECE_BYTES: Final = 1 << 19
"""Of a long frame so much is read at once: to wake up for each 64 KiB costs more."""
PIECES_BYTES_MAX: Final = 128 << 20
"""Pieces of all connections together: a peer that does not read keeps one in memory."""
KEPT_BYTES_MAX: Final = 256 << 20
"""So much of long frames that are not complete is kept by all streams together."""
KEPT_BYTES_MIN: Final = 1 << 10
"""So much is kept of each frame all the same."""
LOOKED_AT_BYTES: Final = 8
"""So much of a long frame must be there before its plan is made: a correlation id, an API and a version."""


class Buffers:
    """The memory that the streams of one loop share.

    Attributes:
        entrance: for short frames.
        rest: for a piece of a long frame.
        spares: for frames that are kept whole.
        kept_bytes: how much the streams keep of frames that are not complete.
    """

    def __init__(self) -> None:
        self.entrance: memoryview = memoryview(bytearray(ENTRANCE_BYTES))
        self.rest: memoryview = memoryview(bytearray(PIECE_BYTES))
        self.spares: SpareBuffers = SpareBuffers()
        self.kept_bytes: int = 0
        self._entrance, self._pieces = self.entrance, self.rest

    def share_among(self, connections: int) -> None:
        """Read smaller pieces if there are many connections."""
        share = max(PIECES_BYTES_MAX // max(connections, 1), FIRST_BYTES)
        self.entrance = self._entrance[: min(share, ENTRANCE_BYTES)]
        self.rest = self._pieces[: min(share, PIECE_BYTES)]

    @property
    def are_full(self) -> bool:
        """Whether no more is to be kept than must be."""
        return self.kept_bytes > KEPT_BYTES_MAX


class Plan(NamedTuple):
    """What becomes of a long frame.

    Attributes:
        keep_bytes: how much of its beginning is kept; all of it if it is held.
        hold_bytes: how much of its end is held back until it is complete.
        is_expected: whether its size can be relied on: it is a request of a known API, or answers one.
        outline: takes its bytes as they pass; None if what is kept is enough.
    """

    keep_bytes: int
    hold_bytes: int
    is_expected: bool = False
    outline: Outline | None = None


class Receiver(Protocol):
    """Decides what becomes of frames, and passes bytes on."""

    def plan(self, beginning: memoryview, size: int, before: int) -> Plan:
        """Return what becomes of a long frame of which the first bytes are there, behind `before` short ones."""
        ...

    def short_frames(self, data: memoryview, sizes: list[int], at_s: float) -> None:
        """Take whole frames with their prefixes, which lie one after another, and pass them on.

        Bytes behind them are the beginning of a long frame, and are passed on as they are.
        """
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
        buffers: of the loop.
    """

    def __init__(self, receiver: Receiver, buffers: Buffers) -> None:
        self._receiver = receiver
        self._buffers = buffers
        self._mode = _Mode.SHORT
        self._is_first = True
        self._entrance_bytes = FIRST_BYTES
        self._left = b""  # the beginning of a frame whose plan cannot be made yet
        self._began_s = 0.0
        # Of a long frame: the memory of one that is kept whole; the beginning and the held end of another one; its
        # size, how many bytes were received, and how many were passed on.
        self._memory: Memory | None = None
        self._beginning = bytearray()
        self._held = bytearray()
        self._size = self._filled = self._passed = 0
        self._plan = Plan(0, 0)
        self._counted_bytes = 0  # of this frame, in `Buffers.kept_bytes`
        # The last buffer that was given out. As long as it is a view of a frame's memory, no other stream gets that.
        self._buffer = memoryview(b"")

    @property
    def missing(self) -> int:
        """How many bytes are sure to come of a long frame; 0 between frames."""
        return self._size - self._filled if self._mode is _Mode.LONG and self._plan.is_expected else 0

    @property
    def piece_bytes(self) -> int:
        """How much of a long frame is read at once."""
        return len(self._buffers.rest)

    def take_leftover(self) -> bytes:
        """Return the bytes of an unfinished frame that were not passed on, once: the peer has closed within it."""
        leftover = self._left
        if self._mode is _Mode.LONG and self._is_kept_whole:
            prefix = SIZE_PREFIX.pack(self._size) if self._plan.hold_bytes >= self._size else b""
            leftover = prefix + bytes(memoryview(self._memory or b"")[self._passed : self._filled])
        elif self._mode is _Mode.LONG:
            leftover = bytes(self._held)
        self._mode, self._left = _Mode.RAW, b""
        self._forget()
        return leftover

    def get_buffer(self) -> memoryview:
        """Return the buffer for the next bytes, which is never empty."""
        self._buffer = self._next_buffer()
        return self._buffer

    def _next_buffer(self) -> memoryview:
        if self._mode is _Mode.LONG:
            if self._is_kept_whole and (self._memory is None or self._filled == len(self._memory)):
                self._grow()  # or not: then it is not kept whole any more
            if self._is_kept_whole:
                return memoryview(self._memory)[self._filled : self._size]  # type: ignore[arg-type]
            return self._buffers.rest[: self._size - self._filled]
        if self._mode is _Mode.RAW:
            return self._buffers.rest
        return self._buffers.entrance[len(self._left) : self._entrance_bytes]

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
            entrance = self._buffers.entrance
            entrance[: len(self._left)] = self._left
            self._cut(entrance[: len(self._left) + count], at_s)

    def become_raw(self) -> None:
        """Pass on everything as it comes, from now on."""
        leftover = self.take_leftover()
        if leftover:
            self._receiver.passing(memoryview(leftover))

    def _cut(self, data: memoryview, at_s: float) -> None:
        """Hand over the whole frames in the entrance; begin with a long one behind them."""
        at = 0
        sizes: list[int] = []
        reason = ""
        while len(data) - at >= SIZE_PREFIX.size:
            prefix = data[at : at + SIZE_PREFIX.size]
            reason = stranger_in(bytes(prefix), is_first=self._is_first)
            if reason:
                break
            (size,) = SIZE_PREFIX.unpack(prefix)
            self._is_first = False
            if at + SIZE_PREFIX.size + size > len(data):
                break
            sizes.append(size)
            at += SIZE_PREFIX.size + size
        self._entrance_bytes = ENTRANCE_BYTES if at >= LARGE_BYTES * len(sizes) else FIRST_BYTES
        self._left = b""
        rest = data[at:]
        if not reason and len(rest) >= SIZE_PREFIX.size + LOOKED_AT_BYTES:
            self._begin(data, at, sizes, at_s)
            return
        if sizes:
            self._receiver.short_frames(data[:at], sizes, at_s)
        self._left = bytes(rest)
        if reason:
            self._receiver.stranger(reason)

    def _begin(self, data: memoryview, at: int, sizes: list[int], at_s: float) -> None:
        """Begin with a frame that is not complete; what may be passed on of it leaves with the frames before it."""
        body = data[at + SIZE_PREFIX.size :]
        (size,) = SIZE_PREFIX.unpack_from(data, at)
        plan = self._receiver.plan(body, size, len(sizes))
        keep_bytes = size if plan.hold_bytes >= size else min(plan.keep_bytes, size)
        if self._buffers.are_full and plan.hold_bytes < size:
            keep_bytes = min(keep_bytes, KEPT_BYTES_MIN)
        plan = plan._replace(keep_bytes=keep_bytes, hold_bytes=min(plan.hold_bytes, size))
        passed = min(len(body), size - plan.hold_bytes)
        end = at + SIZE_PREFIX.size + passed if plan.hold_bytes < size else at
        if sizes:
            self._receiver.short_frames(data[:end], sizes, at_s)
        elif end > at:
            self._receiver.passing(data[at:end])
        self._began_s, self._plan = at_s, plan
        self._mode, self._size, self._filled, self._passed = _Mode.LONG, size, 0, passed
        if not self._is_kept_whole:
            self._received_long(body, at_s)
            return
        self._memory = self._buffers.spares.take(size)
        while len(body):
            self._buffer = self._next_buffer()
            count = min(len(body), len(self._buffer))
            self._buffer[:count] = body[:count]
            body = body[count:]
            self._received_long(self._buffer[:count], at_s)

    @property
    def _is_kept_whole(self) -> bool:
        return self._plan.keep_bytes == self._size

    def _received_long(self, data: memoryview, at_s: float) -> None:
        """Take bytes of a long frame, which lie in its memory if it is kept whole; pass on those that are not held."""
        plan = self._plan
        before, self._filled = self._filled, self._filled + len(data)
        if plan.outline is not None:
            plan.outline.feed(data)
        passed, end = self._passed, min(self._filled, self._size - plan.hold_bytes)
        self._passed = max(passed, end)
        if self._is_kept_whole:
            if end > passed:
                self._receiver.passing(memoryview(self._memory or b"")[passed:end])
        else:
            is_kept = len(self._beginning) == before < plan.keep_bytes  # else a part of it is left out already
            if is_kept and not (self._buffers.are_full and before >= KEPT_BYTES_MIN):
                self._beginning += data[: plan.keep_bytes - before]
            if end > passed:
                self._receiver.passing(data[passed - before : end - before])
            self._held += data[max(end - before, 0) :]
        self._count()
        if self._filled == self._size and self._mode is _Mode.LONG:
            self._finish(at_s)

    def _count(self) -> None:
        """Count the memory that this stream keeps."""
        outline = self._plan.outline
        kept = len(self._memory or b"") + len(self._beginning) + (0 if outline is None else outline.kept_bytes)
        if kept != self._counted_bytes:
            self._buffers.kept_bytes += kept - self._counted_bytes
            self._counted_bytes = kept
            if outline is not None and kept > KEPT_BYTES_MIN and self._buffers.are_full:
                outline.lose()

    def _finish(self, at_s: float) -> None:
        """Hand over a long frame that is complete."""
        outline = None if self._plan.outline is None else self._plan.outline.found()
        if self._is_kept_whole:
            kept = memoryview(self._memory or b"")[: self._size]
            held = kept[self._passed :]
        else:
            kept, held = memoryview(self._beginning), memoryview(self._held)
        size, self._mode = self._size, _Mode.SHORT
        self._forget()
        self._receiver.long_frame(Frame(kept, size, self._began_s, at_s, outline=outline), held)

    def _forget(self) -> None:
        self._memory, self._beginning, self._held, self._plan = None, bytearray(), bytearray(), Plan(0, 0)
        self._count()

    def _grow(self) -> None:
        """Make room for more of a frame that is kept whole: a claim allocates little, memory grows as bytes come."""
        old = self._memory
        if old is not None and self._buffers.are_full and self._plan.hold_bytes < self._size:
            self._keep_no_more(old)
            return
        capacity = min(self._size, max(FIRST_BYTES, 4 * len(old or b"")))
        larger = self._buffers.spares.make(capacity)
        if old is not None:
            larger[: self._filled] = memoryview(old)[: self._filled]
            self._buffers.spares.forget(old)
        self._memory = larger

    def _keep_no_more(self, memory: Memory) -> None:
        """Let the rest of a frame pass that was to be kept whole."""
        self._beginning = bytearray(memoryview(memory)[: self._filled])
        self._held = self._beginning[self._passed :]
        self._plan = self._plan._replace(keep_bytes=self._filled)
        self._memory = None
