"""Batches written by Apache Kafka 4.3.1's own classes (`vectors/MakeVectors.java`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaraw.records import (
    CODECS,
    Batch,
    Columns,
    ControlType,
    codec_by_name,
    control_type,
    encode_batch,
    encode_control_batch,
    parse_header,
    verify_crc,
)
from kafkaraw.records._implementation import read_records
from kafkaraw.records.batch import PlainRecord

VECTORS = Path(__file__).parent / "vectors"

RECORDS: list[PlainRecord] = [
    (1_700_000_000_000, b"key", b"value", [("name", b"header"), ("null", None), ("größe", b"")]),
    (1_700_000_000_100, None, b"no key", []),
    (1_699_999_000_000, b"tombstone", None, []),
    (1_700_000_000_000, b"", b"", []),
    *[(1_700_000_000_000 + number, b"%d" % number, b"value " * number, []) for number in range(70)],
]


def vector(name: str) -> bytes:
    return bytes.fromhex((VECTORS / f"{name}.hex").read_text())


@pytest.mark.parametrize("codec", [codec.name for codec in CODECS])
def test_batches_of_java_are_read(codec: str) -> None:
    data = vector(codec)
    verify_crc(data)
    header = parse_header(data)
    assert header.codec_id == codec_by_name(codec).id
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (123, 4, 567)
    assert (header.partition_leader_epoch, header.is_transactional) == (8, True)
    assert (header.base_timestamp, header.max_timestamp) == (1_700_000_000_000, 1_700_000_000_100)
    batch = Batch("t", 0, memoryview(data), start_offset=1000)
    assert [(record.timestamp_ms, record.key, record.value, record.headers) for record in batch] == RECORDS
    assert [record.offset for record in batch] == list(range(1000, 1000 + len(RECORDS)))


def test_a_batch_with_a_delete_horizon_has_its_records_times() -> None:
    data = vector("horizon")
    verify_crc(data)
    header = parse_header(data)
    assert header.has_delete_horizon
    assert header.base_timestamp == 1_700_000_900_000, "the time at which tombstones may go"
    batch = Batch("t", 0, memoryview(data), start_offset=1000)
    assert [(record.timestamp_ms, record.key, record.value, record.headers) for record in batch] == RECORDS[:10]
    assert [record.offset for record in batch] == list(range(1000, 1030, 3))
    columns = Columns(frozenset({"timestamp", "offset"}), 10)
    assert batch.fill(columns) == (10, None)
    assert columns.timestamp is not None and columns.offset is not None
    assert list(columns.timestamp) == [timestamp for timestamp, *_ in RECORDS[:10]]
    assert list(columns.offset) == list(range(1000, 1030, 3))


def test_a_batch_without_records_moves_the_position() -> None:
    data = vector("emptied")
    verify_crc(data)
    header = parse_header(data)
    assert (header.records_count, header.base_offset, header.last_offset) == (0, 1000, 1027)
    assert (header.producer_id, header.base_sequence, header.is_transactional) == (123, 567, True)
    batch = Batch("t", 0, memoryview(data), start_offset=1000)
    assert (list(batch), batch.values(), batch.fill(Columns(frozenset({"offset"}), 0))) == ([], [], (0, None))
    assert batch.next_offset == 1028


@pytest.mark.parametrize(("codec", "same"), [("none", slice(None)), ("snappy", slice(61, 77))])
def test_we_write_the_same_bytes_as_java(codec: str, same: slice) -> None:
    """Compressors differ from library to library; the uncompressed batch and snappy's framing do not."""
    ours = encode_batch(
        RECORDS,
        codec=codec,
        base_offset=1000,
        producer_id=123,
        producer_epoch=4,
        base_sequence=567,
        transactional=True,
        partition_leader_epoch=8,
    )
    assert ours[same] == vector(codec)[same]


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_transaction_markers_are_the_same_to_the_last_byte(kind: ControlType) -> None:
    data = vector(kind.name.lower())
    ours = encode_control_batch(
        kind,
        producer_id=7,
        producer_epoch=2,
        coordinator_epoch=11,
        timestamp_ms=1234,
        base_offset=99,
        partition_leader_epoch=8,
    )
    assert ours == data
    (record,) = read_records(memoryview(data), parse_header(data), "t", 0)
    assert control_type(record.key) is kind
