"""Zigzag varints."""

from __future__ import annotations

import pytest

from kafkaraw.errors import CorruptBatchError
from kafkaraw.records import varint
from kafkaraw.records._fallback.varint_table import VARINTS, encode_varint
from kafkaraw.records.varint import read_raw_varint
from tests.cases import Cases

EDGES = sorted({sign * (2**bits + step) for bits in range(63) for step in (-1, 0, 1) for sign in (1, -1)})


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (-8192, "ff7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_known_numbers(number: int, encoded: str) -> None:
    """Source: Kafka's ByteUtilsTest."""
    assert encode_varint(number).hex() == encoded


def test_what_is_encoded_is_read_back() -> None:
    with Cases() as case:
        for number in EDGES:
            with case(f"number {number}"):
                encoded = encode_varint(number)
                raw, at = read_raw_varint(b"?" + encoded + b"?", 1)
                assert (raw >> 1 ^ -(raw & 1), at) == (number, 1 + len(encoded))


def test_the_table_agrees_with_the_general_form() -> None:
    assert all(read_raw_varint(encoded, 0) == (number << 1, len(encoded)) for number, encoded in enumerate(VARINTS))
    assert [varint.encode_varint(number) for number in range(len(VARINTS))] == VARINTS


@pytest.mark.parametrize("encoded", [b"\xff" * 10 + b"\x01", b"\xff" * 9 + b"\x02", b"\x80" * 11])
def test_more_than_64_bits_are_refused(encoded: bytes) -> None:
    with pytest.raises(CorruptBatchError, match="64 bits"):
        read_raw_varint(encoded, 0)
