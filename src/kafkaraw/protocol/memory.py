"""Large memory from the system, and a check for views of it, for callers that reuse memory.

To touch a page of new memory for the first time costs several times as much as to copy data into it, so large memory
uses huge pages, if the system has them. No I/O here. Start at `fresh_memory`.
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
