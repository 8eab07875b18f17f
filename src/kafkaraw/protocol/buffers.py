"""Large buffers that are reused once no view into them is left.

To touch a page of new memory for the first time costs several times as much as to copy data into it. So large memory
uses huge pages, if the system has them, and a reader of frames keeps its last few large buffers: it reuses one when no
view into it is left, that is, when no record, no batch and no column refers to it. Start at
`SpareBuffers.take`. No I/O here.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import Final, TypeAlias

HUGE_PAGE_BYTES: Final = 2 * 1024 * 1024
"""The size with pages of 4 KiB; on other machines it is just a size."""

Memory: TypeAlias = bytearray | mmap.mmap


def fresh_memory(capacity: int) -> Memory:
    """Return zeroed memory of the system. It is allocated when it is touched: if it is large, two megabytes at a time.

    Args:
        capacity: in bytes; from `HUGE_PAGE_BYTES` on it uses huge pages, as far as it fills them.
    """
    if capacity < HUGE_PAGE_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return bytearray(capacity)
    memory = mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel that was built without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def is_free(memory: Memory) -> bool:
    """Return whether no view of it is left: with a view, it refuses to change its size. Its size stays the same."""
    try:
        if isinstance(memory, bytearray):
            memory.append(memory.pop())
        else:
            memory.resize(len(memory))
    except BufferError:
        return False
    return True


SPARES_MAX: Final = 4
SPARE_BYTES_MAX: Final = 64 << 20
_FROM_SIZE: Final = 1 << 16
"""Smaller buffers are not worth keeping: the allocator reuses their memory."""
_WASTE_MAX: Final = 4


class SpareBuffers:
    """Keeps the large buffers that it made, and finds those that are free again."""

    def __init__(self) -> None:
        self._known: list[Memory] = []

    def take(self, size: int) -> Memory | None:
        """Return a free buffer of at least this size, though not many times larger; None if there is none.

        Args:
            size: in bytes.
        """
        if size < _FROM_SIZE:
            return None
        fitting = [buffer for buffer in self._known if size <= len(buffer) <= size * _WASTE_MAX and is_free(buffer)]
        return min(fitting, key=len, default=None)

    def make(self, size: int) -> Memory:
        """Return a new buffer of at least this size. If it is large, keep it, in place of the oldest one."""
        if size < _FROM_SIZE:
            return bytearray(size)
        # Few different sizes, so that it fits the next response, too; and huge pages are used as a whole.
        grain = HUGE_PAGE_BYTES if size >= HUGE_PAGE_BYTES else 1 << (size.bit_length() - 3)
        buffer = fresh_memory(-(-size // grain) * grain)
        if len(buffer) <= SPARE_BYTES_MAX:
            self._known.append(buffer)
            while len(self._known) > SPARES_MAX or sum(map(len, self._known)) > SPARE_BYTES_MAX:
                del self._known[0]
        return buffer

    def forget(self, buffer: Memory) -> None:
        """Remove a buffer that was too small: later frames are larger, and it would take the place of one that fits."""
        self._known = [known for known in self._known if known is not buffer]
