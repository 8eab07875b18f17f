"""Which partition a key belongs to, the same as Java's default partitioner decides.

Start at `partition_for_key`. Records without a key are spread by `OpenBatches`, not here.

Source: Kafka's Utils.murmur2 and BuiltInPartitioner.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_CACHED_KEYS_MAX: Final = 8192
_WORDS: Final = tuple(struct.Struct(f"<{count}I").unpack_from for count in range(17))


@lru_cache(_CACHED_KEYS_MAX)
def murmur2(key: bytes) -> int:
    """Hash a key with MurmurHash2, Kafka's seed.

    The last few thousand keys are remembered: key sets are mostly small, and the hash costs more than the whole
    record in plain Python.

    Returns:
        0 to 2**32 - 1; Java shows the same bits as a signed number.
    """
    size = len(key)
    words = size >> 2
    unpack = _WORDS[words] if words < len(_WORDS) else struct.Struct(f"<{words}I").unpack_from
    value = _SEED ^ size
    for word in unpack(key):
        word = word * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ ((word ^ word >> 24) * _MULTIPLIER & _MASK)
    tail = size & 3
    if tail:
        value ^= int.from_bytes(key[-tail:], "little")
        value = value * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Choose the partition of a key among all partitions, available or not. An empty key is a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
