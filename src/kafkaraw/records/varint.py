"""Zigzag varints, the integers inside records: small numbers of either sign take few bytes.

The hot loops decode short varints inline and call this module for longer ones. Start at `encode_varint`. The unsigned
varints of flexible message versions are a different encoding; they are in `protocol`.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.errors import CorruptBatchError

_ONE_BYTE: Final = 64
_TABLE_SIZE: Final = 8192
_VARINT_SIZE_MAX: Final = 10
_INT64_MASK: Final = 2**64 - 1


def _table() -> list[bytes]:
    """The varints of one byte and of two; pieces of one string are made faster than one number at a time."""
    pairs = bytearray(2 * (_TABLE_SIZE - _ONE_BYTE))
    pairs[::2] = bytes(range(0x80, 0x100, 2)) * (_TABLE_SIZE // _ONE_BYTE - 1)
    pairs[1::2] = b"".join(bytes((high,)) * _ONE_BYTE for high in range(1, _TABLE_SIZE // _ONE_BYTE))
    both = bytes(pairs)
    return [bytes((number << 1,)) for number in range(_ONE_BYTE)] + [both[at : at + 2] for at in range(0, len(both), 2)]


VARINTS: Final[list[bytes]] = _table()
"""The varint of every number that fits two bytes and is not negative, at its index."""


def as_int64(number: int) -> int:
    """Wrap around as Java's arithmetic does: the difference of two timestamps may exceed 64 bits, and is restored."""
    return (number + 2**63 & _INT64_MASK) - 2**63


def encode_varint(number: int) -> bytes:
    """Encode any 64-bit signed number."""
    if 0 <= number < _TABLE_SIZE:
        return VARINTS[number]
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
