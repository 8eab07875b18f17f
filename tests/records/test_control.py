"""Transaction markers."""

from __future__ import annotations

import struct

import pytest

from kafkaraw.records import ControlType, control_type, encode_control_batch, parse_header, verify_crc
from kafkaraw.records._implementation import read_records


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_a_marker_says_what_it_ends_and_how(kind: ControlType) -> None:
    data = encode_control_batch(
        kind, producer_id=7, producer_epoch=2, coordinator_epoch=11, timestamp_ms=1234, base_offset=99
    )
    header = parse_header(data)
    verify_crc(data)
    assert (header.is_control, header.is_transactional, header.records_count) == (True, True, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, -1)
    (record,) = read_records(memoryview(data), header, "topic", 0)
    assert control_type(record.key) is kind
    assert record.value == struct.pack(">hi", 0, 11)
    assert (record.offset, record.timestamp_ms) == (99, 1234)


@pytest.mark.parametrize(
    "key",
    [None, b"", b"\x00\x00\x00", struct.pack(">hh", 0, 2), struct.pack(">hh", 0, -1), struct.pack(">hh", -1, 0)],
)
def test_markers_of_other_kinds_are_unknown_and_no_error(key: bytes | None) -> None:
    assert control_type(key) is ControlType.UNKNOWN


def test_a_later_version_of_a_marker_is_still_understood() -> None:
    assert control_type(struct.pack(">hh", 1, 1) + b"more") is ControlType.COMMIT
