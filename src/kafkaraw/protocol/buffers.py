"""Large buffers that are used again once nobody looks at them.

Touching fresh memory for the first time costs more than receiving into it. So a reader of frames keeps its last few
large buffers, and gives one out again when no view into it is left: no record, no batch and no column refers to it.
The largest are made of huge pages (`memory`). Start at `SpareBuffers.take`. No I/O here.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.protocol.memory import HUGE_PAGE_BYTES, Memory, fresh_memory, is_free

SPARES_MAX: Final = 4
SPARE_BYTES_MAX: Final = 64 << 20
_FROM_SIZE: Final = 1 << 16
"""Smaller ones are not worth keeping: the allocator has them at hand."""
_WASTE_MAX: Final = 4


class SpareBuffers:
    """Remembers large buffers that it made, and finds those that are free again."""

    def __init__(self) -> None:
        self._known: list[Memory] = []

    def take(self, size: int) -> Memory | None:
        """A free buffer of at least this size, though not many times larger; None when there is none.

        Args:
            size: in bytes.
        """
        if size < _FROM_SIZE:
            return None
        fitting = [buffer for buffer in self._known if size <= len(buffer) <= size * _WASTE_MAX and is_free(buffer)]
        return min(fitting, key=len, default=None)

    def make(self, size: int) -> Memory:
        """A new buffer of at least this size, remembered if it is large; the one known longest is forgotten for it."""
        if size < _FROM_SIZE:
            return bytearray(size)
        # Of few different sizes, so that it fits the next answer, too; and huge pages are whole ones.
        grain = HUGE_PAGE_BYTES if size >= HUGE_PAGE_BYTES else 1 << (size.bit_length() - 3)
        buffer = fresh_memory(-(-size // grain) * grain)
        if len(buffer) <= SPARE_BYTES_MAX:
            self._known.append(buffer)
            while len(self._known) > SPARES_MAX or sum(map(len, self._known)) > SPARE_BYTES_MAX:
                del self._known[0]
        return buffer

    def forget(self, buffer: Memory) -> None:
        """A buffer was outgrown: what comes is larger, and it would take the place of one that fits."""
        self._known = [known for known in self._known if known is not buffer]
