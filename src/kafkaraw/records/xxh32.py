"""XXH32 of a few bytes: the checksum in the header of an LZ4 frame, which is at most 14 bytes long.

Source: the xxHash specification, section 3.3 (XXH32), for inputs of less than 16 bytes.
"""

from __future__ import annotations

from typing import Final

SIZE_MAX: Final = 15
_MASK: Final = 0xFFFFFFFF
_PRIMES: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)


def xxh32(data: bytes) -> int:
    """The hash of at most `SIZE_MAX` bytes, with seed 0."""
    first, second, third, fourth, fifth = _PRIMES
    found = fifth + len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        found += int.from_bytes(data[at : at + 4], "little") * third
        found = _rotated(found, 17) * fourth & _MASK
    for byte in data[whole:]:
        found += byte * fifth
        found = _rotated(found, 11) * first & _MASK
    found &= _MASK
    found = (found ^ found >> 15) * second & _MASK
    found = (found ^ found >> 13) * third & _MASK
    return found ^ found >> 16


def _rotated(number: int, bits: int) -> int:
    number &= _MASK
    return number << bits | number >> 32 - bits
