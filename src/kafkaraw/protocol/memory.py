"""Large memory from the system, and whether anybody still looks at it: for who gives memory out more than once.

Touching a page of fresh memory for the first time costs several times what it costs to copy something into it, so
large memory is made of huge pages, where the system has them. No I/O here. Start at `fresh_memory`.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import Final, TypeAlias

HUGE_PAGE_BYTES: Final = 2 * 1024 * 1024
"""With pages of 4 KiB; for other machines it is just a size."""

Memory: TypeAlias = bytearray | mmap.mmap


def fresh_memory(capacity: int) -> Memory:
    """Memory from the system, zeroed, which is taken as it is touched: when it is large, in steps of two megabytes.

    Args:
        capacity: in bytes; from `HUGE_PAGE_BYTES` on it is made of huge pages, as far as they fill it.
    """
    if capacity < HUGE_PAGE_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return bytearray(capacity)
    memory = mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel that was built without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def is_free(memory: Memory) -> bool:
    """Whether no view of it is left: with one, it refuses to change its size. What it is asked for changes nothing."""
    try:
        if isinstance(memory, bytearray):
            memory.append(memory.pop())
        else:
            memory.resize(len(memory))
    except BufferError:
        return False
    return True
