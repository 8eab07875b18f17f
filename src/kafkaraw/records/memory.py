"""Advice to the C library and the system about memory that is freed and taken again."""

from __future__ import annotations

import contextlib
import mmap
import sys
from functools import cache
from typing import Final

_KEPT_BYTES: Final = 30 << 20
"""Columns of a call and what they outgrow; glibc takes no more than 32 MB as its limit."""
_HUGE_BYTES: Final = _KEPT_BYTES - (1 << 16)
"""Less than the limit that is left behind, so that it is memory of the heap."""


@cache  # once is enough; and a block of memory that was used before would be cleared, and so touched
def keep_freed_memory() -> None:
    """Have memory of up to 30 megabytes that is freed used again, instead of given back to the system each time.

    Decompressing and making columns takes and frees blocks of about a megabyte all the time. glibc gives such a block
    back to the system, so that the next one is new memory, and touching that costs more than filling it: until a larger
    block was freed, whose size then becomes the limit. This frees one, untouched. Other C libraries take no notice.
    Source: glibc's mallopt(3), M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, which are dynamic.
    """
    bytes(_KEPT_BYTES)


@cache
def make_columns_in_huge_pages() -> None:
    """Have such memory made of huge pages: columns then take a few page faults instead of thousands.

    After `keep_freed_memory` the next block comes from the end of the heap, and stays there when it is freed. The
    system is told to make that part of huge pages when it is touched. To be called when columns are made for the first
    time: what it imports takes some milliseconds.
    """
    keep_freed_memory()
    if sys.platform == "linux" and hasattr(mmap, "MADV_HUGEPAGE"):
        _advise(bytes(_HUGE_BYTES))


def _advise(block: bytes) -> None:
    import ctypes

    begin = ctypes.cast(ctypes.c_char_p(block), ctypes.c_void_p).value
    assert begin is not None
    start = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (begin + len(block) - start) // mmap.PAGESIZE * mmap.PAGESIZE
    with contextlib.suppress(OSError, AttributeError):  # no such library, or no such function in it
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.MADV_HUGEPAGE)
