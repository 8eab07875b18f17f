"""Advice to Python, the C library and the system about memory that is freed and allocated again."""

from __future__ import annotations

import contextlib
import gc
import mmap
import sys
from collections.abc import Iterator
from functools import cache
from typing import Final

_KEPT_BYTES: Final = 30 << 20
"""The columns of a call and the smaller buffers before them; glibc accepts at most 32 MB as its limit."""
_RETURNED_FROM_BYTES: Final = 256 << 10
_ARENA_MAX, _MMAP_THRESHOLD = -8, -3
"""Parameters of glibc's mallopt(3)."""
_HUGE_BYTES: Final = _KEPT_BYTES - (1 << 16)
"""Less than the limit that results, so that it is memory of the heap."""
_GC_THRESHOLDS: Final = (10_000, 10, 20)
"""Arguments of gc.set_threshold(): each batch makes some objects that are freed soon, and no cycles."""


@cache  # once is enough; and a block of memory that was used before would be cleared, and so touched
def keep_freed_memory() -> None:
    """Reuse freed memory blocks of up to 30 megabytes, instead of returning them to the system each time.

    Decompressing and making columns allocates and frees blocks of about a megabyte all the time. glibc returns such a
    block to the system, so that the next one is new memory, and touching that costs more than filling it. Once a larger
    block was freed, its size becomes the limit. This function frees one, untouched. Other C libraries ignore it.
    Source: glibc's mallopt(3), M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, which are dynamic.
    """
    bytes(_KEPT_BYTES)


@cache
def make_columns_in_huge_pages() -> None:
    """Use huge pages for such memory: columns then take a few page faults instead of thousands.

    After `keep_freed_memory` the next block comes from the end of the heap, and stays there when it is freed. This
    function advises the system to use huge pages for that part when it is touched. Call it when columns are made for
    the first time: its imports take some milliseconds.
    """
    keep_freed_memory()
    if sys.platform == "linux" and hasattr(mmap, "MADV_HUGEPAGE"):
        _advise(bytes(_HUGE_BYTES))


def return_freed_memory() -> None:
    """Return freed blocks to the system, and use one heap for all threads: for programs that run long and rarely work.

    A limit that is set stays as it is, so the functions above change nothing afterwards. Call it at the start of a
    program, before its threads have heaps of their own. Other C libraries ignore it.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):  # no such library, or no such function in it
        adjust = ctypes.CDLL(None).mallopt
        adjust(_ARENA_MAX, 1)
        adjust(_MMAP_THRESHOLD, _RETURNED_FROM_BYTES)


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Have Python's garbage collector run less often while a block runs, in a process that is a broker or a mirror."""
    before = gc.get_threshold()
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _advise(block: bytes) -> None:
    import ctypes

    begin = ctypes.cast(ctypes.c_char_p(block), ctypes.c_void_p).value
    assert begin is not None
    start = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (begin + len(block) - start) // mmap.PAGESIZE * mmap.PAGESIZE
    with contextlib.suppress(OSError, AttributeError):  # no such library, or no such function in it
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.MADV_HUGEPAGE)
