"""Files that hold what is known of producers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.core.log.producer_snapshot import (
    ProducerSnapshot,
    decode_snapshot,
    encode_snapshot,
    end_offset_of,
    file_name,
)

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PRODUCERS = st.lists(st.builds(ProducerSnapshot, INT64, INT16, INT32, INT64, INT32, INT64, INT32, INT64), max_size=5)


@given(PRODUCERS)
def test_what_is_written_is_read_again(producers: list[ProducerSnapshot]):
    assert decode_snapshot(encode_snapshot(producers)) == producers


@given(PRODUCERS, st.data())
def test_a_flipped_bit_or_a_missing_byte_is_noticed(producers: list[ProducerSnapshot], data: st.DataObject):
    whole = bytearray(encode_snapshot(producers))
    with pytest.raises(ValueError):
        decode_snapshot(bytes(whole[: data.draw(st.integers(0, len(whole) - 1))]))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ValueError):
        decode_snapshot(bytes(whole))


def test_files_are_named_as_kafka_names_them():
    assert file_name(42) == "00000000000000000042.snapshot"
    assert end_offset_of(file_name(42)) == 42
    for other in ("00000000000000000042.log", "42.snapshot", ".snapshot", "0000000000000000004x.snapshot"):
        assert end_offset_of(other) is None
