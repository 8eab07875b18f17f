"""Frames out of one direction of a captured connection, also behind bytes that the capture does not have.

A hole within a frame leaves the frame incomplete, and the next one is where it should be, as the size of the hole is
known. After any other hole, and where no frame can begin, the start of the next frame is searched: at the start of each
segment first, as most frames begin there, then everywhere. Memory is bounded: `FRAME_KEPT_MAX` bytes of a frame and
`SEARCHED_MAX` bytes of a search. This module must not know what a frame means: a `Judge` says whether bytes can begin
one. Start at `FrameFinder`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from kafkaraw.inspect.exchanges import FRAME_SIZE_MAX, Frame
from kafkaraw.light_classes import NamedTuple

SIZE_PREFIX: Final = 4
FRAME_KEPT_MAX: Final = 16 << 20
SEARCHED_MAX: Final = 256 << 10
SEARCH_STEP: Final = 2 << 10
HEAD_SIZE: Final = 14
"""Bytes that must be there before a frame is judged: its size, and a header up to the length of the client id."""


class Unread(NamedTuple):
    """Bytes of a direction that are in no frame.

    Attributes:
        at_s: when they were seen, in seconds since 1970.
        size: how many.
        missing: how many of them the capture does not have.
        why: the reason.
    """

    at_s: float
    size: int
    missing: int
    why: str


class Judge(Protocol):
    """Says whether bytes can be a frame."""

    def can_begin(self, head: bytes) -> bool:
        """Return whether a frame behind another can begin with these `HEAD_SIZE` bytes, or fewer if it has fewer."""
        ...

    def is_start(self, data: memoryview) -> bool:
        """Return whether a frame begins here, with enough evidence to believe it without the frame before it."""
        ...

    def find(self, data: bytes, start: int) -> int:
        """Return the first place from `start` on where a frame begins, with the same evidence; -1 if there is none."""
        ...


class FrameFinder:
    """Cuts a direction into frames.

    Args:
        judge: knows what frames look like.
        synchronised: whether the first byte begins a frame.

    Attributes:
        is_synchronised: whether the next byte is known to belong to a frame.
    """

    def __init__(self, judge: Judge, *, synchronised: bool) -> None:
        self.is_synchronised: bool = synchronised
        self._judge = judge
        self._why = "" if synchronised else "the capture begins within the connection"
        self._buffer = bytearray()
        self._began_s = 0.0
        self._size = 0  # of the frame whose bytes are taken, with its prefix; 0 between frames
        self._passed = 0  # bytes of that frame that are not in the buffer, behind those that are
        self._missing = 0
        self._searched = 0

    def feed(self, data: bytes, at_s: float) -> Iterator[Frame | Unread]:
        """Take the next bytes."""
        at = 0
        while at < len(data):
            if not self.is_synchronised:
                yield from self._search(data[at:], at_s)
                return
            at += self._take(data, at, at_s)
            yield from self._check(at_s)

    def hole(self, size: int, at_s: float) -> Iterator[Frame | Unread]:
        """Pass over bytes that the capture does not have."""
        if not self.is_synchronised:
            yield from self._scan(at_s, at_end=True)
        if self.is_synchronised and self._size:
            within = min(size, self._left())
            self._passed += within
            self._missing += within
            size -= within
            if not self._left():
                yield self._finish(at_s)
        if size:
            yield from self._lose(at_s, size, "the capture does not have them")

    def end(self, at_s: float) -> Iterator[Frame | Unread]:
        """End the direction."""
        if not self.is_synchronised:
            yield from self._scan(at_s, at_end=True)
        if self.is_synchronised and self._size:
            yield self._finish(at_s)
        elif self._buffer:
            yield Unread(at_s, len(self._buffer), 0, self._why or "they are the beginning of a frame")
            self._buffer.clear()

    def _left(self) -> int:
        return self._size - len(self._buffer) - self._passed

    def _take(self, data: bytes, at: int, at_s: float) -> int:
        """Take bytes up to the end of the frame, or enough to judge it; return how many."""
        if not self._buffer and not self._passed:
            self._began_s = at_s
        if not self._size:
            count = min(len(data) - at, self._wanted() - len(self._buffer))
            self._buffer += data[at : at + count]
            return count
        count = min(len(data) - at, self._left())
        kept = 0 if self._passed else min(count, FRAME_KEPT_MAX - len(self._buffer))
        self._buffer += data[at : at + kept]
        self._passed += count - kept
        return count

    def _wanted(self) -> int:
        """Return how many bytes are needed to judge the frame that begins."""
        if len(self._buffer) < SIZE_PREFIX:
            return SIZE_PREFIX
        return min(HEAD_SIZE, SIZE_PREFIX + max(int.from_bytes(self._buffer[:SIZE_PREFIX], signed=True), 0))

    def _check(self, at_s: float) -> Iterator[Frame | Unread]:
        """Judge the head of a frame, and give it out if it is complete."""
        if not self._size:
            if len(self._buffer) < self._wanted():
                return
            size = int.from_bytes(self._buffer[:SIZE_PREFIX], signed=True)
            if not 0 <= size <= FRAME_SIZE_MAX or not self._judge.can_begin(bytes(self._buffer)):
                yield from self._lose(at_s, 0, f"no frame begins with {self._buffer[:HEAD_SIZE].hex(' ')}")
                return
            self._size = SIZE_PREFIX + size
        if not self._left():
            yield self._finish(at_s)

    def _finish(self, at_s: float) -> Frame:
        data = bytes(self._buffer[SIZE_PREFIX:])
        note = ""
        if self._missing:
            note = f"{self._missing} of its bytes are missing in the capture, behind the first {len(data)}"
        elif self._passed:
            note = f"only the first {len(data)} bytes are kept"
        elif self._left():
            note = f"the connection or the capture ends {self._left()} bytes before its end"
        frame = Frame(data, self._size - SIZE_PREFIX, self._began_s, at_s, note)
        self._buffer.clear()
        self._size = self._passed = self._missing = 0
        return frame

    def _lose(self, at_s: float, missing: int, why: str) -> Iterator[Unread]:
        """Begin a search. What is in the buffer belongs to it, unless bytes are missing behind it."""
        if missing:
            yield Unread(at_s, len(self._buffer) + missing, missing, why)
            self._buffer.clear()
        self.is_synchronised = False
        self._why = why
        self._searched = min(1, len(self._buffer))  # its first byte has been judged
        self._size = self._passed = self._missing = 0

    def _search(self, data: bytes, at_s: float) -> Iterator[Frame | Unread]:
        start = len(self._buffer)
        self._buffer += data
        if self._judge.is_start(memoryview(data)):
            yield from self._found(start, at_s)
        elif len(self._buffer) - self._searched >= 2 * SEARCH_STEP:
            yield from self._scan(at_s, at_end=False)

    def _scan(self, at_s: float, *, at_end: bool) -> Iterator[Frame | Unread]:
        data = bytes(self._buffer)
        found = self._judge.find(data, self._searched)
        if found >= 0:
            yield from self._found(found, at_s)
            return
        # A frame may begin in the last bytes, and show it with those that follow.
        self._searched = len(data) if at_end else max(self._searched, len(data) - SEARCH_STEP)
        if len(data) > SEARCHED_MAX:
            dropped = len(data) - SEARCHED_MAX // 2
            yield Unread(at_s, dropped, 0, self._why)
            del self._buffer[:dropped]
            self._searched = max(0, self._searched - dropped)

    def _found(self, at: int, at_s: float) -> Iterator[Frame | Unread]:
        if at:
            yield Unread(at_s, at, 0, self._why)
        rest = bytes(self._buffer[at:])
        self._buffer.clear()
        self.is_synchronised = True
        yield from self.feed(rest, at_s)
