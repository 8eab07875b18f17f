"""The primitive types on their own: varints and UUIDs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.types import decode_uvarint, encode_uvarint


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_unsigned_varints_survive(value: int, rest: bytes) -> None:
    encoded = encode_uvarint(value)
    assert decode_uvarint(b"\xff" + encoded + rest, 1) == (value, 1 + len(encoded))


def test_known_varints() -> None:
    assert encode_uvarint(0) == b"\x00"
    assert encode_uvarint(127) == b"\x7f"
    assert encode_uvarint(128) == b"\x80\x01"
    assert encode_uvarint(300) == b"\xac\x02"
    assert encode_uvarint(2**32 - 1) == b"\xff\xff\xff\xff\x0f"


@pytest.mark.parametrize("encoded", [b"\xff" * 5 + b"\x01", b"\xff\xff\xff\xff\x1f"])
def test_a_varint_of_more_than_32_bits_is_refused(encoded: bytes) -> None:
    with pytest.raises(ValueError, match="varint"):
        decode_uvarint(encoded, 0)


def test_a_varint_cut_short_is_refused() -> None:
    with pytest.raises(IndexError):
        decode_uvarint(b"\x80", 0)


@pytest.mark.parametrize("value", [-1, 2**32])
def test_a_value_out_of_range_has_no_varint(value: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode_uvarint(value)


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_survives_its_text_form(raw: bytes) -> None:
    assert Uuid.parse(str(Uuid(raw))) == raw


def test_the_text_form_is_kafkas() -> None:
    assert str(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert repr(Uuid(b"\xfb" * 16)) == "Uuid('-_v7-_v7-_v7-_v7-_v7-w')"


@pytest.mark.parametrize("text", ["", "AAAA", "!" * 22, "A" * 23])
def test_what_is_not_a_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kafka UUID"):
        Uuid.parse(text)
