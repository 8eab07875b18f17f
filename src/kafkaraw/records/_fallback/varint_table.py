"""The varints of small numbers, made in advance: a list is faster than any encoding in plain Python.

The compiled implementation does not import this module: the table takes a millisecond to make. Start at `VARINTS`.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.records import varint

_ONE_BYTE: Final = 64
_TABLE_SIZE: Final = 8192


def _table() -> list[bytes]:
    """The varints of one byte and of two; pieces of one string are made faster than one number at a time."""
    pairs = bytearray(2 * (_TABLE_SIZE - _ONE_BYTE))
    pairs[::2] = bytes(range(0x80, 0x100, 2)) * (_TABLE_SIZE // _ONE_BYTE - 1)
    pairs[1::2] = b"".join(bytes((high,)) * _ONE_BYTE for high in range(1, _TABLE_SIZE // _ONE_BYTE))
    both = bytes(pairs)
    return [bytes((number << 1,)) for number in range(_ONE_BYTE)] + [both[at : at + 2] for at in range(0, len(both), 2)]


VARINTS: Final[list[bytes]] = _table()
"""The varint of every number that fits two bytes and is not negative, at its index."""


def encode_varint(number: int) -> bytes:
    """Encode any 64-bit signed number."""
    return VARINTS[number] if 0 <= number < _TABLE_SIZE else varint.encode_varint(number)
