"""Zigzag varints, the integers inside records: small numbers of either sign take few bytes.

The hot loops decode short varints inline and call this module for longer ones. Start at `encode_varint`; the plain
implementation has a table of short ones (`_fallback/varint_table.py`). The unsigned
varints of flexible message versions are a different encoding; they are in `protocol`.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.errors import CorruptBatchError

_VARINT_SIZE_MAX: Final = 10
_INT64_MASK: Final = 2**64 - 1


def as_int64(number: int) -> int:
    """Wrap around as Java's arithmetic does: the difference of two timestamps may exceed 64 bits, and is restored."""
    return (number + 2**63 & _INT64_MASK) - 2**63


def encode_varint(number: int) -> bytes:
    """Encode any 64-bit signed number."""
    rest = (number << 1 ^ number >> 63) & _INT64_MASK
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def read_raw_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a varint without undoing the zigzag: bit 0 is the sign, the rest the magnitude.

    Returns:
        the unsigned number, and where the next byte is.

    Raises:
        CorruptBatchError: more than 64 bits.
        IndexError: the data ends inside; callers turn that into CorruptBatchError once per batch.
    """
    number = 0
    for shift in range(0, 7 * _VARINT_SIZE_MAX, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number > _INT64_MASK:
                break
            return number, at
    raise CorruptBatchError("a varint has more than 64 bits")
