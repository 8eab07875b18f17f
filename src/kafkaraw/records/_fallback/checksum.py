"""Checksums of rows, in plain Python; the twin in C is `_checksum.pxd`.

A hash of 64 bits, made for speed: four lanes of eight bytes for long byte strings, one for short ones, in the manner of
xxHash64. It finds rows that differ by accident, and does not protect against rows that are made to collide on purpose.
The checksum of a row must not change between versions: decisions of the exactly-once sink keep sums of checksums.
"""

from __future__ import annotations

from typing import Final

_ALL: Final = 2**64 - 1
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_LONG_BYTES: Final = 32

SEED: Final = 0x27D4EB2F165667C5
NULL: Final = 0x4CF5AD432745937F
TIMESTAMP: Final = 0x52DCE729DA3ED7A1
PARTITION: Final = 0x38495AB5A3F1C9D3
HEADERS: Final = 0x6C8E9CF570932BD5


def mix(value: int) -> int:
    """Spread each bit of a number over all."""
    value ^= value >> 32
    value = value * _P2 & _ALL
    value ^= value >> 29
    value = value * _P3 & _ALL
    return value ^ (value >> 32)


def hash_number(seed: int, salt: int, number: int) -> int:
    """Hash an int64, after what the seed stands for."""
    return mix((seed ^ salt) + (number & _ALL) * _P1 & _ALL)


def hash_bytes(seed: int, data: bytes | memoryview | None) -> int:
    """Hash a byte string, or null, after what the seed stands for."""
    if data is None:
        return mix(seed ^ NULL)
    size = len(data)
    value = (seed ^ (size * _P1)) & _ALL
    at = 0
    if size >= _LONG_BYTES:
        lanes = [(value + _P1) & _ALL, value ^ _P2, (value + _P3) & _ALL, value ^ _P4]
        while size - at >= _LONG_BYTES:
            for lane in range(4):
                lanes[lane] = _round(lanes[lane], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        value = (_left(lanes[0], 1) + _left(lanes[1], 7) + _left(lanes[2], 12) + _left(lanes[3], 18)) & _ALL
    while at < size:
        word = int.from_bytes(data[at : at + 8], "little")  # bytes after the end count as zeros
        value = (_left(value ^ (word * _P2 & _ALL), 27) * _P1 + _P4) & _ALL
        at += 8
    return mix(value)


def _round(lane: int, word: int) -> int:
    return _left((lane + word * _P2) & _ALL, 31) * _P1 & _ALL


def _left(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _ALL
