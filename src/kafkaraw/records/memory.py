"""Advice to the C library about memory that is freed."""

from __future__ import annotations

from typing import Final

_KEPT_BYTES: Final = 8 << 20


def keep_freed_memory() -> None:
    """Have memory of some megabytes that is freed used again, instead of given back to the system each time.

    Decompressing and making columns takes and frees blocks of about a megabyte all the time. glibc gives such a block
    back to the system, so that the next one is new memory, and touching that costs more than filling it: until a larger
    block was freed, whose size then becomes the limit. This frees one, untouched. Other C libraries take no notice.
    Source: glibc's mallopt(3), M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, which are dynamic.
    """
    bytes(_KEPT_BYTES)
